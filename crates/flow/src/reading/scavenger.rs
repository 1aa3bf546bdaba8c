//! How many fetches of whole files may be in flight beside reads that somebody waits for.
//!
//! What is fetched because it may be read is to take what is left, not to make those wait who read now (less than best effort, as LEDBAT; RFC
//! 6817, 2012). Where each connection has a rate of its own nobody is in anybody's way, and all that may be in flight is. Where a link is
//! shared, a read that fetches what it needs takes longer than it does alone: then half as many are sent, and more again while reads come in
//! time, or nobody reads (additive increase, multiplicative decrease; Chiu and Jain, 1989).

use std::time::Duration;

/// A read is late when it takes so many times what it takes alone ...
const LATE: u32 = 3;
const LATE_OF: u32 = 2;
/// ... and this besides. What is less than that is not worth a file that comes later.
const SLACK: Duration = Duration::from_millis(10);
/// Fetches more for each read that comes in time.
const MORE: f64 = 0.25;
/// And for each that is over while nobody reads.
const MORE_IDLE: f64 = 1.0;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Scavenger {
    /// At most so many, once they have been in somebody's way.
    most: Option<f64>,
    flying: usize,
    /// When there was last made less of them.
    cut: Duration,
}

impl Scavenger {
    /// Whether one more may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.most.is_none_or(|most| self.flying < most as usize)
    }

    /// One is sent.
    pub(super) fn sent(&mut self) {
        self.flying += 1;
    }

    /// One is over. `idle`: nobody reads; so many fetches of all kinds are `allowed`.
    pub(super) fn landed(&mut self, idle: bool, allowed: usize) {
        self.flying = self.flying.saturating_sub(1);
        if idle {
            self.grow(MORE_IDLE, allowed);
        }
    }

    /// What somebody waited for is there. It was sent at `sent`, and takes `alone` where nothing is in its way.
    pub(super) fn waited(&mut self, now: Duration, sent: Duration, alone: Duration, allowed: usize) {
        if self.flying == 0 || sent < self.cut {
            return;
        }
        if now.saturating_sub(sent) > alone.saturating_mul(LATE) / LATE_OF + SLACK {
            let most = self.most.unwrap_or(f64::INFINITY).min(self.flying as f64);
            self.most = Some((most / 2.0).max(1.0));
            self.cut = now;
        } else {
            self.grow(MORE, allowed);
        }
    }

    fn grow(&mut self, by: f64, allowed: usize) {
        self.most = self.most.map(|most| most + by).filter(|most| *most < allowed as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// How many may be in flight.
    fn room(scavenger: &mut Scavenger) -> usize {
        let flying = std::mem::take(&mut scavenger.flying);
        while scavenger.flying < 100 && scavenger.has_room() {
            scavenger.sent();
        }
        std::mem::replace(&mut scavenger.flying, flying)
    }

    #[test]
    fn a_read_that_is_late_halves_them_and_those_in_time_bring_them_back() {
        let mut scavenger = Scavenger { flying: 8, ..Scavenger::default() };
        // 40 ms alone: 70 are not late, 71 are.
        scavenger.waited(170 * MS, 100 * MS, 40 * MS, 16);
        assert_eq!(room(&mut scavenger), 100, "all that are allowed");
        scavenger.waited(171 * MS, 100 * MS, 40 * MS, 16);
        assert_eq!(room(&mut scavenger), 4);
        // What was sent before that says nothing new.
        scavenger.waited(300 * MS, 150 * MS, 40 * MS, 16);
        assert_eq!(room(&mut scavenger), 4);
        for (sent, late) in [(171, 2), (300, 1), (400, 1)] {
            scavenger.waited((sent + 90) * MS, sent * MS, 40 * MS, 16);
            assert_eq!(room(&mut scavenger), late, "{sent}");
        }
        let mut in_time = |reads| {
            (0..reads).for_each(|_| scavenger.waited(550 * MS, 500 * MS, 40 * MS, 16));
            room(&mut scavenger)
        };
        assert_eq!([in_time(8), in_time(51), in_time(1)], [3, 15, 100]);
    }

    #[test]
    fn while_nobody_reads_they_double_with_each_round() {
        let mut scavenger = Scavenger { most: Some(1.0), flying: 1, ..Scavenger::default() };
        scavenger.landed(false, 16);
        assert_eq!(room(&mut scavenger), 1);
        scavenger.landed(true, 16);
        assert_eq!(room(&mut scavenger), 2);
        (0..2).for_each(|_| scavenger.landed(true, 16));
        assert_eq!(room(&mut scavenger), 4);
    }

    #[test]
    fn what_nothing_is_beside_is_late_for_another_reason() {
        let mut scavenger = Scavenger::default();
        scavenger.waited(900 * MS, 100 * MS, 40 * MS, 16);
        assert_eq!(scavenger.most, None);
    }
}
