//! What is learned of one endpoint (an object store, or one address of it) from the fetches sent to it, and what follows
//! from that: how many may be in flight, how fast it delivers, and when a fetch is late enough to be sent a second time.
//!
//! [`Endpoint`] is told what happens to each fetch and answers; it never asks for anything itself.

pub mod bandwidth;
#[cfg(test)]
mod closed_loop;
pub mod hedge;
mod known;
#[cfg(test)]
mod known_tests;
pub mod latency;
pub mod limit;
#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bandwidth::Bandwidth;
use hedge::Hedge;
pub use known::Known;
use latency::LeastLatency;
use limit::{Finished, Limit};

use crate::backoff::Failure;
use crate::reading::FetchId;

/// Fetches that are followed at most: what is beyond (a mistake of the caller) is ignored, so that memory is bounded.
const FOLLOWED: usize = 1 << 16;

/// With nothing in flight for longer than this, the readers pause; shorter gaps are part of fetching one at a time.
const IDLE: Duration = Duration::from_millis(10);

/// The constants of an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// How many may be in flight.
    pub limit: limit::Tuning,
    /// Second attempts.
    pub hedge: hedge::Tuning,
    /// Delivery rate.
    pub bandwidth: bandwidth::Tuning,
    /// How long the least latency is remembered.
    pub latency_window: Duration,
    /// The same for how large fetches are to be: a latency of before a change makes them far too small or too large.
    pub transfer_window: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            limit: limit::Tuning::default(),
            hedge: hedge::Tuning::default(),
            bandwidth: bandwidth::Tuning::default(),
            latency_window: Duration::from_secs(3),
            transfer_window: Duration::from_millis(1_500),
        }
    }
}

/// A fetch in flight.
#[derive(Debug, Clone, Copy)]
struct Flight {
    fetch: FetchId,
    started: Duration,
    first_byte: Option<Duration>,
    /// When it was sent or its newest bytes arrived.
    last: Duration,
    bytes: u64,
    /// Bytes that were asked for.
    asked: u64,
    /// It is a second attempt, or has one.
    paired: bool,
}

/// How late a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// When it was sent or the newest of its bytes came.
    pub last: Duration,
    /// Nearly all fetches do not let wait longer than this.
    pub patience: Duration,
}

/// Everything that is known of one endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    limit: Limit,
    hedge: Hedge,
    bandwidth: Bandwidth,
    least: LeastLatency,
    least_of_late: LeastLatency,
    /// By name.
    flights: Vec<Flight>,
    /// Of those, whose first byte is there.
    streaming: usize,
    /// Bytes that those in flight were asked for.
    asked: u64,
    /// Mean size of fetches lately, bytes.
    size: Option<f64>,
    /// Of the newest fetches, bytes.
    sizes: [u64; 16],
    /// No fetch is due for a second attempt before.
    hedge_at: Option<Duration>,
    /// When the newest bytes arrived.
    newest: Duration,
    /// What was known another time, until it is believed.
    recalled: Option<Known>,
}

impl Endpoint {
    /// Nothing is known yet. Never more than `most` fetches (at least 1) will be allowed.
    pub fn new(tuning: Tuning, most: usize) -> Endpoint {
        Endpoint {
            limit: Limit::new(tuning.limit, most),
            hedge: Hedge::new(tuning.hedge),
            bandwidth: Bandwidth::new(tuning.bandwidth),
            least: LeastLatency::new(tuning.latency_window),
            least_of_late: LeastLatency::new(tuning.transfer_window),
            flights: Vec::with_capacity(most.min(1024)),
            streaming: 0,
            asked: 0,
            size: None,
            sizes: [0; 16],
            hedge_at: None,
            newest: Duration::ZERO,
            recalled: None,
        }
    }

    /// So many streams (readers that are fetched ahead for) share it: at least two fetches are allowed when there are two.
    pub fn streams(&mut self, count: usize) {
        self.limit.set_least(count.clamp(1, 2));
    }

    /// So many readers are fetched ahead for: where nothing is known, one fetch for each may be in flight. See [`Limit::readers`].
    /// What is known of another time says better how many are needed, as soon as a first fetch has come.
    pub fn readers(&mut self, now: Duration, readers: u64) {
        if self.recalled.is_none() {
            self.limit.readers(now, readers);
        }
    }

    /// `fetch`, of `bytes` bytes, is sent. `hedge`: it is the second attempt of another one.
    ///
    /// Call it for every fetch, also beyond what is [`allowed`](Endpoint::allowed): hedges and urgent ones may go beyond it.
    pub fn started(&mut self, now: Duration, fetch: FetchId, bytes: u64, hedge: bool) {
        let at = self.flights.partition_point(|flight| flight.fetch < fetch);
        if self.flights.len() >= FOLLOWED || self.flights.get(at).is_some_and(|flight| flight.fetch == fetch)
        {
            return;
        }
        if self.flights.is_empty() && now.saturating_sub(self.newest) > IDLE {
            self.bandwidth.resumed(now);
        }
        let flight = Flight {
            fetch,
            started: now,
            first_byte: None,
            last: now,
            bytes: 0,
            asked: bytes,
            paired: hedge,
        };
        self.asked = self.asked.saturating_add(bytes);
        self.flights.insert(at, flight);
        self.limit.started(now);
        let size = self.size.map_or(bytes as f64, |size| size + (bytes as f64 - size) / 16.0);
        self.size = Some(size);
        self.limit.averaged(now, size.max(1.0));
        self.sizes.rotate_right(1);
        self.sizes[0] = bytes;
        // Where small and large ones are mixed, nothing has changed.
        self.limit.sized(now, self.sizes.iter().min().map_or(0.0, |least| *least as f64));
        if !hedge {
            self.hedge.started();
            let due = self.hedge.due(now, false);
            self.hedge_at = Some(self.hedge_at.map_or(due, |at| at.min(due)));
        }
    }

    /// So many more bytes of `fetch` arrived. The first call for a fetch (zero bytes will do) is its first byte. True if what was
    /// [recalled](Endpoint::recall) is believed from now on.
    pub fn progress(&mut self, now: Duration, fetch: FetchId, bytes: u64) -> bool {
        let Some(flight) = self.position(fetch).and_then(|at| self.flights.get_mut(at)) else { return false };
        flight.bytes = flight.bytes.saturating_add(bytes);
        let since_last = now.saturating_sub(flight.last);
        flight.last = flight.last.max(now);
        if flight.first_byte.is_none() {
            let latency = now.saturating_sub(flight.started);
            flight.first_byte = Some(latency);
            self.streaming += 1;
            self.limit.streaming(now, self.streaming);
            self.limit.answered(flight.started, latency);
            self.least.record(now, latency);
            self.least_of_late.record(now, latency);
            self.hedge.answered(latency);
        } else if bytes > 0 {
            self.hedge.paused(since_last);
        }
        self.newest = self.newest.max(now);
        if self.limit.was_silent(now) {
            // What little came in that time is no rate at which anybody should send.
            self.bandwidth.resumed(now);
        }
        let (in_flight, allowed) = (self.limit.in_flight(), self.limit.allowed());
        let limited = in_flight.saturating_add(allowed / 8 + 1) < allowed || self.limit.is_cut();
        self.bandwidth.delivered(now, bytes, self.limit.duration(), limited);
        let flight = *flight;
        self.limit.could(self.bandwidth(), self.size);
        self.limit.flying(self.asked as f64 / self.flights.len().max(1) as f64);
        let believed = self.believe(now, &flight);
        self.limit.delivered(now, bytes);
        self.brought(now);
        believed
    }

    /// `fetch` is complete. Its bytes were reported by [`progress`](Endpoint::progress).
    pub fn finished(&mut self, now: Duration, fetch: FetchId) {
        let Some(flight) = self.take(now, fetch) else { return };
        let duration = now.saturating_sub(flight.started);
        let finished = Finished {
            started: flight.started,
            bytes: flight.bytes,
            latency: flight.first_byte.unwrap_or(duration),
            duration,
        };
        self.limit.finished(now, &finished);
        self.brought(now);
    }

    /// What fetches brought while they came is what can be delivered, though they had waited for most of the time.
    fn brought(&mut self, now: Duration) {
        if let Some(rate) = self.limit.take_burst() {
            self.bandwidth.measured(now, rate, true);
        }
    }

    /// `fetch` failed and is no longer in flight.
    pub fn failed(&mut self, now: Duration, fetch: FetchId, how: Failure) {
        if let Some(flight) = self.take(now, fetch) {
            self.limit.failed(now, flight.started, how);
        }
    }

    /// `fetch` was given up by us (the reader went elsewhere, or the other one of a hedged pair has won).
    pub fn cancelled(&mut self, now: Duration, fetch: FetchId) {
        let Some(flight) = self.take(now, fetch) else { return };
        let waited = now.saturating_sub(flight.started);
        if flight.first_byte.is_none() && waited >= self.hedge.late() {
            self.hedge.answered(waited);
        }
        self.limit.cancelled(now);
    }

    /// `fetch` was given up because nothing came of it: it says nothing of how long others take.
    pub fn abandoned(&mut self, now: Duration, fetch: FetchId) {
        if self.take(now, fetch).is_some() {
            self.limit.cancelled(now);
        }
    }

    /// How many fetches may be in flight now: more may be started while [`in_flight`](Endpoint::in_flight) is below it.
    ///
    /// It grows only while it is used: start fetches up to it, at once, whenever there is something worth fetching. (When
    /// `in_flight` stays below it for some time, the readers are the limit, and nothing is learned about the endpoint's.)
    pub fn allowed(&self) -> usize {
        self.limit.allowed()
    }

    /// Whether the processors of this machine are the limit from now on.
    pub fn processors(&mut self, busy: bool) {
        self.limit.processors(busy);
    }

    /// Whether it is being searched how many fetches are needed: what is sent then is to be in flight at once.
    pub fn searches(&self) -> bool {
        self.limit.searches()
    }

    /// Whether no round of fetches was judged yet: what is allowed is what was known, or what the first ones told.
    pub fn is_untried(&self) -> bool {
        self.limit.is_untried()
    }

    /// How many fetches are in flight.
    pub fn in_flight(&self) -> usize {
        self.limit.in_flight()
    }

    /// Bytes per second that the endpoint delivered lately at best (all fetches together); `None` before anything arrived.
    ///
    /// While the readers are the limit this is what they wanted, not what the endpoint can do: give windows a gain above it.
    pub fn bandwidth(&self) -> Option<u64> {
        self.bandwidth.get()
    }

    /// The least time from sending a fetch to its first byte, over the last three seconds or so.
    pub fn latency_least(&self) -> Option<Duration> {
        self.least.get()
    }

    /// The usual (median) time from sending a fetch to its first byte.
    pub fn latency(&self) -> Option<Duration> {
        self.hedge.median()
    }

    /// How long a fetch of `bytes` takes from being sent to its last byte while the endpoint is not loaded.
    pub fn duration(&self, bytes: u64) -> Option<Duration> {
        let (latency, per_byte) = self.limit.unloaded()?;
        Duration::try_from_secs_f64(latency + per_byte * bytes as f64).ok()
    }

    /// How long fetches took lately.
    pub fn lately(&self) -> Duration {
        self.limit.duration()
    }

    /// Bytes of a fetch lately, on average; `None` before the first.
    pub fn size(&self) -> Option<u64> {
        self.size.map(|size| size as u64)
    }

    /// Bytes per second that one fetch of `bytes` after the other would bring at best; for [`crate::order::Probe`].
    pub fn alone(&self, bytes: u64) -> Option<u64> {
        let seconds = self.one_after_the_other(bytes, self.latency_least()?)?;
        Some((bytes as f64 / seconds.max(1e-6)) as u64)
    }

    /// How long it takes until a fetch of `bytes` brings any, and bytes per second from then on, while the endpoint is not loaded.
    pub fn transfer(&self, bytes: u64) -> Option<(Duration, f64)> {
        let latency = self.least_of_late.get()?;
        let whole = self.one_after_the_other(bytes, latency)?.max(1e-6);
        let transfer = (whole - latency.as_secs_f64()).max(whole / 1e3);
        Some((latency, bytes as f64 / transfer))
    }

    /// Seconds of one fetch.
    fn one_after_the_other(&self, bytes: u64, latency: Duration) -> Option<f64> {
        let (_, per_byte) = self.limit.unloaded()?;
        Some(latency.as_secs_f64() + per_byte * bytes as f64)
    }

    /// When `fetch` is late enough to be sent a second time, if nothing arrives until then; `None` if it is not to be
    /// hedged (it is a hedge, it has one, or it is not in flight).
    pub fn hedge_due(&self, fetch: FetchId) -> Option<Duration> {
        let flight = self.position(fetch).and_then(|at| self.flights.get(at))?;
        self.due(flight)
    }

    /// When to call [`hedge`](Endpoint::hedge) next: no fetch is due before. It may turn out that none is then.
    pub fn hedge_at(&self) -> Option<Duration> {
        self.hedge_at.filter(|_| self.hedge.affordable())
    }

    /// A fetch that is due at `now` and that the budget allows to be sent a second time; ask until `None`. The caller sends
    /// the second one now and reports it with [`started`](Endpoint::started); each fetch is named once.
    pub fn hedge(&mut self, now: Duration) -> Option<FetchId> {
        if self.hedge_at()? > now {
            return None;
        }
        let found = self.flights.iter().position(|flight| self.due(flight).is_some_and(|due| due <= now));
        match found.and_then(|at| self.flights.get_mut(at)) {
            Some(flight) if self.hedge.take() => {
                flight.paired = true;
                Some(flight.fetch)
            }
            _ => {
                self.hedge_at = self.flights.iter().filter_map(|flight| self.due(flight)).min();
                None
            }
        }
    }

    /// Since when nothing has come of `fetch`, and how long is late there.
    pub fn late(&self, fetch: FetchId) -> Option<Late> {
        let flight = self.position(fetch).and_then(|at| self.flights.get(at))?;
        let due = self.hedge.due(flight.last, flight.first_byte.is_some());
        Some(Late { last: flight.last, patience: due.saturating_sub(flight.last) })
    }

    fn due(&self, flight: &Flight) -> Option<Duration> {
        (!flight.paired).then(|| self.hedge.due(flight.last, flight.first_byte.is_some()))
    }

    fn position(&self, fetch: FetchId) -> Option<usize> {
        self.flights.binary_search_by_key(&fetch, |flight| flight.fetch).ok()
    }

    fn take(&mut self, now: Duration, fetch: FetchId) -> Option<Flight> {
        let flight = self.position(fetch).map(|at| self.flights.remove(at))?;
        self.asked = self.asked.saturating_sub(flight.asked);
        if flight.first_byte.is_some() {
            self.streaming -= 1;
            self.limit.streaming(now, self.streaming);
        }
        Some(flight)
    }
}
