//! Programs that read: where, how much at once, how fast they take it.

use crate::engine::Random;
use headrace_flow::reading::{FileId, HandleId};
use std::ops::Range;
use std::time::Duration;

/// The order of a program's reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// From the start to the end.
    Sequential,
    /// Anywhere, at multiples of the request size.
    Random,
    /// One request at every multiple of this many bytes.
    Strided(u64),
    /// So many places of the file in turns, each from its start on, through one handle.
    Interleaved(u64),
    /// Sequential; after so many bytes nothing for so long.
    Bursty(u64, Duration),
}

/// One program.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderSpec {
    /// Where its file is.
    pub endpoint: usize,
    /// Its file.
    pub file: FileId,
    /// Its handle; every reader has its own.
    pub handle: HandleId,
    /// Bytes of the file.
    pub len: u64,
    /// Where it reads.
    pub pattern: Pattern,
    /// Bytes it asks for at once.
    pub request: u64,
    /// Requests it has open at once; they are taken in the order they were asked for.
    pub depth: usize,
    /// Bytes per second it takes from what is there; above 0.
    pub copy_rate: u64,
    /// When it opens the file.
    pub start: Duration,
    /// When it closes it, if not at its end.
    pub stop: Option<Duration>,
}

impl ReaderSpec {
    /// A sequential reader of its own huge file, one request of 1 MiB at a time.
    pub fn sequential(number: u64, copy_rate: u64) -> ReaderSpec {
        ReaderSpec {
            endpoint: 0,
            file: FileId(number),
            handle: HandleId(number),
            len: 1 << 44,
            pattern: Pattern::Sequential,
            request: 1 << 20,
            depth: 1,
            copy_rate,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

/// Where a program is.
#[derive(Debug)]
pub(super) struct Position {
    asked: u64,
    random: Random,
}

/// What a program does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It reads this.
    Read(Range<u64>),
    /// It does nothing for so long.
    Pause(Duration),
    /// It is through.
    End,
}

impl Position {
    pub fn new(random: Random) -> Position {
        Position { asked: 0, random }
    }

    /// `paused`: it has just done so.
    pub fn next(&mut self, spec: &ReaderSpec, paused: bool) -> Next {
        let start = match spec.pattern {
            Pattern::Sequential => self.asked.saturating_mul(spec.request),
            Pattern::Random => self.random.below((spec.len / spec.request).max(1)) * spec.request,
            Pattern::Strided(stride) => self.asked.saturating_mul(stride),
            Pattern::Interleaved(places) => {
                let places = places.max(1);
                let apart = spec.len / places / spec.request * spec.request;
                (self.asked % places) * apart + (self.asked / places).saturating_mul(spec.request)
            }
            Pattern::Bursty(bytes, pause) => {
                let requests = (bytes / spec.request).max(1);
                if !paused && self.asked > 0 && self.asked.is_multiple_of(requests) {
                    return Next::Pause(pause);
                }
                self.asked.saturating_mul(spec.request)
            }
        };
        if start >= spec.len {
            return Next::End;
        }
        self.asked += 1;
        Next::Read(start..start.saturating_add(spec.request).min(spec.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pattern: Pattern, count: usize) -> Vec<u64> {
        let spec = ReaderSpec { pattern, len: 100, request: 10, ..ReaderSpec::sequential(1, 1) };
        let mut position = Position::new(Random::new(1));
        let mut starts = Vec::new();
        let mut paused = false;
        while starts.len() < count {
            match position.next(&spec, paused) {
                Next::Read(range) => {
                    assert_eq!(range.end - range.start, 10);
                    starts.push(range.start);
                    paused = false;
                }
                Next::Pause(_) => {
                    starts.push(u64::MAX);
                    paused = true;
                }
                Next::End => break,
            }
        }
        starts
    }

    #[test]
    fn each_pattern_reads_where_it_says() {
        assert_eq!(first(Pattern::Sequential, 99), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(first(Pattern::Strided(40), 99), [0, 40, 80]);
        assert_eq!(first(Pattern::Interleaved(2), 6), [0, 50, 10, 60, 20, 70]);
        assert_eq!(first(Pattern::Bursty(20, Duration::MAX), 6), [0, 10, u64::MAX, 20, 30, u64::MAX]);
        let random = first(Pattern::Random, 50);
        assert!(random.iter().all(|start| start % 10 == 0 && *start < 100));
        assert!(random.windows(2).any(|pair| pair[1] != pair[0] + 10));
    }
}
