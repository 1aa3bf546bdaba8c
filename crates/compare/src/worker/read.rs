//! Reading large files.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::time::Duration;

use super::clock::Clock;
use super::job::{Access, Order, Outcome, Section};
use super::mapping::Mapping;
use crate::content::Content;
use crate::failure::{Context, Failure, Result};

/// Longest time for a check that is not measured.
const CHECK_LIMIT: Duration = Duration::from_secs(120);

/// Reads in as many threads as there are lists of sections.
pub fn read(
    threads: &[Vec<Section>],
    order: Order,
    block: u64,
    access: Access,
    limit: Duration,
) -> Result<Outcome> {
    at_once(threads, &|sections: &Vec<Section>, content: &Content| {
        let mut clock = Clock::new(limit);
        for section in sections {
            match access {
                Access::Pread | Access::PreadApart => {
                    pread(section, order, block, access, content, &mut clock)?;
                }
                Access::Mapped => mapped(section, order, block, content, &mut clock)?,
            }
        }
        Ok(clock)
    })
}

/// Reads each section in a thread, and takes down when each read ended.
pub fn watch(threads: &[Section], block: u64, limit: Duration) -> Result<Outcome> {
    at_once(threads, &|section: &Section, content: &Content| {
        let mut clock = Clock::watching(limit);
        pread(section, Order::Sequential, block, Access::Pread, content, &mut clock)?;
        Ok(clock)
    })
}

/// Does something in a thread for each of these; all start together.
pub(super) fn at_once<T: Sync>(
    each: &[T],
    body: &(dyn Fn(&T, &Content) -> Result<Clock> + Sync),
) -> Result<Outcome> {
    let content = Content::default();
    let start = Barrier::new(each.len());
    let clocks: Result<Vec<Clock>> = std::thread::scope(|scope| {
        let spawn = |one| {
            let (content, start) = (&content, &start);
            scope.spawn(move || {
                start.wait();
                body(one, content)
            })
        };
        let running: Vec<_> = each.iter().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Clock>>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of a worker panicked")))
        };
        running.into_iter().map(join).collect()
    });
    Ok(Clock::outcome(clocks?))
}

fn pread(
    section: &Section,
    order: Order,
    block: u64,
    access: Access,
    content: &Content,
    clock: &mut Clock,
) -> Result<()> {
    let named = |what: &str| format!("{what} {}", section.path.display());
    let descriptors = match (access, order) {
        (Access::PreadApart, Order::Interleaved { streams }) => streams.max(1),
        _ => 1,
    };
    let opened: std::io::Result<Vec<File>> =
        clock.timed(|| (0..descriptors).map(|_| File::open(&section.path)).collect());
    let files = opened.context(|| named("opening"))?;
    let mut buffer = vec![0; block as usize];
    // Streams take turns, so that the turn says which one it is.
    for (offset, file) in order.offsets(section.len, block).zip(files.iter().cycle()) {
        if clock.over() {
            break;
        }
        let len = block.min(section.len - offset) as usize;
        let at = section.from + offset;
        let part = &mut buffer[..len];
        clock
            .operation(|| (file.read_exact_at(part, at), len as u64))
            .context(|| format!("{} at {at}", named("reading")))?;
        clock.aside(|| content.check(section.id, at, part)).map_err(|at| wrong_data(section, at))?;
    }
    Ok(())
}

fn mapped(section: &Section, order: Order, block: u64, content: &Content, clock: &mut Clock) -> Result<()> {
    let named = |what: &str| format!("{what} {}", section.path.display());
    let file = clock.timed(|| File::open(&section.path)).context(|| named("opening"))?;
    let size = file.metadata().context(|| named("size of"))?.len();
    if size < section.from + section.len {
        return Err(Failure::new(format!("{}: only {size} bytes", section.path.display())));
    }
    let mapping = Mapping::new(&file, size as usize).context(|| named("mapping"))?;
    let mut buffer = vec![0; block as usize];
    for offset in order.offsets(section.len, block) {
        if clock.over() {
            break;
        }
        let len = block.min(section.len - offset) as usize;
        let at = section.from + offset;
        let part = &mut buffer[..len];
        clock.operation(|| (mapping.touch(at as usize, len), len as u64));
        clock
            .aside(|| {
                mapping.copy(at as usize, part);
                content.check(section.id, at, part)
            })
            .map_err(|at| wrong_data(section, at))?;
    }
    Ok(())
}

/// What distinguishes this failure from all others in a report.
pub const WRONG_DATA: &str = "WRONG DATA";

fn wrong_data(section: &Section, offset: u64) -> Failure {
    wrong(&section.path.display().to_string(), offset)
}

/// The failure of a check.
pub fn wrong(what: &str, offset: u64) -> Failure {
    Failure::new(format!("{WRONG_DATA}: {what} at {offset} is not what was written"))
}

/// Checks a file after [`Work::Overwrite`](super::Work::Overwrite); reads a MiB at a time.
pub fn rewritten(file: &Section, by: u64, seed: u64, operations: u64, block: u64) -> Result<Outcome> {
    let content = Content::default();
    // The last write of a block is the one that counts.
    let new: BTreeMap<u64, u64> =
        Order::Random { seed, operations }.offsets(file.len, block).zip(by..).collect();
    let opened = File::open(&file.path).context(|| format!("opening {}", file.path.display()))?;
    let mut clock = Clock::new(CHECK_LIMIT);
    let whole = ((1 << 20) / block).max(1) * block;
    let mut buffer = vec![0; whole as usize];
    for offset in Order::Sequential.offsets(file.len, whole) {
        let part = &mut buffer[..whole.min(file.len - offset) as usize];
        let len = part.len() as u64;
        clock
            .operation(|| (opened.read_exact_at(part, offset), len))
            .context(|| format!("reading {} at {offset}", file.path.display()))?;
        let right = || {
            let mut each = part.chunks(block as usize).zip((offset..).step_by(block as usize));
            each.try_for_each(|(piece, at)| content.check(*new.get(&at).unwrap_or(&file.id), at, piece))
        };
        clock.aside(right).map_err(|at| wrong_data(file, at))?;
    }
    Ok(Clock::outcome(vec![clock]))
}
