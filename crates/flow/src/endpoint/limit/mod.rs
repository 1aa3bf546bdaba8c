//! How many fetches may be in flight at one endpoint.
//!
//! A fetch waits for its first byte and then streams, so the endpoint is only busy while enough of them are under way: the
//! bandwidth-delay product, in fetches. Fewer leave it idle, more only queue. Where that knee is cannot be known, so it is
//! found, in *rounds* of about as many finished fetches as are allowed:
//!
//! - **Grow**: double as long as it pays.
//! - **Hold**: rest a little above the knee. By Little's law it is at (in flight) / (slowdown), where slowdown is how many times
//!   longer than unloaded fetches take. Fetches come back at random, so some slack is needed to keep the endpoint busy: of the
//!   order of the knee's square root (Halfin and Whitt, "Heavy-Traffic Limits for Queues with Many Exponential Servers", 1981).
//! - **Up** and **Down**: what models say is only a proposal. A round at another level is tried, and the throughput decides.
//!   Up costs nothing but queueing, and is tried often. Down may cost throughput: it is tried when the slowdown proposes it, and
//!   rarely otherwise.
//!
//! Throughput that jumps or drops starts the search again. Refusals ([`Failure::Throttled`]) and mass failures cut the level at
//! once, whatever the throughput (additive increase, multiplicative decrease; Chiu and Jain, 1989).

mod refusals;
mod round;
mod tuning;

use std::time::Duration;

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
    refused: Option<Refused>,
    /// Fetches that ended well since the last refusal.
    since_refused: u32,
}

impl Limit {
    /// Nothing is known yet. Never more than `most` (at least 1) are allowed.
    pub fn new(tuning: Tuning, most: usize) -> Limit {
        let most = most.max(1) as f64;
        let first = tuning.first.clamp(1.0, most);
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
            refused: None,
            since_refused: 0,
            tuning,
        }
    }

    /// At least so many (1 or more, but not above the most) are allowed.
    pub fn set_least(&mut self, least: usize) {
        self.least = (least.max(1) as f64).min(self.most);
    }

    /// How many may be in flight.
    pub fn allowed(&self) -> usize {
        self.level.max(self.above).max(self.least).min(self.most).round() as usize
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
    }

    /// The first byte of a fetch that was sent at `started`.
    pub fn answered(&mut self, started: Duration, latency: Duration) {
        let seconds = latency.as_secs_f64();
        self.latency += (seconds - self.latency) / 8.0;
        self.round.answered(started, self.clipped(latency));
    }

    /// Of the fetches in flight, so many have their first byte from now on.
    pub fn streaming(&mut self, now: Duration, count: usize) {
        self.round.advance(now, self.in_flight, self.streaming);
        self.streaming = count;
    }

    /// So many bytes arrived.
    pub fn delivered(&mut self, now: Duration, bytes: u64) {
        self.round.advance(now, self.in_flight, self.streaming);
        let silence = now.saturating_sub(self.last_bytes);
        self.last_bytes = self.last_bytes.max(now);
        if silence > self.silence() {
            self.void(now);
        }
        self.round.delivered(now, bytes);
        self.turn(now);
    }

    /// A fetch is complete (its bytes were reported).
    pub fn finished(&mut self, now: Duration, fetch: &Finished) {
        self.leave(now);
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
            Failure::Throttled => self.cut(now, started),
            Failure::Transient => {
                // Where nothing comes at all, fewer would not help.
                if now.saturating_sub(self.last_bytes) > self.silence() {
                    return;
                }
                self.round.failed = self.round.failed.saturating_add(1);
                let ended_well = self.round.count().saturating_mul(self.tuning.mass);
                let mass = (self.allowed() as u32 / 2).max(4).max(ended_well.saturating_add(1));
                if self.round.failed >= mass {
                    self.round.failed = 0;
                    self.cut(now, started);
                }
            }
        }
    }

    /// No bytes for longer than this: a stall.
    fn silence(&self) -> Duration {
        self.tuning.stall.max(self.duration().saturating_mul(4))
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

    /// Less was in flight than is allowed. Where even that queues, what is allowed beyond it would only come in bursts.
    fn unused(&mut self, now: Duration, measure: &Measure) {
        let queues =
            self.baseline.slowdown(measure).is_some_and(|slowdown| slowdown > 1.0 + self.tuning.queues);
        let level = self.knee(measure).map(|knee| self.staffed(knee).max(measure.level));
        let before = match self.phase {
            Phase::Grow { before, .. } => before.map(|before| before.rate),
            Phase::Hold | Phase::Up | Phase::Down { .. } => None,
        };
        // Where throughput has fallen as well, it is fetches that have become slower.
        let keeps_up = before.is_some_and(|before| measure.rate >= before * (1.0 - self.tuning.drop));
        match level.filter(|level| queues && keeps_up && *level < self.level) {
            Some(level) => {
                self.reference = None;
                self.hold(now, level);
            }
            None if self.phase == Phase::Up && self.enough.is_some() => {
                let enough = self.enough.take().unwrap_or(self.base);
                self.reference = None;
                self.hold(now, enough);
            }
            // The readers' windows follow only now.
            None if self.phase == Phase::Up && self.after_drop.take().is_some() => {
                self.reference = None;
                self.hold(now, self.level);
            }
            None => self.void(now),
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
            // Fetches that hang must not hold up everything.
            if now.saturating_sub(self.round.began)
                > Duration::from_secs(2).max(self.duration().saturating_mul(4))
            {
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
        let first = matches!(self.phase, Phase::Grow { before: None, .. });
        let long = elapsed >= self.tuning.round_most.saturating_mul(if first { 3 } else { 1 })
            && elapsed.as_secs_f64() >= 2.0 * latency
            && self.round.any_bytes();
        if (counted || long) && elapsed > Duration::ZERO {
            let measure = self.round.measure(now, self.in_flight);
            self.round = self.round.next(now);
            self.judge(now, measure, counted);
        }
    }

    fn judge(&mut self, now: Duration, measure: Measure, counted: bool) {
        // Of fetches sent just now, only the quick ones have ended.
        let representative = match self.phase {
            Phase::Up | Phase::Grow { before: Some(_), .. } => false,
            Phase::Grow { .. } | Phase::Down { .. } => true,
            Phase::Hold => self.baseline.latency.is_some(),
        };
        if counted && self.skip == 0 && representative {
            self.baseline.lower(&measure);
        }
        let allowed = self.allowed() as f64;
        if measure.level < allowed - (allowed * 0.1).max(0.5) {
            // The readers were the limit.
            return self.unused(now, &measure);
        }
        // What is still queued only makes a lower level look better than it is.
        let hopeless = matches!(self.phase, Phase::Down { .. })
            && self.reference.is_some_and(|reference| measure.rate < reference * 0.85);
        if self.skip > 0 && !hopeless {
            self.skip -= 1;
            return;
        }
        if matches!(self.phase, Phase::Down { .. }) && measure.level > self.level * 1.3 + 1.0 {
            return self.not_lower(now);
        }
        match self.phase {
            Phase::Grow { back, before, first } => self.judge_growth(now, measure, back, before, first),
            Phase::Hold => self.judge_hold(now, measure),
            Phase::Up => self.judge_up(now, measure),
            Phase::Down { proposed } => self.judge_down(now, measure, proposed),
        }
    }

    fn judge_growth(
        &mut self,
        now: Duration,
        measure: Measure,
        back: f64,
        before: Option<Measure>,
        first: bool,
    ) {
        self.each = self.each.max(measure.rate / measure.level.max(0.5));
        let Some(before) = before else {
            return self.grow(now, back, measure, first);
        };
        let wider = measure.level / before.level.max(0.1);
        if wider < 1.05 {
            self.reference = None;
            return self.hold(now, self.level);
        }
        let (knee_before, knee) = (self.knee(&before), self.knee(&measure));
        let gain = match (knee_before, knee) {
            (Some(before), Some(now)) => now / before,
            _ => measure.rate / before.rate.max(1.0),
        };
        let worth = self.tuning.grow_worth.clamp(0.01, 0.9);
        // The first fetches to end are the quick ones: where throughput has not grown at all, they deceive.
        let faster = measure.rate / before.rate.max(1.0);
        let gain = if faster < 1.0 + worth * (wider - 1.0) / 3.0 { gain.min(faster) } else { gain };
        if gain >= 1.0 + worth * (wider - 1.0) {
            if gain >= 1.0 + worth.max(0.7) * (wider - 1.0) {
                self.baseline.set(&measure);
            }
            self.fresh = false;
            return self.grow(now, back, measure, false);
        }
        let level = if first && gain < 1.05 + self.noise {
            back
        } else if first {
            self.staffed(before.level * gain).clamp(back, self.level)
        } else {
            // Too high does no harm, and a lower level will be proposed.
            let unseen = if gain < 1.1 { measure.rate / self.each.max(1.0) } else { self.level };
            // Growing has paid up to here, whatever is thought of how long fetches take.
            let paid = (measure.rate / self.each.max(1.0)).min(before.level);
            let knee = knee.map_or(unseen, |knee| knee.max(knee_before.unwrap_or(0.0)).max(paid));
            self.staffed(knee).clamp(before.level * 0.6, self.level)
        };
        self.reference = None;
        self.hold(now, level);
        if std::mem::take(&mut self.fresh) {
            // Growing never paid: what is known was measured under load, and the knee may be far below.
            self.down_step = 0.5;
            self.down_due = now;
        } else {
            self.down_due = now.saturating_add(self.down_wait);
        }
        self.up_wait = 2;
    }

    fn grow(&mut self, now: Duration, back: f64, measure: Measure, first: bool) {
        self.each = self.each.max(measure.rate / measure.level.max(0.5));
        if self.level >= self.most {
            self.reference = None;
            self.down_due = now.saturating_add(self.down_wait);
            return self.hold(now, self.level);
        }
        self.phase = Phase::Grow { back, before: Some(measure), first };
        self.set_level(now, (self.level * (1.0 + self.tuning.grow.clamp(0.1, 3.0))).max(self.level + 1.0));
    }

    fn judge_hold(&mut self, now: Duration, measure: Measure) {
        let Some(reference) = self.reference else {
            self.reference = Some(measure.rate);
            if let Some(before) = self.dropped.take() {
                self.answer_drop(now, before, measure);
            } else {
                self.held = Some(measure);
            }
            return;
        };
        let change = measure.rate / reference.max(1.0) - 1.0;
        if change > self.tuning.rise.max(3.0 * self.noise) && !self.careful(now) && self.base < self.most {
            self.reference = Some(measure.rate);
            self.note(change);
            self.search_again();
            self.each = 0.0;
            return self.grow(now, self.base, measure, true);
        }
        if change < -self.tuning.drop.max(3.0 * self.noise).min(0.6) {
            self.reference = None;
            self.dropped = self.held;
            self.search_again();
            return;
        }
        self.note(change);
        self.held = Some(Measure { rate: reference, ..measure });
        self.reference = Some(reference + (measure.rate - reference) / 4.0);
        self.holds = self.holds.saturating_add(1);
        let by_rate = (self.each > 0.0).then(|| reference / self.each);
        if self.baseline.latency.is_none()
            && by_rate.is_some_and(|knee| self.base <= self.staffed(knee) * 1.1 + 1.0)
        {
            self.baseline.lower(&measure);
        }
        let proposal = self.knee(&measure).or(by_rate).map(|knee| self.staffed(knee));
        let excess = proposal.filter(|level| self.base > level * (1.0 + self.tuning.excess) + 1.0);
        let waited = now.saturating_sub(self.up_tried) >= self.tuning.up_every && self.holds >= 2;
        if let Some(level) = excess.filter(|_| now >= self.proposal_due && change > -0.04) {
            self.try_down(now, level.max(self.base * 0.5), true);
        } else if self.holds >= self.up_wait || waited {
            self.try_up(now, self.tuning.up);
        } else if now >= self.down_due && self.noise <= 0.05 && (self.base >= 2.5 || self.down_step >= 0.5) {
            self.try_down(
                now,
                (self.base * (1.0 - self.down_step.clamp(0.01, 0.6))).min(self.base - 1.0),
                false,
            );
        }
    }

    /// Throughput is not what it was `before`.
    fn answer_drop(&mut self, now: Duration, before: Measure, measure: Measure) {
        let bodies = before.per_byte().zip(measure.per_byte());
        let slower = bodies.is_some_and(|(before, now)| now > before * (1.0 + self.tuning.queues).powi(2));
        let unloaded = self.unloaded().zip(before.mean());
        // What little the network brings now needs so many, by Little's law.
        let enough = unloaded.map(|((latency, per_byte), (_, bytes))| {
            self.staffed(measure.rate * (latency + per_byte * bytes) / bytes.max(1.0))
        });
        self.try_up(now, self.needed(&before, &measure).max(self.tuning.up_after_drop));
        self.after_drop = Some(measure);
        // If more does not bring more, it is not each connection that is slower, but all of them together.
        self.enough = enough.filter(|level| slower && *level < self.base);
    }

    /// By which share the level is to rise, so that fetches which now take as long as in `now` bring what they did `before`: by
    /// Little's law, if they wait longer for their first bytes. If the bytes after it come more slowly, it is the network that brings
    /// less, and more in flight would only queue.
    fn needed(&self, before: &Measure, now: &Measure) -> f64 {
        let slower = |(before, now): (f64, f64)| now > before * 1.3;
        match (before.per_byte().zip(now.per_byte()), now.mean()) {
            (Some(bodies), Some((seconds, bytes))) if !slower(bodies) => {
                (self.staffed(before.rate * seconds / bytes.max(1.0)) / self.base - 1.0).clamp(0.0, 15.0)
            }
            _ => 0.0,
        }
    }

    fn try_up(&mut self, now: Duration, step: f64) {
        self.up_tried = now;
        self.holds = 0;
        let step =
            if self.careful(now) { self.tuning.up / 2.0 } else { step.max((6.0 * self.noise).min(0.6)) };
        let level = (self.base * (1.0 + step)).max(self.base + 1.0).min(self.most);
        if level >= self.base + 0.5 {
            self.phase = Phase::Up;
            self.set_level(now, level);
        }
    }

    fn judge_up(&mut self, now: Duration, measure: Measure) {
        let step = self.level / self.base - 1.0;
        let reference = self.reference.unwrap_or(measure.rate);
        let mut gain = measure.rate / reference.max(1.0) - 1.0;
        let after_drop = self.after_drop.take();
        if let Some(before) = after_drop.and_then(|before| self.knee(&before)) {
            // Bytes of before the drop may have been counted before; how long fetches take now is not to be mistaken.
            let knee = self.knee(&measure).map_or(0.0, |knee| knee / before - 1.0);
            gain = gain.max(if knee >= 0.7 * step { knee } else { 0.0 });
        }
        if let Some(enough) = self.enough.take().filter(|_| gain < self.tuning.grow_worth.min(0.9) * step) {
            self.reference = None;
            return self.hold(now, enough);
        }
        if gain < self.tuning.worth.min(0.9) * step {
            self.up_wait = self.up_wait.saturating_mul(2).min(8);
            return self.hold(now, self.base);
        }
        let level = self.level;
        self.reference = Some(measure.rate);
        self.up_wait = 1;
        self.hold(now, level);
        if gain >= 0.6 * step && !self.careful(now) {
            self.skip = 0;
            self.each = measure.rate / measure.level.max(0.5);
            if after_drop.is_some() {
                // It is not the endpoint that does less: fetches have become slower.
                self.baseline.slower(&measure);
            }
            self.grow(now, level, measure, true);
        }
    }

    fn try_down(&mut self, now: Duration, level: f64, proposed: bool) {
        let level = level.max(self.least);
        if level.round() >= self.base.round() {
            self.down_due = now.saturating_add(self.down_wait);
            return;
        }
        self.phase = Phase::Down { proposed };
        // What is queued at the endpoint keeps it busy for a while, whatever the level.
        self.skip = u32::from(level < self.base * 0.7);
        self.set_level(now, level);
    }

    fn judge_down(&mut self, now: Duration, measure: Measure, proposed: bool) {
        let reference = self.reference.unwrap_or(measure.rate);
        let lost = (self.tuning.worth * (1.0 - self.level / self.base)).min(0.03) + self.noise / 2.0;
        if measure.rate >= reference * (1.0 - lost) {
            let level = if proposed {
                self.level
            } else {
                (self.level * self.base).sqrt().min(self.level * 1.15 + 1.0)
            };
            self.down_step = (self.down_step * 2.0).min(0.5);
            self.down_wait = self.tuning.down_every;
            self.down_due = now;
            self.up_wait = 4;
            return self.hold(now, level);
        }
        if measure.rate < reference * (self.level / self.base) * (1.0 - 2.0 * self.tuning.drop) {
            // So much is not the level's doing.
            self.dropped = self.held.map(|held| Measure { rate: reference, ..held });
            self.search_again();
        }
        if proposed {
            // It was not loaded at all: fetches have become slower.
            self.baseline.set(&measure);
            self.each = measure.rate / measure.level.max(0.5);
        }
        self.down_step = self.tuning.down;
        self.down_due = now.saturating_add(self.down_wait);
        self.proposal_due = self.down_due;
        self.down_wait = self.down_wait.saturating_mul(2).min(self.tuning.down_rarest);
        self.up_wait = 2;
        self.reference = None;
        self.hold(now, self.base);
    }

    /// Readers wait for more than a lower level allows: it could not be tried.
    fn not_lower(&mut self, now: Duration) {
        self.down_step = self.tuning.down;
        self.down_due = now.saturating_add(self.down_wait);
        self.proposal_due = self.down_due;
        self.down_wait = self.down_wait.saturating_mul(2).min(self.tuning.down_rarest);
        self.hold(now, self.base);
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

    /// The level for a knee.
    fn staffed(&self, knee: f64) -> f64 {
        knee + self.tuning.slack * knee.sqrt() + 1.0
    }
}
