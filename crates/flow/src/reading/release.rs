//! Giving memory back.

use std::time::Duration;

use super::file::File;
use super::reads::Reads;
use super::types::{Action, FetchId, FileId, Kept};
use crate::streams::{Pattern, StreamId};

impl Reads {
    /// Makes room for so many bytes, if need be by giving up what nobody waits for: first what was fetched for nobody in particular, the
    /// oldest first; then what lies furthest ahead of a reader, of the stream that has most. False if that does not suffice; a read that
    /// is larger than all memory gets its room when nothing else is held.
    pub(super) fn make_room(&mut self, now: Duration, bytes: u64) -> bool {
        let memory = self.limits.memory;
        let fits = |held: u64| held.saturating_add(bytes) <= memory || (held == 0 && bytes > memory);
        self.forget_old(now, memory.saturating_sub(bytes));
        while !fits(self.held) && self.shed(now) {}
        fits(self.held)
    }

    /// Gives up what was fetched for nobody in particular, the oldest first, until no more than this is held.
    pub(super) fn forget_old(&mut self, now: Duration, most: u64) {
        let mut looked = self.old.len();
        while self.held > most && looked > 0 {
            looked -= 1;
            let Some((file, start)) = self.old.pop_front() else { break };
            match self.part(file, start).map(|part| part.is_idle()) {
                Some(true) => self.drop_part(now, file, start),
                Some(false) => self.old.push_back((file, start)),
                None => {}
            }
        }
    }

    /// Gives up the part that is furthest ahead of its reader, of the stream that holds most. False if there is none.
    fn shed(&mut self, now: Duration) -> bool {
        let of_file = |(file, state): (&FileId, &File)| {
            let streams = state.ahead.iter().map(|(stream, ahead)| (ahead.held, *file, *stream));
            streams.filter(|(held, ..)| *held > 0).max()
        };
        let mut streams: Vec<_> = self.files.iter().filter_map(of_file).collect();
        streams.sort_unstable_by(|a, b| b.cmp(a));
        for (_, file, stream) in streams {
            let Some(state) = self.files.get_mut(&file) else { continue };
            let backward =
                state.streams.get(stream).is_some_and(|stream| stream.pattern == Pattern::Backward);
            let last = {
                let mut of_it =
                    state.parts.iter().filter(|part| part.stream == Some(stream) && part.is_idle());
                if backward { of_it.next() } else { of_it.next_back() }.map(|part| part.range.clone())
            };
            let Some(range) = last else { continue };
            if let Some(ahead) = state.ahead.get_mut(&stream) {
                // It is to be fetched again when there is room.
                ahead.edge = if backward { ahead.edge.max(range.end) } else { ahead.edge.min(range.start) };
            }
            self.drop_part(now, file, range.start);
            return true;
        }
        false
    }

    /// What has been read to the end goes.
    pub(super) fn release_if_used_up(&mut self, file: FileId, start: u64) {
        let Some(part) = self.part(file, start) else { return };
        if part.is_idle() && part.is_used_up() {
            self.remove(file, start);
        } else {
            self.trim(file, start);
        }
    }

    /// What was read at a part's beginning goes when it is worth it: large parts would hold twice the memory that is needed.
    fn trim(&mut self, file: FileId, start: u64) {
        let least = self.tuning.trim.max(1);
        let Some(state) = self.files.get_mut(&file) else { return };
        // One that is under way is known by where it starts.
        let Some(part) = state.parts.get(start).filter(|part| part.is_idle() && part.ready.is_some()) else {
            return;
        };
        let Some(until) = part.read.end_of(start).filter(|until| until - start >= least) else { return };
        let Some(mut part) = state.parts.remove(start) else { return };
        let (trimmed, leftover) = (until - start, part.stream.is_none());
        part.range.start = until;
        part.arrived = part.len();
        part.read.forget_before(until);
        state.holds_less(part.stream, trimmed);
        state.parts.insert(part);
        self.held -= trimmed;
        if leftover {
            self.old.push_back((file, until));
        }
        self.actions.push_back(Action::Release { file, range: start..until });
    }

    /// A part goes, wanted or not; its fetches are cancelled.
    pub(super) fn drop_part(&mut self, now: Duration, file: FileId, start: u64) {
        let Some(part) = self.part(file, start) else { return };
        let fetches = std::mem::take(&mut part.fetches);
        self.unhedge(file, start);
        self.landed(file, start);
        for fetch in fetches.into_iter().flatten() {
            self.cancel(now, fetch);
        }
        self.remove(file, start);
    }

    fn remove(&mut self, file: FileId, start: u64) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let Some(part) = state.parts.remove(start) else { return };
        self.held -= part.len();
        self.parts -= 1;
        // What was fetched for nobody in particular and is kept elsewhere is read there.
        if state.kept == Kept::No || part.stream.is_some() {
            self.stats.wasted += part.unread();
        }
        state.holds_less(part.stream, part.len());
        if part.arrived > 0 {
            self.actions.push_back(Action::Release {
                file,
                range: part.range.start..part.range.start + part.arrived,
            });
        }
        if self.old.len() > 1024 + 4 * self.parts {
            let files = &self.files;
            self.old.retain(|(file, start)| {
                files.get(file).is_some_and(|state| state.parts.get(*start).is_some())
            });
        }
    }

    pub(super) fn cancel(&mut self, now: Duration, fetch: FetchId) {
        if self.land(fetch).is_some() {
            self.endpoint.cancelled(now, fetch);
            self.stats.cancelled += 1;
            self.actions.push_back(Action::Cancel { fetch });
        }
    }

    /// A part is not under way any more.
    pub(super) fn landed(&mut self, file: FileId, start: u64) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let Some(part) = state.parts.get_mut(start).filter(|part| part.counted) else { return };
        part.counted = false;
        let stream = part.stream;
        self.flying_ahead -= 1;
        let Some(stream) = stream else { return };
        if let Some(ahead) = state.ahead.get_mut(&stream) {
            ahead.in_flight = ahead.in_flight.saturating_sub(1);
            self.queue(file, stream);
        }
    }

    /// What a stream's reader has left far behind goes, though not all of it was read: it reads with holes. What may merely be late is
    /// kept as long as it takes little of the memory.
    pub(super) fn passed(&mut self, now: Duration, file: FileId, stream: StreamId) {
        let share = self.limits.memory / self.tuning.reserve.max(1) / self.followed.max(1);
        let far = self.tuning.streams.late.min(share).max(self.tuning.streams.disorder);
        while let Some(state) = self.files.get(&file)
            && let Some(found) = state.streams.get(stream).filter(|found| found.pattern == Pattern::Forward)
            && let Some(part) = state.parts.last_before(found.reader.saturating_sub(far))
            && part.stream == Some(stream)
            && part.is_idle()
        {
            let (start, bought) = (part.range.start, state.whole.was_bought());
            if bought { self.disown(file, start) } else { self.drop_part(now, file, start) }
        }
    }

    /// A part is of no stream any more: it is kept until the memory is needed.
    fn disown(&mut self, file: FileId, start: u64) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let Some(part) = state.parts.get_mut(start) else { return };
        let (stream, len, counted) = (part.stream.take(), part.len(), part.counted);
        state.holds_less(stream, len);
        if let Some(ahead) = stream.and_then(|stream| state.ahead.get_mut(&stream)) {
            ahead.in_flight = ahead.in_flight.saturating_sub(usize::from(counted));
        }
        self.old.push_back((file, start));
    }

    /// Nobody follows this stream any more: what was fetched ahead for it goes, unless all of the file was fetched for those who read it
    /// all over, some of whom may be taken for a stream for a while.
    pub(super) fn drop_stream(&mut self, now: Duration, file: FileId, stream: StreamId) {
        let Some(state) = self.files.get_mut(&file) else { return };
        state.streams.remove(stream);
        let bought = state.whole.was_bought();
        let of_it = state.parts.iter().filter(|part| part.stream == Some(stream));
        let of_it: Vec<_> = of_it.map(|part| (part.range.start, part.is_idle())).collect();
        for (start, idle) in of_it {
            // What somebody waits for yet is given up like what is nobody's, when nobody does any more.
            if idle && !bought { self.drop_part(now, file, start) } else { self.disown(file, start) }
        }
        if let Some(state) = self.files.get_mut(&file) {
            self.followed -= u64::from(state.ahead.remove(&stream).is_some());
        }
    }

    /// The file is not open any more. Reads that are still waiting keep their parts until they are answered.
    pub(super) fn forget(&mut self, now: Duration, file: FileId) {
        let Some(state) = self.files.get(&file) else { return };
        if !state.handles.is_empty() {
            return;
        }
        let starts: Vec<u64> =
            state.parts.iter().filter(|part| part.is_idle()).map(|part| part.range.start).collect();
        for start in starts {
            self.drop_part(now, file, start);
        }
        let waiting = self.pending.values().any(|pending| pending.file == file)
            || self.lent.values().any(|lent| lent.file == file);
        if !waiting && let Some(state) = self.files.remove(&file) {
            self.followed -= state.ahead.len() as u64;
            self.wide -= u64::from(state.whole.wide);
            if state.together {
                self.forget_together();
            }
        }
    }
}
