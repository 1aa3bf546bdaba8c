//! Finds the streams that reads of one file make up.
//!
//! A stream is not a handle: one descriptor may be read at several places in turns, and several descriptors may follow each other
//! through a file. Nor do reads come in order: the kernel sends its readahead from several threads. So a stream is a place in the file
//! around which reads gather densely, whoever sends them; a read near none of them begins a new one, which counts for nothing until
//! it is seen to be one. Random reads so never become streams.

use std::ops::Range;
use std::time::Duration;

use super::{IntervalSet, Pattern};

/// Reads that touch each other, though they did not come in order, before they are taken for a stream.
const RUN: u64 = 4;

/// If more than this part of what lies behind a stream's reader was not read, it is no stream: pieces at every second place are none.
const HOLES: (u64, u64) = (2, 5);

/// The numbers of [`Streams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// How far from its place in a stream a read may come, bytes: disorder is among the requests, of up to 1 MiB, that threads have in hand.
    pub disorder: u64,
    /// How far behind its place a read may come of what was left out until then, bytes. A thread may stand still with its request while the
    /// kernel's readahead, up to 16 MiB at a time and one more time ahead of that, goes on through the others.
    pub late: u64,
    /// Streams of one file, at most; the one unused for longest goes.
    pub most: usize,
    /// Steps of the same length in a row, by one handle, that count as strided.
    pub strides: u32,
    /// Reads of a stream before it can be found to be none.
    pub patience: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { disorder: 4 << 20, late: 32 << 20, most: 256, strides: 4, patience: 4 }
    }
}

/// Names a stream of a file; never used again in that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A stream, or what may become one.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Its name.
    pub id: StreamId,
    /// How its reads follow each other.
    pub pattern: Pattern,
    /// Whether it is one: whether to fetch ahead of it.
    pub confirmed: bool,
    /// Where the reader is: the end of what it has read (the start, if backward; the last piece's start, if strided).
    pub reader: u64,
    /// When it was read last.
    pub used: Duration,
    /// Whoever read last.
    pub handle: u64,
    /// What was read of it lately.
    seen: IntervalSet,
    /// Where it began, or has been seen to be dense from.
    origin: u64,
    /// The last read.
    last: Range<u64>,
    /// Reads so far.
    reads: u32,
}

/// The steps of one handle.
#[derive(Debug, Clone)]
struct Steps {
    handle: u64,
    last: Range<u64>,
    /// From the start of one read to that of the next, and how often in a row.
    stride: u64,
    same: u32,
}

/// What a read was found to be part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The stream.
    pub stream: StreamId,
    /// Whether it is one.
    pub confirmed: bool,
    /// Streams that had to go.
    pub evicted: Vec<StreamId>,
}

impl Placed {
    fn new(stream: Option<(StreamId, bool)>, evicted: Vec<StreamId>) -> Placed {
        // There is always one: a read that fits none begins one.
        let (stream, confirmed) = stream.unwrap_or((StreamId(u64::MAX), false));
        Placed { stream, confirmed, evicted }
    }
}

/// The streams of one file.
#[derive(Debug, Clone)]
pub struct Streams {
    tuning: Tuning,
    streams: Vec<Stream>,
    /// Those that read last come last.
    steps: Vec<Steps>,
    next: u64,
}

impl Streams {
    /// None yet.
    pub fn new(tuning: Tuning) -> Streams {
        Streams { tuning, streams: Vec::new(), steps: Vec::new(), next: 0 }
    }

    /// A read of `range` (not empty) by `handle`.
    pub fn read(&mut self, now: Duration, handle: u64, range: &Range<u64>) -> Placed {
        let stride = self.step(handle, range);
        let mut evicted = Vec::new();
        // Whoever begins at the beginning goes on, nearly always.
        let begins = range.start == 0;
        let near = match self.find(range, false) {
            Some(index) => index,
            None => self.push(now, handle, range, Pattern::Forward, begins, &mut evicted),
        };
        let was = self.streams.get(near).is_some_and(|stream| stream.confirmed);
        let mut near = self.follow(near, now, handle, range);
        // What was fetched ahead of one that turns out to be none is for nobody; the read may begin another.
        if let Some((lost, _)) = near.filter(|(_, confirmed)| was && !*confirmed) {
            self.remove(lost);
            evicted.push(lost);
            let another = self.push(now, handle, range, Pattern::Forward, begins, &mut evicted);
            near = self.follow(another, now, handle, range);
        }
        if let Some(confirmed) = near.filter(|(_, confirmed)| *confirmed) {
            return Placed::new(Some(confirmed), evicted);
        }
        // A place among others at equal distances may yet turn out to be where a stream begins: so both are kept.
        let strided = match (self.find(range, true), stride) {
            (Some(index), _) => Some(index),
            (None, Some(stride)) => {
                let pattern = Pattern::Strided { stride, len: range.end - range.start };
                Some(self.push(now, handle, range, pattern, true, &mut evicted))
            }
            (None, None) => None,
        };
        let strided = strided.and_then(|index| self.follow(index, now, handle, range));
        Placed::new(strided.or(near), evicted)
    }

    /// Begins a stream; where it is.
    fn push(
        &mut self,
        now: Duration,
        handle: u64,
        range: &Range<u64>,
        pattern: Pattern,
        confirmed: bool,
        evicted: &mut Vec<StreamId>,
    ) -> usize {
        if self.streams.len() >= self.tuning.most.max(2) {
            evicted.extend(self.evict());
        }
        let id = StreamId(self.next);
        self.next += 1;
        let reader = range.start;
        let (seen, origin, last) = (IntervalSet::default(), range.start, range.start..range.start);
        self.streams.push(Stream {
            id,
            pattern,
            confirmed,
            reader,
            used: now,
            handle,
            seen,
            origin,
            last,
            reads: 0,
        });
        self.streams.len() - 1
    }

    /// A stream is read on.
    fn follow(
        &mut self,
        index: usize,
        now: Duration,
        handle: u64,
        range: &Range<u64>,
    ) -> Option<(StreamId, bool)> {
        let stream = self.streams.get_mut(index)?;
        (stream.used, stream.handle) = (now, handle);
        stream.follow(range, &self.tuning);
        Some((stream.id, stream.confirmed))
    }

    /// A handle is gone.
    pub fn closed(&mut self, handle: u64) {
        self.steps.retain(|steps| steps.handle != handle);
    }

    /// One of them.
    pub fn get(&self, id: StreamId) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    /// Forgets one.
    pub fn remove(&mut self, id: StreamId) {
        self.streams.retain(|stream| stream.id != id);
    }

    /// The stream a read belongs to: the nearest that it fits, of those that are strided or of the others.
    fn find(&self, range: &Range<u64>, strided: bool) -> Option<usize> {
        let fits = |stream: &Stream| {
            let far = stream.distance(range)?;
            let kind = matches!(stream.pattern, Pattern::Strided { .. }) == strided;
            (kind && far <= self.tuning.disorder).then_some(far)
        };
        let near = self.streams.iter().enumerate().filter_map(|(index, stream)| Some((fits(stream)?, index)));
        near.min().map(|(_, index)| index)
    }

    /// Takes down a handle's step; the stride if there have been enough of the same.
    fn step(&mut self, handle: u64, range: &Range<u64>) -> Option<u64> {
        let known = self.steps.iter().position(|steps| steps.handle == handle);
        let mut steps = match known {
            Some(at) => self.steps.remove(at),
            None => Steps { handle, last: range.clone(), stride: 0, same: 0 },
        };
        let alike = range.end - range.start == steps.last.end - steps.last.start;
        match range
            .start
            .checked_sub(steps.last.start)
            .filter(|step| alike && *step > range.end - range.start)
        {
            Some(step) if step == steps.stride => steps.same += 1,
            Some(step) => (steps.stride, steps.same) = (step, 1),
            None => steps.same = 0,
        }
        steps.last = range.clone();
        let stride = (steps.same >= self.tuning.strides.max(1)).then_some(steps.stride);
        if self.steps.len() >= self.tuning.most.max(1) {
            self.steps.remove(0);
        }
        self.steps.push(steps);
        stride
    }

    fn evict(&mut self) -> Option<StreamId> {
        let oldest = self.streams.iter().min_by_key(|stream| (stream.confirmed, stream.used, stream.id))?.id;
        self.remove(oldest);
        Some(oldest)
    }
}

impl Stream {
    /// Whether this is where the reader of `other` goes on: what comes far out of order may be taken for a stream of its own, which that
    /// one then comes up to.
    pub fn goes_on_from(&self, other: &Stream) -> bool {
        let forward = |stream: &Stream| stream.confirmed && stream.pattern == Pattern::Forward;
        forward(self) && forward(other) && (self.origin..self.reader).contains(&other.reader)
    }

    /// How far a read is from where this one would have it; `None` if it is on the wrong side altogether.
    fn distance(&self, range: &Range<u64>) -> Option<u64> {
        match self.pattern {
            Pattern::Forward if range.start >= self.reader => Some(range.start - self.reader),
            // What was left out has its place nowhere else, but for a stream that has just come there.
            Pattern::Forward if self.left_out(range) => Some(1),
            // Late ones, and those that go backward from a stream's first.
            Pattern::Forward => Some(self.reader.saturating_sub(range.end)),
            Pattern::Backward if range.end <= self.reader => Some(self.reader - range.end),
            Pattern::Backward => Some(range.start.saturating_sub(self.reader)),
            Pattern::Strided { stride, len } => {
                let next = self.reader.saturating_add(stride);
                (next == range.start && range.end - range.start <= len).then_some(0)
            }
        }
    }

    /// Whether this is behind the reader, and nothing of it was read.
    fn left_out(&self, range: &Range<u64>) -> bool {
        self.confirmed
            && self.origin <= range.start
            && range.end <= self.reader
            && self.seen.bytes_within(range) == 0
    }

    fn follow(&mut self, range: &Range<u64>, tuning: &Tuning) {
        // Nothing is before the beginning: whoever reads that goes on from there.
        let begins = range.start == 0;
        let backward = self.reads > 0 && range.end == self.last.start && !begins;
        let forward = self.reads > 0 && range.start == self.last.end;
        self.seen.insert(range.clone());
        self.last = range.clone();
        self.reads = self.reads.saturating_add(1);
        match self.pattern {
            Pattern::Strided { .. } => self.reader = self.reader.max(range.start),
            Pattern::Forward if backward && !self.confirmed => {
                self.pattern = Pattern::Backward;
                (self.confirmed, self.reader) = (true, range.start);
            }
            // It has turned round.
            Pattern::Backward if forward => self.confirmed = false,
            Pattern::Backward => self.reader = self.reader.min(range.start),
            Pattern::Forward => {
                self.reader = self.reader.max(range.end);
                if !self.confirmed {
                    self.confirm(range, forward || begins);
                } else if self.reads >= tuning.patience {
                    // Read with holes all over: not a stream.
                    let lately = self.reader.saturating_sub(tuning.disorder.saturating_mul(2));
                    let whole = self.origin.max(lately)..self.reader;
                    let length = whole.end - whole.start;
                    let holes = length - self.seen.bytes_within(&whole).min(length);
                    self.confirmed = holes <= (length / HOLES.1 * HOLES.0).max(tuning.disorder / 2);
                }
            }
        }
        self.forget(tuning.disorder, tuning.late);
    }

    /// It is a stream if a read continues the one before it, or if some in any order have made up a run. What was read around it
    /// before does not belong to it.
    fn confirm(&mut self, range: &Range<u64>, continues: bool) {
        let run = self.seen.iter().find(|run| run.start <= range.start && range.end <= run.end).cloned();
        let Some(run) = run else { return };
        // Part of a large read again is not many reads.
        let many = u64::from(self.reads) >= RUN;
        if continues || many && run.end - run.start >= (range.end - range.start).saturating_mul(RUN) {
            self.seen.forget_before(run.start);
            self.seen.forget_from(run.end);
            (self.confirmed, self.origin, self.reader) = (true, run.start, run.end);
        }
    }

    /// Remembers no more than disorder needs.
    fn forget(&mut self, disorder: u64, late: u64) {
        match self.pattern {
            Pattern::Forward => {
                let from = self.reader.saturating_sub(late.max(2 * disorder));
                if from > self.origin {
                    self.origin = from;
                    self.seen.forget_before(from);
                }
            }
            Pattern::Backward => self.seen.forget_from(self.reader.saturating_add(2 * disorder)),
            Pattern::Strided { stride, .. } => self.seen.forget_before(self.reader.saturating_sub(stride)),
        }
    }
}
