//! What is under way beyond what the endpoint brings in seconds is in the way of what somebody waits for: all of it shares the network.
//!
//! After a fall of the rate to a tenth, what was sent in a second takes ten, and nobody gets the part that he waits for any sooner than the one
//! furthest ahead. So then what nobody waits for is put off, furthest ahead first, and sent for the rest of its bytes later.

use std::time::Duration;

use super::file::File;
use super::part::Part;
use super::reads::{Flight, Reads};
use super::types::{FetchId, FileId};

/// Pieces of time in which arrivals are counted ...
const PIECE: Duration = Duration::from_millis(250);
/// ... and how many of them say how fast it is at present.
const PIECES: usize = 4;

/// How fast bytes arrive, and what may be under way.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Bytes of the last pieces of time, the newest last; none where nothing arrived.
    pieces: [u64; PIECES],
    began: Duration,
    bytes: u64,
    /// Bytes that may still be sent ahead of readers; nothing is known if there is no number.
    room: Option<u64>,
    /// Parts that were put off, furthest ahead first.
    put_off: Vec<(FileId, u64)>,
}

impl Backlog {
    /// Bytes arrived; whether a piece of time has ended.
    fn arrived(&mut self, now: Duration, bytes: u64) -> bool {
        self.room = self.room.map(|room| room.saturating_add(bytes));
        let passed = now.saturating_sub(self.began);
        if passed < PIECE {
            self.bytes = self.bytes.saturating_add(bytes);
            return false;
        }
        self.pieces.rotate_left(1);
        // Nothing came for a while: that is a stall or a pause, and no rate.
        let silent = passed >= PIECE * 2;
        if let Some(newest) = self.pieces.last_mut() {
            *newest = if silent {
                0
            } else {
                (self.bytes as f64 * PIECE.as_secs_f64() / passed.as_secs_f64()) as u64
            };
        }
        (self.began, self.bytes) = (now, bytes);
        true
    }

    /// Bytes per second of the last second, if they came all the time.
    fn rate(&self) -> Option<f64> {
        let steady = self.pieces.iter().all(|bytes| *bytes > 0);
        let seconds = PIECE.as_secs_f64() * PIECES as f64;
        steady.then(|| self.pieces.iter().sum::<u64>() as f64 / seconds)
    }
}

impl Reads {
    /// Bytes arrived: from time to time it is looked at what is under way.
    pub(super) fn paced(&mut self, now: Duration, bytes: u64) {
        if self.backlog.arrived(now, bytes) && self.tuning.fixed.is_none() {
            self.relieve(now);
        }
    }

    /// Whether so many bytes more may be sent ahead of readers.
    pub(super) fn may_send_ahead(&self, bytes: u64) -> bool {
        self.backlog.put_off.is_empty() && self.backlog.room.is_none_or(|room| room >= bytes)
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.backlog.room = self.backlog.room.map(|room| room.saturating_sub(bytes));
    }

    /// Sends what was put off and is waited for by now, or for which there is room again.
    pub(super) fn go_on(&mut self) {
        if self.backlog.put_off.is_empty() {
            return;
        }
        let put_off = std::mem::take(&mut self.backlog.put_off);
        let mut left = Vec::new();
        let mut room = self.backlog.room.unwrap_or(u64::MAX);
        for &(file, start) in put_off.iter().rev() {
            let Some(part) = self.part(file, start).filter(|part| part.ready.is_none()) else { continue };
            let (rest, waited_for) = (part.len() - part.arrived, !part.waiters.is_empty());
            if waited_for {
                self.demands.push_front((file, start));
            } else if room >= rest {
                room -= rest;
                self.demands.push_back((file, start));
            } else {
                left.push((file, start));
                room = 0;
            }
        }
        left.reverse();
        self.backlog.put_off = left;
    }

    fn relieve(&mut self, now: Duration) {
        let Some(rate) = self.backlog.rate() else {
            self.backlog.room = None;
            return;
        };
        let fetch = self.endpoint.duration(self.part_size()).unwrap_or_default();
        let most = self.tuning.backlog.max(fetch.saturating_mul(self.tuning.backlog_fetches));
        let most = (rate * most.as_secs_f64()) as u64;
        let mut waits = false;
        let mut under_way = 0u64;
        // Those that may be put off: how far ahead they are.
        let mut ahead: Vec<(u64, FetchId, u64)> = Vec::new();
        for (&fetch, &Flight { file, part: start, base, arrived, .. }) in &self.flights {
            let Some(state) = self.files.get(&file) else { continue };
            let Some(part) = state.parts.get(start) else { continue };
            let rest = part.len().saturating_sub(base.saturating_add(arrived));
            under_way = under_way.saturating_add(rest);
            waits |= !part.waiters.is_empty();
            let second = part.fetches.iter().all(Option::is_some);
            if part.is_idle() && !second && part.stream.is_some() {
                ahead.push((distance(state, part), fetch, rest));
            }
        }
        // Twice that: what is put off costs something, and the rate is not the same all the time.
        if waits && under_way > most.saturating_mul(2) {
            ahead.sort_unstable_by(|a, b| b.cmp(a));
            for (_, fetch, rest) in ahead {
                if under_way <= most {
                    break;
                }
                under_way -= rest;
                self.put_off(now, fetch);
            }
        }
        self.backlog.room = Some(most.saturating_sub(under_way));
    }

    fn put_off(&mut self, now: Duration, fetch: FetchId) {
        let Some(&Flight { file, part: start, .. }) = self.flights.get(&fetch) else { return };
        let Some(part) = self.part(file, start) else { return };
        part.fetches = [None; 2];
        self.endpoint.abandoned(now, fetch);
        self.cancel(now, fetch);
        self.landed(file, start);
        self.backlog.put_off.push((file, start));
    }
}

/// Bytes from a part to the reader of its stream.
fn distance(state: &File, part: &Part) -> u64 {
    let reader = part.stream.and_then(|stream| state.streams.get(stream)).map(|stream| stream.reader);
    reader.map_or(u64::MAX, |reader| part.range.start.abs_diff(reader))
}
