//! Leaving a caller on its processor when it gets its reply.
//!
//! The scheduler lets who is woken go on at another processor that is idle, so the caller's next request comes by another ring, whose thread
//! sleeps, and that to and fro costs more than the request. It leaves the caller where it is if nothing runs there but what has the standing
//! of SCHED_IDLE (`select_idle_sibling` and `sched_idle_cpu` in `kernel/sched/fair.c`). So the thread of a ring takes that standing for as
//! long as it hands a reply over. Should it lose the processor just then, it may not get it again while others have work for it, a fifth of a second as
//! measured: where that is seen to happen, callers are left alone, each time for twice as long.

use std::time::{Duration, Instant};

/// Handing a reply over takes microseconds: whoever took longer had lost the processor.
const LOST: Duration = Duration::from_millis(2);
/// For so long nothing is tried after the first time ...
const PAUSE: Duration = Duration::from_secs(1);
/// ... and at most.
const PAUSE_MOST: Duration = Duration::from_secs(128);

/// The standing of the calling thread.
#[derive(Debug)]
pub(super) struct Standing {
    allowed: bool,
    /// Not to be lowered before.
    paused_until: Option<Instant>,
    /// For how long it was the last time.
    pause: Duration,
}

impl Standing {
    /// It is left alone unless it is the usual one and can be had back: users without privileges cannot raise it again.
    pub fn new() -> Standing {
        let try_it = || policy() == libc::SCHED_OTHER && set(libc::SCHED_IDLE) && set(libc::SCHED_OTHER);
        // In a thread that may be stuck with it.
        let tried = std::thread::Builder::new().name("fuse-standing".to_owned()).spawn(try_it);
        let allowed = tried.ok().and_then(|thread| thread.join().ok()).unwrap_or(false);
        Standing { allowed, paused_until: None, pause: PAUSE }
    }

    /// Does something with the lowest standing there is, unless that has lately cost the processor.
    pub fn lowered<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        if !self.allowed || self.paused(began) || !set(libc::SCHED_IDLE) {
            return what();
        }
        let done = what();
        set(libc::SCHED_OTHER);
        self.took(began, Instant::now());
        done
    }

    fn paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    fn took(&mut self, began: Instant, ended: Instant) {
        if ended.saturating_duration_since(began) > LOST {
            // What went well for as long as the last pause was is another time.
            let again = self.paused_until.is_some_and(|until| began < until + self.pause);
            self.pause = if again { (self.pause * 2).min(PAUSE_MOST) } else { PAUSE };
            self.paused_until = Some(ended + self.pause);
        }
    }
}

fn policy() -> i32 {
    // SAFETY: asks for the calling thread's own.
    #[allow(unsafe_code)]
    unsafe {
        libc::sched_getscheduler(0)
    }
}

/// Whether it could be set.
fn set(policy: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: concerns the calling thread alone, and only reads `parameters`.
    #[allow(unsafe_code)]
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_low_meanwhile_and_as_before_after() {
        let mut standing = Standing::new();
        let expected =
            if rustix::process::geteuid().is_root() { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        assert_eq!(standing.lowered(policy), expected);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn any_other_standing_is_left_alone() {
        let seen = std::thread::spawn(|| {
            assert!(set(libc::SCHED_BATCH));
            (Standing::new().lowered(policy), policy())
        });
        assert_eq!(seen.join().unwrap(), (libc::SCHED_BATCH, libc::SCHED_BATCH));
    }

    #[test]
    fn who_lost_the_processor_by_it_keeps_its_standing_for_a_while() {
        let mut standing = Standing::new();
        let now = Instant::now();
        standing.took(now, now + LOST);
        assert!(!standing.paused(now + LOST), "a moment is nothing");
        let lost = now + LOST + Duration::from_micros(1);
        standing.took(now, lost);
        assert!(standing.paused(lost) && standing.paused(lost + PAUSE - Duration::from_micros(1)));
        assert!(!standing.paused(lost + PAUSE));
        standing.took(now, Instant::now() + LOST);
        assert_eq!(standing.lowered(policy), libc::SCHED_OTHER);
    }

    #[test]
    fn each_time_for_longer_while_it_goes_on() {
        let mut standing = Standing::new();
        let mut now = Instant::now();
        let lose = |standing: &mut Standing, now: &mut Instant| {
            let ended = *now + LOST * 2;
            standing.took(*now, ended);
            *now = standing.paused_until.expect("it was lost");
            (*now - ended).as_secs()
        };
        let pauses: Vec<u64> = (0..9).map(|_| lose(&mut standing, &mut now)).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 128]);
        now += PAUSE_MOST;
        assert_eq!(lose(&mut standing, &mut now), 1, "it had gone well for long enough");
    }
}
