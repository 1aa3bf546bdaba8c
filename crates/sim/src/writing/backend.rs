//! A store that takes writes: one after the other at its rate, or all at once as over a network that they share; each with a latency, and
//! none faster than a connection.

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
    /// Parts in flight share the rate. Their shares differ: standard deviation of their logarithm.
    pub shared: Option<f64>,
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
            shared: None,
            refusals: Vec::new(),
        }
    }

    /// The rate at a time.
    pub fn rate(&self, at: f64) -> f64 {
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(0.0, |(_, rate)| *rate)
    }

    /// How much work is done between two times.
    fn work(&self, from: f64, until: f64) -> f64 {
        let mut ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        self.rates
            .iter()
            .map(|(begin, rate)| {
                let end = ends.next().unwrap_or(f64::INFINITY).min(until);
                rate * (end - begin.max(from)).max(0.0)
            })
            .sum()
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

/// A part on its way over what all share.
#[derive(Debug)]
struct Sharing {
    name: u64,
    share: f64,
    /// What a share of one has been given by the time it is there.
    until: f64,
    /// No sooner than this.
    least: f64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Backend {
    spec: Spec,
    random: Random,
    free: f64,
    sharing: Vec<Sharing>,
    /// What a share of one was given so far, and when that was so (generalized processor sharing; Parekh and Gallager, 1993).
    given: f64,
    given_at: f64,
}

impl Backend {
    /// With nothing to do.
    pub fn new(spec: Spec, random: Random) -> Backend {
        Backend { spec, random, free: 0.0, sharing: Vec::new(), given: 0.0, given_at: 0.0 }
    }

    /// A part comes. None if when it is there depends on what comes later: then [`next`](Backend::next) tells.
    pub fn submit(&mut self, now: f64, name: u64, bytes: u64) -> Option<Answer> {
        let refusing = self.spec.refusals.iter().find(|(from, until, _)| (*from..*until).contains(&now));
        if refusing.is_some_and(|(_, _, share)| self.random.chance(*share)) {
            return Some(Answer { at: now + self.spec.latency, stored: false });
        }
        let sigma = self.spec.sigma;
        // Of a mean of one.
        let work = bytes as f64 * self.random.log_normal((-sigma * sigma / 2.0).exp(), sigma);
        let alone = now + bytes as f64 / self.spec.connection;
        if let Some(sigma) = self.spec.shared {
            self.give(now);
            let share = self.random.log_normal(1.0, sigma);
            self.sharing.push(Sharing { name, share, until: self.given + work / share, least: alone });
            return None;
        }
        self.free = self.spec.done(self.free.max(now), work);
        Some(Answer { at: self.free.max(alone) + self.spec.latency, stored: true })
    }

    fn give(&mut self, now: f64) {
        let shares: f64 = self.sharing.iter().map(|part| part.share).sum();
        if shares > 0.0 {
            self.given += self.spec.work(self.given_at, now) / shares;
        }
        self.given_at = now;
    }

    /// When the next part is over that all share, if no other comes before.
    pub fn next(&self) -> Option<f64> {
        let shares: f64 = self.sharing.iter().map(|part| part.share).sum();
        let least = self.sharing.iter().map(|part| part.until).min_by(f64::total_cmp)?;
        Some(self.spec.done(self.given_at, (least - self.given).max(0.0) * shares))
    }

    /// The parts that are over by now, and when they are answered.
    pub fn over(&mut self, now: f64) -> Vec<(u64, Answer)> {
        self.give(now);
        // Times are whole nanoseconds.
        let shares: f64 = self.sharing.iter().map(|part| part.share).sum();
        let given = self.given + 2e-9 * self.spec.rate(now) / shares;
        let over = self.sharing.extract_if(.., |part| part.until <= given);
        let latency = self.spec.latency;
        over.map(|part| (part.name, Answer { at: now.max(part.least) + latency, stored: true })).collect()
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
        let mut at = |now, bytes| backend.submit(now, 0, bytes).map(|answer| answer.at);
        assert_eq!((at(0.0, 200), at(1.0, 100)), (Some(2.5), Some(3.5)));
        assert_eq!(at(9.0, 200), Some(17.5), "a second before the stall, two after it");
    }

    #[test]
    fn one_connection_is_slower_than_all_and_refusals_cost_no_work() {
        let mut spec = Spec { connection: 10.0, sigma: 0.0, latency: 0.0, ..Spec::steady(100.0) };
        spec.refusals = vec![(5.0, 6.0, 1.0)];
        let mut backend = Backend::new(spec, Random::new(1));
        let stored = |at| Some(Answer { at, stored: true });
        assert_eq!((backend.submit(0.0, 0, 10), backend.submit(0.0, 1, 10)), (stored(1.0), stored(1.0)));
        assert_eq!(backend.submit(5.5, 2, 1000), Some(Answer { at: 5.5, stored: false }));
        assert_eq!(backend.submit(6.0, 3, 10), stored(7.0));
    }

    #[test]
    fn parts_that_share_a_network_are_there_when_all_have_had_their_share_of_it() {
        let rates = vec![(0.0, 100.0), (4.0, 0.0), (5.0, 50.0)];
        let spec = Spec { rates, sigma: 0.0, shared: Some(0.0), latency: 0.5, ..Spec::steady(1.0) };
        let mut backend = Backend::new(spec, Random::new(1));
        assert_eq!((backend.submit(0.0, 1, 200), backend.next()), (None, Some(2.0)));
        // 100 of the first are there; then each gets half.
        assert_eq!((backend.submit(1.0, 2, 200), backend.next()), (None, Some(3.0)));
        assert_eq!(backend.over(3.0), [(1, Answer { at: 3.5, stored: true })]);
        // 100 of the second were there; 100 more come until 4.
        assert_eq!((backend.next(), backend.over(4.0).len(), backend.next()), (Some(4.0), 1, None));
        // A stall, then half the rate.
        assert_eq!((backend.submit(4.0, 3, 100), backend.next()), (None, Some(7.0)));
    }
}
