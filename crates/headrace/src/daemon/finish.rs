//! The end of a daemon: everything that was acknowledged goes to the store first, however long that takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headrace_store::ErrorKind;
use headrace_vfs::{Error, Vfs};
use parking_lot::Mutex;

use super::notify;
use super::signals::{Asked, Signals};
use crate::failure::Failure;
use crate::logging::file::LogFile;
use crate::output::human;

/// First and longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Attempts for failures that time does not cure.
const HOPELESS_ATTEMPTS: u32 = 3;
/// How often the service manager and the log are told how it goes.
const TELL: Duration = Duration::from_secs(5);

/// Why the last attempt failed, for those who wait.
pub type LastError = Arc<Mutex<Option<String>>>;

/// Writes everything out and closes the volume. Signals say how far it is; they do not stop it.
pub async fn finish(
    vfs: &Arc<Vfs>,
    signals: &mut Signals,
    log: Option<&LogFile>,
    last_error: &LastError,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut attempts = 0;
    let mut pause = PAUSES.0;
    loop {
        attempts += 1;
        let attempt = Arc::clone(vfs);
        let mut attempt = tokio::spawn(async move { attempt.shutdown().await });
        let result = loop {
            tokio::select! {
                result = &mut attempt => break result,
                asked = signals.next() => answer(asked, vfs, log),
                () = tokio::time::sleep(TELL) => notify::still_working(&left(vfs), 6 * TELL),
            }
        };
        let error = match result {
            Ok(Ok(())) => {
                tracing::info!(seconds = started.elapsed().as_secs_f32(), "everything is written out");
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(error) => Error::Internal(error.to_string()),
        };
        *last_error.lock() = Some(error.to_string());
        if !time_may_cure(&error) && attempts >= HOPELESS_ATTEMPTS {
            tracing::error!(%error, left = left(vfs), "giving up: what is left is lost");
            return Err(
                Failure::new(format!("{} could not be written out and is lost", left(vfs))).because(&error)
            );
        }
        tracing::error!(%error, left = left(vfs), retry_secs = pause.as_secs(), "cannot write everything out");
        let until = tokio::time::Instant::now() + pause;
        notify::still_working(&left(vfs), pause + 6 * TELL);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                asked = signals.next() => answer(asked, vfs, log),
            }
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

fn answer(asked: Asked, vfs: &Vfs, log: Option<&LogFile>) {
    match asked {
        Asked::End => {
            let text =
                format!("still writing out {}; \"kill -9 {}\" would lose it", left(vfs), std::process::id());
            tracing::warn!("{text}");
            if log.is_none() {
                crate::output::say(&format!("headrace: {text}"));
            }
        }
        Asked::ReopenLog => reopen(log),
    }
}

/// Opens the log anew, if it is a file.
pub fn reopen(log: Option<&LogFile>) {
    if let Some(log) = log {
        match log.reopen() {
            Ok(()) => tracing::info!("log file reopened"),
            Err(error) => tracing::error!(%error, "cannot reopen the log file: the old one stays in use"),
        }
    }
}

/// What is not in the store yet, for a person.
pub fn left(vfs: &Vfs) -> String {
    let status = vfs.status();
    let metadata = status.metadata_pending_bytes;
    if metadata == 0 {
        return human::bytes(status.dirty_bytes);
    }
    format!("{} of data and {} of metadata", human::bytes(status.dirty_bytes), human::bytes(metadata))
}

/// Whether trying again later makes sense: the store may come back, a disk may be freed, a permission be given.
fn time_may_cure(error: &Error) -> bool {
    match error {
        Error::Store(e) => {
            !matches!(e.kind, ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Unsupported)
        }
        Error::Meta(headrace_meta::MetaError::Kv(e)) => matches!(e, headrace_kv::KvError::Full { .. }),
        _ => false,
    }
}
