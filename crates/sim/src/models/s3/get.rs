//! One GET on its way.

use crate::models::store::{Get, Progress, Report};
use headrace_flow::reading::FetchId;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct State {
    pub endpoint: usize,
    pub fetch: FetchId,
    /// What its connection carries, bytes per second.
    pub rate: u64,
    pub moving: Moving,
    /// What goes wrong, and at which byte.
    pub fault: Option<(u64, Break)>,
    pub last_progress: Duration,
    length: u64,
    arrived: u64,
    /// What its transfer waits for now.
    expected: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// It waits for its first byte, or is stalled.
    No,
    /// It is a transfer of the network.
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    /// Nothing comes for so long, or ever.
    Stall(Option<Duration>),
    /// It ends.
    Cut,
}

impl State {
    pub fn new(get: &Get, now: Duration, length: u64, rate: u64) -> State {
        State {
            endpoint: get.endpoint,
            fetch: get.fetch,
            rate,
            moving: Moving::No,
            fault: None,
            last_progress: now,
            length,
            arrived: 0,
            expected: 0,
        }
    }

    pub fn report(&self, progress: Progress) -> Report {
        Report { endpoint: self.endpoint, fetch: self.fetch, progress }
    }

    pub fn remaining(&self) -> u64 {
        self.length - self.arrived
    }

    /// How much its transfer is to wait for next: `piece`, but no further than the end or the byte where it breaks.
    pub fn next_piece(&mut self, piece: u64) -> u64 {
        let end = match self.fault {
            Some((at, _)) => at.max(self.arrived).min(self.length),
            None => self.length,
        };
        self.expected = piece.min(end - self.arrived);
        self.expected
    }

    /// What it waited for is there; how much that was.
    pub fn piece_arrived(&mut self, now: Duration) -> u64 {
        let bytes = std::mem::take(&mut self.expected);
        self.arrived += bytes;
        if bytes > 0 {
            self.last_progress = now;
        }
        bytes
    }

    /// What goes wrong right here, if anything; it does so once.
    pub fn break_here(&mut self) -> Option<Break> {
        let (_, what) = self.fault.take_if(|(at, _)| *at <= self.arrived)?;
        Some(what)
    }
}
