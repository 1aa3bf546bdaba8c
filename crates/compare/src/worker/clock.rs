//! Timing calls, and what happens between them.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::job::{Moment, Outcome};

/// Times of single operations that are kept for percentiles.
const KEPT: usize = 200_000;

/// The time of one thread.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    limit: Duration,
    busy: Duration,
    aside: Duration,
    stopped: bool,
    operations: u64,
    bytes: u64,
    times: Vec<Duration>,
    /// Where it is asked for.
    moments: Option<Vec<Moment>>,
}

impl Clock {
    /// Starts now.
    pub fn new(limit: Duration) -> Clock {
        let none = Duration::ZERO;
        let times = Vec::with_capacity(1024);
        Clock {
            started: Instant::now(),
            limit,
            busy: none,
            aside: none,
            stopped: false,
            operations: 0,
            bytes: 0,
            times,
            moments: None,
        }
    }

    /// Takes down when each operation ended, too.
    pub fn watching(limit: Duration) -> Clock {
        Clock { moments: Some(Vec::with_capacity(1024)), ..Clock::new(limit) }
    }

    /// A part of what is measured.
    pub fn timed<T>(&mut self, body: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let value = body();
        self.busy += started.elapsed();
        value
    }

    /// A part that is an operation of its own, and moved what it says.
    pub fn operation<T>(&mut self, body: impl FnOnce() -> (T, u64)) -> T {
        let started = Instant::now();
        let (value, bytes) = body();
        let took = started.elapsed();
        self.busy += took;
        self.operations += 1;
        self.bytes += bytes;
        if self.times.len() < KEPT {
            self.times.push(took);
        }
        if let Some(moments) = self.moments.as_mut().filter(|moments| moments.len() < KEPT) {
            moments.push(Moment { at: monotonic(), took: took.as_secs_f64(), bytes });
        }
        value
    }

    /// Operations that were made together, in a part that is [timed](Self::timed).
    pub fn count(&mut self, operations: usize) {
        self.operations += operations as u64;
    }

    /// What is not measured: making or checking content.
    pub fn aside<T>(&mut self, body: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let value = body();
        self.aside += thread_cpu().saturating_sub(before);
        value
    }

    /// True when it is time to stop.
    pub fn over(&mut self) -> bool {
        self.stopped = self.stopped || self.started.elapsed() >= self.limit;
        self.stopped
    }

    /// What all threads did together.
    pub fn outcome(clocks: Vec<Clock>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut times = Vec::new();
        for clock in clocks {
            outcome.seconds = outcome.seconds.max(clock.busy.as_secs_f64());
            outcome.operations += clock.operations;
            outcome.bytes += clock.bytes;
            outcome.aside += clock.aside;
            outcome.stopped |= clock.stopped;
            times.extend(clock.times);
            outcome.moments.extend(clock.moments.into_iter().flatten());
        }
        outcome.moments.sort_by(|a, b| a.at.total_cmp(&b.at));
        times.sort_unstable();
        outcome.p50 = quantile(&times, 50);
        outcome.p95 = quantile(&times, 95);
        outcome.p99 = quantile(&times, 99);
        outcome
    }
}

/// The smallest time that so many of 100 do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(Duration::as_secs_f64)
}

/// Seconds on the machine's monotonic clock, the same for all processes.
pub fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Processor time of this process and of its children that were waited for.
pub fn cpu() -> Duration {
    so_far(ClockId::ProcessCPUTime) + crate::account::children()
}

/// Processor time of this thread. Not of the wall: while others have the processor, this thread uses none.
pub fn thread_cpu() -> Duration {
    so_far(ClockId::ThreadCPUTime)
}

fn so_far(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_are_measured_and_the_slowest_thread_counts() {
        let nap = || std::thread::sleep(Duration::from_millis(20));
        let spin = || {
            let until = thread_cpu() + Duration::from_millis(20);
            while thread_cpu() < until {}
        };
        let clock = |naps: u64| {
            let mut clock = Clock::new(Duration::from_secs(9));
            (0..naps).for_each(|_| clock.operation(|| (nap(), 10)));
            clock.aside(|| std::thread::sleep(Duration::from_millis(300)));
            clock.aside(spin);
            clock
        };
        let outcome = Clock::outcome(vec![clock(1), clock(2)]);
        assert!((0.04..0.3).contains(&outcome.seconds), "{outcome:?}");
        // Who waits has no processor time.
        assert!((40..300).contains(&outcome.aside.as_millis()), "{outcome:?}");
        assert_eq!((outcome.operations, outcome.bytes, outcome.stopped), (3, 30, false));
        assert!(outcome.p50.is_some_and(|p50| p50 >= 0.02));
    }

    #[test]
    fn quantiles_are_of_the_ranks() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_secs).collect();
        assert_eq!(quantile(&sorted, 50), Some(50.0));
        assert_eq!(quantile(&sorted, 99), Some(99.0));
        assert_eq!(quantile(&sorted[..1], 99), Some(1.0));
        assert_eq!(quantile(&[], 50), None);
    }
}
