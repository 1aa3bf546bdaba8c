//! What happens when a constant of the control laws is four times as large, or a quarter: nothing much may, or it is a setting in
//! disguise.

use super::catalogue::Family;
use super::{Summary, run_all};
use crate::drive::Controller;
use headrace_flow::reading::{Limits, Reads, Tuning};
use serde::Serialize;
use std::time::Duration;

/// A constant, and how to multiply it.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Where it is in [`Tuning`].
    pub name: &'static str,
    scale: fn(&mut Tuning, f64),
}

/// A number that can be multiplied.
trait Scale {
    /// Multiplies, staying what it is: a share below 1 stays below 1, a count stays above 0.
    fn scale(&mut self, factor: f64);
}

impl Scale for f64 {
    fn scale(&mut self, factor: f64) {
        let most = if *self < 1.0 { 0.99 } else { f64::MAX };
        *self = (*self * factor).min(most);
    }
}

macro_rules! scale_counts {
    ($($count:ty),*) => {$(
        impl Scale for $count {
            fn scale(&mut self, factor: f64) {
                *self = (*self as f64 * factor).round().max(1.0) as $count;
            }
        }
    )*};
}

scale_counts!(u64, u32, usize);

impl Scale for Duration {
    fn scale(&mut self, factor: f64) {
        *self = self.mul_f64(factor);
    }
}

macro_rules! constants {
    ($($($field:ident).+),* $(,)?) => {
        &[$(Constant {
            name: stringify!($($field).+),
            scale: |tuning, factor| tuning.$($field).+.scale(factor),
        }),*]
    };
}

/// All constants.
pub const CONSTANTS: &[Constant] = constants![
    streams.disorder,
    streams.late,
    streams.most,
    streams.strides,
    streams.patience,
    window.first_parts,
    window.grow,
    window.step,
    window.idle_fetches,
    window.hungry_rounds,
    endpoint.latency_window,
    endpoint.limit.first,
    endpoint.limit.grow,
    endpoint.limit.grow_worth,
    endpoint.limit.up,
    endpoint.limit.up_after_drop,
    endpoint.limit.down,
    endpoint.limit.worth,
    endpoint.limit.slack,
    endpoint.limit.excess,
    endpoint.limit.queues,
    endpoint.limit.rise,
    endpoint.limit.drop,
    endpoint.limit.round_least,
    endpoint.limit.round_most,
    endpoint.limit.up_every,
    endpoint.limit.down_every,
    endpoint.limit.down_rarest,
    endpoint.limit.stall,
    endpoint.limit.cut,
    endpoint.limit.cut_most,
    endpoint.limit.mass,
    endpoint.limit.calm,
    endpoint.limit.memory,
    endpoint.hedge.quantile,
    endpoint.hedge.share,
    endpoint.hedge.burst,
    endpoint.hedge.floor,
    endpoint.hedge.medians,
    endpoint.hedge.unknown,
    endpoint.hedge.samples,
    endpoint.hedge.half_life,
    endpoint.bandwidth.interval_least,
    endpoint.bandwidth.interval_most,
    endpoint.bandwidth.window,
    order.first,
    order.margin,
    order.drop,
    order.settle,
    order.settle_latencies,
    order.slice,
    order.slice_bytes,
    order.give_up,
    order.trial_most,
    order.epoch,
    order.cost,
    order.between,
    order.between_drops,
    order.rarest,
    order.hopeless,
    grain,
    part_min,
    part_latencies,
    parts_per_window,
    windows_in_flight,
    share,
    reserve,
    trim,
    patience,
    retry,
    retry_max,
];

/// What one change did.
#[derive(Debug, Clone, Serialize)]
pub struct Effect {
    /// The constant.
    pub constant: &'static str,
    /// What it was multiplied by.
    pub factor: f64,
    /// The family whose median moved most.
    pub family: &'static str,
    /// By how much, as a share; below 0 if it became worse.
    pub moved: f64,
}

/// The medians with default constants, to compare with.
pub fn baseline(families: &[Family], seeds: u64) -> Vec<Summary> {
    run_all(families, 0, seeds, &|limits| controller(Tuning::default(), limits))
}

/// Multiplies one constant and runs the families.
pub fn effect(
    constant: &Constant,
    factor: f64,
    families: &[Family],
    seeds: u64,
    baseline: &[Summary],
) -> Effect {
    let mut tuning = Tuning::default();
    (constant.scale)(&mut tuning, factor);
    let changed = run_all(families, 0, seeds, &|limits| controller(tuning.clone(), limits));
    let moved = |(before, after): (&Summary, &Summary)| (after.family, after.median / before.median - 1.0);
    let most = baseline.iter().zip(&changed).map(moved).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let (family, moved) = most.unwrap_or(("", 0.0));
    Effect { constant: constant.name, factor, family, moved }
}

fn controller(tuning: Tuning, limits: Limits) -> Box<dyn Controller> {
    Box::new(Reads::new(tuning, limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_changes_something_and_only_once() {
        let mut seen = std::collections::BTreeSet::new();
        let default = format!("{:?}", Tuning::default());
        for constant in CONSTANTS {
            let mut tuning = Tuning::default();
            (constant.scale)(&mut tuning, 0.25);
            let changed = format!("{tuning:?}");
            // What is already the least possible count stays.
            assert!(changed == default || seen.insert(changed), "{}", constant.name);
            (constant.scale)(&mut tuning, 4.0);
        }
        assert!(seen.len() + 2 >= CONSTANTS.len());
    }

    #[test]
    fn shares_stay_shares_and_counts_stay_counts() {
        let (mut share, mut count) = (0.5, 2u32);
        share.scale(4.0);
        count.scale(0.25);
        assert_eq!((share, count), (0.99, 1));
    }
}
