//! How many seconds of what the store takes may be in flight.
//!
//! A window of a fifth of a second holds throughput down where a part takes longer than that although the store would take more parts
//! at once: what is measured is then what the window lets through. That shows only in that more in flight brings more. So where few parts
//! fit the window it is made half as large again for a while: what brings more is kept, and tried further; what does not is taken back.
//! Where many fit, a part that takes longer than the window reaches is impossible, and nothing is tried.
//!
//! Rounds differ by chance, by a tenth and more where parts share a network and come in bursts. So what is compared are several rounds whose parts
//! were all sent by the window that is judged. And where twice the room brought hardly more parts in flight (several files share it, and each
//! gathers a part of its own), it was no trial: there is more room yet.
//!
//! At first it doubles for as long as that brings two fifths more, much as BBR does (Cardwell et al., 2016): files are often written before
//! steps of half as much would have found what the store takes. Where the first doubling brings nothing, half of what it began with is tried.

use std::time::Duration;

use super::drain::Measured;

/// A window of more parts than this, which reaches no further than the least, is not held down by how long a part takes.
const FEW: u64 = 8;
/// A trial is a success if it brings so many times what there was, and its slowest round more than the fastest before it: of three rounds
/// and three that differ by chance, one in twenty is that (Mann and Whitney, 1947). Half as much again would be all at first.
const GAIN: f64 = 1.1;
/// So many times that is not the trial's doing: the store itself has changed. Nor is it if less comes than [`FALLEN`].
const CHANGED: f64 = 8.0;
/// A trial reaches so many times as far as a part takes.
const BEYOND: f64 = 1.25;
/// What reaches no more than so many times as far as the least is the least.
const SETTLED: f64 = 1.05;
/// Below this share of what there was when nothing was left to gain, all is found anew.
const FALLEN: f64 = 0.6;
/// Above so many times that, more is tried.
const RISEN: f64 = 1.5;
/// Rounds that are measured to compare with others.
const ROUNDS: u32 = 3;
/// The same after halving: who is wrong then is put right by the next trial.
const HALVED: u32 = 2;
/// And for so long at least.
const LEAST: Duration = Duration::from_millis(200);
/// A rate above so many times that of the rounds is one of before.
const STALE: f64 = 1.4;
/// Below so many times the parts in flight a window was no larger: what there was more room for was only gathered.
const MORE: f64 = 1.25;
/// So often it is made longer for that.
const LONGER: u32 = 2;
/// What twice as much must bring at first to be kept.
const GROWS: f64 = 1.4;
/// After a trial without success, the next at the same rate comes so late; then after twice that, and so on.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest such time.
const AGAIN_MOST: Duration = Duration::from_secs(300);
/// What is more than the least is found anew after so long, then after twice that, and so on: the store may need it no longer.
const ANEW: Duration = Duration::from_secs(60);
/// The longest such time.
const ANEW_MOST: Duration = Duration::from_secs(1_800);
/// Nothing reaches further than this.
const MOST: Duration = Duration::from_secs(3);

/// Bytes per second, seconds that a part was in flight, and parts in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    rate: f64,
    life: f64,
    parts: f64,
}

/// What comes of a window: the mean of some rounds.
#[derive(Debug, Clone, Copy)]
struct Gauge {
    /// What was sent before this was sent by another window.
    since: Duration,
    sum: Mean,
    least: f64,
    most: f64,
    count: u32,
    wanted: u32,
}

impl Gauge {
    fn new(now: Duration, wanted: u32) -> Gauge {
        Gauge { since: now, sum: Mean::default(), least: f64::INFINITY, most: 0.0, count: 0, wanted }
    }

    /// A round is over: the means, if that is all.
    fn add(&mut self, now: Duration, seen: Seen) -> Option<Mean> {
        let round = seen.round;
        if seen.in_flight > seen.window.saturating_add(seen.part) {
            // What was let in by a longer one is still on its way, or yet to be sent.
            self.since = now;
        }
        if round.since < self.since {
            return None;
        }
        self.least = self.least.min(round.rate);
        self.most = self.most.max(round.rate);
        self.sum.rate += round.rate;
        self.sum.life += round.life;
        self.sum.parts += round.parts;
        self.count += 1;
        let count = f64::from(self.count);
        let all = self.count >= self.wanted && now.saturating_sub(self.since) >= LEAST;
        let Mean { rate, life, parts } = self.sum;
        all.then(|| Mean { rate: rate / count, life: life / count, parts: parts / count })
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// No round is over yet.
    New,
    /// Doubled: `window` bytes brought `was`. `paid`: twice as much has brought more before. `longer`: how often it was doubled besides.
    Starting { gauge: Gauge, was: Mean, window: u64, paid: bool, longer: u32 },
    /// Less is in flight than `before`, when there was `rate`.
    Halving { gauge: Gauge, rate: f64, before: Duration },
    /// What there is is measured.
    Settling { gauge: Gauge },
    /// More may be in flight than `before`, when there was `was`, and `most` in a round.
    Trying { gauge: Gauge, was: Mean, most: f64, longer: u32, before: Duration },
    /// More would bring no more than `rate`.
    Found { rate: f64, again: Duration },
}

/// What is known of the store at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The round that is over.
    pub round: Measured,
    /// Bytes per second of the last rounds at best.
    pub rate: u64,
    /// How long a part takes.
    pub took: Duration,
    /// Bytes that may be in flight; before the first round is over twice as many as at first.
    pub window: u64,
    /// Bytes that are.
    pub in_flight: u64,
    /// Bytes of a part.
    pub part: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Reach {
    least: Duration,
    reach: Duration,
    phase: Phase,
    wait: Duration,
    /// When all is found anew, and how long after that the next time.
    anew: Option<(Duration, Duration)>,
}

impl Reach {
    /// Never less than `least`.
    pub fn new(least: Duration) -> Reach {
        Reach { least, reach: least, phase: Phase::New, wait: AGAIN, anew: None }
    }

    /// Now.
    pub fn get(&self) -> Duration {
        self.reach
    }

    /// A round is over, in which somebody waited to write more.
    pub fn round(&mut self, now: Duration, seen: Seen) {
        match &mut self.phase {
            Phase::New => {
                let Measured { rate, life, parts, .. } = seen.round;
                // It was doubled when the first part came.
                let seen = Seen { window: (seen.window / 2).max(seen.part), ..seen };
                self.double(now, seen, Mean { rate, life, parts }, false);
            }
            Phase::Starting { gauge, was, window: smaller, paid, longer } => {
                let Some(is) = gauge.add(now, seen) else { return };
                let (was, smaller, paid) = (*was, *smaller, *paid);
                // By Little's law the one says the other, but each by itself is wrong now and then.
                if is.rate > was.rate * GROWS && is.life < was.life * GROWS {
                    return self.double(now, seen, is, true);
                }
                if is.parts < was.parts * MORE && *longer < LONGER {
                    *longer += 1;
                    *gauge = Gauge::new(now, 1);
                    self.reach = reaching(2.0 * seen.window as f64, seen).max(self.reach);
                    return;
                }
                // If it was as much, both say what that is.
                let rate = if paid { was.rate } else { (is.rate + was.rate) / 2.0 };
                let seen = Seen { rate: rate as u64, ..seen };
                // What there was room for at first may be more than enough.
                let half = reaching(smaller as f64 / 2.0, seen).max(self.least);
                let whole = reaching(smaller as f64, seen).max(self.least);
                (self.reach, self.phase) = match !paid && half < whole {
                    true => (half, Phase::Halving { gauge: Gauge::new(now, HALVED), rate, before: whole }),
                    false => (whole, Phase::Settling { gauge: Gauge::new(now, 1) }),
                };
            }
            Phase::Halving { gauge, rate: before, before: reach } => {
                let Some(is) = gauge.add(now, seen) else { return };
                if is.rate < *before / GAIN {
                    self.reach = *reach;
                }
                self.settle(now);
            }
            Phase::Settling { gauge } => {
                if let Some(is) = gauge.add(now, seen) {
                    let most = gauge.most;
                    self.settled(now, seen, is, most);
                }
            }
            Phase::Trying { gauge, was, most, longer, before } => {
                let Some(is) = gauge.add(now, seen) else { return };
                let (is, was, fewer) = (is.rate, was.rate, is.parts < was.parts * MORE);
                if is >= was * CHANGED || is < was * FALLEN {
                    self.begin(now);
                } else if is >= was * GAIN && gauge.least > *most {
                    self.wait = AGAIN;
                    self.settle(now);
                } else if fewer && *longer < LONGER {
                    *longer += 1;
                    *gauge = Gauge::new(now, ROUNDS);
                    self.reach = reaching(seen.window as f64 * 1.5, seen).max(self.reach);
                } else {
                    self.reach = *before;
                    self.found(now, is.min(was));
                    self.wait = self.wait.saturating_mul(2).min(AGAIN_MOST);
                }
            }
            Phase::Found { rate: before, again } => {
                let (before, rate) = (*before, seen.rate as f64);
                let (due, wait) = *self.anew.get_or_insert((now.saturating_add(ANEW), ANEW));
                if rate < before * FALLEN {
                    // Perhaps it is the store that takes less, and what was found is too much now.
                    self.anew = None;
                    self.begin(now);
                } else if self.reach > self.least && now >= due {
                    let wait = wait.saturating_mul(2).min(ANEW_MOST);
                    self.anew = Some((now.saturating_add(wait), wait));
                    self.begin(now);
                } else if rate > before * RISEN || now >= *again {
                    self.settle(now);
                }
            }
        }
    }

    /// So much came of what is in flight: twice as much of it.
    fn double(&mut self, now: Duration, seen: Seen, was: Mean, paid: bool) {
        let window = seen.window;
        if self.many(seen) {
            return self.found(now, was.rate);
        }
        self.reach = reaching(2.0 * window as f64, seen).max(self.least);
        self.phase = Phase::Starting { gauge: Gauge::new(now, 1), was, window, paid, longer: 0 };
    }

    /// A part that takes longer than the window reaches is impossible.
    fn many(&self, seen: Seen) -> bool {
        seen.window > seen.part.saturating_mul(FEW) && self.reach <= self.least.mul_f64(SETTLED)
    }

    fn settle(&mut self, now: Duration) {
        self.phase = Phase::Settling { gauge: Gauge::new(now, ROUNDS) };
    }

    fn found(&mut self, now: Duration, rate: f64) {
        self.phase = Phase::Found { rate, again: now.saturating_add(self.wait) };
    }

    /// As if nothing were known.
    fn begin(&mut self, now: Duration) {
        self.reach = self.least;
        self.wait = AGAIN;
        self.settle(now);
    }

    /// What there is was measured: tries whether more in flight brings more.
    fn settled(&mut self, now: Duration, seen: Seen, was: Mean, most: f64) {
        // What the store took before it became slower is believed for a while.
        if seen.rate as f64 > was.rate * STALE {
            return self.settle(now);
        }
        // What reaches no further than a part takes lets one part more in each time.
        let wanted = reaching(seen.window as f64 * 1.5, seen).max(seen.took.mul_f64(BEYOND)).min(MOST);
        if self.many(seen) || wanted <= self.reach {
            return self.found(now, was.rate);
        }
        let gauge = Gauge::new(now, ROUNDS);
        self.phase = Phase::Trying { gauge, was, most, longer: 0, before: self.reach };
        self.reach = wanted;
    }
}

/// How far a window of so many bytes reaches at the rate that is seen.
fn reaching(window: f64, seen: Seen) -> Duration {
    let seconds = (window - seen.part as f64).max(0.0) / (seen.rate as f64).max(1.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 16 << 20;
    const SHORT: Duration = Duration::from_millis(200);

    /// A round is over at a time: so many parts a second came, of so many that took so long each.
    fn round(reach: &mut Reach, at: f64, rate: f64, life: f64, parts: f64, window: f64) -> f64 {
        round_with(reach, at, rate, life, parts, window, window)
    }

    /// The same, when so many parts are in flight.
    fn round_with(
        reach: &mut Reach,
        at: f64,
        rate: f64,
        life: f64,
        parts: f64,
        window: f64,
        flying: f64,
    ) -> f64 {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
        let rate = rate * PART as f64;
        // Its first part was acknowledged when it began.
        let since = seconds(at - 2.0 * life);
        let seen = Seen {
            round: Measured { rate, life, parts, since },
            rate: rate as u64,
            took: seconds(life),
            window: (window * PART as f64) as u64,
            in_flight: (flying * PART as f64) as u64,
            part: PART,
        };
        reach.round(seconds(at), seen);
        reach.get().as_secs_f64()
    }

    /// A store that takes `most` bytes a second, and each part for `alone` seconds at least; the reach after so long.
    fn found(reach: &mut Reach, most: f64, alone: f64, from: u64, seconds: u64) -> (f64, f64) {
        let (mut now, end) = (from as f64, (from + seconds) as f64);
        let most = most / PART as f64;
        let mut rate = most.min(2.0 / alone);
        while now < end {
            // What was let in during one round is what is seen in the next.
            let window = (rate * reach.get().as_secs_f64() + 1.0).max(2.0);
            rate = most.min(window / alone);
            now += window / rate;
            round(reach, now, rate, window / rate, window, window);
        }
        (reach.get().as_secs_f64(), rate * PART as f64)
    }

    #[test]
    fn a_store_that_is_far_away_gets_what_it_takes_and_a_near_one_no_more_than_the_least() {
        for alone in [0.01, 0.1, 0.25, 0.3, 0.4, 0.6, 1.0] {
            for most in [1e8, 3e8, 1e9] {
                let mut reach = Reach::new(SHORT);
                let (seconds, rate) = found(&mut reach, most, alone, 0, 60);
                assert!(rate > 0.9 * most, "{alone} {most}: {rate}, {seconds}");
                assert!(seconds <= 0.2f64.max(2.2 * alone), "{alone} {most}: {seconds}");
            }
        }
    }

    #[test]
    fn half_of_what_it_began_with_is_tried_where_twice_as_much_brings_nothing() {
        // Four parts a second come, of four in flight and of eight; then `half` a second, of two.
        let after = |half: f64| {
            let mut reach = Reach::new(SHORT);
            // (8 - 1) parts at 4 a second. What was sent before that says nothing.
            assert_eq!(round(&mut reach, 1.0, 4.0, 1.0, 4.0, 8.0), 1.75);
            assert_eq!(round(&mut reach, 2.0, 2.0, 2.0, 4.0, 8.0), 1.75);
            // (2 - 1) parts.
            assert_eq!(round(&mut reach, 5.0, 4.0, 2.0, 8.0, 8.0), 0.25);
            assert_eq!(round(&mut reach, 9.0, half, 2.0 / half, 2.0, 2.0), 0.25);
            round(&mut reach, 10.0, half, 2.0 / half, 2.0, 2.0)
        };
        assert_eq!(after(4.0), 0.25);
        // (4 - 1) parts at 4 a second: all of it was needed.
        assert_eq!(after(2.0), 0.75);
    }

    #[test]
    fn while_more_is_in_flight_than_a_shorter_window_lets_in_a_round_says_nothing() {
        let reached = |flying: &[f64]| {
            let mut reach = Reach::new(SHORT);
            round(&mut reach, 1.0, 4.0, 1.0, 4.0, 8.0);
            assert_eq!(round(&mut reach, 5.0, 4.0, 2.0, 8.0, 8.0), 0.25, "half is tried: two parts");
            let rounds = flying.iter().zip(6..).map(|(flying, at)| {
                // Half as much comes, of parts that were sent since the round before.
                round_with(&mut reach, f64::from(at), 2.0, 0.4, 2.0, 2.0, *flying)
            });
            rounds.collect::<Vec<_>>()
        };
        // After two rounds that tell, all of it was needed.
        assert_eq!(reached(&[2.0, 2.0]), [0.25, 0.75]);
        assert_eq!(reached(&[3.0, 3.0]), [0.25, 0.75], "the next part is being gathered");
        assert_eq!(reached(&[4.0, 2.0, 2.0]), [0.25, 0.25, 0.75]);
    }

    #[test]
    fn what_brings_more_while_parts_take_as_much_longer_is_not_doubled_again() {
        let after = |life: f64| {
            let mut reach = Reach::new(SHORT);
            round(&mut reach, 1.0, 4.0, 1.0, 4.0, 8.0);
            round(&mut reach, 5.0, 6.0, life, 8.0, 8.0)
        };
        // (16 - 1) parts at 6 a second.
        assert_eq!(after(1.3), 2.5);
        // Half of the four parts that it began with, at 5 a second, of which both rounds tell.
        assert_eq!(after(1.5), 0.2);
    }

    #[test]
    fn of_rounds_too_short_to_tell_the_mean_counts() {
        // Doubled; then two rounds of a tenth of a second, of so many parts that take so long.
        let after = |parts: f64, life: f64| {
            let mut reach = Reach::new(SHORT);
            round(&mut reach, 1.0, 4.0, 1.0, 4.0, 8.0);
            let first = round(&mut reach, 5.0, 6.0, life, parts, 8.0);
            let mut reach = Reach::new(SHORT);
            round(&mut reach, 1.0, 4.0, 0.01, 4.0, 8.0);
            round(&mut reach, 1.15, 6.0, life / 100.0, parts, 8.0);
            (first, round(&mut reach, 1.25, 6.0, life / 100.0, parts, 8.0))
        };
        assert_eq!(after(8.0, 1.3), (2.5, 2.5), "no part takes as much longer as comes more: doubled again");
        assert_eq!(after(8.0, 1.5), (0.2, 0.2), "they do");
        assert_eq!(after(4.0, 1.5), (2.5, 2.5), "no more were in flight: there is more room yet");
    }

    #[test]
    fn where_what_there_is_more_room_for_is_only_gathered_there_is_more_room_yet() {
        let mut reach = Reach::new(SHORT);
        let seen = |reach: &mut Reach, at, rate, parts: f64, window| {
            round(reach, at, rate, parts / rate, parts, window)
        };
        assert_eq!(seen(&mut reach, 1.0, 8.0, 4.0, 8.0), 0.875);
        // Of twice the room nothing was sent: (16 - 1) parts at 8 a second, and then they are.
        assert_eq!(seen(&mut reach, 3.0, 8.0, 4.0, 8.0), 1.875);
        assert_eq!(seen(&mut reach, 6.0, 16.0, 8.0, 16.0), (32.0 - 1.0) / 16.0);
        // Where never more is in flight, it ends at eight times the room.
        let mut reach = Reach::new(SHORT);
        let reached: Vec<f64> = [8.0, 8.0, 16.0, 32.0]
            .iter()
            .zip(1..)
            .map(|(window, at)| seen(&mut reach, f64::from(at) * 2.0, 16.0, 4.0, *window))
            .collect();
        assert_eq!(reached, [7.0 / 16.0, 15.0 / 16.0, 31.0 / 16.0, 0.2]);
    }

    #[test]
    fn rounds_that_differ_by_chance_make_it_no_longer() {
        // A shared network: what comes does not depend on what is in flight.
        let chance = [1.0, 0.85, 1.15, 0.9, 1.2, 1.0, 0.8, 1.1, 0.95, 1.05, 1.15];
        for first in 0..chance.len() {
            let mut reach = Reach::new(SHORT);
            let (mut now, mut long, mut window) = (0.0, 0, 4.0);
            for index in 0..400 {
                let rate = 5.0 * chance[(first + index) % chance.len()];
                now += window / rate;
                let reached = round(&mut reach, now, rate, window / rate, window, window);
                window = (rate * reached + 1.0).max(2.0);
                long += i32::from(window > 4.5);
            }
            // Two parts, and a trial of half as much again now and then; two in a hundred rounds see more of that by chance.
            assert!(long <= 40, "{first}: {long} {window}");
        }
    }

    #[test]
    fn what_a_faster_store_does_not_need_is_given_up_within_a_minute() {
        let mut reach = Reach::new(SHORT);
        let (far, _) = found(&mut reach, 1e9, 0.6, 0, 30);
        assert!(far > 0.4, "{far}");
        let (near, rate) = found(&mut reach, 1e9, 0.05, 30, 65);
        assert!(near <= 0.2 && rate > 0.99e9, "{near} {rate}");
    }

    #[test]
    fn a_store_that_comes_nearer_or_becomes_slower_is_found_anew() {
        let mut reach = Reach::new(SHORT);
        let (far, _) = found(&mut reach, 1e9, 0.6, 0, 60);
        assert!(far > 0.4, "{far}");
        // Not in the middle of a trial.
        let (slow, rate) = found(&mut reach, 1e8, 0.05, 60, 28);
        assert!(slow <= 0.2 && rate > 0.99e8, "{slow} {rate}");
        let (_, rate) = found(&mut reach, 1e9, 0.6, 90, 60);
        assert!(rate > 0.9e9, "{rate}");
    }
}
