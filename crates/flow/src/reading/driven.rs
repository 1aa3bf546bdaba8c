//! [`Reads`] driven by hand: a test says what arrives, and sees what is asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::*;
use crate::backoff::Failure;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// A fetch under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub fetch: FetchId,
    pub file: u64,
    pub range: Range<u64>,
    pub hedge_of: Option<FetchId>,
    pub ahead: bool,
}

pub(super) struct Driven {
    pub reads: Reads,
    pub now: Duration,
    /// Under way, and how many bytes have arrived.
    pub flying: BTreeMap<FetchId, (Sent, u64)>,
    /// Sent since it was last asked.
    new: Vec<Sent>,
    pub answered: Vec<RequestId>,
    pub failed: Vec<RequestId>,
    pub cancelled: Vec<FetchId>,
    pub released: Vec<(u64, Range<u64>)>,
    next: u64,
}

pub(super) fn limits(memory: u64) -> Limits {
    Limits { memory, request_max: 8 * MIB, requests: 64 }
}

/// Bytes of the file of [`one_file`].
pub(super) const LEN: u64 = 512 * MIB;

/// File 1 is open, and nothing was read.
pub(super) fn one_file(memory: u64) -> Driven {
    let mut driven = Driven::new(limits(memory));
    driven.open(1, LEN);
    driven
}

impl Driven {
    pub fn new(limits: Limits) -> Driven {
        Driven::tuned(Tuning::default(), limits)
    }

    /// What is fetched ahead goes by numbers that were chosen, and so can be told to the byte.
    pub fn fixed(limits: Limits, window: u64, fetches: usize, part: u64) -> Driven {
        Driven::tuned(Tuning { fixed: Some(Fixed { window, fetches, part }), ..Tuning::default() }, limits)
    }

    pub fn tuned(tuning: Tuning, limits: Limits) -> Driven {
        Driven {
            reads: Reads::new(tuning, limits),
            now: Duration::ZERO,
            flying: BTreeMap::new(),
            new: Vec::new(),
            answered: Vec::new(),
            failed: Vec::new(),
            cancelled: Vec::new(),
            released: Vec::new(),
            next: 0,
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.reads.next() {
            match action {
                Action::Fetch { fetch, file, range, hedge_of, ahead } => {
                    let sent = Sent { fetch, file: file.0, range, hedge_of, ahead };
                    self.flying.insert(fetch, (sent.clone(), 0));
                    self.new.push(sent);
                }
                Action::Cancel { fetch } => {
                    assert!(self.flying.remove(&fetch).is_some(), "it is under way");
                    self.cancelled.push(fetch);
                }
                Action::Answer { request } => self.answered.push(request),
                Action::Fail { request } => self.failed.push(request),
                Action::Release { file, range } => self.released.push((file.0, range)),
            }
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn open(&mut self, file: u64, len: u64) {
        self.reads.opened(FileId(file), HandleId(file), len);
    }

    pub fn close(&mut self, file: u64) {
        self.reads.closed(self.now, HandleId(file));
        self.act();
    }

    pub fn read(&mut self, file: u64, range: Range<u64>) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.reads.read(self.now, FileId(file), HandleId(file), range, request);
        self.act();
        request
    }

    pub fn take(&mut self, request: RequestId) {
        assert!(self.is_answered(request));
        self.reads.taken(self.now, request);
        self.act();
    }

    pub fn is_answered(&self, request: RequestId) -> bool {
        self.answered.contains(&request)
    }

    pub fn has_failed(&self, request: RequestId) -> bool {
        self.failed.contains(&request)
    }

    /// What was sent since the last call.
    pub fn sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.new)
    }

    /// The same, but for its names.
    pub fn ranges(&mut self) -> Vec<Range<u64>> {
        self.sent().into_iter().map(|sent| sent.range).collect()
    }

    /// The only fetch that was sent since the last call.
    pub fn one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    pub fn arrive(&mut self, fetch: FetchId, bytes: u64) {
        let (sent, arrived) = self.flying.get_mut(&fetch).expect("it is under way");
        *arrived += bytes;
        assert!(*arrived <= sent.range.end - sent.range.start);
        self.reads.arrived(self.now, fetch, bytes);
        self.act();
    }

    /// The rest arrives.
    pub fn finish(&mut self, fetch: FetchId) {
        let (sent, arrived) = self.flying.get(&fetch).expect("it is under way").clone();
        self.arrive(fetch, sent.range.end - sent.range.start - arrived);
        self.flying.remove(&fetch);
        self.reads.finished(self.now, fetch);
        self.act();
    }

    pub fn fail(&mut self, fetch: FetchId, how: Failure) {
        self.flying.remove(&fetch).expect("it is under way");
        self.reads.failed(self.now, fetch, how);
        self.act();
    }

    /// Until something is sent; how long that was.
    pub fn sleep(&mut self) -> Duration {
        let began = self.now;
        while self.new.is_empty() {
            self.now = self.now.max(self.reads.wake_at().expect("it waits for a time"));
            self.wake();
        }
        self.now - began
    }

    pub fn wake(&mut self) {
        self.reads.wake(self.now);
        self.act();
    }

    pub fn memory(&mut self, memory: u64) {
        self.reads.set_memory(self.now, memory);
        self.act();
    }

    /// All that is under way arrives, each fetch this long after the last; until nothing more is sent.
    pub fn settle(&mut self, each: Duration) {
        while let Some(fetch) = self.flying.keys().next().copied() {
            self.now += each;
            self.finish(fetch);
        }
    }

    /// A read that is answered and taken: all that it needs arrives.
    pub fn whole(&mut self, file: u64, range: Range<u64>, each: Duration) {
        let request = self.read(file, range);
        while !self.is_answered(request) {
            let fetch = *self.flying.keys().next().expect("something is under way");
            self.now += each;
            self.finish(fetch);
        }
        self.take(request);
    }

    /// Bytes of what is under way or there for a file, by where they are.
    pub fn flying_bytes(&self) -> u64 {
        self.flying.values().map(|(sent, arrived)| sent.range.end - sent.range.start - arrived).sum()
    }
}
