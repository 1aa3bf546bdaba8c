//! Situations that reads meet, each drawn from a seed, and how a controller did in them beside the [oracle](crate::oracle).

mod assess;
mod catalogue;
mod families;
mod scenario;
pub mod sensitivity;
#[cfg(test)]
mod tests;

pub use assess::{Bounds, Judgement, Summary, judge, summarise};
pub use catalogue::{FAMILIES, Family};
pub use scenario::{Judged, Scenario};

use crate::drive::Controller;
use headrace_flow::reading::Limits;

/// Makes the controller of one endpoint.
pub type Make<'a> = &'a dyn Fn(Limits) -> Box<dyn Controller>;

/// Runs each family with seeds `first..first + seeds`.
pub fn run_all(families: &[Family], first: u64, seeds: u64, make: Make<'_>) -> Vec<Summary> {
    families
        .iter()
        .map(|family| {
            let judgements: Vec<Judgement> = (first..first + seeds)
                .map(|seed| {
                    let scenario = family.draw(seed);
                    judge(&scenario, &scenario.run(make))
                })
                .collect();
            summarise(family, &judgements)
        })
        .collect()
}
