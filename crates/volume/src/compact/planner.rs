//! When to compact a file's chunk: a state machine with no clock and no I/O.
//!
//! A chunk that is overwritten all over becomes fragmented again at once, so it is left alone while it is written. But not for ever: the
//! number of its extents is what each further commit and each read of it costs.

use std::collections::HashMap;
use std::time::Duration;

use headrace_layout::InodeNo;

use super::MAX_EXTENTS;

/// A chunk that was not written for so long is compacted.
const QUIET: Duration = Duration::from_secs(5);
/// With so many extents it is compacted although it is being written.
const MANY: usize = 8 * MAX_EXTENTS;
/// Chunks that are remembered; more are found again when they are read.
const LIMIT: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Noted {
    extents: usize,
    /// When it may be compacted.
    due: Duration,
}

/// Chunks with so many extents that reading them is slow.
#[derive(Debug, Default)]
pub struct ChunkPlanner {
    noted: HashMap<(InodeNo, u32), Noted>,
}

impl ChunkPlanner {
    /// A write has left a chunk with so many extents, `now` (time since any fixed moment, not going back).
    pub fn written(&mut self, now: Duration, ino: InodeNo, chunk: u32, extents: usize) {
        if extents <= MAX_EXTENTS {
            self.noted.remove(&(ino, chunk));
        } else if self.noted.len() < LIMIT || self.noted.contains_key(&(ino, chunk)) {
            let due = if extents >= MANY { now } else { now.saturating_add(QUIET) };
            self.noted.insert((ino, chunk), Noted { extents, due });
        }
    }

    /// Somebody reads a chunk of so many extents.
    pub fn read(&mut self, now: Duration, ino: InodeNo, chunk: u32, extents: usize) {
        if extents > MAX_EXTENTS && self.noted.len() < LIMIT {
            // One that is being written is known already, and waits.
            self.noted.entry((ino, chunk)).or_insert(Noted { extents, due: now });
        }
    }

    /// The next one to compact, those with most extents first; it is not noted any more.
    pub fn next(&mut self, now: Duration) -> Option<(InodeNo, u32)> {
        let due = self.noted.iter().filter(|(_, noted)| noted.due <= now);
        let chunk = due.max_by_key(|(chunk, noted)| (noted.extents, **chunk)).map(|(chunk, _)| *chunk)?;
        self.noted.remove(&chunk);
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeNo = InodeNo(7);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_chunk_that_is_written_waits_until_it_is_quiet_or_has_very_many() {
        let mut planner = ChunkPlanner::default();
        planner.written(at(0), INO, 0, MAX_EXTENTS);
        assert_eq!(planner.next(at(100)), None, "not worth it");
        for second in 0..60 {
            planner.written(at(second), INO, 1, MAX_EXTENTS + second as usize + 1);
            planner.read(at(second), INO, 1, MAX_EXTENTS + 1);
            assert_eq!(planner.next(at(second)), None);
        }
        assert_eq!(planner.next(at(63)), None);
        assert_eq!(planner.next(at(64)), Some((INO, 1)));
        assert_eq!(planner.next(at(64)), None, "once");
        planner.written(at(70), INO, 1, MANY);
        assert_eq!(planner.next(at(70)), Some((INO, 1)));
    }

    #[test]
    fn one_that_is_only_read_does_not_wait_and_the_worst_comes_first() {
        let mut planner = ChunkPlanner::default();
        for chunk in 0..10 {
            planner.read(at(1), INO, chunk, MAX_EXTENTS + 1 + chunk as usize);
        }
        let order: Vec<u32> = std::iter::from_fn(|| planner.next(at(1))).map(|(_, chunk)| chunk).collect();
        assert_eq!(order, (0..10).rev().collect::<Vec<_>>());
    }

    #[test]
    fn one_that_was_written_anew_as_a_whole_is_forgotten() {
        let mut planner = ChunkPlanner::default();
        planner.written(at(0), INO, 0, 1000);
        planner.written(at(1), INO, 0, 1);
        assert_eq!(planner.next(at(100)), None);
    }
}
