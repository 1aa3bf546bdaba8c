//! The threads that take requests from the kernel.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::affinity::Seat;
use super::buffer::BufferPool;
use super::transport::Received;
use super::{RequestBuffer, Shared, Transport};
use crate::dispatch;

/// How long to wait for room before looking at whom the waiting requests belong to.
const LOOK: Duration = Duration::from_millis(100);

/// One thread's share of a session.
pub(crate) struct Worker {
    /// Its place among the session's workers.
    pub index: usize,
    /// The session.
    pub shared: Arc<Shared>,
    /// Where its requests come from and its replies go.
    pub connection: Arc<Connection>,
    pool: Arc<BufferPool>,
}

/// What an answer needs to find its way and to be accounted for. Each worker has its own, so that workers do not count
/// references to the same one.
pub(crate) struct Connection {
    pub transport: Arc<dyn Transport>,
    pub shared: Arc<Shared>,
}

impl Worker {
    pub fn new(
        index: usize,
        transport: Arc<dyn Transport>,
        shared: Arc<Shared>,
        pool: Arc<BufferPool>,
    ) -> Self {
        let connection = Arc::new(Connection { transport, shared: Arc::clone(&shared) });
        Worker { index, shared, connection, pool }
    }

    pub fn spawn(self) -> io::Result<()> {
        std::thread::Builder::new().name(format!("fuse-{}", self.index)).spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        let ended = Ended(&self.shared);
        let runtime = self.shared.runtime.clone();
        // Calls that start tasks or timers find the runtime even when polled here.
        let _entered = runtime.enter();
        let mut buffer = self.pool.request_buffer();
        let transport = &self.connection.transport;
        let mut seat = transport.by_turns().then(|| Seat::new(&self.shared.affinity, self.index)).flatten();
        loop {
            if let Some(seat) = &mut seat {
                seat.settle();
            }
            self.wait_for_room();
            match transport.receive(buffer.space()) {
                Ok(Received::Request(len)) => {
                    if let Some(seat) = &mut seat {
                        seat.request(buffer.request(len));
                    }
                    self.serve(&mut buffer, len);
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Ended) => {
                    // The others may wait for requests where none will come.
                    self.shared.transports.iter().for_each(|transport| transport.close());
                    break;
                }
                Err(error) if transport.replaceable() => {
                    tracing::error!("reading from /dev/fuse failed: {error}; this worker ends");
                    break;
                }
                Err(error) => {
                    tracing::error!("requests no longer come by io_uring: {error}; the mount is given up");
                    self.shared.give_up();
                    break;
                }
            }
        }
        drop(ended);
    }

    /// Waits while the requests that wait are as many, or bring as much data, as there is memory for. A request that was
    /// not read takes no memory here, and the kernel gives it up by itself when its process is killed. Those that wait
    /// finish without any other request.
    fn wait_for_room(&self) {
        let shared = &self.shared;
        loop {
            if shared.fs.wait_for_room(Duration::ZERO)
                && shared.in_flight.wait_below(shared.most_in_flight, Duration::ZERO)
            {
                return;
            }
            // Who waits for a reply is not to wait for room.
            self.connection.transport.flush();
            let room =
                shared.fs.wait_for_room(LOOK) && shared.in_flight.wait_below(shared.most_in_flight, LOOK);
            if room || !self.connection.transport.connected() {
                return;
            }
            shared.interrupts.sweep();
        }
    }

    /// Handles one request. A handler that panics costs its caller an EIO and nobody else anything.
    fn serve(&self, buffer: &mut RequestBuffer, len: usize) {
        let served = std::panic::catch_unwind(AssertUnwindSafe(|| dispatch::serve(self, buffer, len)));
        self.shared.interrupts.end(self.index);
        if served.is_err() {
            tracing::error!("a request handler panicked: this is a bug; the request was answered with EIO");
        }
    }
}

/// Counts the worker out however it ends.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.worker_ended();
    }
}

/// Counts requests that left their worker.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: Mutex<usize>,
    /// The same, for who only wants to look.
    seen: AtomicUsize,
    /// Told when there are fewer.
    fewer: Condvar,
}

impl InFlight {
    pub fn begin(&self) {
        let mut count = self.count.lock();
        *count += 1;
        self.seen.store(*count, Ordering::Release);
    }

    pub fn end(&self) {
        let mut count = self.count.lock();
        *count = count.saturating_sub(1);
        self.seen.store(*count, Ordering::Release);
        self.fewer.notify_all();
    }

    /// Blocks until there are fewer than `limit`. False if there still are not after `at_most`.
    pub fn wait_below(&self, limit: usize, at_most: Duration) -> bool {
        if self.seen.load(Ordering::Acquire) < limit {
            return true;
        }
        let until = Instant::now() + at_most;
        let mut count = self.count.lock();
        while *count >= limit {
            if self.fewer.wait_until(&mut count, until).timed_out() {
                return *count < limit;
            }
        }
        true
    }

    /// Whether nothing is in flight any more, by `deadline` at the latest.
    pub fn wait_idle(&self, deadline: Instant) -> bool {
        let mut count = self.count.lock();
        while *count > 0 {
            if self.fewer.wait_until(&mut count, deadline).timed_out() {
                return *count == 0;
            }
        }
        true
    }
}
