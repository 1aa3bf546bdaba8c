//! Time, as a trait: a lease is tested in virtual time.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};

/// The times that ownership goes by.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed moment. Never goes back, runs on while the machine is suspended, and is not set by people.
    fn now(&self) -> Duration;

    /// The time of day, for messages and records only: nothing is decided by it.
    fn wall(&self) -> SystemTime;

    /// Resolves after `duration` or later.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// This machine's clock: `CLOCK_BOOTTIME`, which counts the time a suspended machine slept through, as others do who watch its
/// lease. Sleeping needs a tokio runtime with its time driver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec.clamp(0, 999_999_999) as u32)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Unix milliseconds; 0 before 1970.
pub(crate) fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
