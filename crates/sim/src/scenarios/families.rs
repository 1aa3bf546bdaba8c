//! How each kind of situation draws its numbers.

use super::scenario::{Judged, Scenario};
use crate::drive::{MemoryStep, Pattern, ReaderSpec, Setup};
use crate::engine::Random;
use crate::models::network::RateStep;
use crate::models::s3::{Connections, Endpoint, Fault, FaultKind, FirstByte, LatencyStep, Throttle};
use headrace_flow::reading::Limits;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// A reader that takes whatever there is, bytes per second.
const FAST: u64 = 8_000_000_000;
/// Bounds of the limits' own, as the program has them.
const REQUEST_MAX: u64 = 8 * MIB;
const REQUESTS: usize = 256;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn judged(spans: &[(u64, u64)]) -> Vec<Judged> {
    spans.iter().map(|&(from, until)| Judged { from: secs(from), until: secs(until) }).collect()
}

/// What all have in common: an endpoint of drawn latency and connections behind one interface of drawn rate. No reader yet.
struct Ground {
    seed: u64,
    /// Bytes per second.
    network: f64,
    /// Seconds, at the slowest.
    latency: f64,
    endpoint: Endpoint,
}

impl Ground {
    fn new(seed: u64, random: &mut Random) -> Ground {
        let latency = random.log_uniform(0.001, 0.2);
        Ground::with_latency(seed, latency, random)
    }

    fn with_latency(seed: u64, latency: f64, random: &mut Random) -> Ground {
        let rate = [20_000_000, 90_000_000, 1_250_000_000][random.below(3) as usize];
        let mut endpoint = Endpoint::plain(latency, rate);
        endpoint.first_byte.sigma = random.uniform(0.1, 0.4);
        endpoint.connections = Connections { rate, factors: vec![0.8, 0.9, 1.0, 1.1] };
        Ground { seed, network: random.log_uniform(1e8, 1e9), latency, endpoint }
    }

    /// Bytes that are on their way if the network is full and fetches are not very large.
    fn in_flight(&self) -> f64 {
        self.network * (2.0 * self.latency + 2.0 * MIB as f64 / self.endpoint.connections.rate as f64)
    }

    /// Judged as a whole, even, with memory enough.
    fn scenario(self, readers: Vec<ReaderSpec>, spans: &[(u64, u64)]) -> Scenario {
        let streams = readers.len() as u64;
        let memory =
            (3 * self.in_flight() as u64).max(256 * MIB).max(4 * MIB * streams).next_multiple_of(MIB);
        let judged = judged(spans);
        let duration = judged.iter().map(|judged| judged.until).max().unwrap_or_default();
        Scenario {
            seed: self.seed,
            setup: Setup { readers, memory, memory_steps: Vec::new(), duration, contention: 0.0 },
            endpoints: vec![self.endpoint],
            interfaces: vec![self.network as u64],
            rate_steps: Vec::new(),
            limits: Limits { memory, request_max: REQUEST_MAX, requests: REQUESTS },
            judged,
            even: true,
        }
    }
}

/// Sequential readers as programs are: 128 KiB or 1 MiB at a time.
fn sequential(count: u64, random: &mut Random) -> Vec<ReaderSpec> {
    let request = [128 * KIB, MIB][random.below(2) as usize];
    (0..count).map(|number| ReaderSpec { request, ..ReaderSpec::sequential(number, FAST) }).collect()
}

fn small(readers: Vec<ReaderSpec>) -> Vec<ReaderSpec> {
    readers.into_iter().map(|reader| ReaderSpec { request: 128 * KIB, ..reader }).collect()
}

pub(super) fn one_stream(seed: u64, random: &mut Random) -> Scenario {
    let readers = sequential(1, random);
    Ground::new(seed, random).scenario(readers, &[(0, 8)])
}

pub(super) fn many_streams(seed: u64, random: &mut Random) -> Scenario {
    let count = random.log_uniform(2.0, 64.0) as u64;
    let readers = sequential(count, random);
    Ground::new(seed, random).scenario(readers, &[(0, 8)])
}

pub(super) fn rate_steps(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(8);
    let readers = small(sequential(count, random));
    let mut ground = Ground::new(seed, random);
    ground.network = ground.network.max(2e8);
    let mut scenario = ground.scenario(readers, &[(0, 5), (5, 10), (10, 15)]);
    scenario.rate_steps =
        [(0, 0.1), (5, 1.0), (10, 0.1)].map(|(at, factor)| RateStep { at: secs(at), factor }).to_vec();
    scenario
}

pub(super) fn latency_steps(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(8);
    let readers = sequential(count, random);
    let latency = random.log_uniform(0.001, 0.02);
    let mut ground = Ground::with_latency(seed, latency, random);
    ground.latency *= 10.0;
    ground.endpoint.latency_steps =
        [(5, 10.0), (10, 1.0)].map(|(at, factor)| LatencyStep { at: secs(at), factor }).to_vec();
    ground.scenario(readers, &[(0, 5), (5, 10), (10, 15)])
}

fn stall(seed: u64, random: &mut Random, length: u64) -> Scenario {
    let count = 1 + random.below(8);
    let readers = sequential(count, random);
    let resumed = 4 + length;
    let mut scenario = Ground::new(seed, random).scenario(readers, &[(0, 4), (resumed, resumed + 5)]);
    scenario.rate_steps =
        vec![RateStep { at: secs(4), factor: 0.0 }, RateStep { at: secs(resumed), factor: 1.0 }];
    scenario
}

pub(super) fn stall_short(seed: u64, random: &mut Random) -> Scenario {
    stall(seed, random, 5)
}

pub(super) fn stall_long(seed: u64, random: &mut Random) -> Scenario {
    stall(seed, random, 60)
}

fn faults(kinds: &[FaultKind], probability: f64, from: u64, until: u64) -> Vec<Fault> {
    kinds.iter().map(|&kind| Fault { from: secs(from), until: secs(until), probability, kind }).collect()
}

pub(super) fn refusals(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(8);
    let readers = sequential(count, random);
    let mut ground = Ground::new(seed, random);
    ground.endpoint.faults = faults(&[FaultKind::Refuse], random.uniform(0.5, 1.0), 4, 6);
    ground.scenario(readers, &[(0, 4), (6, 12)])
}

pub(super) fn throttled(seed: u64, random: &mut Random) -> Scenario {
    let readers = sequential(16, random);
    let mut ground = Ground::new(seed, random);
    let prefixes = 1 << random.below(4);
    // Enough for the whole network by fetches of half a mebibyte, and little at once.
    let rate = ground.network * 2.0 / MIB as f64 / prefixes as f64;
    ground.endpoint.throttle = Some(Throttle { rate, burst: (rate / 10.0).max(4.0), prefixes });
    ground.scenario(readers, &[(0, 8)])
}

pub(super) fn heavy_tail(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(16);
    let readers = sequential(count, random);
    let latency = random.log_uniform(0.005, 0.05);
    let mut ground = Ground::with_latency(seed, latency, random);
    ground.endpoint.first_byte = FirstByte {
        tail: random.uniform(0.002, 0.01),
        tail_from: latency * random.uniform(5.0, 10.0),
        tail_alpha: random.uniform(1.3, 2.0),
        ..ground.endpoint.first_byte
    };
    let mut scenario = ground.scenario(readers, &[(0, 10)]);
    scenario.even = false;
    scenario
}

pub(super) fn breaks(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(8);
    let readers = sequential(count, random);
    let mut ground = Ground::new(seed, random);
    ground.endpoint.faults = faults(&[FaultKind::Cut], random.uniform(0.02, 0.5), 4, 6);
    ground.scenario(readers, &[(0, 4), (6, 12)])
}

pub(super) fn hangs(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(16);
    let readers = sequential(count, random);
    let mut ground = Ground::new(seed, random);
    let kinds = [FaultKind::Silence(None), FaultKind::Stall(None)];
    ground.endpoint.faults = faults(&kinds, random.uniform(0.0005, 0.003), 0, 100);
    let mut scenario = ground.scenario(readers, &[(0, 10)]);
    scenario.even = false;
    scenario
}

pub(super) fn come_and_go(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = small(sequential(256, random));
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.start = secs(match number {
            0 => 0,
            1..16 => 4,
            _ => 8,
        });
        reader.stop = (number >= 4).then_some(secs(13));
    }
    Ground::new(seed, random).scenario(readers, &[(0, 4), (4, 8), (8, 13), (13, 17)])
}

pub(super) fn slow_reader(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = small(sequential(1, random));
    let ground = Ground::new(seed, random);
    readers[0].copy_rate = (ground.network * random.log_uniform(0.02, 0.3)) as u64;
    ground.scenario(readers, &[(0, 8)])
}

pub(super) fn slow_and_fast(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = small(sequential(4, random));
    let ground = Ground::new(seed, random);
    readers[0].copy_rate = (ground.network * random.log_uniform(0.01, 0.1)) as u64;
    ground.scenario(readers, &[(0, 8)])
}

pub(super) fn bursty_reader(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = small(sequential(1, random));
    let ground = Ground::new(seed, random);
    let burst = random.log_uniform(4.0, 32.0) as u64 * MIB;
    readers[0].pattern = Pattern::Bursty(burst, Duration::from_secs_f64(random.uniform(0.05, 0.4)));
    // No faster than the network: what it takes while it reads can be fetched while it reads.
    readers[0].copy_rate = (ground.network * random.uniform(0.3, 0.9)) as u64;
    let mut scenario = ground.scenario(readers, &[(0, 10)]);
    scenario.even = false;
    scenario
}

pub(super) fn slow_endpoint(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = sequential(6, random);
    let ground = Ground::new(seed, random);
    let network = ground.network;
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.endpoint = number % 3;
        // Two endpoints have one interface; it carries all their readers can take.
        reader.copy_rate = (network * 0.2) as u64;
    }
    let fast = ground.endpoint.clone();
    let mut slow = fast.clone();
    slow.first_byte.median = (slow.first_byte.median * 5.0).min(0.3);
    slow.interface = Some(1);
    let mut scenario = ground.scenario(readers, &[(0, 8)]);
    let fast = Endpoint { interface: Some(0), ..fast };
    scenario.endpoints = vec![fast.clone(), fast, slow];
    scenario.interfaces = vec![network as u64, (network * random.uniform(0.02, 0.1)) as u64];
    scenario
}

pub(super) fn memory_halved(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(16);
    let readers = sequential(count, random);
    let mut scenario = Ground::new(seed, random).scenario(readers, &[(0, 5), (5, 10)]);
    scenario.setup.memory_steps = vec![MemoryStep { at: secs(5), memory: scenario.limits.memory / 2 }];
    scenario
}

pub(super) fn random_readers(seed: u64, random: &mut Random) -> Scenario {
    let request = (32 * KIB) << random.below(6);
    random_scenario(seed, random, request)
}

pub(super) fn random_small(seed: u64, random: &mut Random) -> Scenario {
    let request = (4 * KIB) << random.below(3);
    random_scenario(seed, random, request)
}

fn random_scenario(seed: u64, random: &mut Random, request: u64) -> Scenario {
    let count = random.log_uniform(1.0, 64.0) as u64;
    let readers =
        sequential(count, random).into_iter().map(|reader| random_reader(reader, request)).collect();
    let mut scenario = Ground::new(seed, random).scenario(readers, &[(0, 10)]);
    scenario.even = false;
    scenario
}

fn random_reader(reader: ReaderSpec, request: u64) -> ReaderSpec {
    ReaderSpec { pattern: Pattern::Random, request, len: 1 << 40, ..reader }
}

pub(super) fn strided(seed: u64, random: &mut Random) -> Scenario {
    let count = 1 + random.below(4);
    let request = (64 * KIB) << random.below(5);
    let stride = request * (2 + random.below(15));
    let mut readers = sequential(count, random);
    for reader in &mut readers {
        (reader.request, reader.pattern) = (request, Pattern::Strided(stride));
    }
    let mut ground = Ground::new(seed, random);
    // What 256 fetches at a time can carry is known to the oracle by large fetches only; here they are as small as the requests.
    let one = ground.latency * 1.2 + request as f64 / ground.endpoint.connections.rate as f64;
    ground.network = ground.network.min(0.5 * REQUESTS as f64 * request as f64 / one);
    let mut scenario = ground.scenario(readers, &[(0, 8)]);
    scenario.even = false;
    scenario
}

pub(super) fn interleaved(seed: u64, random: &mut Random) -> Scenario {
    let places = 2 + random.below(15);
    let mut readers = sequential(1, random);
    readers[0].pattern = Pattern::Interleaved(places);
    let ground = Ground::new(seed, random);
    // Nobody knows a place for one that is read on before it was read twice, each time for a whole latency.
    let found = (2.0 * places as f64 * ground.latency * 1.1).ceil() as u64;
    ground.scenario(readers, &[(found, found + 8)])
}

pub(super) fn random_beside(seed: u64, random: &mut Random) -> Scenario {
    let mut readers = sequential(9, random);
    for reader in &mut readers[1..] {
        *reader = random_reader(reader.clone(), 4 * KIB);
    }
    let mut scenario = Ground::new(seed, random).scenario(readers, &[(0, 8)]);
    scenario.even = false;
    scenario
}
