//! Leaving a caller on its processor when it gets its reply.
//!
//! The scheduler lets who is woken go on at another processor that is idle, so the next request comes from there, and that to and fro
//! costs more than the request. It leaves the caller where it is if nothing runs there but what has the standing of SCHED_IDLE
//! (`select_idle_sibling` and `sched_idle_cpu` in `kernel/sched/fair.c`). So a thread takes that standing for as long as it hands a reply
//! over. Should it lose the processor just then, it may not get it again while others have work for it, a fifth of a second as measured:
//! who sees that happen leaves callers alone for a while.

use std::time::{Duration, Instant};

use super::load::Load;
use super::pause::Pause;

/// Handing a reply over takes microseconds: whoever took longer had lost the processor.
pub(super) const LOST: Duration = Duration::from_millis(2);
/// For so long a ring leaves callers alone after the first time ...
const PAUSE: Duration = Duration::from_secs(1);
/// ... and at most.
const PAUSE_MOST: Duration = Duration::from_secs(128);
/// Replies of a ring from one look at the machine to the next.
const LOOK_EVERY: u32 = 16;

/// Whether threads of this process can take that standing and be rid of it again: users without privileges cannot, and any other than
/// the usual one is left alone.
pub(super) fn possible() -> bool {
    let try_it = || policy() == libc::SCHED_OTHER && set(libc::SCHED_IDLE) && set(libc::SCHED_OTHER);
    // In a thread that may be stuck with it.
    let tried = std::thread::Builder::new().name("fuse-standing".to_owned()).spawn(try_it);
    tried.ok().and_then(|thread| thread.join().ok()).unwrap_or(false)
}

/// Gives the calling thread the lowest standing there is, for good.
pub(super) fn lower() {
    set(libc::SCHED_IDLE);
}

/// Does something with the lowest standing there is; where that is [`possible`]. Says since when it took, if it was long.
pub(super) fn lowered<T>(what: impl FnOnce() -> T) -> (T, Option<Instant>) {
    let began = Instant::now();
    if !set(libc::SCHED_IDLE) {
        return (what(), None);
    }
    let done = what();
    set(libc::SCHED_OTHER);
    (done, (began.elapsed() > LOST).then_some(began))
}

/// The standing of a ring's thread.
#[derive(Debug)]
pub(in crate::session) struct Standing {
    allowed: bool,
    pause: Pause,
    load: Load,
    until_look: u32,
    /// While the machine is crowded.
    crowded: Pause,
}

impl Standing {
    /// Of the calling thread.
    pub fn new() -> Standing {
        Standing {
            allowed: possible(),
            pause: Pause::new(PAUSE, PAUSE_MOST),
            load: Load::new(),
            until_look: LOOK_EVERY,
            crowded: Pause::new(super::CROWDED, super::CROWDED_MOST),
        }
    }

    /// Does something with the lowest standing there is, unless that has lately cost the processor.
    pub fn lowered<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let now = Instant::now();
        if !self.allowed || self.pause.lasts(now) || self.crowded.lasts(now) {
            return what();
        }
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look == 0 {
            self.until_look = LOOK_EVERY;
            if self.load.crowded() {
                self.crowded.harmed(now, now);
                return what();
            }
        }
        let (done, lost) = lowered(what);
        if let Some(since) = lost {
            self.pause.harmed(since, Instant::now());
        }
        done
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
        standing.lowered(|| std::thread::sleep(LOST * 2));
        assert_eq!(standing.lowered(policy), libc::SCHED_OTHER);
    }
}
