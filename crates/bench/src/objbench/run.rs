//! The order in which everything happens.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use headrace_store::{Capabilities, ObjectStore, StoreError, probe};

use super::ObjbenchError;
use super::body::Bodies;
use super::check::{self, Checks, LARGE};
use super::cleanup::clean_up;
use super::crew::{self, Task};
use super::operation::{Objects, Operation};
use super::options::Options;
use super::outcome::{Check, Measurement, Report, SCHEMA};
use super::stop::Stop;
use crate::files::Machine;
use crate::report::human;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

const BIG: [Operation; 4] = [Operation::Put, Operation::Get, Operation::GetRange, Operation::Delete];
const SMALL: [Operation; 5] =
    [Operation::Put, Operation::Get, Operation::Head, Operation::List, Operation::Delete];

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is being done.
    pub what: String,
    /// Measurements made.
    pub done: u64,
    /// Measurements in all; 0 while cleaning up.
    pub total: u64,
}

/// Checks and measures a store, within a fresh prefix of its own, and removes what it wrote, however it ends.
///
/// `blocking` says that the store's calls block their thread, as those of a local directory do. `progress` is called several times a
/// second. Needs a tokio runtime with threads. Fails if the store cannot be used at all; what goes wrong later is in the report.
pub async fn run(
    store: Arc<dyn ObjectStore>,
    blocking: bool,
    options: Options,
    stop: Stop,
    progress: impl Fn(Step) + Send + Sync,
) -> Result<Report, ObjbenchError> {
    let options = options.checked()?;
    let seed = getrandom::u64().map_err(|error| ObjbenchError::Random(error.to_string()))?;
    let checked = if options.quick { 1 << 20 } else { LARGE };
    let largest = options.big_size.max(options.small_size).max(checked as u64);
    let bodies = Bodies::new(usize::try_from(largest).unwrap_or(usize::MAX), seed)?;
    let measurements = options.concurrency.len() as u64 * (BIG.len() + SMALL.len()) as u64;
    let (started, began) = (SystemTime::now(), Instant::now());
    let prefix = format!("objbench/{seed:016x}/");
    let run = Run { store, blocking, options, stop, progress, bodies, prefix, total: measurements };
    let result = run.all().await;
    let tell = |what: String| (run.progress)(Step { what, done: 0, total: 0 });
    tell("removing what was written".to_owned());
    let removed =
        |count| tell(format!("removing what was written: {}", human::plural(count, "object", "objects")));
    let cleanup = clean_up(&*run.store, &run.prefix, &run.stop, removed).await;
    let (capabilities, checks, measurements) = match result {
        Ok(found) => found,
        // Where nothing works, that nothing could be removed is no news.
        Err(error) => return Err(error),
    };
    Ok(Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: run.store.url().to_owned(),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        seconds: began.elapsed().as_secs_f64(),
        machine: Machine::this(),
        interrupted: run.stop.asked(),
        options: run.options,
        capabilities,
        checks,
        measurements,
        cleanup,
    })
}

struct Run<P> {
    store: Arc<dyn ObjectStore>,
    blocking: bool,
    options: Options,
    stop: Stop,
    progress: P,
    bodies: Bodies,
    prefix: String,
    total: u64,
}

type Found = (Capabilities, Vec<Check>, Vec<Measurement>);

impl<P: Fn(Step) + Send + Sync> Run<P> {
    async fn all(&self) -> Result<Found, ObjbenchError> {
        self.tell("trying out the store", 0);
        let capabilities = self.unless_stopped(probe(&*self.store)).await??;
        let mut checks = check::of_probe(&capabilities);
        let prefix = format!("{}check/", self.prefix);
        let own = Checks { store: &*self.store, prefix, bodies: &self.bodies, quick: self.options.quick };
        checks.extend(self.unless_stopped(own.run(|name| self.tell(name, 0))).await?);
        let mut measurements = Vec::new();
        for concurrency in self.options.concurrency.clone() {
            self.warm_up(concurrency).await;
            for (size, most, operations) in [
                (self.options.big_size, self.options.big_objects, &BIG[..]),
                (self.options.small_size, self.options.small_objects, &SMALL[..]),
            ] {
                self.level(concurrency, size, most, operations, &mut measurements).await?;
            }
        }
        Ok((capabilities, checks, measurements))
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, ObjbenchError> {
        tokio::select! {
            done = work => Ok(done),
            () = self.stop.reached(1) => Err(ObjbenchError::Stopped),
        }
    }

    fn tell(&self, what: &str, done: u64) {
        (self.progress)(Step { what: what.to_owned(), done, total: self.total });
    }

    /// Opens the connections, so that making them is not measured. What becomes of these requests does not matter.
    async fn warm_up(&self, concurrency: usize) {
        if self.blocking {
            return;
        }
        let key = format!("{}none", self.prefix);
        let heads = (0..concurrency).map(|_| self.store.head(&key));
        let _ = self.unless_stopped(futures::future::join_all(heads)).await;
    }

    /// All operations on the objects of one size at one level.
    async fn level(
        &self,
        concurrency: usize,
        size: u64,
        most: usize,
        operations: &[Operation],
        into: &mut Vec<Measurement>,
    ) -> Result<(), ObjbenchError> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let kind = if operations.len() == BIG.len() { "big" } else { "small" };
        let mut objects = Objects {
            prefix: format!("{}{concurrency}/{kind}/", self.prefix),
            size: length,
            block: usize::try_from(self.options.block).unwrap_or(usize::MAX).min(length),
            stored: Vec::new(),
            bodies: self.bodies.clone(),
        };
        for operation in operations {
            if self.stop.asked() {
                return Ok(());
            }
            if let Some(why) = self.leave_out(*operation, concurrency, &objects) {
                into.push(Measurement::left_out(*operation, size, concurrency, why));
                continue;
            }
            let task = Task {
                store: self.store.clone(),
                blocking: self.blocking,
                operation: *operation,
                objects: objects.clone(),
                concurrency,
                most: self.options.objects(most, concurrency),
                time: self.options.time,
                stop: self.stop.clone(),
            };
            let (measurement, done) = self.watched(task, into.len() as u64).await?;
            into.push(measurement);
            match operation {
                Operation::Put => objects.stored = done,
                Operation::Delete => objects.stored.retain(|index| !done.contains(index)),
                _ => {}
            }
        }
        Ok(())
    }

    fn leave_out(&self, operation: Operation, concurrency: usize, objects: &Objects) -> Option<String> {
        // Bodies that are written share one buffer.
        let body = match operation {
            Operation::Get => objects.size,
            Operation::GetRange => objects.block,
            _ => 0,
        };
        let needed = (body as u64).saturating_mul(concurrency as u64);
        if needed > self.options.memory {
            return Some(format!(
                "needs {} of memory, more than the {} allowed",
                human::size(needed),
                human::size(self.options.memory)
            ));
        }
        if operation != Operation::Put && objects.stored.is_empty() {
            return Some("there are no objects: none could be written".to_owned());
        }
        None
    }

    /// Makes a measurement and tells how it goes.
    async fn watched(&self, task: Task, done: u64) -> Result<(Measurement, Vec<usize>), ObjbenchError> {
        let what = format!(
            "{} of {}, {} at a time",
            task.operation.name(),
            human::size(task.objects.size as u64),
            task.concurrency
        );
        self.tell(&what, done);
        let (send_watch, watch) = tokio::sync::oneshot::channel();
        let measuring = crew::measure(task, |watch| {
            // If nobody watches, nobody is told.
            let _ = send_watch.send(watch);
        });
        let telling = async {
            let Ok(watch) = watch.await else { return std::future::pending().await };
            let began = Instant::now();
            loop {
                tokio::time::sleep(TELL_EVERY).await;
                let (requests, bytes) = watch.progress();
                let rate = bytes as f64 / began.elapsed().as_secs_f64().max(1e-3);
                let rate =
                    if bytes == 0 { String::new() } else { format!(", {}/s", human::bytes(rate as u64)) };
                self.tell(&format!("{what}: {}{rate}", human::plural(requests, "request", "requests")), done);
            }
        };
        tokio::select! {
            measured = measuring => measured,
            () = telling => Err(ObjbenchError::Stopped),
        }
    }
}

impl From<StoreError> for ObjbenchError {
    fn from(error: StoreError) -> ObjbenchError {
        ObjbenchError::Store(error)
    }
}
