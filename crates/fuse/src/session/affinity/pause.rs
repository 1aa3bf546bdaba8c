//! How long to leave alone what has just done harm.

use std::time::{Duration, Instant};

/// Each time for twice as long, while it goes on.
#[derive(Debug)]
pub(in crate::session) struct Pause {
    first: Duration,
    most: Duration,
    until: Option<Instant>,
    /// The last one.
    length: Duration,
}

impl Pause {
    /// For as long as `first` the first time, and `most` at most.
    pub const fn new(first: Duration, most: Duration) -> Pause {
        Pause { first, most, until: None, length: first }
    }

    /// Whether it is not to be tried.
    pub fn lasts(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// It did harm, from `began` to `ended`.
    pub fn harmed(&mut self, began: Instant, ended: Instant) {
        // What went well for as long as the last pause was is another time.
        let again = self.until.is_some_and(|until| began < until + self.length);
        self.length = if again { (self.length * 2).min(self.most) } else { self.first };
        self.until = Some(ended + self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(128);

    #[test]
    fn each_time_for_longer_while_it_goes_on() {
        let mut pause = Pause::new(FIRST, MOST);
        let mut now = Instant::now();
        assert!(!pause.lasts(now));
        let harm = |pause: &mut Pause, now: &mut Instant| {
            let ended = *now + Duration::from_millis(4);
            pause.harmed(*now, ended);
            *now = pause.until.expect("it was harmed");
            assert!(pause.lasts(ended) && !pause.lasts(*now));
            (*now - ended).as_secs()
        };
        let pauses: Vec<u64> = (0..9).map(|_| harm(&mut pause, &mut now)).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 128]);
        now += MOST;
        assert_eq!(harm(&mut pause, &mut now), 1, "it had gone well for long enough");
    }
}
