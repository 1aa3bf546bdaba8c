//! Sees where a caller runs, in a thread of its own.
//!
//! Whoever reads `/proc/ID/stat` waits while that process is in the middle of exec(2), which in turn waits until each file that it closes
//! has been flushed (`begin_new_exec` in `fs/exec.c` closes them under the lock that `do_task_stat` takes). So who serves requests must never
//! read it: here nobody waits for who does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use super::place::Whereabouts;
use super::standing;

/// Time from one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What was seen of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// Nothing so far.
    Nothing,
    /// It runs, or ran when it fell asleep, on this processor.
    At(u16),
    /// It is not there, or nobody may look.
    Gone,
}

/// The thread that looks; it ends soon after this is dropped. Nobody waits for it, for it has the lowest standing: where it runs counts as
/// idle, so it moves no caller.
#[derive(Debug)]
pub(super) struct Lookout {
    board: Arc<Board>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Board {
    /// Whom to look at; 0 for nobody.
    caller: AtomicU32,
    ended: AtomicBool,
    /// The caller that was looked at last, and what was seen.
    seen: AtomicU64,
}

impl Lookout {
    /// # Errors
    /// When there can be no more threads.
    pub fn start() -> io::Result<Lookout> {
        let board = Arc::new(Board::default());
        let of = Arc::clone(&board);
        let thread = std::thread::Builder::new().name("fuse-lookout".to_owned()).spawn(move || of.look())?;
        Ok(Lookout { board, thread: thread.thread().clone() })
    }

    /// Looks at this caller from now on. What was seen of it last; never waits for that.
    pub fn watch(&self, caller: u32) -> Seen {
        if self.board.caller.swap(caller, Ordering::AcqRel) != caller {
            self.thread.unpark();
        }
        match decode(self.board.seen.load(Ordering::Acquire)) {
            (of, seen) if of == caller => seen,
            _ => Seen::Nothing,
        }
    }

    /// Looks at nobody, if it still looks at this caller.
    pub fn rest(&self, caller: u32) {
        let _ = self.board.caller.compare_exchange(caller, 0, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.board.ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Board {
    fn look(&self) {
        standing::lower();
        let mut whereabouts = Whereabouts::default();
        while !self.ended.load(Ordering::Acquire) {
            let caller = self.caller.load(Ordering::Acquire);
            if caller == 0 {
                whereabouts.forget();
                self.seen.store(encode(0, Seen::Nothing), Ordering::Release);
                std::thread::park();
                continue;
            }
            let seen = whereabouts.of(caller).ok().and_then(|place| u16::try_from(place).ok());
            self.seen.store(encode(caller, seen.map_or(Seen::Gone, Seen::At)), Ordering::Release);
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

fn encode(caller: u32, seen: Seen) -> u64 {
    let what = match seen {
        Seen::Nothing => 0,
        Seen::Gone => 1,
        Seen::At(place) => 2 + u64::from(place),
    };
    u64::from(caller) << 32 | what
}

fn decode(word: u64) -> (u32, Seen) {
    let seen = match word & u64::from(u32::MAX) {
        0 => Seen::Nothing,
        1 => Seen::Gone,
        place => Seen::At((place - 2) as u16),
    };
    ((word >> 32) as u32, seen)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::thread::CpuSet;

    use super::super::place;
    use super::*;

    fn soon(lookout: &Lookout, caller: u32) -> Seen {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match lookout.watch(caller) {
                Seen::Nothing if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                seen => return seen,
            }
        }
    }

    #[test]
    fn what_was_seen_is_told() {
        for seen in [Seen::Nothing, Seen::Gone, Seen::At(0), Seen::At(u16::MAX)] {
            assert_eq!(decode(encode(u32::MAX, seen)), (u32::MAX, seen));
        }
    }

    #[test]
    fn a_caller_is_seen_where_it_is_and_missed_where_it_is_not() {
        let lookout = Lookout::start().unwrap();
        let everywhere = place::allowed().unwrap();
        let me = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        for one in (0..CpuSet::MAX_CPU).filter(|one| everywhere.is_set(*one)) {
            place::stay(one).unwrap();
            lookout.rest(me);
            let expected = Seen::At(u16::try_from(one).unwrap());
            let until = Instant::now() + Duration::from_secs(30);
            while soon(&lookout, me) != expected {
                assert!(Instant::now() < until, "not seen on {one}");
            }
        }
        place::roam(&everywhere).unwrap();
        assert_eq!(soon(&lookout, u32::MAX), Seen::Gone);
        lookout.rest(me);
        assert_eq!(lookout.watch(u32::MAX), Seen::Gone, "nobody else's watch is ended");
    }
}
