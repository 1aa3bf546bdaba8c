//! The committer: one thread that takes what transactions left in memory to disk, many at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::layers::Frozen;
use super::lmdb::{Batch, Check, Fault, Lmdb, LogEntry};
use super::memtable::Memtable;
use super::schedule::Step;
use super::shared::Shared;
use crate::{CommitSeq, KvError};

/// Address space is not grown beyond this: more than LMDB files get, less than the processor has.
const MAX_MAP: u64 = 64 << 40;

/// Runs until told to stop, or until a failure that no retry mends.
pub(super) fn run(shared: &Shared) {
    // Also when this thread panics: nobody may be left waiting for it.
    let _exit = Exit(shared);
    let mut left_over: Option<Arc<Frozen>> = None;
    while next_commit(shared) {
        let Some(frozen) = left_over.take().or_else(|| freeze(shared)) else {
            settle(shared, CommitSeq(shared.durable.load(Ordering::Acquire)));
            continue;
        };
        match shared.counts.commit(|| write(shared, &frozen)) {
            Ok(()) => {
                let upto = frozen.upto;
                thaw(shared, frozen);
                settle(shared, upto);
                shared.tell_durable(upto);
            }
            Err(e @ KvError::Full { .. }) => {
                left_over = Some(frozen);
                report_full(shared, e);
            }
            Err(e) => {
                tracing::error!(error = %e, "the metadata engine failed; nothing more will become durable");
                fail_for_good(shared, e);
                return;
            }
        }
    }
}

/// Sleeps until there is something to write. False: stop.
fn next_commit(shared: &Shared) -> bool {
    let mut control = shared.control.lock();
    loop {
        let awaited = !control.waiters.is_empty();
        match control.schedule.step(Instant::now(), awaited) {
            Step::Commit => {
                control.schedule.begin();
                return true;
            }
            Step::Stop => return false,
            Step::Wait(None) => shared.wake.wait(&mut control),
            Step::Wait(Some(until)) => {
                shared.wake.wait_until(&mut control, until);
            }
        }
    }
}

/// Takes the active memtable, if there is anything in it.
fn freeze(shared: &Shared) -> Option<Arc<Frozen>> {
    let mut layers = shared.layers.write();
    if layers.active.is_empty() {
        return None;
    }
    let table = std::mem::take(&mut layers.active);
    // What was frozen before is on disk: there is one at a time.
    let after = CommitSeq(shared.durable.load(Ordering::Acquire));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let frozen = Arc::new(Frozen { table, after, upto: layers.position, at_ms });
    shared.active_bytes.store(0, Ordering::Release);
    shared.active_keys.store(0, Ordering::Release);
    layers.frozen = Some(frozen.clone());
    Some(frozen)
}

/// Drops the frozen memtable, whose content is on disk now.
fn thaw(shared: &Shared, frozen: Arc<Frozen>) {
    let released = {
        let mut layers = shared.layers.write();
        let released = layers.frozen.take();
        if let Some(store) = &layers.store {
            store.forget_snapshots();
        }
        shared.pending_bytes.store(layers.pending_bytes(), Ordering::Release);
        released
    };
    // Freeing a large table takes a while: not under the lock.
    drop((released, frozen));
}

/// Writes `frozen` durably, giving the database more address space or a fresh environment where that helps.
fn write(shared: &Shared, frozen: &Frozen) -> Result<(), KvError> {
    let failed = |detail: String| KvError::Io { path: shared.path.clone(), detail };
    let (mut renewed, mut rewritten) = (false, false);
    loop {
        let store = shared.layers.read().store.clone();
        let Some(store) = store else {
            // An earlier attempt closed the environment and could not open it again.
            reopen(shared, shared.options.map_size)?;
            continue;
        };
        shared.syncs.fetch_add(1, Ordering::Relaxed);
        let map_size = store.map_size();
        let batch = Batch {
            table: &frozen.table,
            upto: frozen.upto,
            log: shared.logging.then_some(LogEntry { after: frozen.after, at_ms: frozen.at_ms }),
            trim: shared.backlog.lock().trimmed(),
            append: false,
        };
        let fault = match store.commit(&batch, &shared.directory) {
            Ok(logged) => {
                if let Some(group) = logged {
                    shared.backlog.lock().push(group);
                }
                return Ok(());
            }
            Err(fault) => fault,
        };
        drop(store);
        match fault {
            Fault::Full(detail) => return Err(KvError::Full { path: shared.path.clone(), detail }),
            Fault::MapFull if map_size < MAX_MAP => reopen(shared, map_size.saturating_mul(2))?,
            Fault::MapFull => return Err(failed(format!("the database outgrew {MAX_MAP} bytes"))),
            Fault::Unusable(_) if !renewed => {
                renewed = true;
                reopen(shared, map_size)?;
            }
            // Safe to repeat, even after a failed sync: every page of the transaction is written once more.
            Fault::Write(_) if !rewritten => rewritten = true,
            Fault::Corrupt(detail) => return Err(KvError::Corrupt(detail)),
            Fault::Unusable(detail) | Fault::Write(detail) | Fault::Io(detail) => {
                return Err(failed(format!("commit failed: {detail}")));
            }
        }
    }
}

/// Opens the environment anew. The write lock keeps views out, and long reads are ended: no transaction is open on the old
/// one.
fn reopen(shared: &Shared, map_size: u64) -> Result<(), KvError> {
    let mut layers = shared.layers.write();
    if let Some(store) = layers.store.take() {
        store.forget_snapshots();
        store.revoke_readers(&KvError::Io {
            path: shared.path.clone(),
            detail: "the database was opened anew to give it room, which ended this snapshot; take another"
                .into(),
        });
        // The last handle: closes the environment.
        drop(store);
    }
    let store = Lmdb::open(&shared.directory, map_size, Check::Nothing)?;
    store.limit_mapped(shared.options.max_mapped_bytes);
    layers.store = Some(Arc::new(store));
    tracing::debug!(map_size, "reopened the metadata database");
    Ok(())
}

/// Notes that everything up to `durable` is on disk and tells those who waited for it.
fn settle(shared: &Shared, durable: CommitSeq) {
    let mut due = Vec::new();
    {
        let mut control = shared.control.lock();
        shared.durable.store(durable.0, Ordering::Release);
        control.schedule.succeeded();
        if control.failure.take().is_some() {
            tracing::info!(path = %shared.path, "there is room again; the metadata engine goes on");
        }
        let waiters = std::mem::take(&mut control.waiters);
        for (seq, waiter) in waiters {
            if seq <= durable {
                due.push(waiter);
            } else {
                control.waiters.push((seq, waiter));
            }
        }
        shared.room.notify_all();
    }
    for waiter in due {
        waiter(Ok(()));
    }
}

/// Tells all who wait that the disk is full, and plans another attempt.
fn report_full(shared: &Shared, e: KvError) {
    let waiters = {
        let mut control = shared.control.lock();
        control.schedule.found_full(Instant::now());
        if control.failure.is_none() {
            tracing::warn!(error = %e, "the metadata engine's disk is full; keeping changes in memory, will retry");
        }
        control.failure = Some(e.clone());
        shared.room.notify_all();
        std::mem::take(&mut control.waiters)
    };
    for (_, waiter) in waiters {
        waiter(Err(e.clone()));
    }
}

fn fail_for_good(shared: &Shared, e: KvError) {
    let waiters = {
        let mut control = shared.control.lock();
        control.failure = Some(e.clone());
        shared.room.notify_all();
        std::mem::take(&mut control.waiters)
    };
    for (_, waiter) in waiters {
        waiter(Err(e.clone()));
    }
}

struct Exit<'s>(&'s Shared);

impl Drop for Exit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let detail = "the committer thread panicked; restart the process".into();
            fail_for_good(self.0, KvError::Io { path: self.0.path.clone(), detail });
        }
        let waiters = {
            let mut control = self.0.control.lock();
            control.stopped = true;
            self.0.room.notify_all();
            std::mem::take(&mut control.waiters)
        };
        for (_, waiter) in waiters {
            waiter(Err(KvError::Closed));
        }
    }
}

/// Lets go of the memtables, the database and the directory. The committer has ended.
pub(super) fn release(shared: &Shared) {
    let dropped = {
        let mut layers = shared.layers.write();
        let store = layers.store.take();
        if let Some(store) = &store {
            store.forget_snapshots();
            store.revoke_readers(&KvError::Closed);
        }
        shared.pending_bytes.store(0, Ordering::Release);
        (store, std::mem::take::<Memtable>(&mut layers.active), layers.frozen.take())
    };
    drop(dropped);
    shared.directory.release();
}
