//! The life of one mount.

mod affinity;
mod backing;
mod buffer;
mod config;
mod device;
mod interrupt;
mod negotiate;
mod notify;
mod observe;
mod processors;
mod readahead;
mod signals;
mod transport;
mod uring;
mod view;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headrace_vfs::MemoryPlan;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;

pub(crate) use backing::{BackingId, Backings};
pub(crate) use buffer::{BufferPool, RequestBuffer};
pub use config::MountConfig;
pub(crate) use interrupt::{Interrupts, Waiting, give_up_if_dying};
pub(crate) use notify::Notifier;
pub(crate) use observe::{Observation, Observer};
pub use observe::{Operation, ProcessName, SubscribeError, Subscription};
#[cfg(any(test, fuzzing, feature = "harness"))]
pub(crate) use transport::Received;
pub(crate) use transport::Transport;
pub(crate) use view::View;
pub(crate) use worker::{Connection, InFlight, Worker};

use crate::abi::InitFlags;
use crate::mount::{self, Method, MountError, UnmountError};
use crate::{FileSystem, InodeNo};
use affinity::Affinity;
use device::Device;
use readahead::Readahead;

/// How long requests that were already being worked on may take after the mount has gone.
const DRAIN_WITHIN: Duration = Duration::from_secs(60);

/// What all workers and requests of a mount share.
pub(crate) struct Shared {
    pub fs: Arc<dyn FileSystem>,
    pub view: View,
    /// How requests come, by worker.
    pub transports: Vec<Arc<dyn Transport>>,
    /// What both this side and the kernel can do.
    pub agreed: InitFlags,
    pub runtime: Handle,
    /// Of the workers that take requests from the device.
    affinity: Arc<Affinity>,
    pub interrupts: Interrupts,
    pub notifier: Notifier,
    /// Files that the kernel reads by itself.
    pub backings: Backings,
    pub readahead: Readahead,
    pub observer: Observer,
    pub in_flight: InFlight,
    /// Requests that may be in flight before no more are taken.
    pub most_in_flight: usize,
    workers_alive: AtomicUsize,
    ended: Mutex<bool>,
    end: Condvar,
}

/// A mounted file system and the threads that serve it.
///
/// Dropping a session detaches its mount; the process may still be asked by those who use it until they stop.
pub struct Session {
    mountpoint: PathBuf,
    method: Method,
    dev: u64,
    unmounted: AtomicBool,
    by: RequestPath,
    shared: Arc<Shared>,
}

/// How requests come from the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestPath {
    /// By /dev/fuse.
    Device,
    /// By /dev/fuse, although io_uring was asked for; why.
    DeviceInstead(String),
    /// By io_uring.
    IoUring,
}

fn rings(device: &Device, memory: &MemoryPlan) -> Result<uring::Rings, String> {
    let device = device.again().map_err(|error| format!("no descriptor is left: {error}"))?;
    uring::prepare(device, memory)
}

impl Session {
    /// Mounts `fs` at `mountpoint` and serves it from threads of its own.
    ///
    /// Returns when the root directory can be used. `runtime` runs what has to wait and needs its timer enabled.
    pub fn mount(
        fs: impl FileSystem,
        mountpoint: &Path,
        config: MountConfig,
        runtime: Handle,
    ) -> Result<Session, MountError> {
        let attached = mount::attach(mountpoint, &config.options, config::MAX_WRITE)?;
        let undo = Detach { mountpoint: &attached.mountpoint, armed: true };
        let session = Self::start(
            Arc::new(fs),
            attached.device,
            &attached.mountpoint,
            attached.method,
            config,
            runtime,
        );
        undo.disarm_if(session.is_ok());
        session
    }

    fn start(
        fs: Arc<dyn FileSystem>,
        fd: std::os::fd::OwnedFd,
        mountpoint: &Path,
        method: Method,
        config: MountConfig,
        runtime: Handle,
    ) -> Result<Session, MountError> {
        let exclusive = fs.exclusive();
        let first = Device::new(fd);
        let memory = fs.memory();
        let rings = config.io_uring.then(|| rings(&first, &memory));
        let background = rings.as_ref().and_then(|rings| rings.as_ref().ok()).map(|rings| rings.background);
        let agreed = negotiate::exchange(&first, exclusive, background)?;
        fs.passthrough(backing::possible(&first, agreed));

        let offered = agreed.contains(InitFlags::OVER_IO_URING);
        let rings =
            rings.map(|rings| rings.and_then(|made| offered.then_some(made).ok_or_else(uring::not_offered)));
        let (by, rings) = match rings {
            None => (RequestPath::Device, Vec::new()),
            Some(Ok(made)) => (RequestPath::IoUring, made.rings),
            Some(Err(why)) => {
                tracing::warn!("requests come by /dev/fuse and not by io_uring: {why}");
                (RequestPath::DeviceInstead(why), Vec::new())
            }
        };
        // Beside rings the device has little to bring.
        let devices = if rings.is_empty() { config.worker_threads(&memory) } else { 1 };
        // Of those that are not there the buffers are to be had; with rings, these have them.
        let absent = if rings.is_empty() { memory.workers.saturating_sub(devices as u64) } else { 0 };
        let spare = usize::try_from(memory.spare_buffers + absent).unwrap_or(usize::MAX);
        let devices =
            first.into_workers(devices).into_iter().map(|device| Arc::new(device) as Arc<dyn Transport>);
        let transports: Vec<Arc<dyn Transport>> =
            devices.chain(rings.into_iter().map(|ring| Arc::new(ring) as Arc<dyn Transport>)).collect();
        let threads = transports.len();
        let view = View::new(exclusive, config.shared_ttl);
        let shared = Shared::new(fs, view, agreed, runtime, &transports);
        let pool = BufferPool::with_spare(config::MAX_WRITE as usize, spare);
        shared.fs.keep_buffers(pool.clone());
        shared.runtime.spawn(buffer::keep_few(Arc::downgrade(&pool)));
        for (index, transport) in transports.into_iter().enumerate() {
            let worker = Worker::new(index, transport, Arc::clone(&shared), Arc::clone(&pool));
            if let Err(error) = worker.spawn() {
                // Those that never started count as ended.
                for _ in index..threads {
                    shared.worker_ended();
                }
                return Err(MountError::Threads(error));
            }
        }

        let root = rustix::fs::stat(mountpoint).map_err(|errno| MountError::Root(errno.into()))?;
        if root.st_ino != InodeNo::ROOT.0 {
            return Err(MountError::Root(std::io::Error::other("another file system was mounted over it")));
        }
        shared.readahead.begin(root.st_dev);
        Ok(Session {
            mountpoint: mountpoint.to_owned(),
            method,
            dev: root.st_dev,
            unmounted: AtomicBool::new(false),
            by,
            shared,
        })
    }

    /// How requests come from the kernel.
    pub fn request_path(&self) -> &RequestPath {
        &self.by
    }

    /// Where it is mounted, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The mount's `st_dev`.
    pub fn dev(&self) -> u64 {
        self.dev
    }

    /// Adds what is counted of its requests.
    pub fn collect(&self, into: &mut headrace_metrics::Collection) {
        self.shared.observer.collect(into);
    }

    /// Has the kernel ask again for a name in a directory that is or was somebody's, and for the attributes of both. Blocks, and not to be
    /// called by who answers the kernel. `renewed`: the inode is a directory that had been removed and is there again.
    pub fn name_changed(&self, parent: InodeNo, name: &[u8], ino: InodeNo, renewed: bool) {
        if renewed {
            self.shared.view.renew(ino);
        }
        self.shared.notifier.name_changed(parent, name);
        self.shared.notifier.attributes_changed(ino);
    }

    /// Listens to its operations from here on.
    pub fn subscribe(&self) -> Result<Subscription, SubscribeError> {
        self.shared.observer.feed().subscribe()
    }

    /// Whether the mount has gone: unmounted and no longer used by anyone, or aborted.
    pub fn ended(&self) -> bool {
        *self.shared.ended.lock()
    }

    /// Blocks until the mount has gone and what was being worked on has finished (at most a minute longer).
    ///
    /// Data that is written but not yet durable is the file system's: flush it after this.
    pub fn wait(&self) {
        let mut ended = self.shared.ended.lock();
        while !*ended {
            self.shared.end.wait(&mut ended);
        }
        drop(ended);
        if !self.shared.in_flight.wait_idle(Instant::now() + DRAIN_WITHIN) {
            tracing::warn!("requests are still being worked on a minute after the mount has gone");
        }
    }

    /// Unmounts. Fails with [`UnmountError::Busy`] while files are open, unless `lazy`: then the mount point is free
    /// at once and the session ends when its last user has let go. May be called from any thread, at any time.
    pub fn unmount(&self, lazy: bool) -> Result<(), UnmountError> {
        if !self.is_mounted() {
            return Err(UnmountError::NotMounted(self.mountpoint.clone()));
        }
        tracing::debug!(mountpoint = %self.mountpoint.display(), lazy, method = ?self.method, "unmounting");
        mount::unmount(&self.mountpoint, lazy)?;
        self.unmounted.store(true, Ordering::Release);
        Ok(())
    }

    /// Breaks the connection: everything that waits for this file system fails, and so does whatever comes after.
    /// Written data that is not durable is not lost by this; it is still the file system's to flush.
    pub fn abort(&self) -> Result<(), UnmountError> {
        if self.ended() {
            return Ok(());
        }
        mount::abort(&self.mountpoint, rustix::fs::minor(self.dev))
    }

    /// Whether the mount point is still ours to free: an aborted mount stays in the table. Compared by device number,
    /// for something else may have been mounted there since.
    fn is_mounted(&self) -> bool {
        !self.unmounted.load(Ordering::Acquire)
            && mount::find(&self.mountpoint).is_some_and(|entry| {
                (entry.major, entry.minor) == (rustix::fs::major(self.dev), rustix::fs::minor(self.dev))
            })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_mounted()
            && let Err(error) = mount::unmount(&self.mountpoint, true)
        {
            tracing::error!("{error}");
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("mountpoint", &self.mountpoint).finish_non_exhaustive()
    }
}

impl Shared {
    /// For as many workers as there are transports.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        view: View,
        agreed: InitFlags,
        runtime: Handle,
        transports: &[Arc<dyn Transport>],
    ) -> Arc<Shared> {
        let passthrough = agreed.contains(InitFlags::PASSTHROUGH);
        let most_in_flight = usize::try_from(fs.memory().waiting_requests).unwrap_or(usize::MAX);
        let by_turns = transports.iter().filter(|transport| transport.by_turns()).count();
        Arc::new(Shared {
            most_in_flight,
            fs,
            view,
            agreed,
            runtime,
            transports: transports.to_vec(),
            affinity: Arc::new(Affinity::new(by_turns)),
            interrupts: Interrupts::new(transports.to_vec()),
            notifier: Notifier::new(transports.first().cloned()),
            readahead: Readahead::default(),
            backings: Backings::new(transports.first().filter(|_| passthrough).cloned()),
            observer: Observer::default(),
            in_flight: InFlight::default(),
            workers_alive: AtomicUsize::new(transports.len()),
            ended: Mutex::new(false),
            end: Condvar::new(),
        })
    }

    /// One worker has seen the end of the connection.
    fn worker_ended(&self) {
        if self.workers_alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.give_up();
        }
    }

    /// Nobody is left to take requests, or answers.
    fn give_up(&self) {
        self.interrupts.cancel_all();
        self.backings.release_all();
        *self.ended.lock() = true;
        self.end.notify_all();
    }
}

/// Takes the mount away again when starting the session failed.
struct Detach<'a> {
    mountpoint: &'a Path,
    armed: bool,
}

impl Detach<'_> {
    fn disarm_if(mut self, done: bool) {
        self.armed = !done;
    }
}

impl Drop for Detach<'_> {
    fn drop(&mut self) {
        if self.armed
            && let Err(error) = mount::unmount(self.mountpoint, true)
        {
            tracing::error!("{error}");
        }
    }
}
