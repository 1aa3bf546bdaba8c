//! Every page of a file once, in random order, without a list of them.

use super::content::mix;

/// A random order of the numbers below `n`: a Feistel network over the next power of four, walked until it is below `n`.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    n: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    /// An order of the numbers `0..n`; `n` is at most 2^62.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Permutation { n, half: bits.div_ceil(2).clamp(1, 31), seed }
    }

    /// The number at place `i`, or nothing from `n` on.
    pub fn get(&self, i: u64) -> Option<u64> {
        if i >= self.n {
            return None;
        }
        // The network maps its domain onto itself, so the walk comes back below n, after four steps on average at most.
        let mut at = self.scramble(i);
        while at >= self.n {
            at = self.scramble(at);
        }
        Some(at)
    }

    fn scramble(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for round in 0..4 {
            let f = mix(self.seed ^ mix(right ^ (round << 40))) & mask;
            (left, right) = (right, left ^ f);
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_once(n in 0u64..3_000, seed: u64) {
            let order = Permutation::new(n, seed);
            let mut seen: Vec<u64> = (0..n).filter_map(|i| order.get(i)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..n).collect::<Vec<_>>());
            prop_assert_eq!(order.get(n), None);
        }

        #[test]
        fn large_ranges_stay_in_range(n in 1u64..1 << 62, seed: u64, i: u64) {
            let order = Permutation::new(n, seed);
            prop_assert!(order.get(i % n).is_some_and(|at| at < n));
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let order = Permutation::new(1 << 16, 1);
        let close = (0..1000u64)
            .filter(|&i| order.get(i).zip(order.get(i + 1)).is_some_and(|(a, b)| a.abs_diff(b) < 64))
            .count();
        assert!(close < 20, "{close}");
    }
}
