//! Closing: everything durable, everything shipped, the volume given up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headrace_kv::{Engine, KvError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::upkeep::Upkeep;
use super::waiters::seconds;
use super::worker::{Outcome, Worker};
use crate::ownership::LeaseState;

/// Time left at the end for the snapshot and for giving the volume up, whatever shipping took.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Closes the engine and the thread. If the disk is full everything stays as it is.
pub(super) fn close(shared: &Arc<Shared>, worker: &mut Option<Worker>) -> Result<(), KvError> {
    let Some(running) = worker.take() else { return Ok(()) };
    shared.refuse.store(true, Ordering::Release);
    // Transactions run one after the other: after this one none is left that was admitted before.
    let last = shared.engine.transact(&mut |_| Ok(()));
    let flushed = match last {
        Ok(last) => futures::executor::block_on(shared.engine.durable(last)),
        Err(headrace_kv::Stop::Kv(error)) => Err(error),
        Err(headrace_kv::Stop::Abort) => Ok(()),
    };
    if matches!(flushed, Err(KvError::Full { .. })) {
        shared.refuse.store(shared.keeper.fenced_reason().is_some(), Ordering::Release);
        *worker = Some(running);
        return flushed;
    }
    let shipped = running.close();
    let closed = shared.engine.close();
    flushed.and(shipped).and(closed)
}

/// The part of closing that runs in the shipping thread.
pub(super) async fn finish(shared: &Arc<Shared>, upkeep: &Mutex<Upkeep>) -> Outcome {
    let deadline = Instant::now() + shared.options.close_deadline;
    let shipped = timeout_at(deadline, ship_all(shared)).await;
    if let Some(reason) = shared.keeper.fenced_reason() {
        let lost = unshipped(shared);
        let detail = match lost {
            0 => reason.to_string(),
            lost => format!("{reason}. Changes not sent: {lost}"),
        };
        return Err(KvError::Fenced { detail });
    }
    if shipped.is_err() {
        return Err(left_behind(shared));
    }
    let deadline = deadline.max(Instant::now() + LAST_WORDS);
    if let Ok(mut upkeep) = timeout_at(deadline, upkeep.lock()).await {
        // The log alone is enough: whatever goes wrong is not worth an error.
        let _ = timeout_at(deadline, upkeep.at_close(shared)).await;
    }
    let deadline = deadline.max(Instant::now() + LAST_WORDS);
    let released = timeout_at(deadline, shared.keeper.release()).await;
    let failed = match released {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".into(),
    };
    tracing::warn!(error = %failed, "everything is in the store, but the volume could not be given up there: another machine has \
        to wait until the lease has run out");
    Ok(())
}

/// Resolves when everything durable is in the bucket, or nothing can be any more.
async fn ship_all(shared: &Arc<Shared>) {
    let mut shipped = shared.shipped.subscribe();
    shared.state.lock().hurry = true;
    shared.ship.notify_one();
    while *shipped.borrow_and_update() < shared.engine.durable_position()
        && shared.keeper.state() != LeaseState::Fenced
    {
        tokio::select! {
            changed = shipped.changed() => if changed.is_err() { return },
            _ = shared.keeper.fenced() => return,
        }
    }
}

fn unshipped(shared: &Shared) -> u64 {
    shared.engine.position().0.saturating_sub(shared.state.lock().tail.position.0)
}

/// Says what closing left on this machine.
fn left_behind(shared: &Shared) -> KvError {
    let cause = shared.state.lock().ship_error.clone().or_else(|| shared.keeper.last_error());
    let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
    KvError::Io {
        path: shared.bucket.store.url().to_owned(),
        detail: format!(
            "{} changes of metadata are only on this machine: the store did not take them within {}{cause}. Nothing is lost: they \
             are sent when the volume is mounted here again, and until then it is not given up to others",
            unshipped(shared),
            seconds(shared.options.close_deadline),
        ),
    }
}
