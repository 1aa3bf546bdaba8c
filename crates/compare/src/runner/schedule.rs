//! Who is next, and whether there is time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::server::Profile;

/// A case on a subject on a network.
pub type Key = (&'static str, &'static str, Profile);

/// What a measurement is taken to cost that has not been made yet.
const UNKNOWN: Duration = Duration::from_secs(6);

/// `0..count`, each once, beginning with another one for each `start`.
pub fn turns(count: usize, start: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (start + turn) % count)
}

/// Time for all measurements, and what they cost so far.
#[derive(Debug)]
pub struct Budget {
    end: Instant,
    costs: HashMap<Key, Duration>,
}

impl Budget {
    /// So much from now on.
    pub fn new(time: Duration) -> Budget {
        Budget { end: Instant::now() + time, costs: HashMap::new() }
    }

    /// Whether there is time for all of these: a case is measured on all subjects or on none, so that each repetition has all.
    pub fn allows(&self, keys: &[Key]) -> bool {
        let cost = |key: &Key| self.costs.get(key).copied().unwrap_or(UNKNOWN);
        let needed: Duration = keys.iter().map(cost).sum();
        needed <= self.end.saturating_duration_since(Instant::now())
    }

    /// Takes down what one cost.
    pub fn spent(&mut self, key: Key, took: Duration) {
        self.costs.insert(key, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_another_one_begins() {
        assert_eq!(turns(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(turns(3, 4).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turns(0, 4).count(), 0);
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let key = |subject| ("a/b", subject, Profile::Loopback);
        let mut budget = Budget::new(Duration::from_secs(100));
        assert!(budget.allows(&[key("x"), key("y")]));
        budget.spent(key("x"), Duration::from_secs(98));
        assert!(budget.allows(&[key("x")]));
        assert!(!budget.allows(&[key("x"), key("y")]));
        budget.spent(key("y"), Duration::from_millis(1));
        assert!(budget.allows(&[key("x"), key("y")]));
        assert!(!Budget::new(Duration::ZERO).allows(&[key("y")]));
    }
}
