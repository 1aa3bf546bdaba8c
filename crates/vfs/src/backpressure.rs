//! Who may write how much when: [`headrace_flow::writing`] driven by tasks.
//!
//! It counts bytes of files: what is pending of an inode ([`crate::inode::dirty`]) is what is gathered there, a batch is a part. The memory that
//! they take is counted, exactly, by [`crate::admission`].

use std::collections::HashMap;
use std::sync::Arc;

use headrace_flow::memory::MemoryPlan;
use headrace_flow::writing::{Action, Admit, FileId, Limits, PartId, Ticket, Tuning, Writing};
use headrace_layout::InodeNo;
use headrace_metrics::{Collection, Unit};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::error::{Error, Result};

/// See the [module](self).
pub(crate) struct Backpressure {
    inner: Mutex<Inner>,
    clock: Clock,
    /// Told when what is gathered is to be sent although it does not fill parts.
    pub(crate) send: Notify,
}

struct Inner {
    writing: Writing,
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
}

/// Figures of a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WriteQueue {
    /// Bytes that were written and that the store has not acknowledged.
    pub in_flight: u64,
    /// What of them is gathered, and not on its way yet.
    pub gathered: u64,
    /// Bytes that may be in flight now.
    pub window: u64,
    /// Bytes that the store has acknowledged and that wait for their commit.
    pub uncommitted: u64,
    /// What the store takes, bytes per second; none before it is known.
    pub drain: Option<u64>,
    /// Writes that wait.
    pub waiting: u64,
}

impl WriteQueue {
    /// Somebody waits, and less is on its way than is gathered.
    pub(crate) fn is_starved(&self) -> bool {
        self.waiting > 0 && self.gathered > self.in_flight / 2
    }

    pub(crate) fn collect(&self, into: &mut Collection) {
        let help = "Written bytes on their way to the store: not sent yet, sent and not acknowledged, acknowledged and not committed";
        let mut family = into.gauges("headrace_write_queue_bytes", help, Unit::Bytes);
        family.gauge(&[("at", "gathered")], self.gathered as f64);
        family.gauge(&[("at", "sent")], self.in_flight.saturating_sub(self.gathered) as f64);
        family.gauge(&[("at", "stored")], self.uncommitted as f64);
        let help = "Written bytes that may be on their way and not acknowledged";
        into.gauge("headrace_write_window_bytes", help, Unit::Bytes, self.window as f64);
        let help = "Written bytes that the store takes in a second, as measured; 0 before it is known";
        into.gauge("headrace_write_drain_bytes", help, Unit::Bytes, self.drain.unwrap_or(0) as f64);
    }
}

fn file(ino: InodeNo) -> FileId {
    FileId(ino.0)
}

impl Backpressure {
    pub(crate) fn new(plan: &MemoryPlan) -> Arc<Backpressure> {
        let limits = Limits {
            // Commits follow at once, so little room is kept for what waits for one.
            uncommitted: plan.batch / 2,
            waiting: usize::try_from(plan.waiting_requests).unwrap_or(usize::MAX),
            ..Limits::new(plan.dirty, plan.batch)
        };
        let inner = Inner { writing: Writing::new(Tuning::default(), limits), waiting: HashMap::new() };
        Arc::new(Backpressure { inner: Mutex::new(inner), clock: Clock::new(), send: Notify::new() })
    }

    /// Waits until a write of so many bytes may be accepted. Dropping the future takes the request back.
    ///
    /// # Errors
    /// More wait than may.
    pub(crate) async fn admit(self: &Arc<Self>, ino: InodeNo, bytes: u64) -> Result<Place> {
        let (receiver, mut waiter) = {
            let mut inner = self.inner.lock();
            let place = |ticket| Place { of: Arc::clone(self), ino, bytes, ticket, written: false };
            match inner.writing.request(file(ino), bytes) {
                Admit::Granted => return Ok(place(None)),
                Admit::Queued(ticket) => {
                    let (sender, receiver) = oneshot::channel();
                    inner.waiting.insert(ticket, sender);
                    self.act(&mut inner);
                    (receiver, place(Some(ticket)))
                }
                // No more requests are read from the kernel than may wait.
                Admit::Refused => return Err(Error::Internal("too many writes wait".into())),
            }
        };
        // The sender is only dropped after it was used.
        let _ = receiver.await;
        waiter.ticket = None;
        Ok(waiter)
    }

    /// Somebody changed what is pending of a file from so many bytes to so many. What is more cannot be refused.
    pub(crate) fn adjust(&self, ino: InodeNo, before: u64, after: u64) {
        if before != after {
            self.tell(|writing, _| writing.adjust(file(ino), before, after));
        }
    }

    /// So many bytes that were pending are on their way.
    pub(crate) fn sent(&self, ino: InodeNo, bytes: u64) -> PartId {
        self.tell(|writing, now| writing.sent(now, file(ino), bytes))
    }

    /// The store has acknowledged a batch.
    pub(crate) fn stored(&self, part: PartId) {
        self.tell(|writing, now| writing.stored(now, part));
    }

    /// A batch is committed, or nobody wants it any more.
    pub(crate) fn committed(&self, part: PartId) {
        self.tell(|writing, _| writing.committed(part));
    }

    /// Figures of this moment.
    pub(crate) fn figures(&self) -> WriteQueue {
        let inner = self.inner.lock();
        let writing = &inner.writing;
        WriteQueue {
            in_flight: writing.in_flight().bytes,
            gathered: writing.gathered().bytes,
            window: writing.window(),
            uncommitted: writing.uncommitted().bytes,
            drain: writing.drain(),
            waiting: writing.waiting() as u64,
        }
    }

    /// Writes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.lock().writing.waiting()
    }

    fn tell<T>(&self, event: impl FnOnce(&mut Writing, std::time::Duration) -> T) -> T {
        let mut inner = self.inner.lock();
        let answer = event(&mut inner.writing, self.clock.now());
        self.act(&mut inner);
        answer
    }

    fn act(&self, inner: &mut Inner) {
        while let Some(action) = inner.writing.next_action() {
            match action {
                Action::Admit { ticket, .. } => {
                    // One that went away meanwhile gives back what it was given when its `Place` is dropped.
                    if let Some(sender) = inner.waiting.remove(&ticket) {
                        let _ = sender.send(());
                    }
                }
                Action::Send => self.send.notify_one(),
                // What is stored is committed at once, as far as its turn has come.
                Action::Commit => {}
            }
        }
    }
}

/// Leave to write so many bytes to a file, or a request for it; given back on drop.
pub(crate) struct Place {
    of: Arc<Backpressure>,
    ino: InodeNo,
    bytes: u64,
    /// While it is a request.
    ticket: Option<Ticket>,
    /// It is used.
    written: bool,
}

impl Place {
    /// The bytes are written: what is pending of the file has grown by `more`.
    pub(crate) fn written(mut self, more: u64) {
        self.written = true;
        self.of.adjust(self.ino, self.bytes, more);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.written {
            return;
        }
        let mut inner = self.of.inner.lock();
        let waited = self.ticket.is_some_and(|ticket| {
            inner.waiting.remove(&ticket);
            inner.writing.cancel(ticket)
        });
        if !waited {
            inner.writing.withdraw(file(self.ino), self.bytes);
        }
        self.of.act(&mut inner);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MIB: u64 = 1 << 20;
    const FILE: InodeNo = InodeNo(7);
    /// The first window.
    const FIRST: u64 = 64 * MIB;

    /// Parts of 16 MiB, of which four fit the first window.
    fn queue() -> Arc<Backpressure> {
        Backpressure::new(&MemoryPlan::new(512 << 20, 16 << 20))
    }

    async fn write(queue: &Arc<Backpressure>, bytes: u64) {
        queue.admit(FILE, bytes).await.expect("admitted").written(bytes);
    }

    #[tokio::test]
    async fn a_writer_waits_until_the_store_has_taken_something_and_no_longer() {
        let queue = queue();
        write(&queue, 16 * MIB).await;
        let part = queue.sent(FILE, 16 * MIB);
        write(&queue, FIRST - 16 * MIB).await;
        let mut waits = Box::pin(queue.admit(FILE, MIB));
        assert!((&mut waits).now_or_never().is_none());
        assert_eq!((queue.waiting(), queue.figures().in_flight), (1, FIRST));
        // Not when it is committed.
        queue.stored(part);
        let place = waits.now_or_never().expect("there is room").expect("admitted");
        assert_eq!(queue.figures().uncommitted, 16 * MIB);
        drop(place);
        queue.committed(part);
        queue.adjust(FILE, FIRST - 16 * MIB, 0);
        assert_eq!(queue.figures().in_flight + queue.figures().uncommitted, 0);
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind_whether_he_was_admitted_or_not() {
        let queue = queue();
        write(&queue, FIRST).await;
        let mut first = Box::pin(queue.admit(FILE, 8 * MIB));
        let mut second = Box::pin(queue.admit(InodeNo(8), MIB));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(second);
        let part = queue.sent(FILE, FIRST);
        queue.stored(part);
        queue.committed(part);
        // Admitted, and nobody looks.
        assert_eq!(queue.figures().in_flight, 8 * MIB);
        drop(first);
        assert_eq!((queue.figures().in_flight, queue.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn what_is_overwritten_counts_once_and_what_is_cut_off_not_at_all() {
        let queue = queue();
        for _ in 0..100 {
            // The same MiB each time.
            let more = if queue.figures().in_flight == 0 { MIB } else { 0 };
            queue.admit(FILE, MIB).await.expect("admitted").written(more);
        }
        assert_eq!(queue.figures().gathered, MIB);
        queue.adjust(FILE, MIB, 0);
        assert_eq!(queue.figures(), WriteQueue { window: queue.figures().window, ..WriteQueue::default() });
    }

    #[tokio::test]
    async fn who_waits_while_nothing_is_on_its_way_has_it_sent() {
        let queue = queue();
        write(&queue, FIRST).await;
        let mut waits = Box::pin(queue.admit(InodeNo(8), MIB));
        assert!((&mut waits).now_or_never().is_none());
        assert!(queue.send.notified().now_or_never().is_some());
    }
}
