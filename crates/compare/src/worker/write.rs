//! Writing large files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::job::{Fsync, Order, Outcome, Section};
use super::read::at_once;
use crate::content::Content;
use crate::failure::{Context, Result};

/// Writes the blocks of a file in order. Opening, syncing and closing are part of the time.
pub fn write(section: &Section, order: Order, block: u64, sync: Fsync, limit: Duration) -> Result<Outcome> {
    let content = Content::default();
    let named = |what: &str| format!("{what} {}", section.path.display());
    let fresh = !matches!(order, Order::Random { .. });
    let mut clock = Clock::new(limit);
    let options = || OpenOptions::new().write(true).create(fresh).truncate(fresh).open(&section.path);
    let file = clock.timed(options).context(|| named("opening"))?;
    let mut buffer = vec![0; block as usize];
    for offset in order.offsets(section.len, block) {
        if clock.over() {
            break;
        }
        let part = &mut buffer[..block.min(section.len - offset) as usize];
        let at = section.from + offset;
        clock.aside(|| content.fill(section.id, at, part));
        let once = || {
            file.write_all_at(part, at)?;
            if sync == Fsync::Each { file.sync_all() } else { Ok(()) }
        };
        clock.operation(|| (once(), part.len() as u64)).context(|| named("writing"))?;
    }
    if sync == Fsync::End {
        clock.timed(|| file.sync_all()).context(|| named("syncing"))?;
    }
    // Some upload here and cannot say that it failed; the check after the case would see it.
    clock.timed(|| drop(file));
    Ok(Clock::outcome(vec![clock]))
}

/// Writes each file in a thread. The time is from the first call to the last one's end, with what it takes to make the content.
pub fn each(files: &[Section], block: u64, sync: Fsync, limit: Duration) -> Result<Outcome> {
    let started = Instant::now();
    let outcome = at_once(files, &|file: &Section, content: &Content| {
        stream(file, block, sync, content, Clock::new(limit))
    })?;
    Ok(Outcome { seconds: started.elapsed().as_secs_f64(), ..outcome })
}

fn stream(file: &Section, block: u64, sync: Fsync, content: &Content, mut clock: Clock) -> Result<Clock> {
    let named = |what: &str| format!("{what} {}", file.path.display());
    let opened = File::create(&file.path).context(|| named("creating"))?;
    let mut buffer = vec![0; block as usize];
    for offset in Order::Sequential.offsets(file.len, block) {
        if clock.over() {
            break;
        }
        let part = &mut buffer[..block.min(file.len - offset) as usize];
        clock.aside(|| content.fill(file.id, offset, part));
        let once = || {
            opened.write_all_at(part, offset)?;
            if sync == Fsync::Each { opened.sync_all() } else { Ok(()) }
        };
        clock.operation(|| (once(), part.len() as u64)).context(|| named("writing"))?;
    }
    if sync == Fsync::End {
        clock.timed(|| opened.sync_all()).context(|| named("syncing"))?;
    }
    clock.timed(|| drop(opened));
    Ok(clock)
}

/// Overwrites blocks of a file that is there, each write with content of its own, and syncs it.
pub fn overwrite(
    file: &Section,
    by: u64,
    seed: u64,
    operations: u64,
    block: u64,
    limit: Duration,
) -> Result<Outcome> {
    let content = Content::default();
    let named = |what: &str| format!("{what} {}", file.path.display());
    let opened = OpenOptions::new().write(true).open(&file.path).context(|| named("opening"))?;
    let mut clock = Clock::new(limit);
    let mut buffer = vec![0; block as usize];
    let started = Instant::now();
    for (offset, id) in (Order::Random { seed, operations }).offsets(file.len, block).zip(by..) {
        if clock.over() {
            break;
        }
        let part = &mut buffer[..block.min(file.len - offset) as usize];
        clock.aside(|| content.fill(id, offset, part));
        let once = || (opened.write_all_at(part, offset), part.len() as u64);
        clock.operation(once).context(|| named("writing"))?;
    }
    let written = started.elapsed().as_secs_f64();
    clock.timed(|| opened.sync_all()).context(|| named("syncing"))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Outcome { seconds, written, ..Clock::outcome(vec![clock]) })
}

#[cfg(test)]
mod tests {
    use super::super::read::{WRONG_DATA, rewritten};
    use super::*;

    #[test]
    fn the_last_write_of_a_block_is_what_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let (block, len, limit) = (4096, 40 * 4096 + 100, Duration::from_secs(20));
        let file = Section { path: dir.path().join("f"), id: 1, from: 0, len };
        let made = each(std::slice::from_ref(&file), 1 << 16, Fsync::End, limit).unwrap();
        assert_eq!(made.bytes, len);
        // More writes than blocks: many are overwritten again.
        let outcome = overwrite(&file, 100, 7, 90, block, limit).unwrap();
        assert_eq!((outcome.operations, outcome.bytes), (90, 90 * block));
        assert!(outcome.written <= outcome.seconds);
        assert_eq!(rewritten(&file, 100, 7, 90, block).unwrap().bytes, len);
        // One write fewer, another start, and one byte.
        for (by, operations) in [(100, 89), (101, 90)] {
            let found = rewritten(&file, by, 7, operations, block).unwrap_err().to_string();
            assert!(found.contains(WRONG_DATA), "{found}");
        }
        let opened = OpenOptions::new().write(true).open(&file.path).unwrap();
        opened.write_all_at(b"!", len - 1).unwrap();
        let found = rewritten(&file, 100, 7, 90, block).unwrap_err().to_string();
        assert!(found.contains(WRONG_DATA), "{found}");
    }
}
