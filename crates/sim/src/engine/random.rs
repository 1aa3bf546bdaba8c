//! Seeded random draws.
//!
//! xoshiro256++ (David Blackman and Sebastiano Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021), its state filled
//! by splitmix64 as its authors advise.

use std::time::Duration;

/// A random number generator. The same seed gives the same draws on every machine.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Draws that `seed` alone decides.
    pub fn new(seed: u64) -> Random {
        let mut mix = seed;
        let state = std::array::from_fn(|_| splitmix(&mut mix));
        Random { state }
    }

    /// An independent generator for one part of a model: what that part draws does not move what the others draw.
    pub fn fork(&mut self, part: u64) -> Random {
        let base = self.bits();
        Random::new(base ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform on a logarithmic scale: as likely between 1 and 10 as between 10 and 100. Both bounds above 0.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// Uniform among 0..`bound`; 0 if that is empty.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift (Daniel Lemire, 2019); its bias is below 2^-32 for every bound used here.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Log-normal with this median; `sigma` is the standard deviation of the logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        if sigma == 0.0 { median } else { median * (sigma * self.normal()).exp() }
    }

    /// Pareto: never below `scale`; the smaller `alpha`, the heavier the tail.
    pub fn pareto(&mut self, scale: f64, alpha: f64) -> f64 {
        scale / (1.0 - self.unit()).powf(1.0 / alpha)
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seconds as a time; what is not a time (negative, not a number) is zero.
pub fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mut draw: impl FnMut(&mut Random) -> f64) -> Vec<f64> {
        let mut random = Random::new(7);
        let mut values: Vec<f64> = (0..200_000).map(|_| draw(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn quantile(values: &[f64], q: f64) -> f64 {
        values[(values.len() as f64 * q) as usize]
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.02, "{value} is not within 2 % of {expected}");
    }

    #[test]
    fn first_draws_are_those_of_the_published_generator() {
        // State 1, 2, 3, 4: the first outputs of the authors' own code.
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(drawn, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        near(mean(&sample(Random::unit)), 0.5);
        let exponential = sample(|r| r.exponential(3.0));
        near(mean(&exponential), 3.0);
        near(quantile(&exponential, 0.5), 3.0 * std::f64::consts::LN_2);
        let log_normal = sample(|r| r.log_normal(0.02, 0.5));
        near(quantile(&log_normal, 0.5), 0.02);
        near(mean(&log_normal), 0.02 * (0.125f64).exp());
        let pareto = sample(|r| r.pareto(2.0, 3.0));
        near(mean(&pareto), 3.0);
        near(quantile(&pareto, 0.99), 2.0 * 100f64.powf(1.0 / 3.0));
        assert!(pareto[0] >= 2.0);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn forks_differ_and_seeds_repeat() {
        let mut a = Random::new(3);
        let mut b = Random::new(3);
        assert_eq!(a.fork(1).bits(), b.fork(1).bits());
        assert_ne!(a.fork(1).bits(), b.fork(2).bits());
    }
}
