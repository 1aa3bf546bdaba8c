//! Which request meets which fault, and how long it waits. No clock, no I/O: the same requests in the same order meet
//! the same.

use std::collections::VecDeque;
use std::time::Duration;

use super::Fault;
use crate::Conditions;
use crate::random::Rng;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fate {
    pub(crate) fault: Fault,
    /// Where in the answer's body the fault is, as a share of it; without this, the fault's own byte count says.
    pub(crate) share: Option<f64>,
    /// From the request's end to the answer's first byte, at least.
    pub(crate) wait: Duration,
}

/// Faults for some requests only.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    /// Empty for any.
    pub(crate) method: String,
    /// What the path holds.
    pub(crate) part: String,
    pub(crate) fault: Fault,
}

/// Faults at random. Byte counts in the menu are upper bounds.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) rng: Rng,
    pub(crate) per_mille: u64,
    pub(crate) menu: Vec<Fault>,
}

/// What was asked for: faults in order, then by rule, then at random; and without those, what the conditions make likely.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) next: VecDeque<Fault>,
    pub(crate) rule: Option<Rule>,
    pub(crate) mix: Option<Mix>,
    rng: Rng,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        Plan { next: VecDeque::new(), rule: None, mix: None, rng: Rng::new(seed) }
    }

    /// Nothing of what was asked for is left.
    pub(crate) fn clear(&mut self) {
        self.next.clear();
        (self.rule, self.mix) = (None, None);
    }

    /// What becomes of the next request; `fresh` if it is the first of its connection.
    pub(crate) fn pick(&mut self, method: &str, path: &str, conditions: &Conditions, fresh: bool) -> Fate {
        let mut wait = conditions.first_byte.draw(&mut self.rng);
        if fresh {
            wait = wait.saturating_add(conditions.connect.draw(&mut self.rng));
        }
        if let Some(fault) = self.asked(method, path) {
            return Fate { fault, share: None, wait };
        }
        let (fault, share) = likely(&mut self.rng, conditions);
        Fate { fault, share, wait }
    }

    fn asked(&mut self, method: &str, path: &str) -> Option<Fault> {
        if let Some(fault) = self.next.pop_front() {
            return Some(fault);
        }
        match &self.rule {
            Some(rule) if (rule.method.is_empty() || rule.method == method) && path.contains(&rule.part) => {
                Some(rule.fault)
            }
            _ => self.mix.as_mut().map(|mix| mix.draw().for_path(path)),
        }
    }
}

/// What the conditions' probabilities bring.
fn likely(rng: &mut Rng, conditions: &Conditions) -> (Fault, Option<f64>) {
    let (chance, share) = (rng.unit(), rng.unit());
    let menu = [
        (conditions.error_503, Fault::Busy(0), None),
        (conditions.error_429, Fault::TooMany, None),
        (conditions.error_500, Fault::Broken, None),
        (conditions.reset, Fault::ResetAnswer(0), Some(share)),
        (conditions.truncate, Fault::Truncate(0), Some(share)),
        (conditions.stall, Fault::StallAnswer(0), Some(share)),
    ];
    let mut sum = 0.0;
    for (probability, fault, share) in menu {
        sum += probability;
        if chance < sum {
            return (fault, share);
        }
    }
    (Fault::None, None)
}

impl Fault {
    /// Of the random faults, those that alter contents unseen only hit what carries checksums of its own.
    fn for_path(self, path: &str) -> Fault {
        match self {
            Fault::CorruptAnswer | Fault::Shorten(_) if !path.contains("/segments/") => Fault::None,
            other => other,
        }
    }
}

impl Mix {
    fn draw(&mut self) -> Fault {
        if self.rng.below(1000) >= self.per_mille {
            return Fault::None;
        }
        let choice = self.rng.below(self.menu.len() as u64) as usize;
        let Some(fault) = self.menu.get(choice).copied() else { return Fault::None };
        let mut up_to = |most: u64| self.rng.below(most.saturating_add(1));
        match fault {
            Fault::StallRequest(most) => Fault::StallRequest(up_to(most)),
            Fault::ResetRequest(most) => Fault::ResetRequest(up_to(most)),
            Fault::StallAnswer(most) => Fault::StallAnswer(up_to(most)),
            Fault::ResetAnswer(most) => Fault::ResetAnswer(up_to(most)),
            Fault::Truncate(most) => Fault::Truncate(up_to(most)),
            Fault::Shorten(most) => Fault::Shorten(up_to(most).max(1)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latency;

    fn picks(plan: &mut Plan, conditions: &Conditions, count: usize) -> Vec<Fate> {
        (0..count).map(|_| plan.pick("GET", "/bucket/key", conditions, false)).collect()
    }

    #[test]
    fn what_is_asked_for_comes_first_and_in_order() {
        let mut plan = Plan::new(1);
        plan.rule = Some(Rule { method: "GET".into(), part: "key".into(), fault: Fault::Hang });
        plan.next = [Fault::None, Fault::Broken].into();
        let certain = Conditions { error_429: 1.0, ..Conditions::default() };
        let faults: Vec<Fault> = picks(&mut plan, &certain, 3).iter().map(|fate| fate.fault).collect();
        assert_eq!(faults, [Fault::None, Fault::Broken, Fault::Hang]);
        assert_eq!(plan.pick("PUT", "/bucket/key", &certain, false).fault, Fault::TooMany);
        plan.clear();
        assert_eq!(plan.pick("GET", "/bucket/key", &certain, false).fault, Fault::TooMany);
    }

    #[test]
    fn probabilities_are_kept_and_a_seed_repeats_them() {
        let conditions = Conditions {
            error_503: 0.05,
            reset: 0.1,
            truncate: 0.02,
            stall: 0.01,
            first_byte: "20ms,lognormal=0.5".parse().unwrap(),
            ..Conditions::default()
        };
        let all = picks(&mut Plan::new(3), &conditions, 100_000);
        assert_eq!(all, picks(&mut Plan::new(3), &conditions, 100_000));
        assert_ne!(all, picks(&mut Plan::new(4), &conditions, 100_000));
        let share = |fault| all.iter().filter(|fate| fate.fault == fault).count() as f64 / 100_000.0;
        for (fault, wanted) in [
            (Fault::Busy(0), 0.05),
            (Fault::ResetAnswer(0), 0.1),
            (Fault::Truncate(0), 0.02),
            (Fault::StallAnswer(0), 0.01),
            (Fault::TooMany, 0.0),
        ] {
            assert!(
                (share(fault) - wanted).abs() <= wanted * 0.1,
                "{fault:?}: {} for {wanted}",
                share(fault)
            );
        }
    }

    #[test]
    fn the_first_request_of_a_connection_pays_for_the_handshake() {
        let ms = Duration::from_millis;
        let conditions = Conditions {
            first_byte: Latency::constant(ms(20)),
            connect: Latency::constant(ms(5)),
            ..Conditions::default()
        };
        let mut plan = Plan::new(1);
        assert_eq!(plan.pick("GET", "/", &conditions, true).wait, ms(25));
        assert_eq!(plan.pick("GET", "/", &conditions, false).wait, ms(20));
    }
}
