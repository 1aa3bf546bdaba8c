//! A model of an object store behind a network, for tests: each fetch waits for its first byte and then streams at its share of
//! what the network carries (max-min fair), at most at the rate of one connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::Endpoint;
use crate::backoff::Failure;
use crate::reading::FetchId;

/// SplitMix64; see `crate::backoff`.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Uniform, above 0 and below 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON
    }

    /// Uniform, from zero on.
    pub fn uniform_below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Log-normal with this median and sigma; a share `tail` of all is up to a hundred times longer (Pareto, index 1).
    pub fn latency(&mut self, median: f64, sigma: f64, tail: f64) -> f64 {
        let normal = (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos();
        let body = median * (sigma * normal).exp();
        if self.uniform() < tail { body * (3.0 / self.uniform()).min(100.0) } else { body }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    /// Bytes per second of all fetches, and of one.
    pub network: f64,
    pub connection: f64,
    /// Seconds to the first byte.
    pub latency: f64,
    pub sigma: f64,
    pub tail: f64,
    /// Bytes of a fetch.
    pub size: f64,
    /// Fetches the server works on at once: others queue before their latency begins.
    pub slots: usize,
    /// Fetches per second above which the server refuses.
    pub requests: f64,
    /// Nothing moves.
    pub stalled: bool,
}

impl World {
    pub fn new(latency_ms: f64, network_mb: f64, connection_mb: f64, size_mib: f64) -> World {
        World {
            network: network_mb * 1e6,
            connection: connection_mb * 1e6,
            latency: latency_ms / 1e3,
            sigma: 0.3,
            tail: 0.0,
            size: size_mib * 1_048_576.0,
            slots: usize::MAX,
            requests: f64::INFINITY,
            stalled: false,
        }
    }

    /// Fetches in flight that the network could carry if they came evenly.
    pub fn knee(&self) -> f64 {
        // The mean of a log-normal, and of the tail.
        let latency = self.latency * (self.sigma * self.sigma / 2.0).exp() * (1.0 + self.tail * 13.0);
        self.network * (latency + self.size / self.connection.min(self.network)) / self.size
    }
}

struct Moving {
    fetch: FetchId,
    /// When its first byte comes, or the bytes that are left of it.
    first_byte: f64,
    left: f64,
    unreported: f64,
    streaming: bool,
    refused: bool,
}

/// A closed loop: the endpoint's limit is always used up to `wanted`.
pub(super) struct Loop {
    pub endpoint: Endpoint,
    pub world: World,
    pub wanted: usize,
    pub hedging: bool,
    pub random: Random,
    pub now: f64,
    pub fetches: u64,
    pub hedges: u64,
    pub refusals: u64,
    /// Bytes, and the sum of `allowed`, in each tenth of a second; and the number of samples of the latter.
    pub tenths: Vec<(f64, f64, f64)>,
    moving: Vec<Moving>,
    waiting: VecDeque<Moving>,
    pairs: Vec<(FetchId, FetchId)>,
    next: u64,
    tokens: f64,
}

impl Loop {
    pub fn new(endpoint: Endpoint, world: World, seed: u64) -> Loop {
        Loop {
            endpoint,
            world,
            wanted: usize::MAX,
            hedging: false,
            random: Random::new(seed),
            now: 0.0,
            fetches: 0,
            hedges: 0,
            refusals: 0,
            tenths: Vec::new(),
            moving: Vec::new(),
            waiting: VecDeque::new(),
            pairs: Vec::new(),
            next: 0,
            tokens: 0.0,
        }
    }

    /// Share of what the network carries that arrived between two times, in seconds.
    pub fn used(&self, from: f64, to: f64) -> f64 {
        self.mean(from, to) / self.world.network
    }

    /// Bytes per second between two times, in seconds.
    pub fn mean(&self, from: f64, to: f64) -> f64 {
        self.slice(from, to).iter().map(|tenth| tenth.0).sum::<f64>() / (to - from)
    }

    /// The mean of `allowed` between two times, in seconds.
    pub fn level(&self, from: f64, to: f64) -> f64 {
        let slice = self.slice(from, to);
        slice.iter().map(|tenth| tenth.1).sum::<f64>()
            / slice.iter().map(|tenth| tenth.2).sum::<f64>().max(1.0)
    }

    pub fn slice(&self, from: f64, to: f64) -> &[(f64, f64, f64)] {
        let index = |time: f64| ((time * 10.0).round() as usize).min(self.tenths.len());
        &self.tenths[index(from)..index(to)]
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    fn tenth(&mut self) -> &mut (f64, f64, f64) {
        let index = (self.now * 10.0) as usize;
        if self.tenths.len() <= index {
            self.tenths.resize(index + 1, (0.0, 0.0, 0.0));
        }
        &mut self.tenths[index]
    }

    fn send(&mut self, hedge: bool) -> FetchId {
        let fetch = FetchId(self.next);
        self.next += 1;
        self.endpoint.started(self.time(), fetch, self.world.size as u64, hedge);
        let refused = self.tokens < 1.0 && self.world.requests.is_finite();
        self.tokens -= if refused { 0.0 } else { 1.0 };
        let left = self.world.size;
        let moving = Moving { fetch, first_byte: 0.0, left, unreported: 0.0, streaming: false, refused };
        self.waiting.push_back(moving);
        fetch
    }

    fn dispatch(&mut self) {
        while self.endpoint.in_flight() < self.endpoint.allowed().min(self.wanted) {
            self.fetches += 1;
            self.send(false);
        }
        while self.hedging
            && let Some(fetch) = self.endpoint.hedge(self.time())
        {
            self.hedges += 1;
            let second = self.send(true);
            self.pairs.push((fetch, second));
        }
        while self.moving.len() < self.world.slots
            && let Some(mut moving) = self.waiting.pop_front()
        {
            let world = self.world;
            moving.first_byte = self.now + self.random.latency(world.latency, world.sigma, world.tail);
            self.moving.push(moving);
        }
        let allowed = self.endpoint.allowed() as f64;
        let tenth = self.tenth();
        tenth.1 += allowed;
        tenth.2 += 1.0;
    }

    fn report(&mut self, index: usize) {
        let bytes = self.moving[index].unreported.round();
        self.moving[index].unreported -= bytes;
        let fetch = self.moving[index].fetch;
        self.tenth().0 += bytes;
        self.endpoint.progress(self.time(), fetch, bytes as u64);
    }

    /// Runs until `end`, in seconds.
    pub fn run(&mut self, end: f64) {
        let mut tick = self.now;
        while self.now < end {
            self.dispatch();
            let streaming = self.moving.iter().filter(|moving| moving.streaming).count().max(1) as f64;
            let rate = if self.world.stalled {
                0.0
            } else {
                self.world.connection.min(self.world.network / streaming)
            };
            let mut next = (tick + 0.002).min(end);
            for moving in &self.moving {
                next = next.min(if moving.streaming {
                    self.now + moving.left / rate.max(1e-9)
                } else {
                    moving.first_byte
                });
            }
            if self.world.stalled {
                next = (tick + 0.002).min(end);
            }
            let passed = (next - self.now).max(0.0);
            self.tokens = (self.tokens + self.world.requests.min(1e9) * passed)
                .min(self.world.requests.min(1e9) * 0.05);
            for moving in self.moving.iter_mut().filter(|moving| moving.streaming) {
                let bytes = (rate * passed).min(moving.left);
                moving.left -= bytes;
                moving.unreported += bytes;
            }
            self.now = next;
            if self.world.stalled {
                self.moving
                    .iter_mut()
                    .filter(|moving| !moving.streaming)
                    .for_each(|moving| moving.first_byte += passed);
            }
            let ticked = self.now >= tick + 0.002;
            if ticked {
                tick = self.now;
            }
            for index in (0..self.moving.len()).rev() {
                let moving = &mut self.moving[index];
                if !moving.streaming && moving.first_byte <= self.now && !self.world.stalled {
                    if moving.refused {
                        let fetch = self.moving.swap_remove(index).fetch;
                        self.refusals += 1;
                        self.endpoint.failed(self.time(), fetch, Failure::Throttled);
                        continue;
                    }
                    moving.streaming = true;
                    self.report(index);
                } else if moving.streaming && moving.left < 0.5 {
                    self.report(index);
                    let fetch = self.moving.swap_remove(index).fetch;
                    self.endpoint.finished(self.time(), fetch);
                    self.settle(fetch);
                    // Others may have moved: they are looked at in the next turn.
                    break;
                } else if moving.streaming && ticked {
                    self.report(index);
                }
            }
        }
    }

    /// The other one of a pair is not needed any more.
    fn settle(&mut self, fetch: FetchId) {
        let Some(at) = self.pairs.iter().position(|pair| pair.0 == fetch || pair.1 == fetch) else { return };
        let pair = self.pairs.swap_remove(at);
        let loser = if pair.0 == fetch { pair.1 } else { pair.0 };
        self.moving.retain(|moving| moving.fetch != loser);
        self.waiting.retain(|moving| moving.fetch != loser);
        self.endpoint.cancelled(self.time(), loser);
    }
}
