//! Keeping a worker of /dev/fuse on the processor of who asks.
//!
//! A small request is hardly work. What takes time is waking a worker on another processor, and then the caller from there. So while one thread
//! alone asks, one small request after the other (`cp -a`, `tar x`, `find`), one worker alone takes requests and stays on that
//! thread's processor: its *companion*. The others are parked meanwhile. Where the caller runs another thread looks ([`lookout`]). A reply is handed over with the standing of SCHED_IDLE, for
//! otherwise the scheduler would have the caller go on elsewhere ([`standing`]).
//!
//! Other callers, much data, a machine without a processor to spare, or a companion that gets no further make all workers take requests again. One of those that are parked sees
//! to the last, so that nobody's request waits for a thread that does not run.

mod claim;
mod load;
mod lookout;
mod pause;
mod place;
mod run;
mod standing;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::thread::CpuSet;

use claim::Claim;
use load::Load;
use lookout::{Lookout, Seen};
use pause::Pause;
use run::{Request, Run, Step};
pub(super) use standing::Standing;

use crate::abi::{Args, InHeader, Opcode, ReadIn};

/// A companion that has taken no request for so long is none any more.
const QUIET: Duration = Duration::from_millis(5);
/// For so long there is no companion after one that did harm, the first time ...
const PAUSE: Duration = Duration::from_millis(20);
/// ... and at most.
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// For so long there is none after there was no processor to spare, the first time ...
const CROWDED: Duration = Duration::from_millis(10);
/// ... and at most.
const CROWDED_MOST: Duration = Duration::from_millis(100);
/// Bytes of a request or reply from which on copying them is most of its cost.
pub(super) const BULKY: usize = 64 << 10;

/// What the workers of a session agree on.
#[derive(Debug)]
pub(super) struct Affinity {
    /// None where there cannot be companions.
    lookout: Option<Lookout>,
    /// A [`Claim`].
    claim: AtomicU64,
    /// Counts the companion's steps; odd while it works on a request.
    progress: AtomicU64,
    pause: Mutex<Pause>,
    crowded: Mutex<Pause>,
    parked: Mutex<Parked>,
    /// Told when the companion is none any more.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Parked {
    /// One of them looks after the companion.
    watched: bool,
}

thread_local! {
    /// Whether this thread hands over its replies with the lowest standing.
    static LOWERED: Cell<bool> = const { Cell::new(false) };
    /// Since when it had no processor because of that.
    static LOST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Hands a reply over to the kernel.
pub(super) fn hand_over<T>(reply: impl FnOnce() -> T) -> T {
    if !LOWERED.get() {
        return reply();
    }
    let (done, lost) = standing::lowered(reply);
    if lost.is_some() {
        LOST.set(lost);
    }
    done
}

impl Affinity {
    /// For so many workers that take requests from one queue.
    pub fn new(workers: usize) -> Affinity {
        let several = || place::allowed().is_ok_and(|allowed| allowed.count() > 1);
        Affinity {
            lookout: (workers > 1 && several() && standing::possible())
                .then(Lookout::start)
                .and_then(Result::ok),
            claim: AtomicU64::new(Claim::Nobody.encode()),
            progress: AtomicU64::new(0),
            pause: Mutex::new(Pause::new(PAUSE, PAUSE_MOST)),
            crowded: Mutex::new(Pause::new(CROWDED, CROWDED_MOST)),
            parked: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    fn claim(&self) -> Claim {
        Claim::decode(self.claim.load(Ordering::Acquire))
    }

    fn exchange(&self, from: Claim, to: Claim) -> bool {
        self.claim.compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// All take requests again. `harm`: since when something was amiss.
    fn end(&self, claim: Claim, harm: Option<Instant>) {
        if !self.exchange(claim, Claim::Nobody) {
            return;
        }
        tracing::debug!(?claim, harm = harm.is_some(), "a companion is none any more");
        if let Some(since) = harm {
            self.pause.lock().harmed(since, Instant::now());
        }
        // Who looked before has begun to wait once this is locked.
        drop(self.parked.lock());
        self.ended.notify_all();
    }

    /// Waits while another worker is a companion.
    fn park(&self, me: u16) {
        let others = |claim| matches!(claim, Claim::Companion { worker, .. } if worker != me);
        let mut parked = self.parked.lock();
        let mut watching = false;
        loop {
            let claim = self.claim();
            if !others(claim) {
                break;
            }
            if !watching && parked.watched {
                self.ended.wait(&mut parked);
                continue;
            }
            (watching, parked.watched) = (true, true);
            let seen = self.progress.load(Ordering::Acquire);
            let since = Instant::now();
            let waited = self.ended.wait_for(&mut parked, QUIET);
            if waited.timed_out() && self.progress.load(Ordering::Acquire) == seen {
                // One that waits for a request does no harm, but would have to be looked at for ever.
                let stuck = seen % 2 == 1;
                drop(parked);
                self.end(claim, stuck.then_some(since));
                parked = self.parked.lock();
            }
        }
        if watching {
            parked.watched = false;
        }
    }
}

/// One worker's part.
pub(super) struct Seat {
    affinity: Arc<Affinity>,
    me: u16,
    run: Run,
    /// Whom the lookout was asked to watch.
    watched: Option<u32>,
    load: Load,
    /// Where this thread may run, while it stays on one processor of those.
    roamed: Option<CpuSet>,
    place: Option<usize>,
    /// Since when it is a companion.
    began: Instant,
}

impl Seat {
    /// For the worker of that number. None where there cannot be companions.
    pub fn new(affinity: &Arc<Affinity>, worker: usize) -> Option<Seat> {
        let me = u16::try_from(worker).ok().filter(|_| affinity.lookout.is_some())?;
        Some(Seat {
            affinity: Arc::clone(affinity),
            me,
            run: Run::new(me),
            watched: None,
            load: Load::new(),
            roamed: None,
            place: None,
            began: Instant::now(),
        })
    }

    /// To be called before each wait for a request. Blocks while another worker takes them all.
    pub fn settle(&mut self) {
        if let Some(since) = LOST.take() {
            self.leave(Some(since));
        }
        match self.affinity.claim() {
            Claim::Companion { worker, .. } if worker == self.me => self.step(false),
            claim => {
                self.roam();
                if matches!(claim, Claim::Companion { .. }) {
                    self.affinity.park(self.me);
                }
            }
        }
    }

    /// To be called for each request that was taken.
    pub fn request(&mut self, request: &[u8]) {
        let claim = self.affinity.claim();
        if self.mine(claim) {
            self.step(true);
        }
        let Some(request) = about(request) else { return };
        let now = Instant::now();
        match self.run.request(claim, request, now) {
            Step::Nothing => {}
            Step::Try => {
                let trial = Claim::Trial { worker: self.me, caller: request.caller };
                let may_not =
                    self.affinity.pause.lock().lasts(now) || self.affinity.crowded.lock().lasts(now);
                if may_not || !self.affinity.exchange(Claim::Nobody, trial) {
                    self.run.not_tried();
                }
            }
            Step::Withdraw => {
                self.affinity.exchange(claim, Claim::Nobody);
            }
            Step::Begin => {
                let companion = Claim::Companion { worker: self.me, caller: request.caller };
                if self.affinity.exchange(claim, companion) {
                    self.step(true);
                    self.began = now;
                    if self.load.busy() {
                        self.make_room(now);
                    } else {
                        self.stay_with(request.caller);
                    }
                }
            }
            Step::Look if self.load.crowded() => self.make_room(now),
            Step::Look => self.stay_with(request.caller),
            Step::End => self.leave(Some(self.began)),
        }
        // With much to copy on both sides, two processors are better than one.
        LOWERED.set(self.place.is_some() && self.mine(self.affinity.claim()) && !request.bulky);
    }

    fn mine(&self, claim: Claim) -> bool {
        matches!(claim, Claim::Companion { worker, .. } if worker == self.me)
    }

    fn step(&self, working: bool) {
        // Nobody else counts while this is the companion; who was one a moment ago does no harm.
        let before = self.affinity.progress.load(Ordering::Relaxed);
        let after = (before | 1).wrapping_add(if working { 2 } else { 1 });
        self.affinity.progress.store(after, Ordering::Release);
    }

    /// Others are to run here.
    fn make_room(&mut self, now: Instant) {
        self.leave(None);
        self.affinity.crowded.lock().harmed(now, now);
    }

    fn stay_with(&mut self, caller: u32) {
        self.watched = Some(caller);
        let stays = match self.affinity.lookout.as_ref().map_or(Seen::Gone, |lookout| lookout.watch(caller)) {
            Seen::Nothing => Ok(()),
            Seen::At(place) => self.stay_at(usize::from(place)),
            Seen::Gone => Err(std::io::Error::other("nobody knows where it runs")),
        };
        if let Err(error) = stays {
            tracing::debug!(%error, "no worker stays where thread {caller} runs");
            self.leave(Some(self.began));
        }
    }

    fn stay_at(&mut self, place: usize) -> std::io::Result<()> {
        if self.place == Some(place) {
            return Ok(());
        }
        let roamed = match self.roamed {
            Some(roamed) => roamed,
            None => *self.roamed.insert(place::allowed()?),
        };
        if place >= CpuSet::MAX_CPU || !roamed.is_set(place) {
            return Err(std::io::Error::other("it runs where this process may not"));
        }
        place::stay(place)?;
        self.place = Some(place);
        Ok(())
    }

    fn roam(&mut self) {
        self.place = None;
        if let (Some(caller), Some(lookout)) = (self.watched.take(), &self.affinity.lookout) {
            lookout.rest(caller);
        }
        if let Some(roamed) = self.roamed.take()
            && let Err(error) = place::roam(&roamed)
        {
            tracing::warn!(%error, "a FUSE worker thread stays on one processor");
        }
    }

    fn leave(&mut self, harm: Option<Instant>) {
        let claim = self.affinity.claim();
        if self.mine(claim) {
            self.affinity.end(claim, harm);
        }
        LOWERED.set(false);
        self.roam();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave(None);
    }
}

/// None of a request that makes no sense.
fn about(request: &[u8]) -> Option<Request> {
    let mut args = Args::new(request);
    let header = args.take::<InHeader>().ok()?;
    let mut reads = || args.take::<ReadIn>().map_or(0, |read| read.size as usize);
    let reply = if header.opcode == Opcode::Read as u32 { reads() } else { 0 };
    Some(Request { caller: header.pid, bulky: request.len().max(reply) >= BULKY })
}

#[cfg(test)]
mod tests;
