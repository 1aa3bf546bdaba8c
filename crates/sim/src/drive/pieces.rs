//! Bytes by pieces that are each fetched by one GET: what simple controllers have in common.

use headrace_flow::backoff::Failure;
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, RequestId, Stats};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Before a failed piece is fetched again.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Pieces {
    /// Bytes of a piece are of use only when all of it is there.
    whole: bool,
    files: HashMap<FileId, File>,
    flights: HashMap<FetchId, (FileId, u64)>,
    /// Pieces to be sent, those that somebody waits for first.
    queue: VecDeque<(FileId, u64)>,
    retries: BTreeSet<(Duration, FileId, u64)>,
    next_fetch: u64,
    held: u64,
    actions: VecDeque<Action>,
    answered: Vec<(FileId, HandleId, Range<u64>)>,
    stats: Stats,
}

#[derive(Debug, Default)]
struct File {
    pieces: BTreeMap<u64, Piece>,
    waiting: Vec<(RequestId, HandleId, Range<u64>)>,
}

#[derive(Debug)]
struct Piece {
    end: u64,
    /// Up to here its bytes are there.
    there: u64,
    fetch: Option<FetchId>,
}

impl Pieces {
    pub fn new(whole: bool) -> Pieces {
        Pieces {
            whole,
            files: HashMap::new(),
            flights: HashMap::new(),
            queue: VecDeque::new(),
            retries: BTreeSet::new(),
            next_fetch: 0,
            held: 0,
            actions: VecDeque::new(),
            answered: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Bytes of `range` that no piece has become new pieces, cut at multiples of `part`.
    pub fn want(&mut self, file: FileId, range: Range<u64>, part: u64, urgent: bool) {
        let state = self.files.entry(file).or_default();
        let mut at = range.start;
        let mut new = Vec::new();
        while at < range.end {
            if let Some((_, piece)) =
                state.pieces.range(..=at).next_back().filter(|(_, piece)| piece.end > at)
            {
                at = piece.end;
                continue;
            }
            let next = state.pieces.range(at..).next().map_or(u64::MAX, |(&start, _)| start);
            let end = ((at / part + 1).saturating_mul(part)).min(range.end).min(next);
            state.pieces.insert(at, Piece { end, there: at, fetch: None });
            self.held += end - at;
            new.push((file, at));
            at = end;
        }
        if urgent {
            new.into_iter().rev().for_each(|piece| self.queue.push_front(piece));
        } else {
            self.queue.extend(new);
        }
    }

    /// A read waits for these bytes; pieces for them must exist.
    pub fn ask(&mut self, request: RequestId, file: FileId, handle: HandleId, range: Range<u64>) {
        self.stats.asked += range.end.saturating_sub(range.start);
        self.files.entry(file).or_default().waiting.push((request, handle, range));
        self.answer(file);
    }

    /// Sends what is queued while fewer than `concurrency` are in flight.
    pub fn send(&mut self, concurrency: usize) {
        while self.flights.len() < concurrency {
            let Some((file, start)) = self.queue.pop_front() else { break };
            let Some(piece) = self.files.get_mut(&file).and_then(|state| state.pieces.get_mut(&start)) else {
                continue;
            };
            if piece.fetch.is_some() || piece.there >= piece.end {
                continue;
            }
            let fetch = FetchId(self.next_fetch);
            self.next_fetch += 1;
            piece.fetch = Some(fetch);
            self.flights.insert(fetch, (file, start));
            self.stats.fetches += 1;
            let range = piece.there..piece.end;
            self.actions.push_back(Action::Fetch { fetch, file, range, hedge_of: None, ahead: false });
        }
    }

    pub fn arrived(&mut self, fetch: FetchId, bytes: u64) {
        let Some(&(file, start)) = self.flights.get(&fetch) else { return };
        self.stats.fetched += bytes;
        if let Some(piece) = self.files.get_mut(&file).and_then(|state| state.pieces.get_mut(&start)) {
            piece.there += bytes;
        }
        if !self.whole {
            self.answer(file);
        }
    }

    pub fn finished(&mut self, fetch: FetchId) {
        let Some((file, start)) = self.flights.remove(&fetch) else { return };
        if let Some(piece) = self.files.get_mut(&file).and_then(|state| state.pieces.get_mut(&start)) {
            piece.fetch = None;
            piece.there = piece.end;
        }
        self.answer(file);
    }

    pub fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        let Some((file, start)) = self.flights.remove(&fetch) else { return };
        let Some(state) = self.files.get_mut(&file) else { return };
        let Some(piece) = state.pieces.get_mut(&start) else { return };
        piece.fetch = None;
        if how != Failure::Permanent {
            self.retries.insert((now + RETRY, file, start));
            return;
        }
        let lost = start..piece.end;
        let touches = |range: &Range<u64>| range.start < lost.end && lost.start < range.end;
        let (gone, kept): (Vec<_>, Vec<_>) =
            state.waiting.drain(..).partition(|(_, _, range)| touches(range));
        state.waiting = kept;
        self.actions.extend(gone.into_iter().map(|(request, ..)| Action::Fail { request }));
        self.release(file, lost);
    }

    pub fn wake_at(&self) -> Option<Duration> {
        self.retries.first().map(|(at, ..)| *at)
    }

    /// Queues what is to be tried again.
    pub fn wake(&mut self, now: Duration) {
        while let Some(&(at, file, start)) = self.retries.first() {
            if at > now {
                break;
            }
            self.retries.pop_first();
            self.queue.push_front((file, start));
        }
    }

    /// Pieces that lie in `range` as a whole are forgotten.
    pub fn release(&mut self, file: FileId, range: Range<u64>) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let starts: Vec<u64> = state
            .pieces
            .range(range.clone())
            .filter(|(_, piece)| piece.end <= range.end)
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            let Some(piece) = state.pieces.remove(&start) else { continue };
            self.held -= piece.end - start;
            if let Some(fetch) = piece.fetch {
                self.flights.remove(&fetch);
                self.stats.cancelled += 1;
                self.actions.push_back(Action::Cancel { fetch });
            }
            self.actions.push_back(Action::Release { file, range: start..piece.end });
        }
    }

    /// Reads of this handle are not answered any more.
    pub fn forget(&mut self, handle: HandleId) {
        for state in self.files.values_mut() {
            state.waiting.retain(|(_, of, _)| *of != handle);
        }
    }

    pub fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Reads that were answered since this was last asked.
    pub fn take_answered(&mut self) -> Vec<(FileId, HandleId, Range<u64>)> {
        std::mem::take(&mut self.answered)
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Answers every read of the file whose bytes are there.
    fn answer(&mut self, file: FileId) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let mut index = 0;
        while let Some((request, handle, range)) = state.waiting.get(index) {
            if is_there(&state.pieces, range, self.whole) {
                self.actions.push_back(Action::Answer { request: *request });
                self.answered.push((file, *handle, range.clone()));
                state.waiting.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

fn is_there(pieces: &BTreeMap<u64, Piece>, range: &Range<u64>, whole: bool) -> bool {
    let mut at = range.start;
    while at < range.end {
        let Some((_, piece)) = pieces.range(..=at).next_back() else { return false };
        let usable = if whole && piece.there < piece.end { 0 } else { piece.there };
        if usable <= at || (usable < piece.end && usable < range.end) {
            return false;
        }
        at = usable;
    }
    true
}
