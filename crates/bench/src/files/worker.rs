//! The threads of a phase: they start together, time what they do, and stop together when one fails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use headrace_metrics::{Histogram, HistogramSnapshot};
use parking_lot::RwLock;

use super::content::{Content, PAGE, Stream};
use super::error::Error;
use super::options::Options;
use super::phases::Phase;
use super::space::Space;

/// Asks a running benchmark to stop: soon, and cleanly. All clones ask the same one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a phase took, all threads together.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// The time of the thread that took longest, without what it spent making and checking content.
    pub busy: Duration,
    /// From the start to the end of the last thread.
    pub wall: Duration,
    /// Time spent checking what was read, added up over the threads.
    pub checking: Duration,
    /// Operations done.
    pub operations: u64,
    /// Bytes written or read.
    pub bytes: u64,
    /// What the rate counts.
    pub done: u64,
    /// How long the operations took.
    pub latency: HistogramSnapshot,
    /// The longest.
    pub longest: Duration,
}

/// What all phases of a directory share.
pub struct Setup<'a> {
    pub space: &'a Space,
    pub options: &'a Options,
    pub content: &'a Content,
    pub seed: u64,
    pub stop: &'a Stop,
}

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Runs `phase` to its end. `tell` hears how much of it is done.
///
/// # Errors
/// The first that a thread met; [`Error::Stopped`] if it was asked to stop.
pub fn run(setup: &Setup<'_>, phase: Phase, tell: &mut dyn FnMut(u64)) -> Result<Timing, Error> {
    let timed = with_threads(setup, tell, |worker| phase.work(worker).map(|()| worker.operations))?;
    if phase.looks_back() {
        with_threads(setup, &mut |_| tell(timed.timing.done), |worker| {
            let done = timed.results.get(worker.thread as usize).copied().unwrap_or(0);
            phase.look_back(worker, done)
        })?;
    }
    Ok(timed.timing)
}

struct Together<T> {
    timing: Timing,
    /// What each thread returned, in order.
    results: Vec<T>,
}

fn with_threads<T: Send>(
    setup: &Setup<'_>,
    tell: &mut dyn FnMut(u64),
    work: impl Fn(&mut Worker<'_>) -> Result<T, Error> + Sync,
) -> Result<Together<T>, Error> {
    let shared = Shared::default();
    let (ended, endings) = mpsc::channel::<()>();
    let mut timing = Timing::default();
    let mut results = Vec::new();
    let mut failure = None;
    std::thread::scope(|scope| {
        // Threads wait for it to be unlocked, and then do nothing unless all of them could be started.
        let mut gate = shared.gate.write();
        let mut threads = Vec::new();
        for thread in 0..setup.options.threads {
            let mut worker = Worker::new(setup, &shared, thread);
            let (ended, work) = (ended.clone(), &work);
            let spawned = Builder::new().name(format!("bench-{thread}")).spawn_scoped(scope, move || {
                // Dropped at the end, even if that is a panic.
                let _ended = ended;
                let open = *worker.shared.gate.read();
                let result = if open { work(&mut worker) } else { Err(Error::Stopped) };
                if result.is_err() {
                    worker.shared.failed.store(true, Ordering::Relaxed);
                }
                (result, worker)
            });
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(e) => failure = Some(Error::Thread(e)),
            }
        }
        drop(ended);
        let started = Instant::now();
        *gate = failure.is_none();
        drop(gate);
        while endings.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
            tell(shared.done.load(Ordering::Relaxed));
        }
        timing.wall = started.elapsed();
        for thread in threads {
            let (result, worker) = match thread.join() {
                Ok(it) => it,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            worker.add_to(&mut timing);
            match result {
                Ok(result) => results.push(result),
                // A thread that only stopped because another had failed has nothing to say.
                Err(e) if failure.as_ref().is_none_or(Error::is_stop) => failure = Some(e),
                Err(_) => {}
            }
        }
    });
    timing.done = shared.done.load(Ordering::Relaxed);
    match failure {
        Some(error) => Err(error),
        None => Ok(Together { timing, results }),
    }
}

#[derive(Default)]
struct Shared {
    gate: RwLock<bool>,
    failed: AtomicBool,
    done: AtomicU64,
}

/// One thread of a phase.
pub struct Worker<'a> {
    pub thread: u32,
    pub space: &'a Space,
    pub options: &'a Options,
    pub content: &'a Content,
    pub seed: u64,
    stop: &'a Stop,
    shared: &'a Shared,
    latency: Histogram,
    longest: Duration,
    busy: Duration,
    checking: Duration,
    operations: u64,
    bytes: u64,
}

impl<'a> Worker<'a> {
    fn new(setup: &Setup<'a>, shared: &'a Shared, thread: u32) -> Worker<'a> {
        Worker {
            thread,
            space: setup.space,
            options: setup.options,
            content: setup.content,
            seed: setup.seed,
            stop: setup.stop,
            shared,
            latency: Histogram::new(),
            longest: Duration::ZERO,
            busy: Duration::ZERO,
            checking: Duration::ZERO,
            operations: 0,
            bytes: 0,
        }
    }

    fn add_to(&self, timing: &mut Timing) {
        timing.busy = timing.busy.max(self.busy);
        timing.checking += self.checking;
        timing.operations += self.operations;
        timing.bytes += self.bytes;
        timing.longest = timing.longest.max(self.longest);
        timing.latency.merge(&self.latency.snapshot());
    }

    /// Fails once this benchmark was asked to stop or another thread has failed.
    pub fn go_on(&self) -> Result<(), Error> {
        let stop = self.stop.is_requested() || self.shared.failed.load(Ordering::Relaxed);
        if stop { Err(Error::Stopped) } else { Ok(()) }
    }

    /// A buffer as large as a block, or as the large file if that is smaller.
    pub fn block(&self) -> Result<Vec<u8>, Error> {
        let len = self.options.block_size.min(self.options.big_size.next_multiple_of(PAGE as u64));
        usize::try_from(len)
            .map(|len| vec![0; len])
            .map_err(|_| Error::Option("a block does not fit into memory".into()))
    }

    /// Does and times one operation on `bytes` bytes that counts as `done` in the phase's rate.
    ///
    /// # Errors
    /// [`Error::Stopped`] before it begins; what `operation` fails with is returned inside, so that the caller can say on what.
    pub fn operation<T>(
        &mut self,
        bytes: u64,
        done: u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> Result<io::Result<T>, Error> {
        self.go_on()?;
        let started = Instant::now();
        let result = operation();
        let took = started.elapsed();
        self.busy += took;
        if result.is_ok() {
            self.latency.record(took);
            self.longest = self.longest.max(took);
            self.operations += 1;
            self.bytes += bytes;
            self.shared.done.fetch_add(done, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// Does what belongs to the phase's time but is none of its operations: opening, syncing.
    pub fn busy<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.busy += started.elapsed();
        result
    }

    /// Checks what was read at `offset`, a multiple of [`PAGE`].
    pub fn check(&mut self, stream: Stream, offset: u64, read: &[u8], path: &Path) -> Result<(), Error> {
        let started = Instant::now();
        let wrong = self.content.check(stream, offset / PAGE as u64, read);
        self.checking += started.elapsed();
        match wrong {
            None => Ok(()),
            Some(at) => Err(Error::Corrupt { path: PathBuf::from(path), offset: offset + at as u64 }),
        }
    }
}
