//! What somebody waits for: admission to memory, waiting, answering, trying again.

use std::ops::Range;
use std::time::Duration;

use super::part::Part;
use super::reads::{Flight, Lent, Pending, Reads};
use super::size::Place;
use super::types::{Action, FetchId, FileId, RequestId};
use crate::backoff::Failure;

impl Reads {
    /// Lets reads in for which there is memory, in the order they came.
    pub(super) fn admit(&mut self, now: Duration) {
        while let Some(request) = self.admission.front().copied() {
            if self.pending.contains_key(&request) && !self.admit_one(now, request) {
                return;
            }
            self.admission.pop_front();
        }
    }

    /// Makes a read wait for what it needs, or answers it; false if there is no memory for it yet.
    pub(super) fn admit_one(&mut self, now: Duration, request: RequestId) -> bool {
        let Some(Pending { file, range, stream, .. }) = self.pending.get(&request) else { return true };
        let (file, range, stream) = (*file, range.clone(), *stream);
        let part = self.part_size();
        let (grain, most) = (self.tuning.grain.max(1), self.limits.request_max.max(1));
        let Some(state) = self.files.get(&file) else {
            self.fail(now, request);
            return true;
        };
        let mut missing = Vec::new();
        for hole in state.parts.missing(&range) {
            let to = hole.end.next_multiple_of(grain).min(state.len);
            let room = state.parts.room(&hole, hole.start / grain * grain, to);
            let mut at = room.start;
            while at < room.end {
                let end = room.end.min(at + most);
                missing.push(at..end);
                at = end;
            }
        }
        let needed: u64 = missing.iter().map(|range| range.end - range.start).sum();
        // What is there is not to make room for what is not.
        self.pin(file, &range, true);
        if needed > 0 && !self.make_room(now, needed) {
            self.pin(file, &range, false);
            return false;
        }
        let room = self.usable().saturating_sub(self.held.saturating_add(needed));
        // The reader is there, and waits for no more than his read.
        let place = stream.and_then(|stream| self.files.get(&file)?.place(stream));
        let part =
            place.map_or(part, |place| self.part_of(&Place { ahead: 0, window: u64::MAX, ..place }, part));
        let Some(state) = self.files.get_mut(&file) else { return true };
        for mut range in missing {
            // What a stream's reader waits for is fetched with what comes after it: a request costs as much for little as for much.
            let whole = stream.and_then(|stream| state.whole_part(stream, &range, part));
            let whole =
                whole.filter(|whole| whole.end - range.end <= room && whole.end - whole.start <= most);
            let of = stream.filter(|_| whole.is_some());
            range = whole.unwrap_or(range);
            let len = range.end - range.start;
            if let Some(ahead) = of.and_then(|stream| state.ahead.get_mut(&stream)) {
                ahead.held += len;
            }
            self.demands.push_back((file, range.start));
            self.held += len;
            self.parts += 1;
            state.parts.insert(Part { pins: 1, ..Part::new(range, of) });
        }
        let mut waits = 0;
        for start in state.parts.starts(&range) {
            let Some(part) = state.parts.get_mut(start) else { continue };
            let need = range.end.min(part.range.end) - part.range.start;
            if part.arrived < need {
                part.waiters.push((request, need));
                waits += 1;
            }
        }
        if let Some(pending) = self.pending.get_mut(&request) {
            pending.waits = waits;
        }
        if waits == 0 {
            self.answer(now, request);
        }
        true
    }

    fn pin(&mut self, file: FileId, range: &Range<u64>, held: bool) {
        let Some(state) = self.files.get_mut(&file) else { return };
        for start in state.parts.starts(range) {
            if let Some(part) = state.parts.get_mut(start) {
                part.pins = if held { part.pins + 1 } else { part.pins.saturating_sub(1) };
            }
        }
    }

    /// Bytes of a part up to `there` have arrived, the last of them with `bytes` that just came.
    pub(super) fn advance(&mut self, now: Duration, file: FileId, start: u64, there: u64, bytes: u64) {
        self.stats.fetched += bytes;
        let Some(part) = self.part(file, start) else { return };
        let before = part.arrived;
        part.arrived = part.arrived.max(there.min(part.len()));
        let arrived = part.arrived;
        // Of two attempts one brings what the other has brought.
        self.stats.wasted += bytes.saturating_sub(arrived - before);
        let Some(part) = self.part(file, start) else { return };
        let mut served = Vec::new();
        part.waiters.retain(|(request, need)| {
            let done = *need <= arrived;
            if done {
                served.push(*request);
            }
            !done
        });
        for request in served {
            if let Some(pending) = self.pending.get_mut(&request) {
                pending.waits = pending.waits.saturating_sub(1);
                if pending.waits == 0 {
                    self.answer(now, request);
                }
            }
        }
    }

    /// A read is answered or has failed.
    fn waits_no_longer(&mut self, now: Duration, request: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        if pending.is_random() {
            self.rent_paid(now, pending.file);
        }
        let stream = pending.stream.filter(|_| pending.waited);
        if let Some(ahead) = stream.and_then(|stream| self.ahead(pending.file, stream)) {
            ahead.waiting = ahead.waiting.saturating_sub(1);
        }
        Some(pending)
    }

    fn answer(&mut self, now: Duration, request: RequestId) {
        let Some(Pending { file, range, .. }) = self.waits_no_longer(now, request) else { return };
        self.actions.push_back(Action::Answer { request });
        self.lent.insert(request, Lent { file, range });
    }

    fn fail(&mut self, now: Duration, request: RequestId) {
        let Some(Pending { file, range, .. }) = self.waits_no_longer(now, request) else { return };
        self.actions.push_back(Action::Fail { request });
        self.leave(request, file, &range, false);
    }

    /// A read is over: its parts are its no longer.
    pub(super) fn leave(&mut self, request: RequestId, file: FileId, range: &Range<u64>, read: bool) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let starts = state.parts.starts(range);
        for start in &starts {
            let Some(part) = state.parts.get_mut(*start) else { continue };
            part.pins = part.pins.saturating_sub(1);
            part.waiters.retain(|(waiting, _)| *waiting != request);
            if read {
                part.read.insert(range.start.max(part.range.start)..range.end.min(part.range.end));
            }
        }
        if state.handles.is_empty() {
            self.closing.push(file);
        }
        for start in starts {
            self.release_if_used_up(file, start);
        }
    }

    /// A fetch of a part failed.
    pub(super) fn retry(&mut self, now: Duration, fetch: FetchId, file: FileId, start: u64, how: Failure) {
        let (patience, first, longest) = (self.tuning.patience, self.tuning.retry, self.tuning.retry_max);
        self.unhedge(file, start);
        let Some(part) = self.part(file, start) else { return };
        for slot in &mut part.fetches {
            if *slot == Some(fetch) {
                *slot = None;
            }
        }
        // The other one of the two may still bring it.
        if part.fetches.iter().any(Option::is_some) {
            return;
        }
        part.failures = part.failures.saturating_add(1);
        part.refused = how == Failure::Throttled;
        let since = *part.failed_since.get_or_insert(now);
        let (failures, idle) = (part.failures, part.is_idle());
        let last = how == Failure::Permanent || now.saturating_sub(since) >= patience;
        if !last {
            let wait = first.saturating_mul(1 << (failures - 1).min(16)).min(longest);
            self.retries.insert((now + wait, file, start));
        } else if idle {
            // Whoever comes to read it fetches it.
            self.landed(file, start);
            self.drop_part(now, file, start);
        } else {
            // Those too that have what they need of it and wait for others: it goes.
            let range = part.range.clone();
            // Those that wait for memory have no part of it yet.
            let hit = |pending: &Pending| {
                let overlaps = pending.range.start < range.end && range.start < pending.range.end;
                pending.waits > 0 && pending.file == file && overlaps
            };
            let mut hit: Vec<RequestId> = self
                .pending
                .iter()
                .filter(|(_, pending)| hit(pending))
                .map(|(request, _)| *request)
                .collect();
            hit.sort_unstable();
            for request in hit {
                self.fail(now, request);
            }
            self.landed(file, start);
            self.drop_part(now, file, start);
        }
    }

    /// Sends a fetch a second time.
    pub(super) fn hedge(&mut self, now: Duration, late: FetchId) {
        let Some(&Flight { file, part: start, .. }) = self.flights.get(&late) else { return };
        let room = self.limits.memory.saturating_sub(self.held);
        let Some(part) = self.part(file, start) else { return };
        let missing = part.len() - part.arrived;
        if part.fetches.iter().all(Option::is_some) || part.ready.is_some() || missing > room {
            return;
        }
        part.hedged = missing;
        self.held += missing;
        self.send(now, file, start, Some(late));
        self.stats.hedges += 1;
    }

    /// At most one attempt of a part is left.
    pub(super) fn unhedge(&mut self, file: FileId, start: u64) {
        let hedged = self.part(file, start).map_or(0, |part| std::mem::take(&mut part.hedged));
        self.held -= hedged;
    }

    /// The endpoint answers: what it refused before is sent again, one for each answer, though its wait is not over.
    pub(super) fn encouraged(&mut self) {
        let Some(&(when, file, start)) = self.retries.first() else { return };
        if self.part(file, start).is_none_or(|part| part.refused) {
            self.retries.remove(&(when, file, start));
            self.demands.push_front((file, start));
        }
    }
}
