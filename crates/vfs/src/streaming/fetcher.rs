//! Where decisions meet the world: see [`Fetcher`].

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use headrace_flow::backoff::Failure;
use headrace_flow::reading::{FileId, HandleId, Kept, Limits, Reads, RequestId, Stats, Tuning};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::flight::Flight;
use super::inner::{Inner, Order, Outcome, Waiting};
use super::wake;
use super::{Body, Origin};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// A read of a file that is fetched in streams.
pub(crate) struct Streamed {
    /// The file.
    pub body: Body,
    /// Its content: another number after each change of committed bytes that somebody may have read.
    pub content: u64,
    /// Who reads.
    pub handle: u64,
    /// So many bytes of the content can be fetched.
    pub len: u64,
    /// What is wanted.
    pub range: Range<u64>,
    /// Whether what comes of it is kept on a local disk as well, all of it if it should come to that.
    pub kept: Kept,
}

/// Fetches what readers want and what they will want next, and keeps it until it is read.
pub(crate) struct Fetcher<O: Origin> {
    me: Weak<Fetcher<O>>,
    origin: Weak<O>,
    runtime: Handle,
    clock: Clock,
    pub(super) inner: Mutex<Inner>,
    /// Told when it is to be woken earlier than was known, and at the end.
    rearmed: Arc<Notify>,
}

impl<O: Origin> Fetcher<O> {
    /// A fetcher of what `origin` has, which may hold so much.
    pub(crate) fn start(origin: Weak<O>, runtime: Handle, limits: Limits, tuning: Tuning) -> Arc<Fetcher<O>> {
        let (clock, rearmed) = (Clock::new(), Arc::new(Notify::new()));
        let fetcher = Arc::new_cyclic(|me| Fetcher {
            me: Weak::clone(me),
            origin,
            runtime: runtime.clone(),
            clock,
            inner: Mutex::new(Inner::new(Reads::new(tuning, limits))),
            rearmed: Arc::clone(&rearmed),
        });
        runtime.spawn(wake::keep(Arc::downgrade(&fetcher), rearmed, clock));
        fetcher
    }

    /// The bytes of a read. They count towards memory until they are dropped.
    ///
    /// # Errors
    /// What kept a byte of it from being had.
    pub(crate) async fn read(&self, wanted: Streamed) -> Result<Vec<Bytes>> {
        let Streamed { body, content, handle, len, range, kept } = wanted;
        let (file, handle) = (FileId(content), HandleId(handle));
        // Dropped after the receiver, whenever this future is: an answer is taken by one of the two, or goes to nobody.
        let mut lent = Lent { fetcher: Weak::clone(&self.me), request: None, bytes: Bytes::new() };
        let (answer, answered) = oneshot::channel();
        let (outcome, waits) = {
            let mut inner = self.inner.lock();
            if inner.stopped {
                return Err(stopped());
            }
            let request = RequestId(inner.next_request);
            inner.next_request += 1;
            lent.request = Some(request);
            let now = self.clock.now();
            inner.open(now, file, handle, body, len);
            inner.reads.kept(file, kept);
            inner.waiting.insert(request, Waiting { file, range: range.clone(), answer });
            inner.reads.read(now, file, handle, range, request);
            (inner.settle(None), inner.waiting.contains_key(&request))
        };
        self.carry_out(outcome, if waits { Begin::Here } else { Begin::Elsewhere });
        let mut pieces = answered.await.map_err(|_| stopped())??;
        if let Some(first) = pieces.first_mut() {
            lent.bytes = std::mem::take(first);
            *first = Bytes::from_owner(lent);
        }
        Ok(pieces)
    }

    /// Whether all bytes of a content's `range` are there: a read of them is answered at once.
    pub(crate) fn holds(&self, content: u64, range: &Range<u64>) -> bool {
        let inner = self.inner.lock();
        inner.files.get(&FileId(content)).is_some_and(|file| file.buffers.has(range))
    }

    /// A handle is closed: what was fetched for it alone goes.
    pub(crate) fn close(&self, handle: u64) {
        self.event(|inner, now| inner.close(now, HandleId(handle)), None);
    }

    /// Ends all fetches and reads.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        let tasks: Vec<_> = inner.tasks.drain().collect();
        inner.waiting.clear();
        inner.files.clear();
        drop(inner);
        tasks.into_iter().filter_map(|(_, task)| task).for_each(|task| task.abort());
        self.rearmed.notify_one();
    }

    /// So many bytes may be held from now on.
    pub(crate) fn set_memory(&self, bytes: u64) {
        self.event(|inner, now| inner.reads.set_memory(now, bytes), None);
    }

    /// The processors of this machine were idle for this share of the last moment.
    pub(super) fn processors(&self, idle: f64) {
        self.inner.lock().reads.processors(idle);
    }

    /// Whether more memory would be of use.
    pub(crate) fn wants_memory(&self) -> bool {
        self.inner.lock().reads.wants_memory()
    }

    /// Bytes held.
    pub(crate) fn memory_held(&self) -> u64 {
        self.inner.lock().reads.held()
    }

    /// Whether it was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.lock().stopped
    }

    /// Bytes that are fetched or being fetched and not with a reader yet, and what was done so far.
    pub(crate) fn figures(&self) -> Figures {
        let inner = self.inner.lock();
        Figures {
            held: inner.reads.held(),
            waiting: inner.waiting.len() as u64,
            in_flight: inner.tasks.len() as u64,
            allowed: inner.reads.allowed() as u64,
            processors_busy: inner.reads.processors_are_busy(),
            windows: inner.reads.windows().map(|(_, _, bytes)| bytes).collect(),
            stats: inner.reads.stats(),
        }
    }

    /// Tells [`Reads`] of something and does what follows.
    pub(super) fn event(&self, tell: impl FnOnce(&mut Inner, Duration), why: Option<&Error>) {
        let outcome = {
            let mut inner = self.inner.lock();
            tell(&mut inner, self.clock.now());
            inner.settle(why)
        };
        self.carry_out(outcome, Begin::Elsewhere);
    }

    fn carry_out(&self, outcome: Outcome, mut begin: Begin) {
        let Outcome { orders, unwanted, cancelled, wake } = outcome;
        cancelled.into_iter().for_each(|task| task.abort());
        for order in orders {
            self.send(order, std::mem::replace(&mut begin, Begin::Elsewhere));
        }
        for request in unwanted {
            self.event(|inner, now| inner.reads.taken(now, request), None);
        }
        if wake {
            self.rearmed.notify_one();
        }
    }

    fn send(&self, order: Order, begin: Begin) {
        let Order { fetch, file, body, range } = order;
        let (Some(fetcher), Some(origin)) = (self.me.upgrade(), self.origin.upgrade()) else { return };
        let mut work = Box::pin(async move {
            let mut flight = Flight { fetcher, fetch, file, at: range.start };
            let work = AssertUnwindSafe(origin.fetch(body, range.clone(), &mut flight)).catch_unwind();
            let result = work.await.unwrap_or_else(|_| {
                Err(Error::Internal(format!("fetching bytes {range:?} of {body:?} failed")))
            });
            let Flight { fetcher, at, .. } = flight;
            let result = result.and_then(|()| match at == range.end {
                true => Ok(()),
                false => Err(Error::Internal(format!("bytes {range:?} were fetched, and came up to {at}"))),
            });
            fetcher.event(
                |inner, now| {
                    if inner.tasks.remove(&fetch).is_none() {
                        return;
                    }
                    match &result {
                        Ok(()) => inner.reads.finished(now, fetch),
                        Err(_) => inner.reads.failed(now, fetch, Failure::Permanent),
                    }
                },
                result.as_ref().err(),
            );
        });
        if matches!(begin, Begin::Here) {
            let _entered = self.runtime.enter();
            // The real waker is given when the task polls it, which it does at once.
            if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
        }
        let task = self.runtime.spawn(work);
        let mut inner = self.inner.lock();
        match inner.tasks.get_mut(&fetch) {
            Some(place) => *place = Some(task.abort_handle()),
            // It is over already, or was cancelled before it was known by its handle.
            None => task.abort(),
        }
    }
}

fn stopped() -> Error {
    Error::Internal("the file system was stopped".to_owned())
}

/// Where a fetch is begun.
#[derive(Clone, Copy)]
enum Begin {
    /// By who wants it and has nothing else to do: the request is on its way before another thread is awake.
    Here,
    /// By the runtime.
    Elsewhere,
}

impl<O: Origin> Drop for Fetcher<O> {
    fn drop(&mut self) {
        self.rearmed.notify_one();
    }
}

/// What a [`Fetcher`] holds and has done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// Bytes.
    pub held: u64,
    /// Reads that wait.
    pub waiting: u64,
    /// Fetches under way.
    pub in_flight: u64,
    /// As many as could be.
    pub allowed: u64,
    /// Processors are the limit.
    pub processors_busy: bool,
    /// Of each stream that is fetched ahead, bytes.
    pub windows: Vec<u64>,
    /// What was done so far.
    pub stats: Stats,
}

/// Keeps the bytes of an answer counted: all of them, until the first piece is not referred to any more.
struct Lent<O: Origin> {
    fetcher: Weak<Fetcher<O>>,
    request: Option<RequestId>,
    bytes: Bytes,
}

impl<O: Origin> AsRef<[u8]> for Lent<O> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<O: Origin> Drop for Lent<O> {
    fn drop(&mut self) {
        if let (Some(request), Some(fetcher)) = (self.request, self.fetcher.upgrade()) {
            fetcher.event(|inner, now| inner.reads.taken(now, request), None);
        }
    }
}
