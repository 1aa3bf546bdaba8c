//! The end of a daemon: everything that was acknowledged goes to the store first, however long that takes.
//!
//! What is durable on this machine and only not yet in the bucket need not be waited for: it can be left for the next mount
//! here, when somebody asks for that, or when the store has been away for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headrace_store::ErrorKind;
use headrace_vfs::{Error, Status, Vfs};
use parking_lot::Mutex;
use tokio::sync::watch;

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
/// How long the store may be away before what is safe on this machine is left there.
const LEAVE_AFTER: Duration = Duration::from_secs(600);

/// Why the last attempt failed, for those who wait.
pub type LastError = Arc<Mutex<Option<String>>>;

/// Whether to leave behind what is safe on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Leaving {
    /// Not unless the store is away for long.
    #[default]
    Never,
    /// If the store cannot be reached.
    IfStuck,
    /// At once.
    Now,
}

/// Whether somebody asked for that.
pub type Leave = watch::Sender<Leaving>;

/// The end of one mount.
pub struct Finish<'a> {
    /// What is ending.
    pub vfs: &'a Arc<Vfs>,
    /// The log, where it is a file.
    pub log: Option<&'a LogFile>,
    /// For those who wait.
    pub last_error: &'a LastError,
    /// For those who do not want to.
    pub leave: watch::Receiver<Leaving>,
}

impl Finish<'_> {
    /// Writes everything out and closes the volume. A signal says how far it is; it does not stop it, unless nothing is left
    /// but what this machine keeps safe.
    pub async fn run(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let started = Instant::now();
        let mut attempts = 0;
        let mut pause = PAUSES.0;
        loop {
            if *self.leave.borrow_and_update() == Leaving::Now {
                return self.leave_now().await;
            }
            attempts += 1;
            let attempt = Arc::clone(self.vfs);
            let mut attempt = tokio::spawn(async move { attempt.shutdown().await });
            let result = loop {
                tokio::select! {
                    result = &mut attempt => break result,
                    asked = signals.next() => if self.answer(asked) {
                        attempt.abort();
                        return self.leave().await;
                    },
                    Ok(()) = self.leave.changed() => if *self.leave.borrow_and_update() == Leaving::Now {
                        attempt.abort();
                        return self.leave_now().await;
                    },
                    () = tokio::time::sleep(TELL) => notify::still_working(&left(self.vfs), 6 * TELL),
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
            *self.last_error.lock() = Some(error.to_string());
            if !time_may_cure(&error) && attempts >= HOPELESS_ATTEMPTS {
                return self.give_up(&error).await;
            }
            tracing::error!(%error, left = left(self.vfs), retry_secs = pause.as_secs(), "cannot write everything out");
            if self.is_safe() && (*self.leave.borrow() != Leaving::Never || started.elapsed() >= LEAVE_AFTER)
            {
                return self.leave().await;
            }
            let until = tokio::time::Instant::now() + pause;
            notify::still_working(&left(self.vfs), pause + 6 * TELL);
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(until) => break,
                    asked = signals.next() => if self.answer(asked) {
                        return self.leave().await;
                    },
                    Ok(()) = self.leave.changed() => if *self.leave.borrow_and_update() != Leaving::Never && self.is_safe() {
                        return self.leave().await;
                    },
                }
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Whether all that is left survives the end of this process.
    fn is_safe(&self) -> bool {
        self.vfs.only_in_memory() == 0 && self.vfs.status().metadata_pending_bytes == 0
    }

    /// Says how far it is; true if what is left should be left.
    fn answer(&self, asked: Asked) -> bool {
        if asked == Asked::ReopenLog {
            reopen(self.log);
            return false;
        }
        let safe = self.is_safe();
        // Not before it is known that writing out does not simply work.
        if safe && self.last_error.lock().is_some() {
            return true;
        }
        let text = if safe {
            format!("still shipping {}, which are safe on this machine", left(self.vfs))
        } else {
            format!("still writing out {}; \"kill -9 {}\" would lose it", left(self.vfs), std::process::id())
        };
        self.tell(&text);
        false
    }

    fn tell(&self, text: &str) {
        tracing::warn!("{text}");
        if self.log.is_none() {
            crate::output::say(&format!("headrace: {text}"));
        }
    }

    /// Ends as soon as everything is safe on this machine.
    async fn leave_now(&self) -> Result<(), Failure> {
        if let Err(error) = self.vfs.keep_here().await {
            return self.give_up(&error).await;
        }
        let left = left(self.vfs);
        tracing::info!(
            left,
            "ending without the store, as asked: the next mount on this machine stores the rest"
        );
        self.vfs.leave().await;
        Ok(())
    }

    /// Ends with a part of the log on this machine only.
    async fn leave(&self) -> Result<(), Failure> {
        let left = left(self.vfs);
        let dir = crate::output::path(self.vfs.volume().state_dir.path());
        tracing::warn!(left, "ending without the store: the next mount on this machine ships the rest");
        self.vfs.leave().await;
        Err(Failure::new(format!(
            "{left} are only on this machine, in {dir}: the store could not be reached"
        ))
        .advise("Nothing is lost: the next mount on this machine ships them."))
    }

    async fn give_up(&self, error: &Error) -> Result<(), Failure> {
        let left = left(self.vfs);
        let safe = self.is_safe();
        tracing::error!(%error, left, safe, "giving up: trying again would not help");
        self.vfs.leave().await;
        let what = if safe {
            format!("{left} could not be shipped and are only on this machine")
        } else {
            format!("{left} could not be written out and is lost")
        };
        Err(Failure::new(what).because(error))
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

/// Bytes of data that are not in the store: what is read from a local file in order to be stored counts once.
pub fn unstored(status: &Status) -> u64 {
    status.dirty_bytes.max(status.writeback.as_ref().map_or(0, |writeback| writeback.bytes))
}

/// What is not in the store yet, for a person.
pub fn left(vfs: &Vfs) -> String {
    let status = vfs.status();
    let mut parts = Vec::new();
    let data = unstored(&status);
    if data > 0 {
        parts.push(format!("{} of data", human::bytes(data)));
    }
    if status.metadata_pending_bytes > 0 {
        parts.push(format!("{} of metadata", human::bytes(status.metadata_pending_bytes)));
    }
    if let Some(log) = status.log.filter(|log| log.lag_transactions > 0) {
        let transactions = human::plural(log.lag_transactions, "transaction", "transactions");
        parts.push(format!("{transactions} ({})", human::bytes(log.lag_bytes)));
    }
    if parts.is_empty() { human::bytes(0) } else { parts.join(" and ") }
}

/// Whether trying again later makes sense: the store may come back, a disk may be freed, a permission be given.
fn time_may_cure(error: &Error) -> bool {
    match error {
        Error::Store(e) => {
            !matches!(e.kind, ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Unsupported)
        }
        Error::Meta(headrace_meta::MetaError::Kv(e)) => matches!(e, headrace_kv::KvError::Full { .. }),
        Error::NotShipped(_) => true,
        _ => false,
    }
}
