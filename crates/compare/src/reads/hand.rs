//! What somebody would set by hand who knows the network.

use std::fmt;

use super::cell::Cell;

/// Fixed numbers for reading ahead: the mount option `fixed-reads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hand {
    /// Of each stream, MiB.
    pub window: u64,
    /// In flight, of all streams together.
    pub fetches: u64,
    /// Bytes of a fetch, MiB.
    pub part: u64,
}

/// As the option takes it.
impl fmt::Display for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.window, self.fetches, self.part)
    }
}

/// Bytes per second that are to be reached: more than two processors can move.
const GOAL: f64 = 600e6;
/// What one connection brings that nothing caps.
const UNCAPPED: f64 = 300e6;
const MIB: u64 = 1 << 20;
/// Fetches in flight that are tried.
const FETCHES: std::ops::RangeInclusive<u64> = 4..=128;
/// Windows that are tried, MiB.
const MOST_WINDOW: u64 = 512;

impl Hand {
    /// Worth trying in a cell: as many fetches of 4 MiB as the arithmetic of latency and rate says, half and twice as many, and as many
    /// bytes in flight in smaller and larger fetches.
    pub fn candidates(cell: &Cell) -> Vec<Hand> {
        let tried = [(4, 1.0), (4, 2.0), (1, 2.0), (8, 1.0), (4, 0.5)];
        let mut all = Vec::new();
        for (part, times) in tried {
            let hand = Hand::of(cell, part, times);
            if !all.contains(&hand) {
                all.push(hand);
            }
        }
        all
    }

    fn of(cell: &Cell, part: u64, times: f64) -> Hand {
        let bytes = (part * MIB) as f64;
        let goal = cell.link.map_or(GOAL, |link| link as f64 * 1e6);
        let rate = cell.rate.map_or(UNCAPPED, |rate| rate as f64 * 1e6).min(goal);
        let seconds = cell.latency.as_secs_f64() + bytes / rate;
        let needed = (goal * seconds / bytes * times).ceil() as u64;
        let fetches = needed.next_power_of_two().clamp(*FETCHES.start(), *FETCHES.end());
        // What comes out of order waits for what is before it: room for as much again.
        let window = (2 * fetches * part / cell.streams.max(1)).clamp(2 * part, MOST_WINDOW);
        Hand { window, fetches, part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_latency_and_rate() {
        for cell in Cell::all(None).into_iter().chain(Cell::all(Some(150))) {
            let all = Hand::candidates(&cell);
            // Of a slow link the least that is tried is often all that it needs.
            let least = if cell.link.is_some() { 2 } else { 3 };
            assert!((least..=5).contains(&all.len()), "{}: {all:?}", cell.name());
            for hand in all {
                assert!(FETCHES.contains(&hand.fetches) && hand.fetches.is_power_of_two());
                assert!(hand.window >= 2 * hand.part && hand.window <= MOST_WINDOW);
            }
        }
        let of = |name: &str| {
            let cell = Cell::all(None).into_iter().find(|cell| cell.name() == name).unwrap();
            Hand::candidates(&cell)[0]
        };
        assert_eq!(of("20ms/90MB/1").to_string(), "128:16:4");
        assert_eq!(of("20ms/90MB/32").to_string(), "8:16:4");
        assert!(of("100ms/20MB/1").fetches >= 32);
        assert_eq!(of("1ms/uncapped/1").fetches, 4);
    }
}
