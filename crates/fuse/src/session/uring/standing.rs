//! Leaving a caller on its processor when it gets its reply.
//!
//! The scheduler lets who is woken go on at another processor that is idle, so the caller's next request comes by another ring, whose thread
//! sleeps, and that to and fro costs more than the request. It leaves the caller where it is if nothing runs there but what has the standing
//! of SCHED_IDLE (`select_idle_sibling` and `sched_idle_cpu` in `kernel/sched/fair.c`). So the thread of a ring takes that standing for as
//! long as it hands a reply over. Should it lose the processor just then, it may not get it again while others have work for it: where that is
//! seen to happen, callers are left alone for a while.

use std::time::{Duration, Instant};

/// Handing a reply over takes microseconds: whoever took longer had lost the processor.
const LOST: Duration = Duration::from_millis(2);
/// For so long nothing is tried then.
const PAUSE: Duration = Duration::from_secs(1);

/// The standing of the calling thread.
#[derive(Debug)]
pub(super) struct Standing {
    allowed: bool,
    /// Not to be lowered before.
    paused_until: Option<Instant>,
}

impl Standing {
    /// It is left alone unless it is the usual one and can be had back: users without privileges cannot raise it again.
    pub fn new() -> Standing {
        let try_it = || policy() == libc::SCHED_OTHER && set(libc::SCHED_IDLE) && set(libc::SCHED_OTHER);
        // In a thread that may be stuck with it.
        let tried = std::thread::Builder::new().name("fuse-standing".to_owned()).spawn(try_it);
        let allowed = tried.ok().and_then(|thread| thread.join().ok()).unwrap_or(false);
        Standing { allowed, paused_until: None }
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
            self.paused_until = Some(ended + PAUSE);
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
}
