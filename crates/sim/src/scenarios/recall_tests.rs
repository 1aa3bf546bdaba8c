//! What a mount learned another time, where the endpoint is as it was, and where less of it is left.

use std::time::Duration;

use headrace_flow::endpoint::Known;
use headrace_flow::reading::{Learned, Limits, Reads, Tuning};

use super::{FAMILIES, Family, Scenario, judge};
use crate::drive::Controller;

/// What would have been learned of an endpoint like that of a scenario, behind a network with so many times the rate.
fn learned(scenario: &Scenario, times: f64) -> Learned {
    let endpoint = &scenario.endpoints[0];
    let connection = endpoint.connections.rate as f64;
    let network = scenario.interfaces.iter().sum::<u64>() as f64 * times;
    let known = Known {
        latency: Duration::from_secs_f64(endpoint.first_byte.median),
        mib: Duration::from_secs_f64(f64::from(1 << 20) / connection),
        rate: network as u64,
    };
    Learned { endpoint: known, run: 1 << 30 }
}

/// Parts of what is possible: in the first second, and from the third on.
fn reached(scenario: &Scenario, learned: Option<Learned>) -> (f64, f64) {
    let make = |limits: Limits| -> Box<dyn Controller> {
        let mut reads = Reads::new(Tuning::default(), limits);
        learned.into_iter().for_each(|learned| reads.recall(learned));
        Box::new(reads)
    };
    let outcome = scenario.run(&make);
    let judgement = judge(scenario, &outcome);
    assert!(judgement.violations.is_empty() && judgement.above_ceiling == 0 && judgement.errors == 0);
    let best: f64 = scenario.best(scenario.judged[0]).iter().sum();
    (outcome.total().rate(Duration::ZERO, Duration::from_secs(1)) / best, judgement.ratio)
}

fn family(name: &str) -> Family {
    *FAMILIES.iter().find(|family| family.name == name).expect("a known family")
}

/// 48 situations: what is reached with nothing known and with what would be known of a network with so many times the rate.
fn beside(times: f64) -> Vec<[(f64, f64); 2]> {
    let drawn = ["one-stream", "many-streams"].map(family);
    let scenarios = drawn.iter().flat_map(|family| (0..24).map(|seed| family.draw(seed)));
    scenarios
        .map(|scenario| [reached(&scenario, None), reached(&scenario, Some(learned(&scenario, times)))])
        .collect()
}

/// By how much the first second is better on average, how much worse at most, and the least that is reached from the third one on.
fn summary(times: f64) -> (f64, f64, f64) {
    let all = beside(times);
    let gains: Vec<f64> = all.iter().map(|[unknown, known]| known.0 - unknown.0).collect();
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    let loss = gains.iter().copied().fold(0.0, f64::min);
    (mean, -loss, all.iter().map(|[_, known]| known.1).fold(f64::INFINITY, f64::min))
}

#[test]
fn where_the_network_is_as_it_was_the_first_second_is_better() {
    let (gain, loss, least) = summary(1.0);
    assert!(gain > 0.05 && loss < 0.1 && least >= 0.92, "{gain} {loss} {least}");
}

#[test]
fn where_it_has_another_rate_for_all_fetches_together_that_costs_part_of_the_first_second() {
    // Single fetches do not tell: they come as they did.
    for (times, gain_at_least, loss_at_most) in [(0.25, 0.0, 0.3), (4.0, 0.0, 0.3), (10.0, -0.05, 0.6)] {
        let (gain, loss, least) = summary(times);
        assert!(
            gain >= gain_at_least && loss < loss_at_most && least >= 0.9,
            "{times}: {gain} {loss} {least}"
        );
    }
}
