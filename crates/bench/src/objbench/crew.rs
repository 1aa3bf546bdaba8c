//! Workers that keep a number of requests under way for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use headrace_metrics::Histogram;
use headrace_store::ObjectStore;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use super::ObjbenchError;
use super::operation::{Answer, Objects, Operation};
use super::outcome::{ErrorCount, Latency, Measurement};
use super::stop::Stop;

/// A measurement in which so many requests fail is ended: it would measure the failures.
const MAX_FAILURES: u64 = 1000;
/// Requests under way when a run is stopped get this long to finish. What is cut off can still reach the store afterwards.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stack of a thread that only calls the local store.
const STACK: usize = 512 << 10;

/// One measurement to be made.
pub(super) struct Task {
    pub store: Arc<dyn ObjectStore>,
    /// The store's calls block their thread: each worker needs one of its own.
    pub blocking: bool,
    pub operation: Operation,
    pub objects: Objects,
    pub concurrency: usize,
    /// Requests at most: objects to write or delete; reads go on until the time is over.
    pub most: usize,
    pub time: Duration,
    pub stop: Stop,
}

struct Shared {
    task: Task,
    /// Started when all workers are there.
    began: Instant,
    next: AtomicUsize,
    figures: Figures,
}

#[derive(Default)]
struct Figures {
    latency: Histogram,
    fastest: AtomicU64,
    slowest: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    objects: AtomicU64,
    failures: AtomicU64,
    /// By kind: how many, and the first.
    errors: Mutex<BTreeMap<&'static str, (u64, String)>>,
    /// Numbers of the objects for which it worked; only of operations that go through them once.
    done: Mutex<Vec<usize>>,
}

/// How far a measurement is.
#[derive(Clone)]
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Requests answered and bytes moved so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.0.figures.requests.load(Relaxed), self.0.figures.bytes.load(Relaxed))
    }
}

/// Makes a measurement. Also returns which objects were written or deleted.
pub(super) async fn measure(
    task: Task,
    watch: impl FnOnce(Watch),
) -> Result<(Measurement, Vec<usize>), ObjbenchError> {
    let (concurrency, blocking, stop) = (task.concurrency, task.blocking, task.stop.clone());
    let retries_before = retries(&*task.store);
    let cpu_before = cpu();
    let figures = Figures { fastest: AtomicU64::new(u64::MAX), ..Figures::default() };
    let shared = Arc::new(Shared { task, began: Instant::now(), next: AtomicUsize::new(0), figures });
    watch(Watch(shared.clone()));
    if blocking {
        on_threads(&shared, concurrency).await?;
    } else {
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            workers.spawn(work(shared.clone()));
        }
        let all = async { while workers.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = async { stop.reached(1).await; tokio::time::sleep(PATIENCE).await } => {}
            () = stop.reached(2) => {}
        }
        workers.shutdown().await;
    }
    let elapsed = shared.began.elapsed();
    let mut measurement = shared.measurement(elapsed);
    measurement.cpu_seconds = cpu().saturating_sub(cpu_before).as_secs_f64();
    measurement.retries = retries(&*shared.task.store).saturating_sub(retries_before);
    let done = std::mem::take(&mut *shared.figures.done.lock());
    Ok((measurement, done))
}

/// A thread for each worker. They end soon after a stop: local calls do not hang for long.
async fn on_threads(shared: &Arc<Shared>, concurrency: usize) -> Result<(), ObjbenchError> {
    let (finished, mut all) = tokio::sync::mpsc::channel::<()>(1);
    for worker in 0..concurrency {
        let (shared, finished) = (shared.clone(), finished.clone());
        let thread = std::thread::Builder::new().name(format!("objbench-{worker}")).stack_size(STACK);
        let started = thread.spawn(move || {
            futures::executor::block_on(work(shared));
            drop(finished);
        });
        if let Err(error) = started {
            // The others end after their time.
            return Err(ObjbenchError::Threads { concurrency, reason: error.to_string() });
        }
    }
    drop(finished);
    // Nothing is ever sent: this is the end of the last sender.
    let _ = all.recv().await;
    Ok(())
}

/// One request after the other, one at least, until the time is over or there is nothing left.
async fn work(shared: Arc<Shared>) {
    let task = &shared.task;
    let once = matches!(task.operation, Operation::Put | Operation::Delete);
    let mut first = true;
    loop {
        let late = shared.began.elapsed() >= task.time && !first;
        let hopeless = shared.figures.failures.load(Relaxed) >= MAX_FAILURES;
        if late || hopeless || task.stop.asked() {
            return;
        }
        first = false;
        let turn = shared.next.fetch_add(1, Relaxed);
        let index = match task.operation {
            Operation::Put => turn,
            _ if once => match task.objects.stored.get(turn) {
                Some(index) => *index,
                None => return,
            },
            _ => match turn.checked_rem(task.objects.stored.len()).and_then(|at| task.objects.stored.get(at))
            {
                Some(index) => *index,
                None => return,
            },
        };
        if once && turn >= task.most {
            return;
        }
        let answer = task.objects.send(&*task.store, task.operation, index, turn).await;
        shared.figures.take(answer, once.then_some(index));
    }
}

impl Figures {
    fn take(&self, answer: Answer, index: Option<usize>) {
        let (kind, example) = match answer {
            Answer::Done { took, bytes, objects } => {
                let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                self.latency.record(took);
                self.fastest.fetch_min(nanos, Relaxed);
                self.slowest.fetch_max(nanos, Relaxed);
                self.requests.fetch_add(1, Relaxed);
                self.bytes.fetch_add(bytes, Relaxed);
                self.objects.fetch_add(objects, Relaxed);
                if let Some(index) = index {
                    self.done.lock().push(index);
                }
                return;
            }
            Answer::Wrong(how) => ("wrong_data", how),
            Answer::Failed(error) => (error.kind.name(), error.to_string()),
        };
        self.failures.fetch_add(1, Relaxed);
        let mut errors = self.errors.lock();
        let (count, _) = errors.entry(kind).or_insert_with(|| (0, example));
        *count += 1;
    }
}

impl Shared {
    fn measurement(&self, elapsed: Duration) -> Measurement {
        let (task, figures) = (&self.task, &self.figures);
        let requests = figures.requests.load(Relaxed);
        let seconds = elapsed.as_secs_f64();
        let body = if task.operation == Operation::GetRange { task.objects.block } else { task.objects.size };
        let latency = (requests > 0).then(|| {
            let shortest = Duration::from_nanos(figures.fastest.load(Relaxed));
            let longest = Duration::from_nanos(figures.slowest.load(Relaxed));
            Latency::of(&figures.latency.snapshot(), shortest, longest)
        });
        Measurement {
            operation: task.operation,
            object_bytes: task.objects.size as u64,
            body_bytes: body as u64,
            concurrency: task.concurrency,
            left_out: None,
            requests,
            objects: figures.objects.load(Relaxed),
            bytes: figures.bytes.load(Relaxed),
            seconds,
            cpu_seconds: 0.0,
            latency,
            errors: figures
                .errors
                .lock()
                .iter()
                .map(|(kind, (count, example))| ErrorCount {
                    kind: (*kind).to_owned(),
                    count: *count,
                    example: example.clone(),
                })
                .collect(),
            retries: 0,
        }
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Attempts that were made again since the store was opened.
fn retries(store: &dyn ObjectStore) -> u64 {
    let mut collection = headrace_metrics::Collection::new();
    store.collect(&mut collection);
    headrace_metrics::Snapshot::new(collection).counter("headrace_store_retries_total", &[])
}
