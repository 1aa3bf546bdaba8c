//! How many seconds of what the store takes may be in flight.
//!
//! A window of a fifth of a second holds throughput down where a part takes longer than that although the store would take more parts
//! at once: what is measured is then what the window lets through. That shows only in that more in flight brings more. So where few parts
//! fit the window it is made half as large again for a while: what brings more is kept, and tried further; what does not is taken back.
//! Where many fit, a part that takes longer than the window reaches is impossible, and nothing is tried.
//!
//! At first it doubles for as long as that brings two fifths more, much as BBR does (Cardwell et al., 2016): files are often written before
//! steps of half as much would have found what the store takes. Where the first doubling brings nothing, half of what it began with is tried.

use std::time::Duration;

/// A window of more parts than this, which reaches no further than the least, is not held down by how long a part takes.
const FEW: u64 = 8;
/// A trial is a success if it brings so many times what there was; half as much again would be all at first.
const GAIN: f64 = 1.1;
/// So many times that is not the trial's doing: the store itself has changed. Nor is it if less comes than [`FALLEN`].
const CHANGED: f64 = 8.0;
/// A trial reaches so many times as far as a part takes.
const BEYOND: f64 = 1.25;
/// What changes by less is settled.
const SETTLED: f64 = 1.05;
/// Below this share of what there was when nothing was left to gain, all is found anew.
const FALLEN: f64 = 0.6;
/// Above so many times that, more is tried.
const RISEN: f64 = 1.5;
/// Parts must have taken so many of their times for rates to be compared.
const ROUNDS: u32 = 4;
/// And at least so long.
const LEAST: Duration = Duration::from_millis(400);
/// What twice as much must bring at first to be kept.
const GROWS: f64 = 1.4;
/// Times that a part takes, until what was sent since the last doubling has come back.
const DOUBLED: u32 = 2;
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

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Doubled since then, when `window` bytes in flight brought `rate`. `paid`: twice as much has brought more before.
    Starting { since: Duration, rate: f64, window: u64, paid: bool },
    /// Less is in flight since then than `before`, when there was `rate`.
    Halving { since: Duration, rate: f64, before: Duration },
    /// Until throughput does not rise any more.
    Settling { since: Duration, rate: f64 },
    /// More is in flight than `before`, when there was `rate`; until so many more bytes were acknowledged.
    Trying { since: Duration, rate: f64, before: Duration, bytes: u64 },
    /// More would bring no more than `rate`.
    Found { rate: f64, again: Duration },
}

/// What is known of the store at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Bytes per second.
    pub rate: u64,
    /// How long a part takes.
    pub took: Duration,
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bytes of a part.
    pub part: u64,
    /// Bytes that were acknowledged just now.
    pub bytes: u64,
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
        let phase = Phase::Starting { since: Duration::ZERO, rate: 0.0, window: 0, paid: false };
        Reach { least, reach: least, phase, wait: AGAIN, anew: None }
    }

    /// Now.
    pub fn get(&self) -> Duration {
        self.reach
    }

    /// A part was acknowledged while somebody waited to write more.
    pub fn delivered(&mut self, now: Duration, seen: Seen) {
        let rate = seen.rate as f64;
        let round = seen.took.saturating_mul(ROUNDS).max(LEAST);
        match &mut self.phase {
            Phase::Starting { since, rate: before, window, paid } => {
                let doubled = seen.took.saturating_mul(DOUBLED);
                if rate > *before * GROWS {
                    *paid = *before > 0.0;
                    (*since, *before, *window) = (now, rate, seen.window);
                    self.reach = reaching(2.0 * seen.window as f64, seen).max(self.least);
                } else if now.saturating_sub(*since) >= doubled {
                    let (before, window, paid) = (rate.max(*before), *window, *paid);
                    let seen = Seen { rate: before as u64, ..seen };
                    // What there was room for at first may be more than enough.
                    let half = reaching(window as f64 / 2.0, seen).max(self.least);
                    let whole = reaching(window as f64, seen).max(self.least);
                    (self.reach, self.phase) = match !paid && half < whole {
                        true => (half, Phase::Halving { since: now, rate: before, before: whole }),
                        false => (whole, Phase::Settling { since: now, rate }),
                    };
                }
            }
            Phase::Halving { since, rate: before, before: reach } => {
                // What was in flight beyond half of it comes first.
                if now.saturating_sub(*since) < round {
                    return;
                }
                if rate < *before / GAIN {
                    self.reach = *reach;
                }
                self.phase = Phase::Settling { since: now, rate };
            }
            Phase::Settling { since, rate: before } => {
                // A part more or less at the end of an interval is no change.
                let settled = SETTLED.max(1.0 + seen.part as f64 / seen.window.max(1) as f64);
                if rate > *before * settled || rate < *before / settled {
                    (*since, *before) = (now, rate);
                } else if now.saturating_sub(*since) >= round {
                    self.settled(now, seen);
                }
            }
            Phase::Trying { since, rate: before, before: reach, bytes } => {
                *bytes = bytes.saturating_sub(seen.bytes);
                if now.saturating_sub(*since) < round || *bytes > 0 {
                    return;
                }
                if rate >= *before * CHANGED || rate < *before * FALLEN {
                    self.begin(now, rate);
                } else if rate >= *before * GAIN {
                    self.wait = AGAIN;
                    self.phase = Phase::Settling { since: now, rate };
                } else {
                    self.reach = *reach;
                    self.phase = Phase::Found {
                        rate: rate.min(*before * SETTLED),
                        again: now.saturating_add(self.wait),
                    };
                    self.wait = self.wait.saturating_mul(2).min(AGAIN_MOST);
                }
            }
            Phase::Found { rate: before, again } => {
                let before = *before;
                let (due, wait) = *self.anew.get_or_insert((now.saturating_add(ANEW), ANEW));
                if rate < before * FALLEN {
                    // Perhaps it is the store that takes less, and what was found is too much now.
                    self.anew = None;
                    self.begin(now, rate);
                } else if self.reach > self.least && now >= due {
                    let wait = wait.saturating_mul(2).min(ANEW_MOST);
                    self.anew = Some((now.saturating_add(wait), wait));
                    self.begin(now, rate);
                } else if rate > before * RISEN || now >= *again {
                    self.phase = Phase::Settling { since: now, rate };
                }
            }
        }
    }

    /// As if nothing were known.
    fn begin(&mut self, now: Duration, rate: f64) {
        self.reach = self.least;
        self.wait = AGAIN;
        self.phase = Phase::Settling { since: now, rate };
    }

    /// Throughput does not change any more: tries whether more in flight brings more.
    fn settled(&mut self, now: Duration, seen: Seen) {
        let rate = seen.rate as f64;
        // What reaches no further than a part takes lets one part more in each time.
        let wanted = reaching(seen.window as f64 * 1.5, seen).max(seen.took.mul_f64(BEYOND)).min(MOST);
        let many = seen.window > seen.part.saturating_mul(FEW) && self.reach == self.least;
        if many || wanted <= self.reach {
            self.phase = Phase::Found { rate, again: now.saturating_add(self.wait) };
            return;
        }
        self.phase =
            Phase::Trying { since: now, rate, before: self.reach, bytes: seen.window.saturating_mul(2) };
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

    /// A store that takes `most` bytes a second, and each part for `alone` seconds at least; the reach after so long.
    fn found(reach: &mut Reach, most: f64, alone: f64, from: u64, seconds: u64) -> (f64, f64) {
        let (mut now, end) = (from as f64, (from + seconds) as f64);
        let mut rate = most.min(2.0 * PART as f64 / alone);
        while now < end {
            // What was let in during one round is what is seen in the next.
            let window = (rate * reach.get().as_secs_f64() + PART as f64).max(2.0 * PART as f64);
            rate = most.min(window / alone);
            let took = window / rate;
            for _ in 0..(window / PART as f64) as u64 {
                now += PART as f64 / rate;
                let seen = Seen {
                    rate: rate as u64,
                    took: Duration::from_secs_f64(took),
                    window: window as u64,
                    part: PART,
                    bytes: PART,
                };
                reach.delivered(Duration::from_secs_f64(now), seen);
            }
        }
        (reach.get().as_secs_f64(), rate)
    }

    #[test]
    fn a_store_that_is_far_away_gets_what_it_takes_and_a_near_one_no_more_than_the_least() {
        for alone in [0.01, 0.1, 0.25, 0.3, 0.4, 0.6, 1.0] {
            for most in [1e8, 3e8, 1e9] {
                let mut reach = Reach::new(Duration::from_millis(200));
                let (seconds, rate) = found(&mut reach, most, alone, 0, 60);
                assert!(rate > 0.9 * most, "{alone} {most}: {rate}, {seconds}");
                assert!(seconds <= 0.2f64.max(2.2 * alone), "{alone} {most}: {seconds}");
            }
        }
    }

    #[test]
    fn half_of_what_it_began_with_is_tried_where_twice_as_much_brings_nothing() {
        let least = Duration::from_millis(200);
        // Four parts a second come, of four in flight; then `half` a second, of two.
        let after = |half: u64| {
            let mut reach = Reach::new(least);
            let mut see = |seconds: u64, parts: u64, took: u64| {
                let (rate, took, window) = (parts * PART, Duration::from_secs(took), 4 * PART);
                reach.delivered(
                    Duration::from_secs(seconds),
                    Seen { rate, took, window, part: PART, bytes: PART },
                );
                reach.get().as_secs_f64()
            };
            // (8 - 1) parts at 4 a second, then (2 - 1), until four times what a part takes has passed.
            assert_eq!([see(1, 4, 1), see(2, 4, 2), see(5, 4, 2)], [1.75, 1.75, 0.25]);
            assert_eq!(see(8, half, 1), 0.25);
            see(9, half, 1)
        };
        assert_eq!(after(4), 0.25);
        // (4 - 1) parts at 4 a second: all of it was needed.
        assert_eq!(after(2), 0.75);
    }

    #[test]
    fn what_a_faster_store_does_not_need_is_given_up_within_a_minute() {
        let mut reach = Reach::new(Duration::from_millis(200));
        let (far, _) = found(&mut reach, 1e9, 0.6, 0, 30);
        assert!(far > 0.4, "{far}");
        let (near, rate) = found(&mut reach, 1e9, 0.05, 30, 65);
        assert!(near <= 0.2 && rate > 0.99e9, "{near} {rate}");
    }

    #[test]
    fn a_store_that_comes_nearer_or_becomes_slower_is_found_anew() {
        let mut reach = Reach::new(Duration::from_millis(200));
        let (far, _) = found(&mut reach, 1e9, 0.6, 0, 60);
        assert!(far > 0.4, "{far}");
        // Not in the middle of a trial.
        let (slow, rate) = found(&mut reach, 1e8, 0.05, 60, 28);
        assert!(slow <= 0.2 && rate > 0.99e8, "{slow} {rate}");
        let (_, rate) = found(&mut reach, 1e9, 0.6, 90, 60);
        assert!(rate > 0.9e9, "{rate}");
    }
}
