//! Runs writers, a gate and a store, and measures.

use super::backend::{Backend, Spec};
use super::gate::{Asked, Gate, Wish};
use super::ledger::Ledger;
use crate::drive::Series;
use crate::engine::{Queue, Random, random::seconds};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How often what is in flight is looked at.
pub const SAMPLE: Duration = Duration::from_millis(10);
/// A refused part is sent again after so long, twice that, and so on up to [`RETRY_MOST`].
const RETRY: f64 = 0.1;
const RETRY_MOST: f64 = 5.0;
/// When writers have stopped, everything must be stored and committed within this time.
const SETTLE: Duration = Duration::from_secs(600);

/// A program that writes one file, one write after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Writer {
    /// Bytes of a write.
    pub size: u64,
    /// From the end of one write to the next, seconds.
    pub think: f64,
    /// When it begins, seconds.
    pub start: f64,
    /// It gives a write up when it has waited so long, and tries again; seconds.
    pub patience: f64,
}

impl Writer {
    /// Writes so many bytes at a time as fast as it may.
    pub fn greedy(size: u64) -> Writer {
        // A system call, and a copy at 10 GB/s.
        Writer { size, think: 20e-6 + size as f64 / 10e9, start: 0.0, patience: f64::INFINITY }
    }
}

/// Commits: begun by the clock, and whenever the gate asks for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flush {
    /// Seconds from the end of one to the begin of the next.
    pub every: f64,
    /// Seconds that one takes.
    pub takes: f64,
}

/// A situation.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// One file each.
    pub writers: Vec<Writer>,
    /// The store.
    pub backend: Spec,
    /// Bytes that are sent at once.
    pub part: u64,
    /// Ceiling, bytes.
    pub memory: u64,
    /// Changes of it.
    pub memory_steps: Vec<(f64, u64)>,
    /// When what is stored is committed.
    pub flush: Flush,
    /// Share of acknowledgements that come a second time.
    pub replay: f64,
    /// Share of parts that are sent twice.
    pub hedge: f64,
    /// When writers stop, seconds.
    pub duration: f64,
    /// What is drawn.
    pub seed: u64,
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds.
    pub at: f64,
    /// Bytes accepted and not acknowledged.
    pub in_flight: u64,
    /// Bytes that may be, if the gate has such a number.
    pub window: Option<u64>,
    /// Bytes accepted and not committed.
    pub held: u64,
}

/// What a run showed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What each writer had accepted.
    pub writers: Vec<Series>,
    /// What the store acknowledged.
    pub stored: Series,
    /// Every [`SAMPLE`].
    pub samples: Vec<Sample>,
    /// When a part was acknowledged, and how long its bytes had been accepted by then, seconds.
    pub delays: Vec<(f64, f64)>,
    /// When a write was accepted, and how long it had waited, seconds.
    pub waits: Vec<(f64, f64)>,
    /// Most bytes accepted and not committed.
    pub peak: u64,
    /// Accepted bytes that the store does not have, or that are not committed, after all.
    pub lost: u64,
    /// Writes that were given up.
    pub given_up: u64,
    /// Acknowledgements that were no news.
    pub again: u64,
    /// Commits.
    pub commits: u64,
    /// What the gate did that it must not.
    pub violations: Vec<String>,
}

enum Event {
    /// A writer has the next bytes.
    Ask(usize),
    /// A delay is over.
    Granted(u64),
    /// A writer has waited for too long.
    GiveUp(u64),
    /// The store answers.
    Answer {
        part: u64,
        stored: bool,
        tries: u32,
    },
    /// A part is over the network that all share, if none was sent since so many.
    Over {
        submitted: u64,
    },
    /// A part is sent once more.
    Again {
        part: u64,
        tries: u32,
    },
    /// It is time to commit.
    Timer,
    /// A commit is done.
    Committed {
        parts: Vec<u64>,
        timer: bool,
    },
    Memory(u64),
    Sample,
}

#[derive(Default)]
struct File {
    gathered: u64,
    /// Bytes, and when they were accepted; of what is gathered.
    ages: VecDeque<(u64, f64)>,
}

struct Part {
    bytes: u64,
    /// Bytes times seconds at which they were accepted.
    accepted: f64,
}

struct Running<'a> {
    setup: &'a Setup,
    gate: &'a mut dyn Gate,
    backend: Backend,
    /// Parts that were sent, however often.
    submitted: u64,
    random: Random,
    queue: Queue<Event>,
    now: Duration,
    files: Vec<File>,
    /// Who asked, and when.
    requests: BTreeMap<u64, (usize, f64)>,
    next_request: u64,
    parts: Vec<Part>,
    /// Stored, and in no commit.
    unflushed: Vec<u64>,
    memory: u64,
    ledger: Ledger,
    outcome: Outcome,
}

/// Runs it until everything that was accepted is committed.
pub fn run(setup: &Setup, gate: &mut dyn Gate) -> Outcome {
    let mut random = Random::new(setup.seed);
    let mut running = Running {
        setup,
        gate,
        backend: Backend::new(setup.backend.clone(), random.fork(1)),
        submitted: 0,
        random: random.fork(2),
        queue: Queue::new(),
        now: Duration::ZERO,
        files: setup.writers.iter().map(|_| File::default()).collect(),
        requests: BTreeMap::new(),
        next_request: 0,
        parts: Vec::new(),
        unflushed: Vec::new(),
        memory: setup.memory,
        ledger: Ledger::default(),
        outcome: Outcome {
            writers: setup.writers.iter().map(|_| Series::default()).collect(),
            ..Outcome::default()
        },
    };
    running.begin();
    running.go();
    running.end()
}

impl Running<'_> {
    fn at(&self) -> f64 {
        self.now.as_secs_f64()
    }

    fn later(&mut self, wait: f64, event: Event) {
        self.queue.schedule(self.now + seconds(wait), event);
    }

    fn begin(&mut self) {
        for (index, writer) in self.setup.writers.iter().enumerate() {
            self.queue.schedule(seconds(writer.start), Event::Ask(index));
        }
        for &(at, bytes) in &self.setup.memory_steps {
            self.queue.schedule(seconds(at), Event::Memory(bytes));
        }
        self.later(self.setup.flush.every, Event::Timer);
        self.later(0.0, Event::Sample);
    }

    fn writing(&self) -> bool {
        self.at() < self.setup.duration
    }

    fn go(&mut self) {
        let end = seconds(self.setup.duration) + SETTLE;
        while let Some(at) = self.queue.next_at()
            && (self.writing() || self.ledger.held() > 0 || !self.requests.is_empty())
        {
            if at > end {
                self.ledger.violated(format!("{} bytes are still held", self.ledger.held()));
                break;
            }
            self.now = at;
            while let Some(event) = self.queue.pop_due(at) {
                self.happen(event);
                self.wishes();
            }
            if !self.writing() {
                self.send_all();
                self.wishes();
            }
        }
    }

    fn end(mut self) -> Outcome {
        let waiting = self.requests.len();
        if waiting > 0 {
            self.ledger.violated(format!("{waiting} writes wait for ever"));
        }
        self.ledger.in_flight(self.gate.in_flight());
        self.outcome.peak = self.ledger.peak();
        self.outcome.lost = self.ledger.lost();
        self.outcome.violations = self.ledger.violations().to_vec();
        self.outcome
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask(writer) => self.ask(writer),
            Event::Granted(request) => self.granted(request),
            Event::GiveUp(request) => {
                if self.requests.contains_key(&request)
                    && self.gate.cancel(request)
                    && let Some((writer, _)) = self.requests.remove(&request)
                {
                    self.outcome.given_up += 1;
                    self.later(0.01, Event::Ask(writer));
                }
            }
            Event::Answer { part, stored: false, tries } => {
                let wait = (RETRY * f64::from(1 << tries.min(10))).min(RETRY_MOST);
                let wait = wait * self.random.uniform(0.5, 1.0);
                self.later(wait, Event::Again { part, tries: tries + 1 });
            }
            Event::Answer { part, stored: true, tries } => self.answer(part, tries),
            Event::Over { submitted } => {
                if submitted == self.submitted {
                    for (part, answer) in self.backend.over(self.at()) {
                        let event = Event::Answer { part, stored: answer.stored, tries: 0 };
                        self.queue.schedule(seconds(answer.at).max(self.now), event);
                    }
                    self.over_next();
                }
            }
            Event::Again { part, tries } => self.submit(part, tries),
            Event::Timer => self.flush(true),
            Event::Committed { parts, timer } => {
                for part in parts {
                    let news = self.gate.committed(part);
                    self.ledger.committed(part, news);
                }
                self.outcome.commits += 1;
                if timer {
                    self.later(self.setup.flush.every, Event::Timer);
                }
            }
            Event::Memory(bytes) => {
                self.memory = bytes;
                self.gate.set_memory(bytes);
            }
            Event::Sample => {
                let in_flight = self.ledger.in_flight(self.gate.in_flight());
                let (at, held) = (self.at(), self.ledger.held());
                self.outcome.samples.push(Sample { at, in_flight, window: self.gate.window(), held });
                self.later(SAMPLE.as_secs_f64(), Event::Sample);
            }
        }
    }

    fn ask(&mut self, index: usize) {
        if !self.writing() {
            return;
        }
        let (request, writer) = (self.next_request, &self.setup.writers[index]);
        self.next_request += 1;
        self.requests.insert(request, (index, self.at()));
        match self.gate.request(request, index as u64, writer.size) {
            Asked::Now => self.granted(request),
            Asked::After(wait) => self.queue.schedule(self.now + wait, Event::Granted(request)),
            Asked::Waits if writer.patience.is_finite() => {
                self.later(writer.patience, Event::GiveUp(request));
            }
            Asked::Waits => {}
        }
    }

    fn granted(&mut self, request: u64) {
        let Some((index, asked)) = self.requests.remove(&request) else {
            self.ledger.violated(format!("request {request} was accepted, and does not wait"));
            return;
        };
        let (now, at, writer) = (self.now, self.at(), &self.setup.writers[index]);
        self.ledger.accepted(index as u64, writer.size, self.memory);
        self.outcome.writers[index].took(now, now, writer.size);
        self.outcome.waits.push((at, at - asked));
        let file = &mut self.files[index];
        file.gathered += writer.size;
        file.ages.push_back((writer.size, at));
        while self.files[index].gathered >= self.setup.part {
            self.send(index, self.setup.part);
        }
        self.later(self.setup.writers[index].think, Event::Ask(index));
    }

    fn send(&mut self, index: usize, bytes: u64) {
        let (name, file) = (self.parts.len() as u64, &mut self.files[index]);
        file.gathered -= bytes;
        let (mut left, mut accepted) = (bytes, 0.0);
        while left > 0
            && let Some((size, at)) = file.ages.front_mut()
        {
            let taken = left.min(*size);
            accepted += taken as f64 * *at;
            left -= taken;
            *size -= taken;
            if *size == 0 {
                file.ages.pop_front();
            }
        }
        self.parts.push(Part { bytes, accepted });
        self.ledger.sent(name, index as u64, bytes);
        self.gate.sent(self.now, name, index as u64, bytes);
        self.submit(name, 0);
        if self.random.chance(self.setup.hedge) {
            self.submit(name, 0);
        }
    }

    fn send_all(&mut self) {
        for index in 0..self.files.len() {
            let gathered = self.files[index].gathered;
            if gathered > 0 {
                self.send(index, gathered);
            }
        }
    }

    fn submit(&mut self, part: u64, tries: u32) {
        self.submitted += 1;
        match self.backend.submit(self.at(), part, self.parts[part as usize].bytes) {
            Some(answer) => {
                let event = Event::Answer { part, stored: answer.stored, tries };
                self.queue.schedule(seconds(answer.at), event);
            }
            None => self.over_next(),
        }
    }

    fn over_next(&mut self) {
        if let Some(at) = self.backend.next() {
            let event = Event::Over { submitted: self.submitted };
            self.queue.schedule(seconds(at).max(self.now), event);
        }
    }

    fn answer(&mut self, name: u64, tries: u32) {
        self.ledger.there(name);
        let news = self.gate.stored(self.now, name);
        self.ledger.stored(name, news);
        if news {
            let (now, at, part) = (self.now, self.at(), &self.parts[name as usize]);
            self.outcome.stored.took(now, now, part.bytes);
            self.outcome.delays.push((at, at - part.accepted / part.bytes.max(1) as f64));
            self.unflushed.push(name);
        } else {
            self.outcome.again += 1;
        }
        if self.random.chance(self.setup.replay) {
            let wait = self.random.exponential(0.5);
            self.later(wait, Event::Answer { part: name, stored: true, tries });
        }
    }

    fn flush(&mut self, timer: bool) {
        let parts = std::mem::take(&mut self.unflushed);
        self.later(self.setup.flush.takes, Event::Committed { parts, timer });
    }

    fn wishes(&mut self) {
        while let Some(wish) = self.gate.wish() {
            match wish {
                Wish::Admit(request) => self.granted(request),
                Wish::Send => self.send_all(),
                Wish::Commit => self.flush(false),
            }
        }
    }
}
