//! The file system as front ends see it.

use std::sync::{Arc, Weak};

use headrace_cache::SpanCache;
use headrace_flow::memory::MemoryPlan;
use headrace_flow::reading::{Limits, Tuning};
use headrace_layout::InodeNo;
use headrace_meta::{Attr, Namespace};
use headrace_volume::Volume;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::admission::Admission;
use crate::background::Background;
use crate::backpressure::Backpressure;
use crate::caching::{Cache, Passthrough};
use crate::data::outage::Outage;
use crate::error::{Error, Result};
use crate::handles::Handles;
use crate::inode::{InodeTable, Pinned};
use crate::intake::Intake;
use crate::log::not_shipped;
use crate::lookups::Lookups;
use crate::options::VfsOptions;
use crate::orphans::Orphans;
use crate::staging::Staging;
use crate::streaming::{Fetcher, Lender, Segments, keep_lending};
use crate::trash::Trash;

/// Segments uploaded side by side, at most; how many really are is decided by their bytes.
const UPLOADS: usize = 32;
/// Largest range fetched with one request, bytes.
const LARGEST_FETCH: u64 = 8 << 20;
/// Fetches under way, at most; how many really are is measured.
const FETCHES: usize = 256;

/// An open volume as a file system. Every call that answers an entry counts one reference on its inode, which
/// [`Vfs::forget`] gives back.
pub struct Vfs {
    pub(crate) volume: Arc<Volume>,
    pub(crate) options: VfsOptions,
    pub(crate) runtime: Handle,
    pub(crate) inodes: Arc<InodeTable>,
    pub(crate) handles: Handles,
    pub(crate) lookups: Lookups,
    pub(crate) orphans: Orphans,
    /// Held by who makes a file without a name, until it is referred to.
    pub(crate) unnamed: RwLock<()>,
    /// What was deleted and is kept.
    pub(crate) trash: Trash,
    /// What of the process's memory is for what.
    pub(crate) plan: MemoryPlan,
    /// Memory of written data.
    pub(crate) admission: Arc<Admission>,
    /// Who may write how much when.
    pub(crate) backpressure: Arc<Backpressure>,
    /// Data of writes that wait for a place in it.
    pub(crate) intake: Arc<Intake>,
    /// Uploads at one time.
    pub(crate) uploads: Arc<Semaphore>,
    /// Segments being built and uploaded.
    pub(crate) upload_bytes: Arc<Admission>,
    /// Data on its way from the store to readers.
    pub(crate) reads: Arc<Admission>,
    /// Files that are longer than a few frames.
    pub(crate) fetcher: Arc<Fetcher<Vfs>>,
    /// Lends them the memory of writes while there are none.
    pub(crate) lender: Arc<Lender>,
    /// Segments of small files.
    pub(crate) segments: Segments,
    pub(crate) spans: SpanCache,
    /// What was fetched, on local disks.
    pub(crate) cache: Option<Arc<Cache>>,
    /// New files that are on this machine's disk and not stored yet.
    pub(crate) staging: Staging,
    /// Whether the kernel may be given local files.
    pub(crate) passthrough: Mutex<Passthrough>,
    /// What is wrong with storing data, if anything.
    pub(crate) outage: Outage,
    pub(crate) background: Background,
}

impl Vfs {
    /// Makes a file system of `volume` and starts its background work on `runtime`.
    ///
    /// # Errors
    /// When a background thread cannot be started, or what an earlier mount left to be written back cannot be had.
    pub fn start(volume: Arc<Volume>, options: VfsOptions, runtime: Handle) -> Result<Arc<Vfs>> {
        let mut plan = MemoryPlan::new(options.memory, u64::from(volume.superblock.segment_size));
        if volume.codec.stores_plain() {
            plan = plan.without_copies();
        }
        if options.cache.is_none() {
            plan = plan.without_cache();
        }
        let cache = options.cache.as_ref().map(|options| Arc::new(Cache::open(options, &plan)));
        let intake = Intake::new(plan.intake, volume.state_dir.path().to_owned(), volume.codec.clone());
        let (streams, others) = (plan.streams, plan.reads - plan.streams);
        let limits = Limits { memory: streams, request_max: LARGEST_FETCH, requests: FETCHES };
        let tuning = Tuning { fixed: options.fixed_reads, ..Tuning::default() };
        let staging = Staging::open(&options, volume.state_dir.writeback(), plan.open_files / 2)?;
        let vfs = Arc::new_cyclic(|vfs| Vfs {
            lender: Arc::default(),
            fetcher: Fetcher::start(Weak::clone(vfs), runtime.clone(), limits, tuning),
            volume,
            runtime,
            inodes: InodeTable::new(),
            handles: Handles::new(plan.open_files),
            lookups: Lookups::new(),
            orphans: Orphans::default(),
            unnamed: RwLock::default(),
            trash: Trash::default(),
            admission: Admission::new(plan.dirty),
            backpressure: Backpressure::new(&plan),
            intake,
            uploads: Arc::new(Semaphore::new(UPLOADS)),
            upload_bytes: Admission::new(plan.uploads),
            reads: Admission::new(others),
            segments: Segments::default(),
            spans: SpanCache::new(plan.spans),
            cache,
            staging,
            passthrough: Mutex::new(Passthrough::Off("the front end offers none".to_owned())),
            outage: Outage::default(),
            background: Background::default(),
            plan,
            options,
        });
        vfs.fetcher.recall(&vfs.volume.state_dir);
        vfs.replay_staged()?;
        vfs.runtime.spawn(keep_lending(Arc::downgrade(&vfs)));
        if let (Some(time), false) = (vfs.options.trash, vfs.options.read_only) {
            vfs.meta().keep_deleted(time);
        }
        Background::start(&vfs)?;
        Ok(vfs)
    }

    /// Whether nothing but this mount can change the volume, so that the kernel may cache for long.
    pub fn exclusive(&self) -> bool {
        self.volume.engine.exclusive()
    }

    /// The volume underneath, for commands about it.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub(crate) fn meta(&self) -> &Namespace {
        &self.volume.meta
    }

    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// The state of a regular file, kept while the answer lives.
    pub(crate) fn pin(&self, ino: InodeNo) -> Result<Pinned> {
        self.inodes.pin(ino, || Ok(self.meta().getattr(ino)?))
    }

    /// Attributes with unflushed writes taken into account. Metadata is asked under the file's lock, so that no commit falls
    /// between the two.
    pub(crate) fn attributes(&self, ino: InodeNo) -> Result<Attr> {
        let Some(inode) = self.inodes.find(ino) else { return Ok(self.meta().getattr(ino)?) };
        let mut state = inode.state.lock();
        let mut attr = self.meta().getattr(ino)?;
        if !self.staged_attributes(&mut state, &mut attr) {
            state.apply(&mut attr);
        }
        Ok(attr)
    }

    /// Makes everything written so far, by whomever, durable.
    ///
    /// # Errors
    /// The first failure; the rest is flushed all the same.
    pub async fn flush_all(self: &Arc<Self>) -> Result<()> {
        let mut first = self.store_all_staged().await.err();
        if let Err(error) = self.flush_dirty().await {
            first.get_or_insert(error);
        }
        if let Err(error) = self.volume.engine.durable(self.volume.engine.position()).await {
            first.get_or_insert(error.into());
        }
        first.map_or(Ok(()), Err)
    }

    /// What reads taught goes to the disk, for the next mount.
    async fn note_learned(self: &Arc<Self>) {
        let vfs = Arc::clone(self);
        let noted = self.runtime.spawn_blocking(move || vfs.fetcher.note(&vfs.volume.state_dir)).await;
        if let Err(error) = noted {
            tracing::warn!(%error, "what was learned of the store is not kept");
        }
    }

    /// Flushes everything, stops background work and closes the volume. The front end must have stopped.
    ///
    /// # Errors
    /// When something could not be flushed, or the engine could not be closed. It may be called again.
    pub async fn shutdown(self: &Arc<Self>) -> Result<()> {
        for inode in self.inodes.all() {
            if let Err(error) = self.take_mapped_changes(&inode).await {
                tracing::error!(ino = %inode.ino, %error, "what was written through a mapping of a file is lost");
            }
        }
        self.handles.clear();
        self.abandon_staged();
        let staged = self.store_all_staged().await;
        self.note_learned().await;
        self.fetcher.stop();
        self.lender.stop();
        self.background.stop().await;
        let flushed = if self.options.read_only { Ok(()) } else { staged.and(self.flush_all().await) };
        if let Some(cache) = self.cache.clone() {
            // It waits for disks.
            let _ = self.runtime.spawn_blocking(move || cache.disk.stop()).await;
        }
        if flushed.is_ok() && !self.options.read_only {
            self.reclaim_all().await;
        }
        flushed?;
        self.remove_stored().await?;
        self.staging.end();
        self.volume.close().await.map_err(not_shipped)
    }
}
