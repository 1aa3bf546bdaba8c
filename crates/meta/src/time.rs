//! Points in time as inodes carry them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: seconds since the Unix epoch (before it: negative) and nanoseconds, `0..1_000_000_000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

impl Time {
    /// The clock of this machine.
    pub fn now() -> Time {
        SystemTime::now().into()
    }

    /// This point shifted back by `span`; stops at the earliest representable second.
    pub fn before(self, span: Duration) -> Time {
        let borrow = self.nanos < span.subsec_nanos();
        let nanos = if borrow { self.nanos + 1_000_000_000 } else { self.nanos } - span.subsec_nanos();
        let secs = self.secs.saturating_sub_unsigned(span.as_secs()).saturating_sub(i64::from(borrow));
        Time { secs, nanos }
    }

    /// This point shifted ahead by `span`; stops at the latest representable second.
    pub fn after(self, span: Duration) -> Time {
        let nanos = self.nanos + span.subsec_nanos();
        let secs = self
            .secs
            .saturating_add_unsigned(span.as_secs())
            .saturating_add(i64::from(nanos / 1_000_000_000));
        Time { secs, nanos: nanos % 1_000_000_000 }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => {
                Time { secs: i64::try_from(after.as_secs()).unwrap_or(i64::MAX), nanos: after.subsec_nanos() }
            }
            Err(earlier) => Time::default().before(earlier.duration()),
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> SystemTime {
        let whole = Duration::from_secs(time.secs.unsigned_abs());
        let base = if time.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        base.and_then(|base| base.checked_add(Duration::from_nanos(u64::from(time.nanos))))
            .unwrap_or(UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_both_ways_on_both_sides_of_the_epoch() {
        for time in [
            Time { secs: 0, nanos: 0 },
            Time { secs: 1_700_000_000, nanos: 999_999_999 },
            Time { secs: -1, nanos: 999_999_999 },
            Time { secs: -5, nanos: 0 },
        ] {
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn shifts_back_with_borrow() {
        let time = Time { secs: 10, nanos: 5 };
        assert_eq!(time.before(Duration::new(1, 6)), Time { secs: 8, nanos: 999_999_999 });
        assert_eq!(time.after(Duration::new(1, 999_999_996)), Time { secs: 12, nanos: 1 });
        assert_eq!(Time { secs: i64::MAX, nanos: 0 }.after(Duration::from_secs(1)).secs, i64::MAX);
        assert_eq!(Time { secs: i64::MIN, nanos: 0 }.before(Duration::from_secs(1)).secs, i64::MIN);
    }
}
