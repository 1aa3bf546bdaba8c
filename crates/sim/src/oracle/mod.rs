//! The best throughput that is possible: what somebody would reach who knows the network, the latency and what will be read.
//!
//! It is an upper bound, simple on purpose. It fetches everything just in time, so it knows neither waste nor disorder; what bounds it:
//! each reader's own rate, the interfaces, requests and memory of each endpoint's controller, what is throttled, and that bytes are
//! fetched in multiples of what a checksum covers. What remains is shared max-min fairly.

use crate::drive::{Pattern, ReaderSpec};
use crate::models::s3::Endpoint;
use headrace_flow::reading::Limits;
use std::time::Duration;

/// What the oracle is told.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The endpoints.
    pub endpoints: &'a [Endpoint],
    /// The interfaces' rates at that time, bytes per second.
    pub interfaces: &'a [f64],
    /// Of each endpoint's controller.
    pub limits: Limits,
}

/// What a checksum covers, bytes: who wants less of it gets it all the same, and its interface carries it.
const GRAIN: u64 = 32 << 10;

/// Bytes that are fetched for one that a random reader asks for; for all others what is fetched is also read.
fn fetched(reader: &ReaderSpec) -> f64 {
    match reader.pattern {
        Pattern::Random => reader.request.next_multiple_of(GRAIN) as f64 / reader.request as f64,
        _ => 1.0,
    }
}

/// Bytes per second of each of these readers, which are all there, at a time when nothing changes.
pub fn best(world: &World<'_>, readers: &[&ReaderSpec], at: Duration) -> Vec<f64> {
    // Of bytes on the network.
    let wants: Vec<f64> = readers.iter().map(|reader| wanted(world, reader, at) * fetched(reader)).collect();
    let cap = |endpoint: &Endpoint| {
        let cap = endpoint_cap(endpoint, world.limits, at);
        endpoint.interface.and_then(|index| world.interfaces.get(index)).map_or(cap, |&rate| cap.min(rate))
    };
    let caps: Vec<f64> = world.endpoints.iter().map(cap).collect();
    let endpoints: Vec<usize> = readers.iter().map(|reader| reader.endpoint).collect();
    let rates = fill(&wants, &endpoints, &caps, world.interfaces.iter().sum());
    rates.iter().zip(readers).map(|(rate, reader)| rate / fetched(reader)).collect()
}

/// What one reader takes if nobody is in its way.
fn wanted(world: &World<'_>, reader: &ReaderSpec, at: Duration) -> f64 {
    let copy = reader.copy_rate as f64;
    match reader.pattern {
        Pattern::Sequential | Pattern::Strided(_) | Pattern::Interleaved(_) => copy,
        // Between bursts there is time to fetch what the next one takes.
        Pattern::Bursty(bytes, pause) => {
            let bytes = bytes as f64;
            bytes / (bytes / copy + pause.as_secs_f64())
        }
        // Nobody knows what comes next: each request takes its latency, its transfer and its copy.
        Pattern::Random => {
            let Some(endpoint) = world.endpoints.get(reader.endpoint) else { return 0.0 };
            let bytes = reader.request as f64;
            // It lies somewhere in what is fetched.
            let until = bytes * (1.0 + fetched(reader)) / 2.0;
            let transfer = until / (endpoint.connections.rate as f64).min(world.interfaces.iter().sum());
            let one = bytes / (latency(endpoint, at) + transfer + bytes / copy);
            (one * reader.depth.max(1) as f64).min(copy)
        }
    }
}

/// Seconds to the first byte, in the mean.
fn latency(endpoint: &Endpoint, at: Duration) -> f64 {
    endpoint.first_byte.mean() * endpoint.latency_factor(at)
}

/// What one controller can have from its endpoint at most, however it chooses the size of its fetches: `n` at once of `p` bytes each, a
/// request every latency + p / rate.
fn endpoint_cap(endpoint: &Endpoint, limits: Limits, at: Duration) -> f64 {
    let latency = latency(endpoint, at);
    let rate = endpoint.connections.rate as f64;
    let mut best = 0.0f64;
    let mut part = limits.request_max as f64;
    while part >= 4096.0 {
        let flying = (limits.requests as f64).min(limits.memory as f64 / part);
        let mut speed = flying * part / (latency + part / rate);
        if let Some(throttle) = endpoint.throttle {
            speed = speed.min(throttle.rate * throttle.prefixes as f64 * part);
        }
        best = best.max(speed);
        part /= 2.0;
    }
    best
}

/// Progressive filling: all grow alike; who has what it wants, or whose endpoint is full, stops; all stop when the network is full.
fn fill(wants: &[f64], endpoint: &[usize], caps: &[f64], network: f64) -> Vec<f64> {
    let mut rates = vec![0.0; wants.len()];
    let mut growing: Vec<usize> = (0..wants.len()).collect();
    let mut network_left = network;
    let mut left = caps.to_vec();
    while !growing.is_empty() {
        let mut step = network_left / growing.len() as f64;
        for &index in &growing {
            step = step.min(wants[index] - rates[index]);
        }
        for (of, &cap) in left.iter().enumerate() {
            let members = growing.iter().filter(|&&index| endpoint[index] == of).count();
            if members > 0 {
                step = step.min(cap / members as f64);
            }
        }
        let step = step.max(0.0);
        for &index in &growing {
            rates[index] += step;
            network_left -= step;
            left[endpoint[index]] -= step;
        }
        let full = |value: f64, of: f64| value <= of * 1e-9;
        let before = growing.len();
        if full(network_left, network) {
            break;
        }
        growing.retain(|&index| {
            !full(wants[index] - rates[index], wants[index])
                && !full(left[endpoint[index]], caps[endpoint[index]])
        });
        if growing.len() == before {
            break;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn world<'a>(endpoints: &'a [Endpoint], interfaces: &'a [f64]) -> World<'a> {
        World {
            endpoints,
            interfaces,
            limits: Limits { memory: 64 * MIB, request_max: 8 * MIB, requests: 16 },
        }
    }

    fn exact(latency: f64, rate: u64) -> Endpoint {
        let mut endpoint = Endpoint::plain(latency, rate);
        endpoint.first_byte.sigma = 0.0;
        endpoint
    }

    #[test]
    fn a_sequential_reader_gets_the_least_of_all_bounds() {
        let reader = ReaderSpec::sequential(1, 100 * MIB);
        let of = |endpoint: Endpoint, network: u64| {
            best(&world(&[endpoint], &[network as f64]), &[&reader], Duration::ZERO)[0] / MIB as f64
        };
        assert!((of(exact(0.01, 50 * MIB), 1000 * MIB) - 100.0).abs() < 1e-6);
        assert!((of(exact(0.01, 50 * MIB), 30 * MIB) - 30.0).abs() < 1e-6);
        // 16 fetches of 4 MiB fill memory; each takes 0.9 + 0.1 s.
        assert!((of(exact(0.9, 40 * MIB), 1000 * MIB) - 64.0).abs() < 1e-6);
    }

    #[test]
    fn a_random_reader_waits_for_every_request() {
        let reader =
            ReaderSpec { pattern: Pattern::Random, request: MIB, ..ReaderSpec::sequential(1, 100 * MIB) };
        let endpoints = [exact(0.08, 100 * MIB)];
        let rate = best(&world(&endpoints, &[1e12]), &[&reader], Duration::ZERO)[0] / MIB as f64;
        assert!((rate - 10.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_slow_endpoint_leaves_its_share_to_the_others() {
        let mut slow = exact(0.01, 100 * MIB);
        slow.throttle = Some(crate::models::s3::Throttle { rate: 1.0, burst: 1.0, prefixes: 1 });
        let endpoints = [slow, exact(0.01, 100 * MIB)];
        let first = ReaderSpec::sequential(1, 1000 * MIB);
        let second = ReaderSpec { endpoint: 1, ..ReaderSpec::sequential(2, 1000 * MIB) };
        let rates = best(&world(&endpoints, &[(100 * MIB) as f64]), &[&first, &second], Duration::ZERO);
        assert!(
            (rates[0] / MIB as f64 - 8.0).abs() < 1e-3 && (rates[1] / MIB as f64 - 92.0).abs() < 1e-3,
            "{rates:?}"
        );
    }

    proptest! {
        /// Max-min: nobody has more than it wants, nothing is left over, and who has less than another has all it wants.
        #[test]
        fn filling_is_max_min_fair(wants in prop::collection::vec(1.0f64..100.0, 1..30), network in 1.0f64..1000.0) {
            let rates = fill(&wants, &vec![0; wants.len()], &[f64::MAX], network);
            let total: f64 = rates.iter().sum();
            let possible = wants.iter().sum::<f64>().min(network);
            prop_assert!((total / possible - 1.0).abs() < 1e-6, "{} of {}", total, possible);
            let most = rates.iter().copied().fold(0.0, f64::max);
            for (rate, want) in rates.iter().zip(&wants) {
                prop_assert!(*rate <= want * (1.0 + 1e-6));
                prop_assert!(*rate >= want * (1.0 - 1e-6) || *rate >= most * (1.0 - 1e-6));
            }
        }
    }
}
