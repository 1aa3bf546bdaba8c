//! Kinds of situation, each drawn from a seed.

use super::backend::Spec;
use super::judge::Scenario;
use super::run::{Flush, Setup, Writer};
use crate::engine::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MIB_S: f64 = (1 << 20) as f64;

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// What it is called.
    pub name: &'static str,
    /// Whether parts are so small, and rates so high, that 0.25 s of what the store takes is more than two parts.
    pub short: bool,
    /// Whether the time from acceptance to acknowledgement is even by nature.
    pub even: bool,
    /// Whether all writers ask for as much as they can get.
    pub fair: bool,
    make: fn(&mut Random, u64) -> Scenario,
}

impl Family {
    /// The situation of a seed.
    pub fn draw(&self, seed: u64) -> Scenario {
        (self.make)(&mut Random::new(seed ^ 0x57_72_69_74_65), seed)
    }
}

const fn family(name: &'static str, make: fn(&mut Random, u64) -> Scenario) -> Family {
    Family { name, short: true, even: true, fair: true, make }
}

/// All of them.
pub const FAMILIES: &[Family] = &[
    family("steady", steady),
    family("step-up", |random, seed| step(random, seed, 10.0)),
    family("step-down", |random, seed| step(random, seed, 0.1)),
    family("stall-5s", |random, seed| stall(random, seed, 5.0)),
    family("stall-60s", |random, seed| stall(random, seed, 60.0)),
    family("refusals", refusals),
    Family { even: false, ..family("mixed-sizes", mixed) },
    // Who gives up loses his turn.
    Family { even: false, fair: false, ..family("replays", replays) },
    family("flush-sweep", flush_sweep),
    family("memory-halved", memory_halved),
    Family { short: false, even: false, ..family("large-parts", large_parts) },
    Family { short: false, even: false, ..family("shared-link", shared_link) },
];

/// One to eight writers of a MiB at a time.
fn base(random: &mut Random, seed: u64, rate: f64) -> Scenario {
    let writers = 1 + random.below(8);
    let setup = Setup {
        writers: (0..writers).map(|_| Writer::greedy(MIB)).collect(),
        backend: Spec { latency: random.uniform(0.0005, 0.02), ..Spec::steady(rate) },
        part: MIB,
        memory: 1 << 30,
        memory_steps: Vec::new(),
        flush: Flush { every: random.log_uniform(0.1, 2.0), takes: random.log_uniform(0.005, 0.1) },
        replay: 0.0,
        hedge: 0.0,
        duration: 12.0,
        seed,
    };
    Scenario { setup, judged: vec![(0.0, 12.0)], possible: f64::INFINITY }
}

fn steady(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(50.0, 1500.0) * MIB_S;
    base(random, seed, rate)
}

fn step(random: &mut Random, seed: u64, factor: f64) -> Scenario {
    let slow = random.log_uniform(50.0, 150.0) * MIB_S;
    let rate = if factor > 1.0 { slow } else { slow / factor };
    let mut scenario = base(random, seed, rate);
    scenario.setup.backend.rates.push((8.0, rate * factor));
    scenario.setup.duration = 20.0;
    // What a faster store had in flight takes a slower one two seconds, and so long its old rate is believed.
    scenario.judged = vec![(0.0, 8.0), (if factor > 1.0 { 8.0 } else { 11.0 }, 20.0)];
    scenario
}

fn stall(random: &mut Random, seed: u64, length: f64) -> Scenario {
    let rate = random.log_uniform(70.0, 700.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    let over = 6.0 + length;
    scenario.setup.backend.rates.extend([(6.0, 0.0), (over, rate)]);
    scenario.setup.duration = over + 6.0;
    scenario.judged = vec![(0.0, 6.0), (over, over + 6.0)];
    scenario
}

/// Bursts of 503: half of all parts for two seconds, nine of ten for one.
fn refusals(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(70.0, 700.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    scenario.setup.backend.refusals = vec![(5.0, 7.0, 0.5), (8.0, 9.0, 0.9)];
    scenario.setup.duration = 18.0;
    // The last retries come five seconds after a burst.
    scenario.judged = vec![(0.0, 5.0), (12.0, 18.0)];
    scenario
}

/// Writers of 4 KiB beside writers of 16 MiB.
fn mixed(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(200.0, 600.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    let (small, large) = (1 + random.below(4), 1 + random.below(4));
    let greedy = |count, size| (0..count).map(move |_| Writer::greedy(size));
    scenario.setup.writers = greedy(small, 4 * KIB).chain(greedy(large, 16 * MIB)).collect();
    scenario.setup.duration = 6.0;
    scenario.judged = vec![(0.0, 6.0)];
    scenario
}

/// Acknowledgements that come twice, parts that are sent twice, writers that give up and ask again.
fn replays(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(70.0, 700.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    scenario.setup.replay = random.uniform(0.05, 0.5);
    scenario.setup.hedge = random.uniform(0.02, 0.2);
    for writer in scenario.setup.writers.iter_mut().step_by(2) {
        writer.patience = random.log_uniform(0.005, 0.05);
    }
    // What is sent twice is work done twice.
    scenario.possible = rate / (1.0 + scenario.setup.hedge);
    scenario
}

/// From a twentieth of a second to ten.
fn flush_sweep(random: &mut Random, seed: u64) -> Scenario {
    let mut scenario = base(random, seed, 700.0 * MIB_S);
    scenario.setup.writers.truncate(1);
    scenario.setup.flush = Flush { every: random.log_uniform(0.05, 10.0), takes: 0.02 };
    scenario
}

fn memory_halved(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(300.0, 1500.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    let memory = 1 << 30;
    scenario.setup.memory_steps = vec![(4.0, memory / 2), (8.0, memory / 4), (12.0, memory)];
    scenario.setup.duration = 16.0;
    scenario.judged = vec![(0.0, 4.0), (4.0, 8.0), (8.0, 12.0), (12.0, 16.0)];
    scenario
}

/// Parts of 16 MiB to a store that is far away: 30 to 100 ms, and 40 to 90 MB/s a connection.
fn large_parts(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(100.0, 1000.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    scenario.setup.part = 16 * MIB;
    scenario.setup.memory = 4 << 30;
    scenario.setup.backend.latency = random.log_uniform(0.03, 0.1);
    scenario.setup.backend.connection = random.log_uniform(40e6, 90e6);
    scenario.setup.duration = 30.0;
    scenario.judged = vec![(18.0, 30.0)];
    scenario
}

/// Parts of 16 MiB that share a network, some with more of it than others: 30 to 500 MiB/s, 1 to 50 ms away.
fn shared_link(random: &mut Random, seed: u64) -> Scenario {
    let rate = random.log_uniform(30.0, 500.0) * MIB_S;
    let mut scenario = base(random, seed, rate);
    scenario.setup.part = 16 * MIB;
    scenario.setup.memory = 4 << 30;
    scenario.setup.backend.latency = random.log_uniform(0.001, 0.05);
    scenario.setup.backend.shared = Some(random.uniform(0.1, 0.5));
    scenario.setup.backend.sigma = 0.0;
    scenario.setup.duration = 40.0;
    scenario.judged = vec![(8.0, 40.0)];
    scenario
}
