//! A store that takes writes: one after the other at its rate, each with a latency, and none faster than a connection.

use crate::engine::Random;

/// What it is like, and how that changes. Times in seconds, rates in bytes per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Rates from given times on, the first from 0. 0 is a stall.
    pub rates: Vec<(f64, f64)>,
    /// From the last byte to its acknowledgement.
    pub latency: f64,
    /// Of one part.
    pub connection: f64,
    /// Standard deviation of the logarithm of the work for a part.
    pub sigma: f64,
    /// From, until, and which share of parts it refuses then.
    pub refusals: Vec<(f64, f64, f64)>,
}

impl Spec {
    /// Always so fast, with little latency.
    pub fn steady(rate: f64) -> Spec {
        Spec {
            rates: vec![(0.0, rate)],
            latency: 0.001,
            connection: f64::INFINITY,
            sigma: 0.1,
            refusals: Vec::new(),
        }
    }

    /// The rate at a time.
    pub fn rate(&self, at: f64) -> f64 {
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(0.0, |(_, rate)| *rate)
    }

    /// When so much work is done that begins at a time.
    fn done(&self, begin: f64, mut work: f64) -> f64 {
        let mut at = begin;
        loop {
            let (rate, next) =
                (self.rate(at), self.rates.iter().map(|(from, _)| *from).find(|from| *from > at));
            match next {
                Some(next) if rate * (next - at) < work => {
                    work -= rate * (next - at);
                    at = next;
                }
                _ => return at + work / rate.max(1.0),
            }
        }
    }
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// When it comes.
    pub at: f64,
    /// Whether the part is stored.
    pub stored: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Backend {
    spec: Spec,
    random: Random,
    free: f64,
}

impl Backend {
    /// With nothing to do.
    pub fn new(spec: Spec, random: Random) -> Backend {
        Backend { spec, random, free: 0.0 }
    }

    /// A part comes.
    pub fn submit(&mut self, now: f64, bytes: u64) -> Answer {
        let refusing = self.spec.refusals.iter().find(|(from, until, _)| (*from..*until).contains(&now));
        if refusing.is_some_and(|(_, _, share)| self.random.chance(*share)) {
            return Answer { at: now + self.spec.latency, stored: false };
        }
        let sigma = self.spec.sigma;
        // Of a mean of one.
        let work = bytes as f64 * self.random.log_normal((-sigma * sigma / 2.0).exp(), sigma);
        self.free = self.spec.done(self.free.max(now), work);
        let alone = now + bytes as f64 / self.spec.connection;
        Answer { at: self.free.max(alone) + self.spec.latency, stored: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_a_stall_to_end_and_for_what_came_before() {
        let spec = Spec {
            rates: vec![(0.0, 100.0), (10.0, 0.0), (15.0, 50.0)],
            latency: 0.5,
            sigma: 0.0,
            ..Spec::steady(1.0)
        };
        let mut backend = Backend::new(spec, Random::new(1));
        let mut at = |now, bytes| backend.submit(now, bytes).at;
        assert_eq!((at(0.0, 200), at(1.0, 100)), (2.5, 3.5));
        assert_eq!(at(9.0, 200), 17.5, "a second before the stall, two after it");
    }

    #[test]
    fn one_connection_is_slower_than_all_and_refusals_cost_no_work() {
        let mut spec = Spec { connection: 10.0, sigma: 0.0, latency: 0.0, ..Spec::steady(100.0) };
        spec.refusals = vec![(5.0, 6.0, 1.0)];
        let mut backend = Backend::new(spec, Random::new(1));
        assert_eq!((backend.submit(0.0, 10).at, backend.submit(0.0, 10).at), (1.0, 1.0));
        assert_eq!(backend.submit(5.5, 1000), Answer { at: 5.5, stored: false });
        assert_eq!(backend.submit(6.0, 10), Answer { at: 7.0, stored: true });
    }
}
