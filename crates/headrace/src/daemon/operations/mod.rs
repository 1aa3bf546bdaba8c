//! What a mount does, operation by operation, for commands that watch it.

mod entry;
mod table;

use std::time::Duration;

use headrace_fuse::{Opcode, Operation, ProcessName, Subscription};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

pub use entry::Entry;
pub use table::{Figures, Table};

use super::control::server::Steps;
use super::handler::Ended;
use crate::failure::Failure;
use crate::output;

/// How often operations are taken from the workers, who do not wait: often enough that they lose none.
const TAKE_EVERY: Duration = Duration::from_millis(50);
/// Bounds on how often a part is sent.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// Single operations in one part.
const ENTRIES_MAX: usize = 4096;

/// What stands for processes and operations beyond the rows there are.
pub const OTHERS: &str = "(others)";

/// What a command wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How often a part is sent.
    pub interval: Duration,
    /// When to end; `None`: when the command goes away.
    pub until: Option<Duration>,
    /// Each operation, rather than sums.
    pub each: bool,
}

/// What happened since the part before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// How long that is.
    pub seconds: f64,
    /// Operations that are in no part because they came too fast.
    pub dropped: u64,
    /// Sums by process and operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Each operation, if that was wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
}

/// One operation by one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The process; 0 for the kernel.
    pub pid: u32,
    /// What it is called, as a person may see it.
    pub process: String,
    /// What it did.
    pub operation: String,
    /// How often, how long.
    #[serde(flatten)]
    pub figures: Figures,
}

/// How telling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The mount has ended, too.
    pub ended: bool,
}

/// Tells a command what happens until the time is up, the command goes away or the mount ends.
pub async fn tell(
    mut subscription: Subscription,
    wanted: Wanted,
    mut ended: watch::Receiver<Ended>,
    steps: &Steps,
) -> Result<Value, Failure> {
    let interval = wanted.interval.clamp(INTERVALS.0, INTERVALS.1);
    let begun = Instant::now();
    let mut gathered = Gathered::new(wanted.each, begun);
    let mut ticks = tokio::time::interval(TAKE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let over = tokio::select! {
            _ = ticks.tick() => false,
            _ = ended.wait_for(Option::is_some) => true,
        };
        let last = over || wanted.until.is_some_and(|until| begun.elapsed() >= until);
        loop {
            let all = gathered.take_from(&mut subscription);
            let due = last || gathered.since.elapsed() >= interval;
            if (!all || due) && !steps.part(&gathered.part(&subscription)).await? {
                return Ok(Value::Null);
            }
            if all {
                break;
            }
        }
        if last {
            return super::handler::to_value(&Told { ended: over });
        }
    }
}

/// What has happened since the last part.
struct Gathered {
    since: Instant,
    dropped: u64,
    what: What,
}

enum What {
    Sums(Table<(u32, ProcessName, Opcode)>),
    Each(Vec<Entry>),
}

impl Gathered {
    fn new(each: bool, since: Instant) -> Self {
        let what = if each { What::Each(Vec::new()) } else { What::Sums(Table::default()) };
        Gathered { since, dropped: 0, what }
    }

    /// Takes what there is. False if a part is full before that.
    fn take_from(&mut self, subscription: &mut Subscription) -> bool {
        loop {
            if let What::Each(entries) = &self.what
                && entries.len() >= ENTRIES_MAX
            {
                return false;
            }
            let Some(operation) = subscription.take() else { return true };
            self.add(&operation);
        }
    }

    fn add(&mut self, operation: &Operation) {
        match &mut self.what {
            What::Sums(table) => table.add(
                (operation.pid, operation.process, operation.opcode),
                operation.duration,
                operation.bytes,
                operation.error.is_some(),
            ),
            What::Each(entries) => entries.push(Entry::from(operation)),
        }
    }

    fn part(&mut self, subscription: &Subscription) -> Part {
        let now = Instant::now();
        let dropped = subscription.dropped();
        let mut part = Part {
            seconds: now.duration_since(self.since).as_secs_f64(),
            dropped: dropped.saturating_sub(self.dropped),
            rows: Vec::new(),
            entries: Vec::new(),
        };
        (self.since, self.dropped) = (now, dropped);
        match &mut self.what {
            What::Sums(table) => part.rows = rows(std::mem::take(table)),
            What::Each(entries) => part.entries = std::mem::take(entries),
        }
        part
    }
}

fn rows(table: Table<(u32, ProcessName, Opcode)>) -> Vec<Row> {
    let row = |(key, figures): (Option<(u32, ProcessName, Opcode)>, Figures)| match key {
        Some((pid, process, opcode)) => {
            let process = output::name(process.as_bytes());
            Row { pid, process, operation: opcode.name().to_owned(), figures }
        }
        None => Row { pid: 0, process: OTHERS.to_owned(), operation: OTHERS.to_owned(), figures },
    };
    table.into_rows().map(row).collect()
}
