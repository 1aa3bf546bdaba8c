//! A closed world around [`Reads`]: a store, and readers who wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::*;
use super::MIB;
use crate::streams::IntervalSet;

/// A store that answers each fetch after a latency and then at a rate; what it delivers is checked against what is asked for.
pub(super) struct World {
    pub reads: Reads,
    pub now: Duration,
    pub latency: Duration,
    /// Bytes per second of each fetch.
    pub rate: u64,
    /// What comes when: (time, fetch) -> bytes still to come after this piece.
    pub coming: BTreeMap<(Duration, FetchId), u64>,
    pub flying: BTreeMap<FetchId, (FileId, std::ops::Range<u64>, u64)>,
    pub there: BTreeMap<FileId, IntervalSet>,
    pub asked: BTreeMap<RequestId, (FileId, std::ops::Range<u64>)>,
    pub answered: BTreeSet<RequestId>,
    pub failed: BTreeSet<RequestId>,
    pub next_request: u64,
    pub most_held: u64,
    pub largest: u64,
}

impl World {
    pub fn new(memory: u64, latency: Duration, rate: u64) -> World {
        let limits = Limits { memory, request_max: 8 * MIB, requests: 64 };
        World {
            reads: Reads::new(Tuning::default(), limits),
            now: Duration::ZERO,
            latency,
            rate,
            coming: BTreeMap::new(),
            flying: BTreeMap::new(),
            there: BTreeMap::new(),
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            failed: BTreeSet::new(),
            next_request: 0,
            most_held: 0,
            largest: 0,
        }
    }

    pub fn open(&mut self, file: u64, len: u64) {
        self.reads.opened(FileId(file), HandleId(file), len);
    }

    pub fn ask(&mut self, file: u64, range: std::ops::Range<u64>) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.asked.insert(request, (FileId(file), range.clone()));
        self.reads.read(self.now, FileId(file), HandleId(file), range, request);
        self.act();
        request
    }

    pub fn act(&mut self) {
        self.most_held = self.most_held.max(self.reads.held());
        while let Some(action) = self.reads.next() {
            match action {
                Action::Fetch { fetch, file, range, .. } => {
                    assert!(!range.is_empty());
                    self.largest = self.largest.max(range.end - range.start);
                    self.coming.insert((self.now + self.latency, fetch), range.end - range.start);
                    self.flying.insert(fetch, (file, range, 0));
                }
                Action::Cancel { fetch } => {
                    self.flying.remove(&fetch).expect("it is in flight");
                    self.coming.retain(|(_, coming), _| *coming != fetch);
                }
                Action::Answer { request } => {
                    let (file, range) = self.asked.remove(&request).expect("it was asked, once");
                    let there = self.there.entry(file).or_default();
                    assert_eq!(there.bytes_within(&range), range.end - range.start, "{range:?} of {there:?}");
                    self.answered.insert(request);
                    self.reads.taken(self.now, request);
                }
                Action::Fail { request } => {
                    self.asked.remove(&request).expect("it was asked, once");
                    self.failed.insert(request);
                }
                Action::Release { file, range } => {
                    let kept = self.there.entry(file).or_default();
                    assert_eq!(kept.bytes_within(&range), range.end - range.start, "released once");
                    let mut rest = kept.clone();
                    rest.forget_before(range.end);
                    kept.forget_from(range.start);
                    rest.iter().for_each(|range| kept.insert(range.clone()));
                }
            }
        }
        // Second attempts included.
        let there: u64 = self.there.values().map(IntervalSet::bytes).sum();
        let coming: u64 =
            self.flying.values().map(|(_, range, arrived)| range.end - range.start - arrived).sum();
        assert!(there + coming <= self.reads.held(), "{there} + {coming} of {}", self.reads.held());
    }

    /// The next thing that happens; false if nothing does.
    pub fn step(&mut self) -> bool {
        let next = self.coming.first_key_value().map(|((when, _), _)| *when);
        let wake = self.reads.wake_at();
        match (next, wake) {
            (None, None) => return false,
            (next, Some(wake)) if next.is_none_or(|next| wake < next) => {
                self.now = self.now.max(wake);
                self.reads.wake(self.now);
            }
            _ => {
                let Some(((when, fetch), left)) = self.coming.pop_first() else { return false };
                self.now = self.now.max(when);
                self.deliver(fetch, left);
            }
        }
        self.act();
        true
    }

    pub fn deliver(&mut self, fetch: FetchId, left: u64) {
        let Some((file, range, arrived)) = self.flying.get_mut(&fetch) else { return };
        let piece = left.min(128 << 10);
        let from = range.start + *arrived;
        *arrived += piece;
        self.there.entry(*file).or_default().insert(from..from + piece);
        if left > piece {
            let wait = Duration::from_nanos(piece.min(left - piece) * 1_000_000_000 / self.rate);
            self.coming.insert((self.now + wait, fetch), left - piece);
            self.reads.arrived(self.now, fetch, piece);
        } else {
            self.reads.arrived(self.now, fetch, piece);
            self.act();
            // It may have been cancelled by what it brought.
            if self.flying.remove(&fetch).is_some() {
                self.reads.finished(self.now, fetch);
            }
        }
    }

    /// Nobody asks for anything for so long.
    pub fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        let next = |world: &World| {
            let coming = world.coming.first_key_value().map(|((when, _), _)| *when);
            coming.into_iter().chain(world.reads.wake_at()).min()
        };
        while next(self).is_some_and(|next| next <= until) && self.step() {}
        self.now = self.now.max(until);
    }

    pub fn until_answered(&mut self, request: RequestId) {
        while !self.answered.contains(&request) {
            assert!(self.step(), "{request:?} is never answered");
        }
    }

    /// Reads a file from end to end in requests of this size; bytes per second, the second half alone.
    pub fn stream(&mut self, file: u64, len: u64, size: u64) -> f64 {
        let mut half = self.now;
        let mut at = 0;
        while at < len {
            let request = self.ask(file, at..(at + size).min(len));
            self.until_answered(request);
            if at < len / 2 {
                half = self.now;
            }
            at += size;
        }
        len as f64 / 2.0 / (self.now - half).as_secs_f64()
    }
}
