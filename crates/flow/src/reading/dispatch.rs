//! Who may send a fetch now: what somebody waits for first, then all streams in turns (deficit round robin: Shreedhar and Varghese,
//! "Efficient fair queueing using deficit round robin", 1995).

use std::time::Duration;

use super::part::Part;
use super::reads::{Flight, Reads};
use super::types::{Action, FetchId, FileId};
use crate::order::Mode;
use crate::streams::StreamId;

/// What became of a stream's turn.
enum Turn {
    Sent,
    /// Nothing to fetch at the moment: it queues again when it is read or when a fetch of its lands.
    Nothing,
    /// It has used up its turn.
    Over,
    /// No memory for it, while there may be for others.
    Full,
}

impl Reads {
    /// Does all that can be done now.
    pub(super) fn pump(&mut self, now: Duration) {
        while let Some(file) = self.closing.pop() {
            self.forget(now, file);
        }
        self.admit(now);
        let mode = self.mode(now);
        self.go_on();
        self.send_demands(now);
        self.endpoint.streams(self.ring.len());
        self.pace.begin();
        let mut full = 0;
        while self.endpoint.in_flight() < self.allowed() && full < self.ring.len() {
            // One after the other is paced by itself.
            if mode == Mode::Wide && !self.is_due(now) {
                break;
            }
            let Some((file, stream)) = self.ring.front().copied() else { break };
            match self.turn(now, mode, file, stream) {
                Turn::Sent => full = 0,
                Turn::Nothing => {
                    self.ring.pop_front();
                    if let Some(ahead) = self.ahead(file, stream) {
                        (ahead.queued, ahead.deficit) = (false, 0);
                    }
                }
                Turn::Over => {
                    full = 0;
                    self.ring.rotate_left(1);
                }
                Turn::Full => {
                    full += 1;
                    self.ring.rotate_left(1);
                }
            }
        }
        self.buy(now, mode);
        self.waiting(now);
    }

    /// A stream may have something to fetch.
    pub(super) fn queue(&mut self, file: FileId, stream: StreamId) {
        let quantum = self.quantum();
        if let Some(ahead) = self.ahead(file, stream).filter(|ahead| !ahead.queued) {
            (ahead.queued, ahead.deficit) = (true, quantum);
            self.ring.push_back((file, stream));
        }
    }

    /// Sends what somebody waits for. It may go somewhat beyond what is allowed: it is not to wait for what nobody waits for.
    fn send_demands(&mut self, now: Duration) {
        let allowed = self.allowed();
        let most = (allowed + (allowed / 4).max(2)).min(self.limits.requests.max(1));
        while self.endpoint.in_flight() < most {
            let Some((file, start)) = self.demands.pop_front() else { return };
            let unsent = |part: &mut Part| part.ready.is_none() && part.fetches.iter().all(Option::is_none);
            if self.part(file, start).is_some_and(unsent) {
                self.send(now, file, start, None);
            }
        }
    }

    /// Bytes of a turn.
    fn quantum(&self) -> i64 {
        i64::try_from(self.limits.request_max).unwrap_or(i64::MAX).max(1)
    }

    /// Bytes that may be held for what nobody waits for.
    pub(super) fn usable(&self) -> u64 {
        self.limits.memory - self.limits.memory / self.tuning.reserve.max(1)
    }

    fn turn(&mut self, now: Duration, mode: Mode, file: FileId, stream: StreamId) -> Turn {
        let (part, quantum) = (self.part_size(), self.quantum());
        let part = if mode == Mode::Wide { self.part_of_several(part) } else { part };
        let usable = self.usable();
        let Some(state) = self.files.get_mut(&file) else { return Turn::Nothing };
        let Some(ahead) = state.ahead.get_mut(&stream) else { return Turn::Nothing };
        if mode == Mode::Ordered && ahead.in_flight > 0 {
            return Turn::Nothing;
        }
        if ahead.deficit <= 0 {
            ahead.deficit += quantum;
            return Turn::Over;
        }
        let edge = ahead.edge;
        let part = state.place(stream).map_or(part, |place| self.part_of(&place, part));
        let Some(state) = self.files.get_mut(&file) else { return Turn::Nothing };
        let Some(range) = state.next_ahead(stream, part) else {
            state.falls_short(stream);
            return Turn::Nothing;
        };
        let len = range.end - range.start;
        if !self.may_send_ahead(len) {
            if let Some(ahead) = self.ahead(file, stream) {
                ahead.edge = edge;
            }
            return Turn::Full;
        }
        let Some(state) = self.files.get_mut(&file) else { return Turn::Nothing };
        // What was fetched for nobody in particular counts as free.
        let of_it = state.ahead.get(&stream).map_or(0, |ahead| ahead.held).saturating_add(len);
        let factor = self.tuning.share.max(1);
        self.forget_old(now, usable.saturating_sub(len.max(of_it.div_ceil(factor))));
        let held = self.held;
        let share = factor.saturating_mul(usable.saturating_sub(held));
        let Some(state) = self.files.get_mut(&file) else { return Turn::Nothing };
        let Some(ahead) = state.ahead.get_mut(&stream) else { return Turn::Nothing };
        if held + len > usable || ahead.held + len > share {
            ahead.edge = edge;
            return Turn::Full;
        }
        ahead.held += len;
        ahead.deficit = ahead.deficit.saturating_sub_unsigned(len);
        let start = range.start;
        state.parts.insert(Part::new(range, Some(stream)));
        self.parts += 1;
        self.held += len;
        self.send(now, file, start, None);
        Turn::Sent
    }

    /// Sends a fetch of what is missing of a part.
    pub(super) fn send(&mut self, now: Duration, file: FileId, start: u64, hedge_of: Option<FetchId>) {
        let fetch = FetchId(self.next_fetch);
        let Some(part) = self.part(file, start) else { return };
        let Some(slot) = part.fetches.iter_mut().find(|slot| slot.is_none()) else { return };
        *slot = Some(fetch);
        let counts = part.stream.filter(|_| !std::mem::replace(&mut part.counted, true));
        let (base, range) = (part.arrived, part.range.start + part.arrived..part.range.end);
        let ahead = part.waiters.is_empty();
        let bought = ahead && part.stream.is_none();
        if let Some(stream) = counts {
            self.flying_ahead += 1;
            if let Some(ahead) = self.ahead(file, stream) {
                ahead.in_flight += 1;
            }
        }
        self.next_fetch += 1;
        let hedge = hedge_of.is_some();
        self.flights.insert(fetch, Flight { file, part: start, base, arrived: 0, sent: now, bought });
        if bought {
            self.scavenger.sent();
        }
        self.endpoint.started(now, fetch, range.end - range.start, hedge);
        self.sent(range.end - range.start);
        self.sent_at(now, range.end - range.start);
        self.stats.fetches += 1;
        self.watch(file, start);
        self.actions.push_back(Action::Fetch { fetch, file, range, hedge_of, ahead });
    }

    pub(super) fn ahead(&mut self, file: FileId, stream: StreamId) -> Option<&mut super::file::Ahead> {
        self.files.get_mut(&file)?.ahead.get_mut(&stream)
    }
}
