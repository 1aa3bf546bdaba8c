//! Situations that reads meet, each drawn from a seed, and how a controller did in them beside the [oracle](crate::oracle).

mod assess;
mod catalogue;
mod families;
mod figure;
#[cfg(test)]
mod recall_tests;
mod scenario;
pub mod sensitivity;
#[cfg(test)]
mod tests;

pub use assess::{Bounds, Judgement, Summary, judge, summarise};
pub use catalogue::{FAMILIES, Family};
pub use figure::figure;
pub use scenario::{Judged, Scenario};

use crate::drive::Controller;
use headrace_flow::reading::Limits;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Makes the controller of one endpoint. Runs are independent of each other, so several threads may ask for one.
pub type Make<'a> = &'a (dyn Fn(Limits) -> Box<dyn Controller> + Sync);

/// Runs each family with seeds `first..first + seeds`, on as many threads as there are processors. What comes out does not depend on their
/// number.
pub fn run_all(families: &[Family], first: u64, seeds: u64, make: Make<'_>) -> Vec<Summary> {
    let runs: Vec<(&Family, u64)> = families
        .iter()
        .flat_map(|family| (first..first.saturating_add(seeds)).map(move |seed| (family, seed)))
        .collect();
    let judgements = in_parallel(&runs, |&(family, seed)| {
        let scenario = family.draw(seed);
        judge(&scenario, &scenario.run(make))
    });
    // A family without a seed has no runs.
    let each = usize::try_from(seeds).unwrap_or(usize::MAX).max(1);
    families.iter().zip(judgements.chunks(each)).map(|(family, runs)| summarise(family, runs)).collect()
}

/// Each of these, in their order. Threads take the next one as they become free: some runs take a hundred times as long as others.
pub(crate) fn in_parallel<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(one) = all.get(index)
        {
            done.push((index, work(one)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(all.len());
    let mut results = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
