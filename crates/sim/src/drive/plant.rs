//! Controllers joined to a store.

use super::controller::{Controller, Gauges};
use super::ledger::Ledger;
use crate::models::store::{Get, Progress, Report, Store};
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, RequestId, Stats};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

/// A read that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Which.
    pub request: RequestId,
    /// Whether its bytes are there.
    pub ok: bool,
}

/// See the [module](super). Endpoint N of the store belongs to controller N.
pub struct Plant<'a> {
    controllers: Vec<Box<dyn Controller + 'a>>,
    store: Box<dyn Store + 'a>,
    ledgers: Vec<Ledger>,
    gets: HashMap<(usize, FetchId), Flying>,
    requests: HashMap<RequestId, Asked>,
    next_request: u64,
    answers: Vec<Answer>,
    reports: Vec<Report>,
    /// Most that controllers said they hold.
    peak_held: Vec<u64>,
    /// Most gets in flight.
    peak_gets: usize,
    /// A controller that wants to be woken again and again at the same time is not asked any more for a moment.
    wakes: (Duration, u32),
}

#[derive(Debug)]
struct Flying {
    file: FileId,
    range: Range<u64>,
    arrived: u64,
}

#[derive(Debug)]
struct Asked {
    endpoint: usize,
    file: FileId,
    handle: HandleId,
    range: Range<u64>,
}

/// Wakes at one time before that is called a violation.
const WAKES: u32 = 10_000;

impl<'a> Plant<'a> {
    /// One controller for each endpoint of the store.
    pub fn new(controllers: Vec<Box<dyn Controller + 'a>>, store: Box<dyn Store + 'a>) -> Plant<'a> {
        Plant {
            ledgers: controllers.iter().map(|_| Ledger::default()).collect(),
            peak_held: vec![0; controllers.len()],
            controllers,
            store,
            gets: HashMap::new(),
            requests: HashMap::new(),
            next_request: 0,
            answers: Vec::new(),
            reports: Vec::new(),
            peak_gets: 0,
            wakes: (Duration::ZERO, 0),
        }
    }

    /// A file is opened.
    pub fn open(&mut self, now: Duration, endpoint: usize, file: FileId, handle: HandleId, len: u64) {
        self.controllers[endpoint].opened(file, handle, len);
        self.obey(now, endpoint);
    }

    /// A handle is closed; its reads are not answered any more.
    pub fn close(&mut self, now: Duration, endpoint: usize, handle: HandleId) {
        self.requests.retain(|_, asked| (asked.endpoint, asked.handle) != (endpoint, handle));
        self.controllers[endpoint].closed(now, handle);
        self.obey(now, endpoint);
    }

    /// A reader asks; the answer comes from [`answers`](Plant::answers).
    pub fn read(
        &mut self,
        now: Duration,
        endpoint: usize,
        file: FileId,
        handle: HandleId,
        range: Range<u64>,
    ) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, Asked { endpoint, file, handle, range: range.clone() });
        self.controllers[endpoint].read(now, file, handle, range, request);
        self.obey(now, endpoint);
        request
    }

    /// The memory ceiling of one controller moves.
    pub fn set_memory(&mut self, now: Duration, endpoint: usize, bytes: u64) {
        self.controllers[endpoint].set_memory(now, bytes);
        self.obey(now, endpoint);
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Duration> {
        let woken = self.controllers.iter().filter_map(|controller| controller.wake_at()).min();
        match (self.store.next_at(), woken) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Everything up to `now`.
    pub fn advance(&mut self, now: Duration) {
        let mut reports = std::mem::take(&mut self.reports);
        self.store.advance(now, &mut reports);
        for report in reports.drain(..) {
            self.report(now, report);
        }
        self.reports = reports;
        for endpoint in 0..self.controllers.len() {
            while self.controllers[endpoint].wake_at().is_some_and(|at| at <= now) {
                self.wakes = if self.wakes.0 == now { (now, self.wakes.1 + 1) } else { (now, 1) };
                if self.wakes.1 > WAKES {
                    self.ledgers[endpoint]
                        .violated(format!("it wants to be woken again and again at {now:?}"));
                    return;
                }
                self.controllers[endpoint].wake(now);
                self.obey(now, endpoint);
            }
        }
    }

    /// Whether it cannot go on: see [`advance`](Plant::advance).
    pub fn is_stuck(&self) -> bool {
        self.wakes.1 > WAKES
    }

    /// Reads that ended since this was last asked.
    pub fn answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// The account of one controller's bytes.
    pub fn ledger(&self, endpoint: usize) -> &Ledger {
        &self.ledgers[endpoint]
    }

    /// How many controllers there are.
    pub fn endpoints(&self) -> usize {
        self.controllers.len()
    }

    /// Most bytes that this controller said it holds.
    pub fn peak_held(&self, endpoint: usize) -> u64 {
        self.peak_held[endpoint]
    }

    /// Most gets that were in flight.
    pub fn peak_gets(&self) -> usize {
        self.peak_gets
    }

    /// Gets in flight, bytes there or on their way, and what controllers rest on, of all of them.
    pub fn state(&self) -> (usize, u64, Gauges) {
        let mut gauges = Gauges::default();
        for one in self.controllers.iter().map(|controller| controller.gauges()) {
            gauges.limit = one.limit.map(|limit| limit + gauges.limit.unwrap_or(0)).or(gauges.limit);
            gauges.windows = one.windows.map(|bytes| bytes + gauges.windows.unwrap_or(0)).or(gauges.windows);
        }
        (self.gets.len(), self.ledgers.iter().map(Ledger::held).sum(), gauges)
    }

    /// What this controller says it did.
    pub fn stats(&self, endpoint: usize) -> Stats {
        self.controllers[endpoint].stats()
    }

    fn report(&mut self, now: Duration, report: Report) {
        let key = (report.endpoint, report.fetch);
        // What was cancelled by what another report of this moment led to.
        let Some(flying) = self.gets.get_mut(&key) else { return };
        let controller = &mut self.controllers[report.endpoint];
        let ledger = &mut self.ledgers[report.endpoint];
        match report.progress {
            Progress::Bytes(bytes) => {
                let start = flying.range.start + flying.arrived;
                flying.arrived += bytes;
                ledger.arrived(flying.file, start..start + bytes);
                controller.arrived(now, report.fetch, bytes);
            }
            Progress::Finished => {
                self.gets.remove(&key);
                controller.finished(now, report.fetch);
            }
            Progress::Failed(how) => {
                ledger.ended(flying.range.end - flying.range.start - flying.arrived);
                self.gets.remove(&key);
                controller.failed(now, report.fetch, how);
            }
        }
        self.obey(now, report.endpoint);
    }

    /// Does what the controller asks for, until it asks for nothing.
    fn obey(&mut self, now: Duration, endpoint: usize) {
        // Bytes that go as others are asked for: the order inside one step does not matter to a peak.
        let mut fetches = Vec::new();
        while let Some(action) = self.controllers[endpoint].next() {
            match action {
                Action::Fetch { fetch, file, range, .. } => {
                    if range.is_empty() || self.gets.contains_key(&(endpoint, fetch)) {
                        self.ledgers[endpoint]
                            .violated(format!("{fetch:?} of {range:?} is empty or not new"));
                        continue;
                    }
                    let flying = Flying { file, range: range.clone(), arrived: 0 };
                    self.gets.insert((endpoint, fetch), flying);
                    fetches.push((fetch, range.end - range.start));
                    self.store.submit(now, Get { endpoint, fetch, file, range });
                }
                Action::Cancel { fetch } => {
                    let more = self.store.cancel(now, endpoint, fetch);
                    if let Some(flying) = self.gets.remove(&(endpoint, fetch)) {
                        let missing = flying.range.end - flying.range.start - flying.arrived;
                        self.ledgers[endpoint].fetched += more.min(missing);
                        match fetches.iter().position(|(sent, _)| *sent == fetch) {
                            Some(index) => drop(fetches.swap_remove(index)),
                            None => self.ledgers[endpoint].ended(missing),
                        }
                    }
                }
                Action::Answer { request } => {
                    self.answer(endpoint, request, true);
                    self.controllers[endpoint].taken(now, request);
                }
                Action::Fail { request } => self.answer(endpoint, request, false),
                Action::Release { file, range } => self.ledgers[endpoint].released(file, &range),
            }
        }
        for (_, bytes) in fetches {
            self.ledgers[endpoint].sent(bytes);
        }
        self.peak_gets = self.peak_gets.max(self.gets.len());
        let held = self.controllers[endpoint].held();
        self.peak_held[endpoint] = self.peak_held[endpoint].max(held);
    }

    fn answer(&mut self, endpoint: usize, request: RequestId, ok: bool) {
        // Reads of a handle that was closed may still be answered; nobody listens.
        let Some(asked) = self.requests.remove(&request) else { return };
        if ok {
            self.ledgers[endpoint].answered(asked.file, &asked.range);
        }
        self.answers.push(Answer { request, ok });
    }

    /// Reads that wait, by handle: none may when nothing can happen any more.
    pub fn waiting(&self) -> BTreeSet<HandleId> {
        self.requests.values().map(|asked| asked.handle).collect()
    }
}
