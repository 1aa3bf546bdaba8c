//! One situation, with all its numbers.

use super::Make;
use crate::drive::{Outcome, Plant, ReaderSpec, Setup, run};
use crate::models::network::RateStep;
use crate::models::s3::{Endpoint, Service};
use crate::oracle;
use headrace_flow::reading::Limits;
use std::time::Duration;

/// A piece of time in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// When what went before ended.
    pub from: Duration,
    /// When something changes next.
    pub until: Duration,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What decided its numbers.
    pub seed: u64,
    /// Programs, memory, how long.
    pub setup: Setup,
    /// The store.
    pub endpoints: Vec<Endpoint>,
    /// Interfaces, bytes per second.
    pub interfaces: Vec<u64>,
    /// Changes of their rates.
    pub rate_steps: Vec<RateStep>,
    /// Of each endpoint's controller.
    pub limits: Limits,
    /// When a controller is to have found its rate, some time after the start of each of these.
    pub judged: Vec<Judged>,
    /// Whether throughput is even by nature, so that variation is the controller's doing.
    pub even: bool,
}

/// Bytes between reports of a GET.
const PIECE: u64 = 128 << 10;

impl Scenario {
    /// Runs it with a controller for each endpoint.
    pub fn run(&self, make: Make<'_>) -> Outcome {
        let steps = &self.rate_steps;
        let store = Service::new(self.endpoints.clone(), &self.interfaces, steps, PIECE, self.seed);
        let controllers = self.endpoints.iter().map(|_| make(self.limits)).collect();
        let mut plant = Plant::new(controllers, Box::new(store));
        run(&self.setup, &mut plant, self.seed)
    }

    /// The readers that are there all of that time, by their index.
    pub fn present(&self, judged: Judged) -> Vec<usize> {
        let there = |reader: &ReaderSpec| {
            reader.start <= judged.from && reader.stop.is_none_or(|stop| stop >= judged.until)
        };
        (0..self.setup.readers.len()).filter(|&index| there(&self.setup.readers[index])).collect()
    }

    /// What each of [`present`](Scenario::present) could have, bytes per second.
    pub fn best(&self, judged: Judged) -> Vec<f64> {
        let factor = self
            .rate_steps
            .iter()
            .filter(|step| step.at <= judged.from)
            .max_by_key(|step| step.at)
            .map_or(1.0, |step| step.factor);
        let memory = self
            .setup
            .memory_steps
            .iter()
            .filter(|step| step.at <= judged.from)
            .max_by_key(|step| step.at)
            .map_or(self.limits.memory, |step| step.memory);
        let interfaces: Vec<f64> = self.interfaces.iter().map(|&rate| rate as f64 * factor).collect();
        let world = oracle::World {
            endpoints: &self.endpoints,
            interfaces: &interfaces,
            limits: Limits { memory, ..self.limits },
        };
        let readers: Vec<&ReaderSpec> =
            self.present(judged).into_iter().map(|index| &self.setup.readers[index]).collect();
        oracle::best(&world, &readers, judged.from)
    }
}
