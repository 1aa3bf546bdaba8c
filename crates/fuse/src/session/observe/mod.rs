//! What is taken down of each request: who asked for what, how long it took, what it moved.
//!
//! One place sees all of them: [`Observer::begin`] when a request has been decoded, [`Observer::end`] when its answer has been
//! sent. Who wants to see single operations subscribes to the [`Feed`]; while nobody does it costs one load.
//!
//! Of a file that is passed through nothing is seen between its open and its release but what asks for more than bytes (FLUSH,
//! FSYNC, SETATTR, FALLOCATE, LSEEK, COPY_FILE_RANGE): reads, writes and mappings are between the kernel and the disk, and count
//! neither here nor in the access time of the file.

mod counts;
mod feed;
mod operation;
mod processes;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub(crate) use feed::Feed;
pub use feed::{SubscribeError, Subscription};
pub use operation::{Operation, ProcessName};

use crate::Errno;
use crate::abi::{Args, InHeader, Opcode};
use counts::Counts;
use operation::Origin;
use processes::Processes;

/// Sees every request of a session.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    counts: Counts,
    feed: Arc<Feed>,
    processes: Processes,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Observation {
    pub opcode: Opcode,
    started: Instant,
    tid: u32,
    uid: u32,
    node: u64,
    /// Only while somebody listens.
    origin: Option<Origin>,
}

impl Observer {
    /// A request begins; `body`: its arguments.
    pub fn begin(&self, header: &InHeader, opcode: Opcode, body: Args<'_>) -> Observation {
        self.counts.begin();
        // Now, for whoever asked waits for the answer and cannot have ended.
        let origin = self.feed.listening().then(|| self.origin(header.pid, opcode, body));
        Observation {
            opcode,
            started: Instant::now(),
            tid: header.pid,
            uid: header.uid,
            node: header.nodeid,
            origin,
        }
    }

    /// Its answer has been sent. `bytes`: file data that was moved.
    pub fn end(&self, observation: &Observation, error: Option<Errno>, bytes: u64) {
        let duration = observation.started.elapsed();
        self.counts.end(observation.opcode, duration, error, bytes);
        if self.feed.listening() {
            self.publish(observation, duration, error, bytes);
        }
    }

    /// Adds what is counted of all requests.
    pub fn collect(&self, into: &mut headrace_metrics::Collection) {
        self.counts.collect(into);
    }

    /// What single operations are told to.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    #[cold]
    fn origin(&self, tid: u32, opcode: Opcode, body: Args<'_>) -> Origin {
        let process = self.processes.of(tid);
        // Last: the duration begins right after it.
        Origin { offset: operation::offset(opcode, body), process, started: SystemTime::now() }
    }

    #[cold]
    fn publish(&self, observation: &Observation, duration: Duration, error: Option<Errno>, bytes: u64) {
        // It began before anybody listened: who asked may be gone by now, but most are not.
        let origin = observation.origin.unwrap_or_else(|| {
            let now = SystemTime::now();
            let started = now.checked_sub(duration).unwrap_or(now);
            Origin { started, process: self.processes.of(observation.tid), offset: None }
        });
        self.feed.publish(&Operation {
            started: origin.started,
            duration,
            opcode: observation.opcode,
            tid: observation.tid,
            pid: origin.process.pid,
            process: origin.process.name,
            uid: observation.uid,
            node: observation.node,
            offset: origin.offset,
            bytes,
            error,
        });
    }
}
