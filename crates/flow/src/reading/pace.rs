//! Fetches that are sent together share the network and come together, late, and then the next are sent together: so a reader has nothing for
//! as long as all of them take, and then all at once. Those ahead are sent one after the other instead, at about the rate at which the endpoint
//! delivers, as BBR does with packets (Cardwell, Cheng, Gunn, Yeganeh, Jacobson, 2016).

use std::time::Duration;

use super::reads::Reads;

/// The longest pause: an endpoint that delivered next to nothing may have become faster.
const LONGEST: Duration = Duration::from_secs(1);

/// When the next fetch ahead may be sent.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Duration,
    /// Somebody would send one before.
    awaited: bool,
}

impl Pace {
    /// Nobody is known to wait.
    pub(super) fn begin(&mut self) {
        self.awaited = false;
    }

    /// When somebody who waits may send.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.awaited.then_some(self.next)
    }

    /// Whether one may be sent now; who may not waits.
    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.next <= now;
        self.awaited |= !due;
        due
    }

    /// One is sent, and the next one so much later. Two may be sent at once after a pause. What is sent although it was not due, because it
    /// is waited for, does not put off the others for longer than that.
    fn sent(&mut self, now: Duration, until_next: Duration) {
        let from = self.next.max(now.saturating_sub(until_next));
        self.next = from.saturating_add(until_next).min(now.saturating_add(until_next));
    }
}

impl Reads {
    /// Whether a fetch ahead may be sent now. While it is searched how many are needed, all that are allowed are to be under way.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        self.tuning.fixed.is_some() || self.endpoint.searches() || self.pace.is_due(now)
    }

    /// A fetch of so many bytes is sent.
    pub(super) fn sent_at(&mut self, now: Duration, bytes: u64) {
        let Some(rate) = self.endpoint.bandwidth().filter(|rate| *rate > 0) else { return };
        let takes = bytes as f64 / rate as f64;
        if takes * self.allowed() as f64 >= self.tuning.paced_from.as_secs_f64() {
            let until_next = Duration::try_from_secs_f64(takes / (1.0 + self.tuning.pace.max(0.0)));
            self.pace.sent(now, until_next.unwrap_or(LONGEST).min(LONGEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn after_a_pause_two_are_sent_at_once_and_then_one_at_a_time() {
        let mut pace = Pace::default();
        let mut now = Duration::from_secs(9);
        let mut sent = Vec::new();
        for _ in 0..5 {
            pace.begin();
            while pace.is_due(now) {
                pace.sent(now, 10 * MS);
                sent.push((now - Duration::from_secs(9)).as_millis());
            }
            now = pace.wake_at().expect("somebody waits");
        }
        assert_eq!(sent, [0, 0, 10, 20, 30, 40]);
    }

    #[test]
    fn nobody_is_woken_who_does_not_wait() {
        let mut pace = Pace::default();
        (0..2).for_each(|_| pace.sent(9 * MS, MS));
        assert_eq!(pace.wake_at(), None);
        assert!(!pace.is_due(9 * MS));
        assert_eq!(pace.wake_at(), Some(10 * MS));
        pace.begin();
        assert_eq!(pace.wake_at(), None);
    }

    #[test]
    fn what_is_sent_regardless_puts_off_the_others_once_and_no_longer() {
        let mut pace = Pace::default();
        let now = Duration::from_secs(9);
        (0..50).for_each(|_| pace.sent(now, 10 * MS));
        assert!(!pace.is_due(now + 10 * MS - Duration::from_nanos(1)));
        assert!(pace.is_due(now + 10 * MS));
    }

    proptest! {
        /// Whatever is sent when: never more than two above what the time since the first has room for.
        #[test]
        fn it_is_never_faster(pauses in proptest::collection::vec(0u32..30, 1..200)) {
            let mut pace = Pace::default();
            let (began, mut now, mut sent) = (Duration::from_secs(9), Duration::from_secs(9), 0);
            for pause in pauses {
                now += MS * pause;
                if pace.is_due(now) {
                    pace.sent(now, 10 * MS);
                    sent += 1;
                }
                prop_assert!(sent <= 2 + (now - began).as_millis() / 10);
            }
        }
    }
}
