//! The list of situations.

use super::families as make;
use super::scenario::Scenario;
use crate::engine::Random;

/// A kind of situation; a seed decides its numbers.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name, as it is asked for.
    pub name: &'static str,
    /// What happens.
    pub about: &'static str,
    /// The share of bytes that may be fetched in vain.
    pub waste: f64,
    make: fn(u64, &mut Random) -> Scenario,
}

impl Family {
    /// The situation of one seed.
    pub fn draw(&self, seed: u64) -> Scenario {
        // Families do not share numbers because they share seeds (FNV-1a).
        let name = self.name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (self.make)(seed, &mut Random::new(seed ^ name))
    }
}

/// In vain by readers that go from the start to the end ...
const SEQUENTIAL: f64 = 0.05;
/// ... and by others.
const RANDOM: f64 = 0.10;
/// A read of 4 KiB may fetch 64 KiB: a request costs more than its bytes.
const SMALL: f64 = 1.0 - 4.0 / 64.0;

const fn family(
    name: &'static str,
    about: &'static str,
    waste: f64,
    make: fn(u64, &mut Random) -> Scenario,
) -> Family {
    Family { name, about, waste, make }
}

/// All of them.
pub const FAMILIES: &[Family] = &[
    family("one-stream", "one sequential reader, any latency, any rate", SEQUENTIAL, make::one_stream),
    family("many-streams", "2 to 64 sequential readers", SEQUENTIAL, make::many_streams),
    family(
        "rate-steps",
        "the network becomes ten times faster, then slower again",
        SEQUENTIAL,
        make::rate_steps,
    ),
    family(
        "latency-steps",
        "latency becomes ten times longer, then shorter again",
        SEQUENTIAL,
        make::latency_steps,
    ),
    family("stall-5s", "nothing comes for 5 s", SEQUENTIAL, make::stall_short),
    family("stall-60s", "nothing comes for 60 s", SEQUENTIAL, make::stall_long),
    family("refusals", "nearly everything is answered 503 for two seconds", SEQUENTIAL, make::refusals),
    family("throttled", "503 whenever more is asked than a prefix allows", SEQUENTIAL, make::throttled),
    family(
        "heavy-tail",
        "up to one request in a hundred takes 5 to 1000 times as long",
        SEQUENTIAL,
        make::heavy_tail,
    ),
    family("breaks", "connections are reset and bodies cut short for two seconds", SEQUENTIAL, make::breaks),
    family("hangs", "a few requests in a thousand never end", SEQUENTIAL, make::hangs),
    family("come-and-go", "1, 16, 256, then 4 sequential readers", SEQUENTIAL, make::come_and_go),
    family(
        "slow-reader",
        "a reader that takes 2 to 30 % of what the network has",
        SEQUENTIAL,
        make::slow_reader,
    ),
    family("slow-and-fast", "a slow reader beside fast ones", SEQUENTIAL, make::slow_and_fast),
    family("bursty-reader", "a reader that rests after some megabytes", SEQUENTIAL, make::bursty_reader),
    family("slow-endpoint", "one of three endpoints is slow", SEQUENTIAL, make::slow_endpoint),
    family("memory-halved", "the ceiling is halved while reading", SEQUENTIAL, make::memory_halved),
    family("random", "random readers of 32 KiB to 1 MiB", RANDOM, make::random_readers),
    family("random-small", "random readers of 4 to 16 KiB", SMALL, make::random_small),
    family("strided", "one request at every few", RANDOM, make::strided),
    family("interleaved", "2 to 16 streams in turns on one handle", SEQUENTIAL, make::interleaved),
    family("random-beside", "small random readers beside a sequential one", SMALL, make::random_beside),
];
