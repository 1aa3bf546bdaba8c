//! Answers to commands on the control socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headrace_fuse::{RequestPath, Session, UnmountError};
use headrace_vfs::{InodeNo, Kind, Vfs};
use headrace_volume::VolumeError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::control::protocol::{PROGRESS_INTERVAL, Request, Step};
use super::control::server::{Answer, Handler, Steps};
use super::finish::{self, LastError, Leave, Leaving};
use super::{metrics, operations, trash, users, warming};
use crate::commands;
use crate::failure::{Context, Exit, Failure};
use crate::output::human;

/// How long a lazy unmount waits for the last user before it leaves the rest to the daemon.
const LAZY_PATIENCE: Duration = Duration::from_secs(1);
/// Users named when a mount is busy.
const USERS_NAMED: usize = 5;

/// How the daemon ended; `None` while it has not.
pub type Ended = Option<Result<(), Failure>>;

/// The mount, as commands see it.
pub struct Daemon {
    /// The file system.
    pub vfs: Arc<Vfs>,
    /// The mount.
    pub session: Arc<Session>,
    /// What does not change.
    pub facts: Facts,
    /// When it was mounted.
    pub started: Instant,
    /// Why the last attempt to write everything out failed.
    pub last_error: LastError,
    /// Told when what is safe on this machine need not be waited for.
    pub leave: Leave,
    /// Set when everything is written out, or given up.
    pub ended: watch::Receiver<Ended>,
}

/// What does not change while a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Where the volume is, without credentials.
    pub url: String,
    /// Which volume it is.
    pub uuid: String,
    /// What it is called.
    pub name: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The daemon's process id.
    pub pid: u32,
    /// The daemon's version.
    pub version: String,
    /// When it was mounted, RFC 3339, UTC.
    pub since: String,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Memory for data, bytes.
    pub memory_limit: u64,
    /// Compression of the volume.
    pub compression: String,
    /// Whether the volume is encrypted.
    pub encrypted: bool,
    /// Where the metadata is kept.
    pub state_dir: PathBuf,
    /// Where the daemon logs; `None` for standard error.
    pub log_file: Option<PathBuf>,
    /// Where metrics can be asked for.
    #[serde(default)]
    pub metrics: metrics::Places,
    /// How requests come from the kernel.
    #[serde(default)]
    pub requests: Requests,
}

/// How requests come from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Requests {
    /// "device" or "io_uring".
    pub by: String,
    /// Why not by io_uring, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<&RequestPath> for Requests {
    fn from(path: &RequestPath) -> Requests {
        let (by, why) = match path {
            RequestPath::Device => ("device", None),
            RequestPath::DeviceInstead(why) => ("device", Some(why.clone())),
            RequestPath::IoUring => ("io_uring", None),
        };
        Requests { by: by.to_owned(), why }
    }
}

/// What a lazy or plain unmount came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmounted {
    /// The daemon has written everything out and is ending; else it serves what is still open.
    pub ended: bool,
}

impl Handler for Daemon {
    fn handle(self: Arc<Self>, request: Request, steps: Steps) -> Answer {
        Box::pin(async move {
            match request {
                Request::Status => self.status(),
                Request::Metrics => to_value(&metrics::gather(&self.session, &self.vfs)),
                Request::Flush => self.flush(&steps).await.map(|()| Value::Null),
                Request::Gc { dry_run, grace_secs } => self.gc(dry_run, grace_secs, steps).await,
                Request::Info { ino } => self.info(InodeNo(ino)).await,
                Request::Du { ino } => self.du(InodeNo(ino), steps).await,
                Request::Operations { interval_ms, for_ms, each } => {
                    let subscription = self.session.subscribe().map_err(|e| Failure::new("").because(&e))?;
                    let wanted = operations::Wanted {
                        interval: Duration::from_millis(interval_ms),
                        until: for_ms.map(Duration::from_millis),
                        each,
                    };
                    operations::tell(subscription, wanted, self.ended.clone(), &steps).await
                }
                Request::Warm { work, files, rate } => {
                    let wanted = warming::Wanted { work, files, rate };
                    warming::run(&self.vfs, &wanted, &|| self.session.ended(), &steps)
                        .await
                        .map_err(|failure| self.cannot_warm(failure))
                }
                Request::Deleted { below } => trash::list(&self.vfs, below, &steps).await,
                Request::RestoreFile { path, version, to } => trash::restore(&self, path, version, to).await,
                Request::EmptyTrash => trash::empty(&self.vfs, &steps).await,
                Request::Shutdown { lazy, leave } => self.shutdown(lazy, leave, &steps).await,
            }
        })
    }
}

impl Daemon {
    fn status(&self) -> Result<Value, Failure> {
        let mut status = to_value(&self.facts)?;
        let space = self.vfs.statfs().ok();
        let more = serde_json::json!({
            "state": if self.session.ended() { "unmounted, writing out" } else { "serving" },
            "uptime_secs": self.started.elapsed().as_secs(),
            "memory_resident": resident_bytes(),
            "figures": to_value(&self.vfs.status())?,
            "cache": to_value(&self.vfs.cache_status())?,
            "store": to_value(&self.vfs.volume().store_counters.stats())?,
            "log": self.vfs.volume().log_status(),
            "space": space.map(|s| to_value(&s)).transpose()?,
            "last_error": self.last_error.lock().clone(),
        });
        if let (Value::Object(status), Value::Object(more)) = (&mut status, more) {
            status.extend(more);
        }
        Ok(status)
    }

    /// Everything written so far goes to the store: data, and the metadata's log.
    async fn flush(&self, steps: &Steps) -> Result<(), Failure> {
        let mut flush = std::pin::pin!(self.vfs.ship_all());
        let start = finish::unstored(&self.vfs.status());
        loop {
            tokio::select! {
                result = &mut flush => {
                    return result.map_err(|e| self.not_flushed(&e));
                }
                () = tokio::time::sleep(PROGRESS_INTERVAL) => steps.send(self.flushing(start)),
            }
        }
    }

    fn not_flushed(&self, error: &headrace_vfs::Error) -> Failure {
        Failure::new(format!("cannot write out {} of {}", finish::left(&self.vfs), self.mountpoint()))
            .because(error)
            .advise(
                "The volume stays mounted and nothing is lost; try again when the cause is gone. What is safe on this \
                 machine can be left for the next mount here with \"headrace umount --lazy\".",
            )
    }

    /// Progress towards no dirty bytes, from `start` of them.
    fn flushing(&self, start: u64) -> Step {
        let status = self.vfs.status();
        let left = finish::unstored(&status);
        if left == 0
            && let Some(log) = status.log.filter(|log| log.lag_transactions > 0)
        {
            let what = format!(
                "shipping {} of metadata",
                human::plural(log.lag_transactions, "transaction", "transactions")
            );
            return Step { what, done: 0, total: 0, bytes: true };
        }
        let total = start.max(left);
        Step { what: "writing out".into(), done: total - left, total, bytes: true }
    }

    async fn gc(&self, dry_run: bool, grace_secs: u64, steps: Steps) -> Result<Value, Failure> {
        let grace = Duration::from_secs(grace_secs);
        let volume = Arc::clone(self.vfs.volume());
        let progress = move |step| steps.send(commands::progress::on_wire(step));
        to_value(&headrace_volume::gc(&volume, grace, dry_run, &progress).await?)
    }

    async fn info(&self, ino: InodeNo) -> Result<Value, Failure> {
        let vfs = Arc::clone(&self.vfs);
        let (info, warmth) = blocking(move || {
            let info = headrace_volume::describe(vfs.volume(), ino)?;
            // Neither of what has no bytes of its own, nor without a cache.
            Ok((info, vfs.warmth(ino).ok()))
        })
        .await?;
        let mut info = to_value(&info)?;
        if let (Value::Object(info), Some(warmth)) = (&mut info, warmth) {
            info.insert("cache".into(), to_value(&warmth)?);
        }
        Ok(info)
    }

    fn cannot_warm(&self, failure: Failure) -> Failure {
        if self.vfs.cache_status().is_some() {
            return failure;
        }
        Failure::new(format!("{} has no cache on local disks", self.mountpoint()))
            .advise("Mount the volume with --cache-dir, and without --cache-size off.")
    }

    async fn du(&self, ino: InodeNo, steps: Steps) -> Result<Value, Failure> {
        let volume = Arc::clone(self.vfs.volume());
        let totals = blocking(move || {
            let meta = &volume.meta;
            let attr = meta.getattr(ino).map_err(VolumeError::from)?;
            if attr.kind != Kind::Directory {
                let (bytes, allocated) = (attr.size, attr.allocated);
                return Ok(commands::du::Totals { files: 1, directories: 0, bytes, allocated });
            }
            let totals = meta
                .tree_totals(ino, &mut |sum| {
                    let done = sum.files.saturating_add(sum.directories);
                    steps.send(Step { what: "adding up".into(), done, total: 0, bytes: false });
                })
                .map_err(VolumeError::from)?;
            Ok(commands::du::Totals {
                files: totals.files,
                directories: totals.directories,
                bytes: totals.bytes,
                allocated: totals.allocated,
            })
        })
        .await?;
        to_value(&totals)
    }

    /// Flushes while the mount still works, unmounts, and waits for the daemon's own last flush.
    async fn shutdown(&self, lazy: bool, leave: bool, steps: &Steps) -> Result<Value, Failure> {
        if leave {
            // Whoever is writing out already is told as well.
            self.leave.send_replace(Leaving::Now);
        } else if !lazy && !self.session.ended() {
            // Before anything is given up: if this fails, the volume stays mounted and usable.
            self.flush(steps).await?;
        }
        let session = Arc::clone(&self.session);
        let unmounting = tokio::task::spawn_blocking(move || session.unmount(lazy));
        let mut ended = self.ended.clone();
        let all_written = async { ended.wait_for(Option::is_some).await.map(drop) };
        let unmounted = tokio::select! {
            unmounted = unmounting => unmounted.context(|| "the unmount was cut short".to_owned())?,
            // The kernel lets go of the daemon first and of a million cached inodes, which takes seconds, afterwards.
            _ = all_written => Ok(()),
        };
        match unmounted {
            // Somebody else was faster.
            Ok(()) | Err(UnmountError::NotMounted(_)) => {}
            Err(error) => {
                self.leave.send_replace(Leaving::Never);
                return Err(match error {
                    UnmountError::Busy(_) => self.busy(),
                    error => Failure::new("").because(&error),
                });
            }
        }
        if lazy {
            let flushed = self.flush(steps).await;
            // Whoever does not want to wait for users does not want to wait for a store that is away either.
            self.leave.send_replace(Leaving::IfStuck);
            if !self.session.ended() {
                flushed?;
            }
        }
        let patience = lazy.then(|| tokio::time::Instant::now() + LAZY_PATIENCE);
        let ended = self.wait_until_ended(patience, steps).await?;
        to_value(&Unmounted { ended })
    }

    /// False if it was still in use when patience ended.
    async fn wait_until_ended(
        &self,
        patience: Option<tokio::time::Instant>,
        steps: &Steps,
    ) -> Result<bool, Failure> {
        let mut ended = self.ended.clone();
        let start = finish::unstored(&self.vfs.status());
        loop {
            if let Some(result) = ended.borrow_and_update().clone() {
                return result.map(|()| true);
            }
            if patience.is_some_and(|at| tokio::time::Instant::now() >= at) && !self.session.ended() {
                return Ok(false);
            }
            tokio::select! {
                changed = ended.changed() => changed.context(|| "the daemon ended early".to_owned())?,
                () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                    let mut step = self.flushing(start);
                    if let Some(error) = self.last_error.lock().as_ref() {
                        step.what = format!("writing out, again after: {error}");
                    }
                    steps.send(step);
                }
            }
        }
    }

    fn busy(&self) -> Failure {
        let at = self.mountpoint();
        let users = users::of(&self.facts.mountpoint, USERS_NAMED + 1);
        let mut named = users.iter().take(USERS_NAMED).cloned().collect::<Vec<_>>().join(", ");
        if users.len() > USERS_NAMED {
            named.push_str(", ...");
        }
        let by = if named.is_empty() { String::new() } else { format!(" by {named}") };
        Failure::new(format!("{at} is in use{by}"))
            .advise("Nothing is lost. End what uses the mount, or detach it with --lazy.")
            .exit(Exit::InUse)
    }

    fn mountpoint(&self) -> String {
        crate::output::path(&self.facts.mountpoint)
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.context(|| "the request was cut short".to_owned())?
}

pub(super) fn to_value(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).context(|| "cannot encode the answer".to_owned())
}

/// Memory of this process that is in RAM, bytes; 0 where that cannot be known.
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string(Path::new("/proc/self/statm")).unwrap_or_default();
    let pages: u64 = pages.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}
