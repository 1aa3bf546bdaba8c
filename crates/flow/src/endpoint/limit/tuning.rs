//! The constants of the law.

use std::time::Duration;

/// The constants of a [`super::Limit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Fetches allowed before anything is known. What several connections to a near server need anyway, and four doublings
    /// from what a far one needs.
    pub first: f64,
    /// What growing adds in each round, as a share of the level. Doubling overshoots once, by at most two.
    pub grow: f64,
    /// Growing goes on while the throughput grows by at least this share of what the level grew by.
    pub grow_worth: f64,
    /// What the first fetches bring together is measured over at least this long.
    pub burst_least: Duration,
    /// It is begun with more if that many wait for their first bytes meanwhile, as a share of the level.
    pub burst_worth: f64,
    /// Many fetches of which each streams this share as fast as each of the first ones are not held up by each other.
    pub burst_keeps: f64,
    /// What a trial of a higher level adds, as a share of the level: large enough to be seen, small enough not to be felt.
    pub up: f64,
    /// The same after a drop of throughput, when the level may be far too low.
    pub up_after_drop: f64,
    /// What a trial of a lower level takes away, as a share of the level: a wrong one costs that much for one round.
    pub down: f64,
    /// A level is worth having if it brings at least this share of its own growth in throughput: where less is left to gain, the
    /// knee is passed.
    pub worth: f64,
    /// Slack above the knee, in square roots of the knee. At 1.5 a randomly loaded endpoint is busy for more than 97 % of the time.
    pub slack: f64,
    /// Share by which the level must be above what the slowdown proposes before a lower one is tried: less is noise.
    pub excess: f64,
    /// Share by which fetches must take longer than unloaded to be sure that they queue.
    pub queues: f64,
    /// The same while processors are the limit, when another level is tried: throughput does not tell there.
    pub crowds: f64,
    /// Throughput is a mean over about this long then ...
    pub crowd_over: Duration,
    /// ... and a lower level must keep this share of it.
    pub crowd_keeps: f64,
    /// A higher one is tried after so long; the time doubles when that fails, up to `down_rarest`.
    pub crowd_up: Duration,
    /// Share by which throughput at one level must rise to grow again, and fall to search again.
    pub rise: f64,
    /// See `rise`.
    pub drop: f64,
    /// Shortest round. Below it, scheduling and interrupts are what is measured.
    pub round_least: Duration,
    /// A round need not be longer than this and two latencies, however slow the fetches are: bytes are counted as they come.
    pub round_most: Duration,
    /// Longest time between trials of a higher level.
    pub up_every: Duration,
    /// Shortest time between trials of a lower level that nothing proposes; doubles when they fail, up to `down_rarest`.
    pub down_every: Duration,
    /// See `down_every`.
    pub down_rarest: Duration,
    /// Shortest silence that is a stall, and says nothing about the level.
    pub stall: Duration,
    /// What remains of the level after a refusal.
    pub cut: f64,
    /// What remains at least after a burst of refusals: a new search from one would take longer than most bursts.
    pub cut_most: f64,
    /// Failures for each fetch that ends well from which on there are too many.
    pub mass: u32,
    /// After so long without refusals, the level returns to nearly where they began.
    pub calm: Duration,
    /// For so long after a refusal, the level only creeps up.
    pub memory: Duration,
}

impl Tuning {
    /// The level where nothing is known.
    pub(super) fn first(&self) -> f64 {
        self.first.max(1.0)
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            first: 8.0,
            grow: 1.0,
            grow_worth: 0.3,
            burst_least: Duration::from_millis(10),
            burst_worth: 0.5,
            burst_keeps: 0.75,
            up: 0.25,
            up_after_drop: 0.5,
            down: 0.1,
            worth: 0.12,
            slack: 1.5,
            excess: 0.2,
            queues: 0.5,
            crowds: 0.25,
            crowd_over: Duration::from_millis(700),
            crowd_keeps: 0.75,
            crowd_up: Duration::from_secs(2),
            rise: 0.05,
            drop: 0.08,
            round_least: Duration::from_millis(20),
            round_most: Duration::from_millis(300),
            up_every: Duration::from_secs(1),
            down_every: Duration::from_secs(5),
            down_rarest: Duration::from_secs(30),
            stall: Duration::from_millis(250),
            cut: 0.7,
            cut_most: 0.25,
            mass: 2,
            calm: Duration::from_millis(500),
            memory: Duration::from_secs(10),
        }
    }
}
