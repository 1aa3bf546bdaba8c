//! Keeps what goes on for long, or fails again and again, from flooding the log. Pure: the time is an argument.

use std::time::{Duration, Instant};

/// First and longest time between two lines about the same trouble.
const EVERY: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));
/// Lines that may come at once.
const BURST: u32 = 50;
/// Time after which one more may come.
const REFILL: Duration = Duration::from_secs(2);

/// Lets ever fewer lines pass while the same goes on.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    next: Option<Instant>,
    every: Duration,
    left_out: u64,
}

impl Rare {
    /// Whether to write a line now; then how many were left out since the last one.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.left_out += 1;
            return None;
        }
        self.every = (self.every * 2).clamp(EVERY.0, EVERY.1);
        self.next = now.checked_add(self.every);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Lets a number of lines pass, and then one now and then.
#[derive(Debug)]
pub(crate) struct Burst {
    left: u32,
    refilled: Option<Instant>,
    left_out: u64,
}

impl Default for Burst {
    fn default() -> Self {
        Burst { left: BURST, refilled: None, left_out: 0 }
    }
}

impl Burst {
    /// Whether to write a line now; then how many were left out since the last one.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        let since = now.saturating_duration_since(*self.refilled.get_or_insert(now));
        let more = u32::try_from(since.as_millis() / REFILL.as_millis()).unwrap_or(u32::MAX);
        if more > 0 {
            self.left = self.left.saturating_add(more).min(BURST);
            self.refilled = Some(now);
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_told_ever_more_rarely() {
        let mut rare = Rare::default();
        let start = Instant::now();
        let due = |at: u64| rare.due(start + Duration::from_secs(at)).map(|_| at);
        let lines: Vec<u64> = (0..100_000).filter_map(due).collect();
        assert_eq!(lines[..3], [0, 30, 90]);
        assert!(lines.len() < 40, "{lines:?}");
    }

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let mut burst = Burst::default();
        let start = Instant::now();
        // A thousand a second for a hundred seconds.
        let due = |at: u64| burst.due(start + Duration::from_millis(at));
        let lines: Vec<u64> = (0..100_000).filter_map(due).collect();
        assert!((90..=110).contains(&lines.len()), "{}", lines.len());
        assert_eq!(
            lines.iter().sum::<u64>() + lines.len() as u64,
            100_000 - burst.left_out,
            "all are counted"
        );
    }
}
