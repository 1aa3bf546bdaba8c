//! The whole of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::Tuning;
use super::backlog::Backlog;
use super::file::File;
use super::pace::Pace;
use super::part::Part;
use super::runs::Runs;
use super::scavenger::Scavenger;
use super::types::{Action, FetchId, FileId, HandleId, Kept, Limits, RequestId, Stats};
use super::whole::Rent;
use crate::backoff::Failure;
use crate::endpoint::Endpoint;
use crate::order::{Mode, Probe};
use crate::processors::Processors;
use crate::streams::StreamId;
use crate::window::{self, Window};

/// A fetch under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub file: FileId,
    /// Start of the part it is for.
    pub part: u64,
    /// Bytes of the part that were there when it was sent.
    pub base: u64,
    pub arrived: u64,
    pub sent: Duration,
    /// Nobody waited for it: it is of a file that is fetched whole.
    pub bought: bool,
}

/// A read that is not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub file: FileId,
    pub range: Range<u64>,
    /// The stream that it is of.
    pub stream: Option<StreamId>,
    /// Parts that it waits for.
    pub waits: usize,
    /// Not all of it was there when it came.
    pub waited: bool,
}

impl Pending {
    /// Nothing of it was on its way for a stream when it came.
    pub fn is_random(&self) -> bool {
        self.waited && self.stream.is_none()
    }
}

/// A read that is answered, but whose bytes nobody has taken yet: they still count.
#[derive(Debug)]
pub(super) struct Lent {
    pub file: FileId,
    pub range: Range<u64>,
}

/// Whoever reads through a handle.
#[derive(Debug)]
pub(super) struct Reader {
    pub file: FileId,
    /// Reads whose bytes were not all there.
    pub waits: u64,
}

/// Reads of files in a store. It is told what readers want and what arrives ([`Reads::read`], [`Reads::arrived`] ...) and says what to do
/// ([`Reads::next`]); it knows where bytes are, but not the bytes.
#[derive(Debug)]
pub struct Reads {
    pub(super) tuning: Tuning,
    pub(super) limits: Limits,
    pub(super) files: BTreeMap<FileId, File>,
    pub(super) handles: HashMap<HandleId, Reader>,
    pub(super) flights: HashMap<FetchId, Flight>,
    pub(super) pending: HashMap<RequestId, Pending>,
    pub(super) lent: HashMap<RequestId, Lent>,
    /// Reads that memory has no room for yet, in the order they came.
    pub(super) admission: VecDeque<RequestId>,
    /// Parts that somebody waits for and that are not sent yet.
    pub(super) demands: VecDeque<(FileId, u64)>,
    /// Streams that may have something to fetch, in turns.
    pub(super) ring: VecDeque<(FileId, StreamId)>,
    pub(super) scavenger: Scavenger,
    /// Files that are fetched whole, one after the other, and how many fetches were sent for each.
    pub(super) buying: VecDeque<(FileId, u64)>,
    /// How long streams were lately.
    pub(super) runs: Runs,
    /// What was paid for those that are read as if they were one.
    pub(super) together: Rent,
    /// What a disk takes of them, as it was told last, and what it was given of all of them since.
    pub(super) kept_together: Kept,
    pub(super) put_away_together: u64,
    /// Nothing is hung before.
    pub(super) hung_at: Option<Duration>,
    /// Files that are worth to be fetched whole.
    pub(super) wide: u64,
    /// Parts whose fetch failed, by when to try again.
    pub(super) retries: BTreeSet<(Duration, FileId, u64)>,
    /// Files that were closed while reads of them waited.
    pub(super) closing: Vec<FileId>,
    /// Parts of all files.
    pub(super) parts: usize,
    /// Streams that are fetched ahead.
    pub(super) followed: u64,
    /// Parts that were not fetched ahead of anybody, in the order they became ready; some are gone already.
    pub(super) old: VecDeque<(FileId, u64)>,
    /// Fetches of streams under way, second attempts apart.
    pub(super) flying_ahead: usize,
    pub(super) endpoint: Endpoint,
    pub(super) backlog: Backlog,
    pub(super) pace: Pace,
    pub(super) probe: Probe,
    pub(super) processors: Processors,
    pub(super) held: u64,
    pub(super) next_fetch: u64,
    pub(super) actions: VecDeque<Action>,
    pub(super) stats: Stats,
}

impl Reads {
    /// Nothing is read yet.
    pub fn new(tuning: Tuning, limits: Limits) -> Reads {
        Reads {
            endpoint: Endpoint::new(tuning.endpoint, limits.requests),
            backlog: Backlog::default(),
            pace: Pace::default(),
            probe: Probe::new(tuning.order),
            processors: Processors::new(tuning.processors),
            tuning,
            limits,
            files: BTreeMap::new(),
            handles: HashMap::new(),
            flights: HashMap::new(),
            pending: HashMap::new(),
            lent: HashMap::new(),
            admission: VecDeque::new(),
            demands: VecDeque::new(),
            ring: VecDeque::new(),
            scavenger: Scavenger::default(),
            buying: VecDeque::new(),
            wide: 0,
            runs: Runs::default(),
            together: Rent::default(),
            kept_together: Kept::No,
            put_away_together: 0,
            hung_at: None,
            retries: BTreeSet::new(),
            closing: Vec::new(),
            parts: 0,
            followed: 0,
            flying_ahead: 0,
            old: VecDeque::new(),
            held: 0,
            next_fetch: 0,
            actions: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// A file of `len` bytes was opened. What is known of its length may be told again at any time.
    pub fn opened(&mut self, file: FileId, handle: HandleId, len: u64) {
        let streams = self.tuning.streams;
        let entry = self.files.entry(file).or_insert_with(|| File::new(len, streams));
        entry.len = len;
        // Told again, it is the same reader: how often it has waited is not forgotten.
        self.handles.entry(handle).or_insert_with(|| {
            entry.handles.push(handle);
            Reader { file, waits: 0 }
        });
    }

    /// Whether what comes of an open file is kept elsewhere as well. To be told before each read.
    pub fn kept(&mut self, file: FileId, kept: Kept) {
        if let Some(state) = self.files.get_mut(&file) {
            (state.kept, state.put_away) = (kept, 0);
            if state.together {
                (self.kept_together, self.put_away_together) = (kept, 0);
            }
        }
    }

    /// This open file is one of many that are read as if they were one, like the segments in which small files lie.
    pub fn together(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.together = true;
        }
    }

    /// A program reads. Sooner or later [`Action::Answer`] or [`Action::Fail`] follows; after the first, call [`Reads::taken`].
    pub fn read(
        &mut self,
        now: Duration,
        file: FileId,
        handle: HandleId,
        range: Range<u64>,
        request: RequestId,
    ) {
        let part = self.part_size();
        let Some(state) = self.files.get_mut(&file) else {
            return self.actions.push_back(Action::Fail { request });
        };
        let range = range.start..range.end.min(state.len);
        if range.is_empty() {
            return self.actions.push_back(Action::Answer { request });
        }
        self.stats.asked += range.end - range.start;
        let placed = state.streams.read(now, handle.0, &range);
        let ready_for = ready_for(state, now, &range);
        let waits = self.handles.get_mut(&handle).map_or(0, |reader| {
            reader.waits += u64::from(ready_for.is_none());
            reader.waits
        });
        if placed.confirmed {
            let (most, enough) = (self.most_ahead(part), self.enough_ahead(part));
            let fetch = self.endpoint.duration(part).unwrap_or(Duration::ZERO).max(self.endpoint.lately());
            let bytes = range.end - range.start;
            let (window, fixed) = (self.tuning.window, self.tuning.fixed);
            if let Some(state) = self.files.get_mut(&file) {
                state.streamed = true;
                let before = state.ahead.len();
                state.ahead_of(placed.stream, window, part);
                self.followed += (state.ahead.len() - before) as u64;
                self.endpoint.readers(now, self.followed);
            }
            let known = self.known(part);
            if let Some(ahead) = self.ahead(file, placed.stream) {
                ahead.waiting += usize::from(ready_for.is_none());
                ahead.run = ahead.run.saturating_add(bytes);
                let ready_for = ready_for.unwrap_or_default();
                // Who finds bytes that have been there for long is fetched ahead of by enough.
                let known = known.window(if ready_for <= fetch { ahead.run } else { 0 });
                match fixed {
                    Some(fixed) => ahead.window = Window::fixed(fixed.window),
                    None => {
                        ahead.window.read(&window::Read {
                            bytes,
                            ready_for,
                            waits,
                            fetch,
                            part,
                            most,
                            enough,
                            short: std::mem::take(&mut ahead.short),
                            known,
                        });
                    }
                }
            }
        }
        self.passed(now, file, placed.stream);
        let stream = placed.confirmed.then_some(placed.stream);
        let waited = ready_for.is_none();
        if waited && stream.is_none() {
            self.pay_rent(now, file, &range);
        }
        self.pending.insert(request, Pending { file, range, stream, waits: 0, waited });
        // What is there is answered, though others wait for memory.
        if ready_for.is_some() {
            self.admit_one(now, request);
        } else {
            self.admission.push_back(request);
        }
        for gone in placed.evicted {
            if let Some(state) = self.files.get(&file) {
                self.runs.ended(state, &[gone]);
            }
            self.drop_stream(now, file, gone);
        }
        if placed.confirmed {
            self.queue(file, placed.stream);
        }
        self.pump(now);
    }

    /// The bytes of a read that was answered are with whoever asked: they need not be kept any longer.
    pub fn taken(&mut self, now: Duration, request: RequestId) {
        let Some(Lent { file, range }) = self.lent.remove(&request) else { return };
        self.leave(request, file, &range, true);
        self.pump(now);
    }

    /// An attempt at a fetch failed, and whoever makes it will try again for what is missing: [`Reads::resumed`], or
    /// [`Reads::failed`], follows.
    pub fn interrupted(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        self.endpoint.failed(now, fetch, how);
        self.probe.failed(now);
        self.pump(now);
    }

    /// The next attempt begins.
    pub fn resumed(&mut self, now: Duration, fetch: FetchId) {
        let Some(&Flight { file, part: start, base, arrived, .. }) = self.flights.get(&fetch) else { return };
        let Some(part) = self.part(file, start) else { return };
        let missing = part.len().saturating_sub(base + arrived);
        // Whoever has a second attempt has been sent twice already.
        let paired = part.fetches.iter().all(Option::is_some);
        self.endpoint.started(now, fetch, missing, paired);
        self.watch(file, start);
    }

    /// This fetch needs nothing of the endpoint (a hole, or bytes that are here already): it says nothing of it.
    pub fn local(&mut self, now: Duration, fetch: FetchId) {
        self.endpoint.cancelled(now, fetch);
        self.pump(now);
    }

    /// So many more bytes of a fetch are there, in order from its start.
    pub fn arrived(&mut self, now: Duration, fetch: FetchId, bytes: u64) {
        let Some(flight) = self.flights.get_mut(&fetch) else { return };
        flight.arrived = flight.arrived.saturating_add(bytes);
        let (file, start, there) = (flight.file, flight.part, flight.base + flight.arrived);
        if self.endpoint.progress(now, fetch, bytes) {
            self.widen();
        }
        self.probe.delivered(now, bytes);
        self.advance(now, file, start, there, bytes);
        self.paced(now, bytes);
        self.pump(now);
    }

    /// All of a fetch is there.
    pub fn finished(&mut self, now: Duration, fetch: FetchId) {
        let Some(flight) = self.land(fetch) else { return };
        self.endpoint.finished(now, fetch);
        let (file, start) = (flight.file, flight.part);
        self.waited(now, &flight);
        self.unhedge(file, start);
        self.encouraged();
        let len = self.part(file, start).map_or(0, |part| part.len());
        self.advance(now, file, start, len, len.saturating_sub(flight.base + flight.arrived));
        if let Some(part) = self.part(file, start) {
            part.ready = Some(now);
            let leftover = part.stream.is_none();
            let fetches = std::mem::take(&mut part.fetches);
            // It has been outrun.
            for other in fetches.into_iter().flatten().filter(|other| *other != fetch) {
                self.cancel(now, other);
            }
            self.landed(file, start);
            if leftover {
                self.old.push_back((file, start));
                if let Some(state) = self.files.get_mut(&file) {
                    state.put_away = state.put_away.saturating_add(len);
                    if state.together {
                        self.put_away_together = self.put_away_together.saturating_add(len);
                    }
                }
            }
            self.release_if_used_up(file, start);
        }
        self.learn();
        self.pump(now);
    }

    /// A fetch failed: what it brought so far stays.
    pub fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        let Some(flight) = self.land(fetch) else { return };
        self.endpoint.failed(now, fetch, how);
        self.probe.failed(now);
        self.retry(now, fetch, flight.file, flight.part, how);
        self.pump(now);
    }

    /// A file was closed. With its last handle all that was fetched of it goes.
    pub fn closed(&mut self, now: Duration, handle: HandleId) {
        let Some(Reader { file, .. }) = self.handles.remove(&handle) else { return };
        let Some(state) = self.files.get_mut(&file) else { return };
        state.handles.retain(|one| *one != handle);
        state.streams.closed(handle.0);
        let last = state.handles.is_empty();
        let streams: Vec<StreamId> = state
            .streams
            .iter()
            .filter(|stream| last || stream.handle == handle.0)
            .map(|stream| stream.id)
            .collect();
        self.runs.ended(state, &streams);
        for stream in streams {
            self.drop_stream(now, file, stream);
        }
        if last {
            self.forget(now, file);
        }
        self.pump(now);
    }

    /// So many bytes may be held from now on.
    pub fn set_memory(&mut self, now: Duration, memory: u64) {
        self.limits.memory = memory;
        self.make_room(now, 0);
        self.pump(now);
    }

    /// When to call [`Reads::wake`], unless something happens before.
    pub fn wake_at(&self) -> Option<Duration> {
        let retry = self.retries.first().map(|(when, ..)| *when);
        [retry, self.endpoint.hedge_at(), self.hung_at, self.pace.wake_at()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Duration) {
        while let Some(&(when, file, start)) = self.retries.first() {
            if when > now {
                break;
            }
            self.retries.pop_first();
            self.demands.push_front((file, start));
        }
        while let Some(fetch) = self.endpoint.hedge(now) {
            self.hedge(now, fetch);
        }
        self.unhang(now);
        self.pump(now);
    }

    /// The next thing to do; to be asked after each event until there is none.
    #[expect(clippy::should_implement_trait, reason = "it is no iterator: more comes after None")]
    pub fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Bytes that are fetched, or being fetched, and not released: at most [`Limits::memory`], but for one read that is larger itself.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Whether more memory would be of use: something is fetched ahead, or a file is worth to be fetched whole.
    pub fn wants_memory(&self) -> bool {
        self.followed > 0 || self.wide > 0
    }

    /// Whether anything is kept of this file: it is open, or a read of it is not over.
    pub fn is_known(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Fetches that the endpoint is thought to make use of side by side.
    pub fn allowed(&self) -> usize {
        match self.tuning.fixed {
            Some(fixed) => fixed.fetches.clamp(1, self.limits.requests.max(1)),
            None => self.endpoint.allowed(),
        }
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The window of each stream that is fetched ahead, bytes.
    pub fn windows(&self) -> impl Iterator<Item = (FileId, StreamId, u64)> + use<'_> {
        self.files.iter().flat_map(|(file, state)| {
            state.ahead.iter().map(|(stream, ahead)| (*file, *stream, ahead.window.bytes()))
        })
    }

    pub(super) fn part(&mut self, file: FileId, start: u64) -> Option<&mut Part> {
        self.files.get_mut(&file)?.parts.get_mut(start)
    }

    fn learn(&mut self) {
        let part = self.part_size();
        let streams = self.followed.max(1);
        // Of a stride or of a small file, fetches are smaller than they might be.
        let size = self.endpoint.size().map_or(part, |size| size.min(part));
        if let (Some(latency), Some(alone)) = (self.endpoint.latency(), self.endpoint.alone(size)) {
            self.probe.told(latency, alone.saturating_mul(streams));
        }
    }

    /// Whether fetching in order keeps a stream from fetching what its window has room for: it waits for that, though not in the ring.
    fn held_back(&self) -> bool {
        let held_back = |file: &File| {
            file.ahead.iter().any(|(stream, ahead)| ahead.in_flight > 0 && file.has_room(*stream, ahead))
        };
        self.probe.is_ordered() && self.files.values().any(held_back)
    }

    /// Says whether, from now on, readers wait.
    pub(super) fn waiting(&mut self, now: Duration) {
        let hungry = !self.pending.is_empty() || !self.ring.is_empty() || self.held_back();
        self.probe.wanted(now, hungry);
    }

    /// How fetches are sent at the moment.
    pub(super) fn mode(&mut self, now: Duration) -> Mode {
        if self.tuning.fixed.is_some() {
            return Mode::Wide;
        }
        self.probe.under_way(now, self.flying_ahead, self.followed as usize);
        self.probe.mode(now)
    }
}

/// Since when all of a range has been there; `None` if it is not.
fn ready_for(state: &File, now: Duration, range: &Range<u64>) -> Option<Duration> {
    if !state.parts.missing(range).is_empty() {
        return None;
    }
    let of = |part: &Part| match part.ready {
        Some(since) => Some(now.saturating_sub(since)),
        None => (part.range.start + part.arrived >= range.end.min(part.range.end)).then_some(Duration::ZERO),
    };
    state.parts.overlapping(range).map(of).try_fold(Duration::MAX, |least, one| Some(least.min(one?)))
}
