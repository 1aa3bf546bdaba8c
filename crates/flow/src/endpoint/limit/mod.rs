//! How many fetches may be in flight at one endpoint.
//!
//! A fetch waits for its first byte and then streams, so the endpoint is only busy while enough of them are under way: the
//! bandwidth-delay product, in fetches. Fewer leave it idle, more only queue. Where that knee is cannot be known, so it is
//! found, in *rounds* of about as many finished fetches as are allowed:
//!
//! - **Grow**: double as long as it pays, from what is needed for what the first fetches brought together (`burst`).
//! - **Hold**: rest a little above the knee. By Little's law it is at (in flight) / (slowdown), where slowdown is how many times
//!   longer than unloaded fetches take. Fetches come back at random, so some slack is needed to keep the endpoint busy: of the
//!   order of the knee's square root (Halfin and Whitt, "Heavy-Traffic Limits for Queues with Many Exponential Servers", 1981).
//! - **Up** and **Down**: what models say is only a proposal. A round at another level is tried, and the throughput decides.
//!   Up costs nothing but queueing, and is tried often. Down may cost throughput: it is tried when the slowdown proposes it, and
//!   rarely otherwise.
//!
//! Throughput that jumps starts the search again. One that drops is asked why: if single fetches stream as fast as before, they wait
//! longer for their first bytes, and Little's law says how many more are needed; if they stream far more slowly, and more of them
//! bring no more, the network has become slower, and it says how few are enough. Refusals ([`Failure::Throttled`]) and mass failures cut the level at
//! once, whatever the throughput (additive increase, multiplicative decrease; Chiu and Jain, 1989).
//!
//! While the processors of this machine are the limit no trial is believed, and the level follows Little's law (`crowded`).

mod burst;
#[cfg(test)]
mod burst_tests;
mod crowded;
#[cfg(test)]
mod crowded_tests;
mod judge;
#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod queue_tests;
mod readers;
#[cfg(test)]
mod readers_tests;
mod recalled;
#[cfg(test)]
mod recalled_tests;
mod refusals;
#[cfg(test)]
mod refusals_tests;
#[cfg(test)]
mod resting;
mod round;
#[cfg(test)]
mod round_tests;
mod trials;
#[cfg(test)]
mod trials_tests;
mod tuning;
#[cfg(test)]
mod turn_tests;

use std::time::Duration;

use burst::Burst;
pub(super) use burst::TELLING;
use crowded::Crowd;
use recalled::KnownFor;
use refusals::Refused;
pub use round::Finished;
use round::{Baseline, Measure, Round};
pub use tuning::Tuning;

use crate::backoff::Failure;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// `back`: the level to return to if the first step brings nothing. `before`: the round at the level before.
    Grow {
        back: f64,
        before: Option<Measure>,
        first: bool,
    },
    Hold,
    Up,
    Down {
        proposed: bool,
    },
}

/// The limit of one endpoint. Told what happens to fetches; see [`Limit::allowed`].
#[derive(Debug, Clone)]
pub struct Limit {
    tuning: Tuning,
    least: f64,
    most: f64,
    /// Where it rests, and where it is now: they differ during a trial.
    base: f64,
    level: f64,
    /// What is allowed on the way down to the level: if nothing were sent until then, a gap would run through the endpoint.
    above: f64,
    in_flight: usize,
    /// Of those, whose first byte is there.
    streaming: usize,
    phase: Phase,
    round: Round,
    /// Rounds to pass over: they still belong to another level.
    skip: u32,
    baseline: Baseline,
    /// Throughput at the base level, bytes per second, and how much it differs from round to round, as a share.
    reference: Option<f64>,
    noise: f64,
    /// The last round at rest.
    held: Option<Measure>,
    /// Throughput has dropped from this, and whether a higher level would bring it back was not tried yet.
    dropped: Option<Measure>,
    /// The round before the trial that follows a drop.
    after_drop: Option<Measure>,
    /// If that trial fails: what the throughput after the drop needs.
    enough: Option<f64>,
    /// Nothing but the first search was done so far.
    fresh: bool,
    /// While it is searched on from what was known another time.
    known_for: Option<KnownFor>,
    holds: u32,
    up_wait: u32,
    up_tried: Duration,
    down_step: f64,
    down_wait: Duration,
    down_due: Duration,
    proposal_due: Duration,
    /// Mean duration of fetches lately, seconds.
    duration: Option<f64>,
    /// Mean time to the first byte lately, seconds.
    latency: f64,
    /// The most that one fetch in flight brought while it was searched, bytes per second.
    each: f64,
    last_bytes: Duration,
    /// Bytes per second that were delivered at best lately, and bytes of a fetch.
    best: Option<(f64, f64)>,
    /// Mean bytes of those in flight.
    pub(super) flying: f64,
    refused: Option<Refused>,
    /// Fetches that ended well since the last refusal.
    since_refused: u32,
    /// The processors of this machine are the limit.
    busy: bool,
    crowd: Option<Crowd>,
    burst: Burst,
}

impl Limit {
    /// Nothing is known yet. Never more than `most` (at least 1) are allowed.
    pub fn new(tuning: Tuning, most: usize) -> Limit {
        let most = most.max(1) as f64;
        let first = tuning.first().min(most);
        Limit {
            least: 1.0,
            most,
            base: first,
            level: first,
            above: 0.0,
            in_flight: 0,
            streaming: 0,
            phase: Phase::Grow { back: first, before: None, first: true },
            round: Round::at_new_level(Duration::ZERO, true),
            skip: 0,
            baseline: Baseline::default(),
            reference: None,
            noise: 0.02,
            held: None,
            dropped: None,
            after_drop: None,
            enough: None,
            fresh: true,
            known_for: None,
            holds: 0,
            up_wait: 2,
            up_tried: Duration::ZERO,
            down_step: tuning.down,
            down_wait: tuning.down_every,
            down_due: Duration::ZERO,
            proposal_due: Duration::ZERO,
            duration: None,
            latency: 0.0,
            each: 0.0,
            last_bytes: Duration::ZERO,
            best: None,
            flying: 0.0,
            refused: None,
            since_refused: 0,
            busy: false,
            crowd: None,
            burst: Burst::default(),
            tuning,
        }
    }

    /// Whether nothing was measured yet.
    pub fn is_new(&self) -> bool {
        self.fresh && self.refused.is_none() && self.is_untried()
    }

    /// Whether no round of fetches was judged yet: how many are allowed follows from what was known, or from what came first.
    pub fn is_untried(&self) -> bool {
        matches!(self.phase, Phase::Grow { before: None, .. })
    }

    /// At least so many (1 or more, but not above the most) are allowed.
    pub fn set_least(&mut self, least: usize) {
        self.least = (least.max(1) as f64).min(self.most);
    }

    /// Whether it is being searched how many are needed.
    pub fn searches(&self) -> bool {
        matches!(self.phase, Phase::Grow { .. })
    }

    /// How many may be in flight.
    pub fn allowed(&self) -> usize {
        self.level.max(self.above).max(self.least).min(self.most).round() as usize
    }

    /// What the endpoint delivered lately at best, bytes per second, and the bytes of a fetch lately.
    pub fn could(&mut self, best: Option<u64>, size: Option<f64>) {
        self.best = best.zip(size).map(|(best, size)| (best as f64, size.max(1.0)));
    }

    /// Those in flight have so many bytes, on average.
    pub fn flying(&mut self, size: f64) {
        self.flying = size;
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Seconds to the first byte, and for each byte after it, of a fetch while the endpoint is not loaded.
    pub fn unloaded(&self) -> Option<(f64, f64)> {
        self.baseline.latency.map(|latency| (latency, self.baseline.per_byte.unwrap_or(0.0)))
    }

    /// How long fetches take lately.
    pub fn duration(&self) -> Duration {
        self.duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(Duration::ZERO)
    }

    /// A fetch is sent.
    pub fn started(&mut self, now: Duration) {
        if self.in_flight == 0 {
            if now.saturating_sub(self.last_bytes) > self.tuning.stall {
                self.round = self.round.next(now);
            }
            self.last_bytes = now;
        }
        self.round.advance(now, self.in_flight, self.streaming);
        self.in_flight += 1;
        // What was measured while readers wanted less would only be passed over, and this round with it.
        let fills = self.is_untried() && self.round.settled && self.in_flight == self.allowed();
        if fills && self.round.mean_level(now).is_some_and(|level| level < self.allowed() as f64 / 2.0) {
            self.round = self.round.next(now);
        }
    }

    /// Fetches that are sent now have about so many bytes. Of larger ones fewer are needed: those that are found to be needed by trials
    /// are of a size.
    pub fn sized(&mut self, now: Duration, bytes: f64) {
        // Only the first search takes sizes as they come.
        let compares = !self.is_untried() && !matches!(self.phase, Phase::Down { .. });
        let Some(held) = self.held.filter(|_| compares) else { return };
        // Beside many that are small nothing is known of what a large one takes.
        let known = self.baseline.latency.zip(self.baseline.per_byte);
        let Some(((latency, per_byte), (_, before))) = known.zip(held.mean()) else { return };
        if bytes < 2.0 * before {
            return;
        }
        // The readers may have wanted less than there is, and first bytes may take longer by now.
        let best = self.best.map_or(held.rate, |(best, _)| best.max(held.rate));
        let latency = latency.max(self.latency);
        let level = self.level_for(best, latency + per_byte * bytes, bytes);
        if level < self.base * 0.7 {
            self.reference = None;
            self.hold(now, level);
        }
    }

    /// The first byte of a fetch that was sent at `started`.
    pub fn answered(&mut self, started: Duration, latency: Duration) {
        self.burst.answered(started.saturating_add(latency), started);
        let seconds = latency.as_secs_f64();
        self.latency += (seconds - self.latency) / 8.0;
        self.round.answered(started, self.clipped(latency));
    }

    /// Of the fetches in flight, so many have their first byte from now on.
    pub fn streaming(&mut self, now: Duration, count: usize) {
        self.round.advance(now, self.in_flight, self.streaming);
        self.burst.streaming(now, self.streaming);
        self.streaming = count;
    }

    /// So many bytes arrived.
    pub fn delivered(&mut self, now: Duration, bytes: u64) {
        self.round.advance(now, self.in_flight, self.streaming);
        let silent = self.was_silent(now);
        self.last_bytes = self.last_bytes.max(now);
        if silent {
            self.void(now);
            // What was under way has waited for the end of the stall, and not for others.
            self.round.cohort = now;
        }
        self.round.delivered(now, bytes);
        self.burst.delivered(now, self.streaming, bytes);
        self.leap_on(now);
        self.turn(now);
    }

    /// A fetch is complete (its bytes were reported).
    pub fn finished(&mut self, now: Duration, fetch: &Finished) {
        self.leave(now);
        if self.is_new() {
            self.leap(now, fetch);
        }
        let seconds = fetch.duration.as_secs_f64();
        self.duration = Some(self.duration.map_or(seconds, |mean| mean + (seconds - mean) / 16.0));
        let latency = self.clipped(fetch.latency);
        self.round.finished(fetch, latency);
        self.since_refused = self.since_refused.saturating_add(1);
        self.turn(now);
    }

    /// A fetch is no longer in flight, for a reason that says nothing about the endpoint.
    pub fn cancelled(&mut self, now: Duration) {
        self.leave(now);
    }

    /// A fetch that was sent at `started` has failed.
    pub fn failed(&mut self, now: Duration, started: Duration, how: Failure) {
        self.leave(now);
        match how {
            Failure::Permanent => {}
            Failure::Throttled => self.cut(now, started, false),
            Failure::Transient => {
                // Where nothing comes at all, fewer would not help.
                if self.was_silent(now) {
                    return;
                }
                self.round.failed = self.round.failed.saturating_add(1);
                let ended_well = self.round.count().saturating_mul(self.tuning.mass);
                let mass = (self.allowed() as u32 / 2).max(4).max(ended_well.saturating_add(1));
                if self.round.failed >= mass {
                    self.round.failed = 0;
                    self.cut(now, started, true);
                }
            }
        }
    }

    /// Whether nothing came for so long, though something was under way, that it was a stall.
    pub(super) fn was_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_bytes) > self.tuning.stall.max(self.duration().saturating_mul(4))
    }

    /// One slow fetch says little about the others: it counts for at most eight usual ones.
    fn clipped(&self, latency: Duration) -> f64 {
        let latency = latency.as_secs_f64();
        self.baseline.latency.map_or(latency, |usual| latency.min(usual * 8.0 + 0.001))
    }

    fn leave(&mut self, now: Duration) {
        self.round.advance(now, self.in_flight, self.streaming);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.above -= 0.5;
        if !self.round.settled && self.in_flight as f64 <= self.level + 0.5 {
            self.round = Round::at_new_level(now, true);
        }
    }

    fn set_level(&mut self, now: Duration, level: f64) {
        self.level = level.clamp(self.least, self.most);
        let settled = self.in_flight as f64 <= self.level + 0.5;
        self.above = if settled { 0.0 } else { self.in_flight as f64 };
        self.round = match self.phase {
            Phase::Up if settled => {
                Round::at_higher_level(now, Duration::try_from_secs_f64(self.latency).unwrap_or_default())
            }
            _ => Round::at_new_level(now, settled),
        };
    }

    /// Rests at `base`.
    fn hold(&mut self, now: Duration, base: f64) {
        self.base = base.clamp(self.least, self.most);
        self.phase = Phase::Hold;
        self.known_for = None;
        self.skip = 1;
        self.holds = 0;
        self.set_level(now, self.base);
    }

    /// What was measured is worth nothing.
    fn void(&mut self, now: Duration) {
        match self.phase {
            Phase::Up | Phase::Down { .. } => self.hold(now, self.base),
            Phase::Grow { .. } | Phase::Hold => self.round = self.round.next(now),
        }
    }

    /// Ends the round if it is over.
    fn turn(&mut self, now: Duration) {
        if self.recover(now) {
            return;
        }
        let elapsed = now.saturating_sub(self.round.from);
        if !self.round.settled {
            let drained = self.duration().saturating_mul(2).max(self.tuning.round_least.saturating_mul(2));
            if matches!(self.phase, Phase::Down { .. }) && now.saturating_sub(self.round.began) > drained {
                return self.not_lower(now);
            }
            // Fetches that hang, and readers who wait for more than is allowed, must not hold up everything.
            let drained = self.tuning.round_most.max(self.duration().saturating_mul(2));
            if now.saturating_sub(self.round.began) > drained {
                self.round = Round::at_new_level(now, true);
            }
            return;
        }
        let turns =
            if matches!(self.phase, Phase::Up | Phase::Grow { before: Some(_), .. }) { 0.5 } else { 1.0 };
        let wanted = (self.allowed() as f64 * turns).max(6.0) as u32;
        // Growing is judged by how long fetches take, the rest by how many bytes came: that needs longer to be exact.
        let least = self.tuning.round_least * if matches!(self.phase, Phase::Grow { .. }) { 1 } else { 3 };
        let counted = self.round.count() >= wanted && elapsed >= least;
        let latency = self.round.latency().unwrap_or(0.0).max(self.latency);
        let first = self.is_untried();
        let long = elapsed >= self.tuning.round_most.saturating_mul(if first { 3 } else { 1 })
            && elapsed.as_secs_f64() >= 2.0 * latency
            && self.round.any_bytes();
        if (counted || long) && elapsed > Duration::ZERO {
            let measure = self.round.measure(now, self.in_flight);
            if self.may_be_a_lull(&measure) {
                return;
            }
            self.round = self.round.next(now);
            self.judge(now, measure, counted);
        }
    }

    /// Whether it seems that a higher level brings no more, in less time than a fetch takes: what was sent together comes together, and in
    /// between little does.
    fn may_be_a_lull(&self, measure: &Measure) -> bool {
        let Phase::Grow { before: Some(before), .. } = self.phase else { return false };
        measure.seconds < self.duration().as_secs_f64() && self.hardly_faster(measure, &before)
    }

    /// Something has changed: what was tried before says nothing any more.
    fn search_again(&mut self) {
        self.holds = 0;
        self.up_wait = 2;
        self.down_step = self.tuning.down;
        self.down_wait = self.tuning.down_every;
        self.proposal_due = Duration::ZERO;
    }

    fn note(&mut self, change: f64) {
        self.noise += 0.2 * (change.abs().min(0.3) - self.noise);
    }

    /// How many in flight would have brought the throughput of a round, if none had waited for another.
    fn knee(&self, measure: &Measure) -> Option<f64> {
        self.baseline.slowdown(measure).map(|slowdown| measure.level / slowdown.max(1.0))
    }

    /// How many times longer than unloaded the fetches of a round take. Where they take so long that hardly one has ended, by Little's law: what
    /// is in flight comes at the rate of the round, once it has had time to come at all.
    fn slowdown(&self, measure: &Measure) -> Option<f64> {
        let had_time = self.baseline.latency.is_some_and(|latency| measure.after >= latency);
        self.baseline.slowdown(measure).or_else(|| self.slowdown_by_rate(measure).filter(|_| had_time))
    }

    /// By Little's law, how many times longer than unloaded what is in flight takes at the rate of the round; if part of it had no time to bring
    /// anything in the beginning, at least so many times.
    fn slowdown_by_rate(&self, measure: &Measure) -> Option<f64> {
        let (latency, per_byte) = self.unloaded()?;
        let unloaded = latency + per_byte * self.flying;
        let ramp = (latency - measure.after).max(0.0);
        let bytes = measure.rate * measure.seconds;
        let takes = measure.level * self.flying * (measure.seconds - ramp) / bytes;
        (bytes > 0.0 && unloaded > 0.0 && measure.seconds > 2.0 * ramp).then(|| takes / unloaded)
    }

    /// The level that what the endpoint delivered lately at best needs, by Little's law: that times how long a fetch takes unloaded.
    fn for_best(&self, measure: &Measure, latency: f64) -> Option<f64> {
        let ((least, per_byte), (best, size)) = self.unloaded().zip(self.best)?;
        let size = measure.mean().map_or(size, |(_, bytes)| bytes.max(size));
        Some(self.level_for(best, latency.max(least) + per_byte * size, size))
    }

    /// The level at which fetches of `bytes` bytes that take so many seconds bring `rate` bytes per second, by Little's law.
    fn level_for(&self, rate: f64, seconds: f64, bytes: f64) -> f64 {
        self.staffed(rate * seconds / bytes.max(1.0))
    }

    /// The level for a knee.
    fn staffed(&self, knee: f64) -> f64 {
        knee + self.tuning.slack * knee.sqrt() + 1.0
    }
}
