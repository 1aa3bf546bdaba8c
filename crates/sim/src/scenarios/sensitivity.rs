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
            scale: |tuning, factor| {
                tuning.$($field).+.scale(factor);
                keep_its_meaning(tuning);
            },
        }),*]
    };
}

/// One step is always as long as itself: everybody who reads at random would have a stride.
fn keep_its_meaning(tuning: &mut Tuning) {
    tuning.streams.strides = tuning.streams.strides.max(2);
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
    endpoint.transfer_window,
    endpoint.limit.first,
    endpoint.limit.grow,
    endpoint.limit.grow_worth,
    endpoint.limit.burst_least,
    endpoint.limit.burst_worth,
    endpoint.limit.burst_keeps,
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
    part_time,
    part_most_time,
    part_least_time,
    parts_before,
    parts_per_window,
    windows_in_order,
    windows_in_flight,
    share,
    reserve,
    trim,
    regions,
    buying,
    backlog,
    backlog_fetches,
    pace,
    paced_from,
    hung,
    hung_lates,
    patience,
    retry,
    retry_max,
];

/// A median beside what it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// The family.
    pub family: &'static str,
    /// With the default constants.
    pub before: f64,
    /// With the changed one.
    pub after: f64,
    /// By how much it moved, as a share of what it was; below 0 if it became worse.
    pub share: f64,
}

/// What one change did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The constant.
    pub constant: &'static str,
    /// What it was multiplied by.
    pub factor: f64,
    /// What became of each family, what moved most first.
    pub moved: Vec<Moved>,
}

impl Effect {
    /// What moved by more than this share, what moved most first.
    pub fn beyond(&self, share: f64) -> impl Iterator<Item = &Moved> {
        self.moved.iter().filter(move |moved| moved.share.abs() > share)
    }
}

/// The constants of these names, or below them (`order` stands for all of `order.`); all if there are none.
///
/// # Errors
///
/// The name that is not known.
pub fn constants(names: &[String]) -> Result<Vec<Constant>, String> {
    let is_of = |constant: &Constant, name: &str| {
        constant.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(unknown) = names.iter().find(|name| !CONSTANTS.iter().any(|constant| is_of(constant, name))) {
        return Err(unknown.clone());
    }
    let wanted = |constant: &&Constant| names.is_empty() || names.iter().any(|name| is_of(constant, name));
    Ok(CONSTANTS.iter().filter(wanted).copied().collect())
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
    let moved = |(before, after): (&Summary, &Summary)| {
        let (family, before, after) = (after.family, before.median, after.median);
        Moved { family, before, after, share: after / before.max(f64::MIN_POSITIVE) - 1.0 }
    };
    let mut moved: Vec<Moved> = baseline.iter().zip(&changed).map(moved).collect();
    moved.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
    Effect { constant: constant.name, factor, moved }
}

fn controller(tuning: Tuning, limits: Limits) -> Box<dyn Controller> {
    Box::new(Reads::new(tuning, limits))
}

#[cfg(test)]
mod tests {
    use super::super::FAMILIES;
    use super::*;
    use headrace_flow::reading::Fixed;

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

    /// A change that is known to cost is told of, with the family it costs most first, and one that nothing depends on is not.
    #[test]
    fn an_effect_names_what_moved_and_by_how_much() {
        let family = |name| *FAMILIES.iter().find(|family| family.name == name).expect("a known family");
        let families = [family("slow-reader"), family("one-stream")];
        let before = baseline(&families, 3);
        // One fetch of a mebibyte at a time.
        const ONE: Fixed = Fixed { window: 1 << 20, fetches: 1, part: 1 << 20 };
        let ruin = Constant { name: "fixed", scale: |tuning, _| tuning.fixed = Some(ONE) };
        let effect = effect(&ruin, 4.0, &families, 3, &before);
        let [most, _] = &effect.moved[..] else { panic!("two families: {effect:?}") };
        assert!(most.share < -0.05 && most.after < most.before, "{effect:?}");
        assert_eq!(effect.beyond(0.05).next(), Some(most));
        let same = super::effect(&Constant { name: "none", scale: |_, _| () }, 4.0, &families, 3, &before);
        assert_eq!(same.beyond(0.0).count(), 0, "the same constants give the same medians: {same:?}");
    }

    #[test]
    fn constants_are_found_by_name_and_by_what_is_above_them() {
        let found = |name: &str| constants(&[name.to_owned()]).map(|all| all.len());
        assert_eq!(found("order.margin"), Ok(1));
        assert_eq!(found("order"), Ok(CONSTANTS.iter().filter(|one| one.name.starts_with("order.")).count()));
        assert_eq!(found("orde"), Err("orde".to_owned()));
        assert_eq!(constants(&[]).map(|all| all.len()), Ok(CONSTANTS.len()));
    }

    #[test]
    fn shares_stay_shares_and_counts_stay_counts() {
        let (mut share, mut count) = (0.5, 2u32);
        share.scale(4.0);
        count.scale(0.25);
        assert_eq!((share, count), (0.99, 1));
    }
}
