//! A service like S3: every GET has a first-byte latency of its own, every connection a rate of its own, and all share the
//! interfaces of the machine that asks.
//!
//! - First byte: a log-normal body and a Pareto tail ([`FirstByte`]).
//! - Rate: [`Connections::rate`], times a factor that differs from connection to connection.
//! - Throttling: a token bucket per prefix; who finds it empty is answered 503 ([`Throttle`]).
//! - Faults: in given windows a GET may stall, be reset, be cut short or be refused ([`Fault`]).
//! - A GET without progress for [`Endpoint::idle_timeout`] fails, as the client of a real store would have it.

mod config;
mod get;
#[cfg(test)]
mod tests;

pub use config::{Connections, Endpoint, Fault, FaultKind, FirstByte, LatencyStep, Throttle};

use crate::engine::random::seconds;
use crate::engine::{Queue, Random};
use crate::models::network::{Network, RateStep, TransferId};
use crate::models::store::{Get, Progress, Report, Store};
use get::{Break, Moving, State};
use headrace_flow::backoff::Failure;
use headrace_flow::reading::FetchId;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What comes with the first byte: about the first window of a TCP connection.
const FIRST_PIECE: u64 = 16 << 10;

/// One or more endpoints behind the interfaces of one machine.
#[derive(Debug)]
pub struct Service {
    endpoints: Vec<EndpointState>,
    network: Network,
    /// Bytes between two reports of a GET that moves.
    piece: u64,
    events: Queue<Event>,
    gets: HashMap<TransferId, State>,
    names: HashMap<(usize, FetchId), TransferId>,
    next: TransferId,
    served: Vec<TransferId>,
}

#[derive(Debug)]
struct EndpointState {
    config: Endpoint,
    random: Random,
    buckets: BTreeMap<u64, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    FirstByte(TransferId),
    Refused(TransferId),
    /// A stall ends.
    Resume(TransferId),
    /// See whether the GET is idle for too long.
    Idle(TransferId),
}

impl Service {
    /// Endpoints behind interfaces of these rates (bytes per second). A GET that moves is reported every `piece` bytes.
    pub fn new(
        endpoints: Vec<Endpoint>,
        interfaces: &[u64],
        steps: &[RateStep],
        piece: u64,
        seed: u64,
    ) -> Service {
        let mut random = Random::new(seed);
        let endpoints = endpoints
            .into_iter()
            .enumerate()
            .map(|(index, config)| EndpointState {
                config,
                random: random.fork(index as u64),
                buckets: BTreeMap::new(),
            })
            .collect();
        Service {
            endpoints,
            network: Network::new(interfaces, steps),
            piece: piece.max(1),
            events: Queue::new(),
            gets: HashMap::new(),
            names: HashMap::new(),
            next: 0,
            served: Vec::new(),
        }
    }

    /// GETs that are neither finished nor failed.
    pub fn in_flight(&self) -> usize {
        self.gets.len()
    }

    /// The transfer of this GET has what it waited for: the next piece, a fault, or the end.
    fn piece_arrived(&mut self, now: Duration, id: TransferId, reports: &mut Vec<Report>) {
        let Some(state) = self.gets.get_mut(&id) else {
            self.network.stop(now, id);
            return;
        };
        let bytes = state.piece_arrived(now);
        if bytes > 0 {
            reports.push(state.report(Progress::Bytes(bytes)));
        }
        if state.remaining() == 0 {
            let report = state.report(Progress::Finished);
            self.network.stop(now, id);
            self.forget(id);
            reports.push(report);
            return;
        }
        match state.break_here() {
            None => self.network.again(id, state.next_piece(self.piece)),
            Some(Break::Cut) => {
                let report = state.report(Progress::Failed(Failure::Transient));
                self.network.stop(now, id);
                self.forget(id);
                reports.push(report);
            }
            Some(Break::Stall(length)) => {
                self.network.stop(now, id);
                state.moving = Moving::No;
                if let Some(length) = length {
                    self.events.schedule(now.saturating_add(length), Event::Resume(id));
                }
            }
        }
    }

    fn begin_moving(&mut self, now: Duration, id: TransferId, first: bool) {
        let Some(state) = self.gets.get_mut(&id) else { return };
        let piece = state.next_piece(if first { FIRST_PIECE } else { self.piece });
        state.moving = Moving::Yes;
        let any = (id % self.network.interfaces() as u64) as usize;
        let nic = self.endpoints[state.endpoint].config.interface.unwrap_or(any);
        // A GET that breaks before its first byte waits for nothing, and so breaks at once.
        self.network.start(now, id, nic, state.rate, piece);
    }

    fn idle(&mut self, now: Duration, id: TransferId, reports: &mut Vec<Report>) {
        let Some(state) = self.gets.get(&id) else { return };
        let timeout = self.endpoints[state.endpoint].config.idle_timeout;
        let due = state.last_progress.saturating_add(timeout);
        if due > now {
            self.events.schedule(due, Event::Idle(id));
            return;
        }
        reports.push(state.report(Progress::Failed(Failure::Transient)));
        self.network.stop(now, id);
        self.forget(id);
    }

    fn forget(&mut self, id: TransferId) {
        if let Some(state) = self.gets.remove(&id) {
            self.names.remove(&(state.endpoint, state.fetch));
        }
    }

    fn event(&mut self, now: Duration, event: Event, reports: &mut Vec<Report>) {
        match event {
            Event::FirstByte(id) => self.begin_moving(now, id, true),
            Event::Resume(id) => self.begin_moving(now, id, false),
            Event::Idle(id) => self.idle(now, id, reports),
            Event::Refused(id) => {
                if let Some(state) = self.gets.get(&id) {
                    reports.push(state.report(Progress::Failed(Failure::Throttled)));
                    self.forget(id);
                }
            }
        }
    }
}

impl Store for Service {
    fn submit(&mut self, now: Duration, get: Get) {
        let id = self.next;
        self.next += 1;
        let index = get.endpoint;
        let Some(endpoint) = self.endpoints.get_mut(index) else { return };
        let length = get.range.end.saturating_sub(get.range.start);
        let admission = endpoint.admit(now, get.file.0, length);
        self.names.insert((index, get.fetch), id);
        let mut state = State::new(&get, now, length, endpoint.rate());
        self.events.schedule(now.saturating_add(endpoint.config.idle_timeout), Event::Idle(id));
        match admission {
            Admission::Refused(after) => self.events.schedule(now.saturating_add(after), Event::Refused(id)),
            Admission::Served(after, fault) => {
                state.fault = fault;
                self.events.schedule(now.saturating_add(after), Event::FirstByte(id));
            }
        }
        self.gets.insert(id, state);
    }

    fn cancel(&mut self, now: Duration, endpoint: usize, fetch: FetchId) -> u64 {
        let Some(&id) = self.names.get(&(endpoint, fetch)) else { return 0 };
        let moving = self.gets.get(&id).is_some_and(|state| matches!(state.moving, Moving::Yes));
        self.forget(id);
        if moving { self.network.stop(now, id) } else { 0 }
    }

    fn next_at(&self) -> Option<Duration> {
        match (self.events.next_at(), self.network.next_at()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Duration, reports: &mut Vec<Report>) {
        while let Some(at) = self.next_at().filter(|&at| at <= now) {
            let mut served = std::mem::take(&mut self.served);
            self.network.advance(at, &mut served);
            for id in served.drain(..) {
                self.piece_arrived(at, id, reports);
            }
            self.served = served;
            while let Some(event) = self.events.pop_due(at) {
                self.event(at, event, reports);
            }
        }
    }
}

enum Admission {
    /// 503 after so long.
    Refused(Duration),
    /// The first byte after so long, and what goes wrong at which byte.
    Served(Duration, Option<(u64, Break)>),
}

impl EndpointState {
    fn admit(&mut self, now: Duration, file: u64, length: u64) -> Admission {
        let config = &self.config;
        let slower = config.latency_factor(now);
        let least = seconds(config.first_byte.least() * slower);
        if let Some(throttle) = config.throttle {
            let bucket = self
                .buckets
                .entry(file % throttle.prefixes.max(1))
                .or_insert(Bucket { tokens: throttle.burst, filled: Duration::ZERO });
            let elapsed = now.saturating_sub(bucket.filled).as_secs_f64();
            bucket.tokens = (bucket.tokens + elapsed * throttle.rate).min(throttle.burst);
            bucket.filled = now;
            if bucket.tokens < 1.0 {
                return Admission::Refused(least);
            }
            bucket.tokens -= 1.0;
        }
        let after = seconds(config.first_byte.draw(&mut self.random) * slower);
        let mut broken = None;
        for fault in &config.faults {
            if !(fault.from..fault.until).contains(&now) || !self.random.chance(fault.probability) {
                continue;
            }
            match fault.kind {
                FaultKind::Refuse => return Admission::Refused(least),
                FaultKind::Silence(length) => broken = Some((0, Break::Stall(length))),
                FaultKind::Stall(stall) => broken = Some((self.random.below(length), Break::Stall(stall))),
                FaultKind::Cut => broken = Some((self.random.below(length), Break::Cut)),
            }
        }
        Admission::Served(after, broken)
    }

    fn rate(&mut self) -> u64 {
        let factors = &self.config.connections.factors;
        let factor = match factors.len() as u64 {
            0 => 1.0,
            count => factors[self.random.below(count) as usize],
        };
        (self.config.connections.rate as f64 * factor).max(1.0) as u64
    }
}
