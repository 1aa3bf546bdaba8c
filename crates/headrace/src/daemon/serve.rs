//! The life of a daemon: open, mount, serve, unmount, write everything out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use headrace_fuse::{MountConfig, Session, UnmountError};
use headrace_store::Location;
use headrace_vfs::{Vfs, VfsOptions};
use headrace_volume::{FormatOptions, OpenOptions, Volume, VolumeError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::background::{self, Ready, Report};
use super::cache_plan::CachePlan;
use super::control::protocol::Problem;
use super::control::server::Server;
use super::finish::{self, Finish, LastError};
use super::handler::{Daemon, Ended, Facts};
use super::metrics::{self, MetricsPlace};
use super::registry::{self, Record, Registration};
use super::signals::{Asked, Signals};
use super::{find, notify, overlap, runtime_dir};
use crate::commands::progress::{on_bar, on_wire};
use crate::failure::{Context, Exit, Failure};
use crate::logging::file::LogFile;
use crate::output::progress::Progress;

/// After a lazy unmount on a signal: how long those who still use the mount may go on before they are cut off.
const LAST_USERS: std::time::Duration = std::time::Duration::from_secs(5);

/// Everything a daemon needs to know; nothing in it is relative to a directory or terminal.
#[derive(Debug)]
pub struct Plan {
    /// Where the volume is.
    pub location: Location,
    /// Where it is to appear.
    pub mountpoint: PathBuf,
    /// How to open it.
    pub open: OpenOptions,
    /// What to create where there is no volume yet, or why that cannot be done.
    pub create: Option<Result<FormatOptions, Failure>>,
    /// How to serve it; its cache is the one below.
    pub vfs: VfsOptions,
    /// Where to keep on local disks what was fetched, if anywhere.
    pub cache: Option<CachePlan>,
    /// How to mount it.
    pub mount: MountConfig,
    /// Where metrics can be asked for; `None`: on a socket, if that can be.
    pub metrics: Option<MetricsPlace>,
    /// Where to register.
    pub runtime_dir: PathBuf,
    /// The log, where it is a file.
    pub log: Option<LogFile>,
    /// Whether a parent waits for a report on standard output.
    pub background: bool,
}

/// Runs a daemon to its end.
pub async fn serve(plan: Plan) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mounting = AtomicBool::new(false);
    let mut interrupted = false;
    let started = {
        let mut starting = std::pin::pin!(start(&plan, &mounting));
        loop {
            tokio::select! {
                started = &mut starting => break started,
                asked = signals.next() => match asked {
                    Asked::ReopenLog => finish::reopen(plan.log.as_ref()),
                    // A mount that is being made must not be left behind: it is waited for, and then given up.
                    Asked::End if mounting.load(Ordering::Relaxed) => interrupted = true,
                    Asked::End => break Err(Failure::new("interrupted before the file system was there")),
                },
            }
        }
    };
    let (mounted, ready) = match started {
        Ok(started) => started,
        Err(failure) => {
            if plan.background {
                // In the foreground whoever called this says it.
                tracing::error!("{failure}");
                let _ = background::report(&Report::Failed(Problem::from(&failure)));
                return Err(Failure::new("").exit(failure.exit_code()));
            }
            return Err(failure);
        }
    };
    announce(&plan, &mounted, ready);
    mounted.run(&plan, signals, interrupted).await
}

/// A volume that is mounted and registered.
struct Mounted {
    vfs: Arc<Vfs>,
    session: Arc<Session>,
    server: Server,
    metrics: metrics::Server,
    registration: Registration,
    facts: Facts,
}

/// Opens and mounts. May be given up at any time before it sets `mounting`.
async fn start(plan: &Plan, mounting: &AtomicBool) -> Result<(Mounted, Ready), Failure> {
    check_mountpoint(plan)?;
    runtime_dir::create(&plan.runtime_dir)?;
    registry::sweep(&plan.runtime_dir);
    let mut ready = Ready::default();
    let volume = open(plan, &mut ready).await?;
    ready.warnings.extend(headrace_volume::format::warnings(&volume.superblock));
    ready.warnings.extend(volume.notes.iter().cloned());
    let cache = plan.cache.as_ref().map(|cache| cache.of_volume(volume.superblock.uuid));
    let options = VfsOptions { cache, ..plan.vfs.clone() };
    let vfs = match Vfs::start(Arc::clone(&volume), options, Handle::current()) {
        Ok(vfs) => vfs,
        Err(error) => {
            let _ = volume.close().await;
            return Err(Failure::new("cannot start the file system").because(&error));
        }
    };
    mounting.store(true, Ordering::Relaxed);
    match mount(plan, &volume, &vfs).await {
        Ok(mounted) => Ok((mounted, ready)),
        Err(failure) => {
            // Nothing was written, so nothing can be lost.
            let _ = vfs.shutdown().await;
            Err(failure)
        }
    }
}

/// Finds what is wrong with the mount point before anything is opened or created.
fn check_mountpoint(plan: &Plan) -> Result<(), Failure> {
    let mut own = vec![
        ("the log file", plan.log.as_ref().map(LogFile::path)),
        ("the state directory", plan.open.state_dir.clone()),
        ("the runtime directory", Some(plan.runtime_dir.clone())),
        ("the volume", plan.location.local_path().map(Path::to_owned)),
    ];
    let caches = plan.cache.iter().flat_map(|cache| &cache.directories);
    own.extend(caches.map(|directory| ("the cache directory", Some(directory.clone()))));
    overlap::refuse(&plan.mountpoint, &own)?;
    let at = crate::output::path(&plan.mountpoint);
    if plan.create.is_some() {
        // Fails on a dead mount, which is dealt with when mounting.
        if let Err(e) = std::fs::create_dir_all(&plan.mountpoint)
            && !matches!(
                e.kind(),
                std::io::ErrorKind::NotConnected
                    | std::io::ErrorKind::ConnectionAborted
                    | std::io::ErrorKind::AlreadyExists
            )
        {
            return Err(Failure::new(format!("cannot create the mount point {at}")).because(&e));
        }
    }
    match std::fs::metadata(&plan.mountpoint) {
        Ok(meta) if !meta.is_dir() => {
            return Err(Failure::new(format!("the mount point {at} is not a directory")));
        }
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound) => {
            return Err(Failure::new(format!("the mount point {at} does not exist"))
                .advise(format!("Create it with: mkdir -p {at}"))
                .exit(Exit::NotFound));
        }
        _ => {}
    }
    Ok(())
}

async fn open(plan: &Plan, ready: &mut Ready) -> Result<Arc<Volume>, Failure> {
    let opened = {
        let progress = opening(plan);
        Volume::open_with(&plan.location, &plan.open, &progress).await
    };
    match (opened, &plan.create) {
        (Ok(volume), _) => Ok(volume),
        (Err(error), Some(options)) if is_absent(&error) => {
            let options = options.as_ref().map_err(Clone::clone)?;
            tracing::info!(url = %plan.location, "there is no volume yet: creating it");
            let state_dir = plan.open.state_dir.as_deref();
            headrace_volume::format(&plan.location, &plan.open.store, state_dir, options).await?;
            ready.created = true;
            // A key that is not wanted is only a warning; one that is was checked with the options.
            Ok(Volume::open(&plan.location, &plan.open).await?)
        }
        (Err(error @ VolumeError::NotAVolume { .. }), None) => {
            let advice = "Add --create to create it while mounting.";
            Err(Failure::from(error).advise(advice))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Where it is shown how far opening is: on the terminal of whoever waits for the mount.
fn opening(plan: &Plan) -> Box<dyn Fn(headrace_volume::Progress) + Send + Sync> {
    if plan.background {
        let report = background::progress();
        return Box::new(move |step| report(on_wire(step)));
    }
    Box::new(on_bar(&Progress::new("opening the volume")))
}

/// Whether there is no volume, so that one can be created. A local directory that does not exist is no volume either.
fn is_absent(error: &VolumeError) -> bool {
    match error {
        VolumeError::NotAVolume { .. } => true,
        VolumeError::Store(e) => e.kind == headrace_store::ErrorKind::NotFound,
        _ => false,
    }
}

async fn mount(plan: &Plan, volume: &Volume, vfs: &Arc<Vfs>) -> Result<Mounted, Failure> {
    let uuid = volume.superblock.uuid;
    let socket = registry::socket_path(&plan.runtime_dir, uuid);
    let server = Server::bind(&socket)?;
    let metrics = bind_metrics(plan, uuid).await?;
    let mut config = plan.mount.clone();
    config.options.fsname.get_or_insert_with(|| volume.url().to_owned());
    let (fs, at, handle) = (Arc::clone(vfs), plan.mountpoint.clone(), Handle::current());
    // Blocks until the kernel has got its answers, which this runtime's other threads give.
    let session = tokio::task::spawn_blocking(move || Session::mount(fs, &at, config, handle))
        .await
        .context(|| "mounting was cut short".to_owned())??;
    let session = Arc::new(session);
    let since = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let log_file = plan.log.as_ref().map(LogFile::path);
    let facts = Facts {
        url: volume.url().to_owned(),
        uuid: uuid.to_string(),
        name: volume.superblock.name.clone(),
        mountpoint: session.mountpoint().to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        since: since.clone(),
        read_only: plan.vfs.read_only,
        memory_limit: plan.vfs.memory,
        compression: volume.superblock.compression.to_string(),
        encrypted: volume.superblock.encryption.is_some(),
        state_dir: volume.state_dir.path().to_owned(),
        log_file: log_file.clone(),
        metrics: metrics.places(),
        requests: session.request_path().into(),
    };
    let dev = session.dev();
    let record = Record {
        pid: facts.pid,
        mountpoint: facts.mountpoint.clone(),
        dev: find::device(rustix::fs::major(dev), rustix::fs::minor(dev)),
        url: facts.url.clone(),
        uuid,
        name: facts.name.clone(),
        socket,
        log_file,
        since,
    };
    let registration = match Registration::new(&plan.runtime_dir, record) {
        Ok(registration) => registration,
        Err(failure) => {
            let _ = session.unmount(true);
            return Err(failure);
        }
    };
    Ok(Mounted { vfs: Arc::clone(vfs), session, server, metrics, registration, facts })
}

/// Without being asked to, a mount serves metrics where it can, and is a mount all the same where it cannot.
async fn bind_metrics(plan: &Plan, uuid: uuid::Uuid) -> Result<metrics::Server, Failure> {
    let socket = registry::metrics_socket_path(&plan.runtime_dir, uuid);
    match plan.metrics {
        Some(place) => metrics::Server::bind(place, &socket).await,
        None => Ok(metrics::Server::bind(MetricsPlace::default(), &socket).await.unwrap_or_else(|failure| {
            tracing::warn!("{failure}");
            metrics::Server::default()
        })),
    }
}

/// Tells everybody who waits that the file system is there.
fn announce(plan: &Plan, mounted: &Mounted, ready: Ready) {
    let at = crate::output::path(&mounted.facts.mountpoint);
    tracing::info!(
        url = mounted.facts.url,
        uuid = mounted.facts.uuid,
        mountpoint = at,
        created = ready.created,
        read_only = mounted.facts.read_only,
        version = mounted.facts.version,
        "mounted"
    );
    for warning in &ready.warnings {
        tracing::warn!("{warning}");
    }
    if plan.background {
        if let Err(error) = background::report(&Report::Ready(ready)) {
            // Whoever wanted this mount was interrupted before it was there, and believes that it is not.
            tracing::warn!(%error, "the command that mounted this is gone: unmounting");
            if let Err(error) = mounted.session.unmount(true) {
                tracing::error!(%error, "cannot unmount");
            }
        }
        background::detach();
    } else if ready.created {
        crate::output::say(&format!("headrace: created the volume in {}", mounted.facts.url));
    }
    notify::ready(&format!("serving {} on {at}", mounted.facts.url));
}

impl Mounted {
    /// Serves until the mount is gone; `interrupted` gives it up at once.
    async fn run(mut self, plan: &Plan, mut signals: Signals, mut interrupted: bool) -> Result<(), Failure> {
        let (ended, watch) = watch::channel::<Ended>(None);
        let last_error = LastError::new(Mutex::new(None));
        let (leave, leaving) = watch::channel(finish::Leaving::default());
        let daemon = Arc::new(Daemon {
            vfs: Arc::clone(&self.vfs),
            session: Arc::clone(&self.session),
            facts: self.facts.clone(),
            started: Instant::now(),
            last_error: Arc::clone(&last_error),
            leave,
            ended: watch,
        });
        let server = Arc::new(self.server);
        let serving = {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.run(daemon).await })
        };

        let telling = {
            let (session, vfs) = (Arc::clone(&self.session), Arc::clone(&self.vfs));
            tokio::spawn(self.metrics.run(Arc::new(move || metrics::gather(&session, &vfs))))
        };

        let mut gone = session_end(&self.session)?;
        let volume = Arc::clone(self.vfs.volume());
        let mut fenced = std::pin::pin!(volume.fenced());
        let mut taken = None;
        loop {
            if interrupted {
                tracing::info!("asked to end by a signal");
                notify::stopping();
                give_up_mount(&self.session, &mut gone).await;
                break;
            }
            tokio::select! {
                _ = &mut gone => break,
                reason = &mut fenced => {
                    taken = Some(reason);
                    cut_off(&self.session, &mut gone).await;
                    break;
                }
                asked = signals.next() => match asked {
                    Asked::ReopenLog => finish::reopen(plan.log.as_ref()),
                    Asked::End => interrupted = true,
                },
            }
        }
        notify::stopping();
        if let Err(failure) = self.registration.unmounted() {
            tracing::warn!("{failure}");
        }
        let result = match taken {
            Some(reason) => Err(taken_over(&self.vfs, &self.facts, &reason).await),
            None => {
                tracing::info!(left = finish::left(&self.vfs), "the mount is gone: writing everything out");
                let finish = Finish {
                    vfs: &self.vfs,
                    log: plan.log.as_ref(),
                    last_error: &last_error,
                    leave: leaving,
                };
                finish.run(&mut signals).await
            }
        };
        let _ = ended.send(Some(result.clone()));
        // Commands that wait for the end are told before it comes.
        server.drain().await;
        // What they leave in the runtime directory goes with them, before the process is seen to have ended.
        for task in [serving, telling] {
            task.abort();
            let _ = task.await;
        }
        result
    }
}

/// What there is to say when another owner has taken the volume.
async fn taken_over(vfs: &Vfs, facts: &Facts, reason: &str) -> Failure {
    let left = finish::left(vfs);
    tracing::error!(reason, left, "the volume was taken over: this mount has ended");
    vfs.leave().await;
    Failure::new(format!("{} was taken over: {reason}", facts.url))
        .advise(format!("This mount has ended. What it had not yet shipped stays here, unused: {left}."))
        .exit(Exit::InUse)
}

/// Ends a mount whose volume belongs to somebody else now: nothing that is still written could be kept.
async fn cut_off(session: &Arc<Session>, gone: &mut oneshot::Receiver<()>) {
    notify::stopping();
    let session = Arc::clone(session);
    let end = move || {
        if let Err(error) = session.abort() {
            tracing::warn!(%error, "cannot cut off the users of the mount");
        }
        session.unmount(true)
    };
    match tokio::task::spawn_blocking(end).await {
        Ok(Ok(()) | Err(UnmountError::NotMounted(_))) => {}
        Ok(Err(error)) => tracing::error!(%error, "cannot detach the mount"),
        Err(error) => tracing::error!(%error, "cannot detach the mount"),
    }
    let _ = tokio::time::timeout(LAST_USERS, gone).await;
}

/// Resolves when the mount has gone. On a thread of its own, which does not keep the process alive.
fn session_end(session: &Arc<Session>) -> Result<oneshot::Receiver<()>, Failure> {
    let (send, receive) = oneshot::channel();
    let session = Arc::clone(session);
    std::thread::Builder::new()
        .name("session-end".to_owned())
        .spawn(move || {
            session.wait();
            let _ = send.send(());
        })
        .context(|| "cannot start threads".to_owned())?;
    Ok(receive)
}

/// Unmounts because of a signal: plainly if nobody uses the mount, else by detaching it. Whoever still uses it after a few
/// seconds is cut off, so that nothing can be written any more that would not be flushed.
async fn give_up_mount(session: &Arc<Session>, gone: &mut oneshot::Receiver<()>) {
    let unmount = |lazy: bool| {
        let session = Arc::clone(session);
        async move {
            let result = tokio::task::spawn_blocking(move || session.unmount(lazy)).await;
            result.unwrap_or_else(|e| {
                let path = PathBuf::new();
                Err(UnmountError::Other { path, reason: e.to_string() })
            })
        }
    };
    match unmount(false).await {
        Ok(()) | Err(UnmountError::NotMounted(_)) => {}
        Err(error) => {
            tracing::warn!(%error, "detaching the mount from those who use it");
            if let Err(error) = unmount(true).await {
                tracing::error!(%error, "cannot detach the mount");
            }
        }
    }
    if tokio::time::timeout(LAST_USERS, &mut *gone).await.is_ok() {
        return;
    }
    tracing::warn!("the mount is still in use: cutting off its users");
    let aborting = Arc::clone(session);
    let _ = tokio::task::spawn_blocking(move || aborting.abort()).await;
    let _ = tokio::time::timeout(LAST_USERS, gone).await;
}
