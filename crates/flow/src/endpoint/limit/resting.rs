//! A limit at rest, and rounds to tell it of.

use std::time::Duration;

use super::round::{Baseline, Measure};
use super::{Limit, Phase, Tuning};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const NOW: Duration = Duration::from_secs(1_000);
/// Long after anything that a test does.
pub(super) const NEVER: Duration = Duration::from_secs(1_000_000);
/// Seconds to the first byte of a fetch while the endpoint is not loaded, and as many for the rest of its bytes.
pub(super) const LATENCY: f64 = 0.02;
pub(super) const SIZE: f64 = 1e6;
/// What one fetch in flight brings then, bytes per second.
pub(super) const EACH: f64 = SIZE / LATENCY / 2.0;

/// A round of 100 fetches with so many in flight, each of which takes so many times longer than it need; nothing is lost otherwise.
pub(super) fn round(level: f64, slowdown: f64) -> Measure {
    let took = 2.0 * LATENCY * slowdown;
    Measure {
        rate: level * SIZE / took,
        level,
        streaming: level * (took - LATENCY) / took,
        finished: 100,
        durations: 100.0 * took,
        latencies: 100.0 * LATENCY,
        bytes: 100.0 * SIZE,
        after: 1.0,
        seconds: 1.0,
    }
}

/// What is known of an unloaded endpoint: seconds to the first byte, and for each byte after.
pub(super) fn known(latency: f64, per_byte: f64) -> Baseline {
    let mut baseline = Baseline::default();
    (baseline.latency, baseline.per_byte) = (Some(latency), Some(per_byte));
    baseline
}

/// The same round, with so many times the throughput.
pub(super) fn faster(measure: Measure, times: f64) -> Measure {
    Measure { rate: measure.rate * times, ..measure }
}

/// How many times longer than it need the fetches of a round take in which so many are in flight, for the knee to ask for this level.
pub(super) fn slowdown_for(in_flight: f64, level: f64) -> f64 {
    let slack = Tuning::default().slack / 2.0;
    in_flight / ((slack * slack + level - 1.0).sqrt() - slack).powi(2)
}

/// So many fetches are sent, and 100 ms later so many of all that are in flight have their first byte.
pub(super) fn send(limit: &mut Limit, sent: Duration, count: usize, streaming: usize) {
    (0..count).for_each(|_| limit.started(sent));
    limit.streaming(sent + 100 * MS, streaming);
    limit.answered(sent, 100 * MS);
}

/// At rest at this level, which was not more than is needed when it was last looked at; nothing is due to be tried.
pub(super) fn resting(base: f64) -> Limit {
    let mut limit = Limit::new(Tuning::default(), 1_000);
    limit.phase = Phase::Hold;
    (limit.base, limit.level, limit.in_flight) = (base, base, base.round() as usize);
    limit.baseline = known(LATENCY, LATENCY / SIZE);
    limit.reference = Some(base * EACH);
    limit.held = Some(round(base, 1.0));
    (limit.noise, limit.fresh) = (0.0, false);
    (limit.up_wait, limit.up_tried, limit.down_due) = (8, NOW, NEVER);
    limit.last_bytes = NOW;
    limit.round = limit.round.next(NOW);
    limit
}

/// The same, but nothing was measured since it came there.
pub(super) fn arrived(base: f64) -> Limit {
    Limit { reference: None, ..resting(base) }
}

/// During a trial of another level.
pub(super) fn trying(base: f64, level: f64, phase: Phase) -> Limit {
    Limit { level, phase, in_flight: level.round() as usize, ..resting(base) }
}

pub(super) fn near(got: f64, expected: f64) -> bool {
    (got / expected - 1.0).abs() < 1e-9
}

/// Whether it rests at this level, of which nothing was measured yet.
pub(super) fn rests_at(limit: &Limit, level: f64) -> bool {
    limit.phase == Phase::Hold
        && near(limit.base, level)
        && near(limit.level, level)
        && limit.reference.is_none()
}
