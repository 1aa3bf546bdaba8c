//! Opening files in the mode that fits, and what follows from it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use headrace_cache::disk::{Entry, Readiness};
use headrace_layout::InodeNo;

use super::modes::Mode;
use super::passing::Passing;
use super::status::{CacheDirectoryStatus, CacheStatus, Passthrough};
use crate::error::Result;
use crate::handles::{FileId, OpenMode};
use crate::inode::{FileState, Inode, Pinned};
use crate::vfs::Vfs;

/// Shorter files are opened faster than they are read: the kernel's page cache serves them better.
const PASS_FROM: u64 = 256 << 10;
/// Files up to this length are compared with their checksums while they are opened, longer ones behind that.
const VERIFY_AT_OPEN: u64 = 4 << 20;

/// How often it is looked whether a mapping is gone: nothing tells of its end.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps a file that is mapped although it is closed in step with its local copy until it is not mapped any more.
async fn outlive(vfs: Weak<Vfs>, inode: Pinned) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(vfs) = vfs.upgrade() else { return };
        let is_over = || {
            let state = inode.state.lock();
            // Somebody has opened it again, and its end will come here again.
            let taken_over = state.opens.any_passed() || state.passing.is_none();
            (taken_over, state.passing.as_ref().is_some_and(Passing::is_mapped))
        };
        match is_over() {
            (true, _) => return,
            (false, true) => {}
            (false, false) => {
                if let Err(error) = vfs.take_mapped_changes(&inode).await {
                    tracing::error!(ino = %inode.ino, %error, "what was written through a mapping of a file is lost");
                }
                let mut state = inode.state.lock();
                if !state.opens.any_passed() {
                    state.passing = None;
                }
                drop(state);
                vfs.background.wake_flusher();
                return;
            }
        }
    }
}

impl Vfs {
    /// Decides how one more open of a file is served, and counts it. [`Self::left`] is to be told of its end.
    ///
    /// # Errors
    /// The local file of one that is written back cannot be opened.
    pub(crate) fn enter(self: &Arc<Self>, inode: &Arc<Inode>, flags: i32) -> Result<(Mode, OpenMode)> {
        let access = flags & libc::O_ACCMODE;
        let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
        let entry = if !writes { self.passable(inode) } else { None };
        let mut state = inode.state.lock();
        if let Some(entered) = self.enter_staged(inode, &mut state, flags)? {
            return Ok(entered);
        }
        let FileState { opens, passing, dirty, size, .. } = &mut *state;
        let whole = || match &entry {
            // It is mapped still, and has all changes since.
            _ if passing.is_some() => true,
            Some(entry) if dirty.is_clean() && *size >= PASS_FROM => {
                match entry.pass(*size, &|chunk| self.print_of(inode.ino, chunk)) {
                    Readiness::Ready(pass) => {
                        *passing = Some(Passing::new(pass));
                        true
                    }
                    Readiness::Unverified | Readiness::Unsynced | Readiness::Incomplete => false,
                }
            }
            _ => false,
        };
        let mode = opens.choose(reads, writes, whole);
        opens.opened(mode);
        let mut answer = self.open_mode(flags);
        if mode != Mode::Cached {
            if mode == (Mode::Beside { maps: true })
                && let Some(passing) = passing
            {
                passing.may_be_mapped_to_write();
            }
            answer.backing = passing.as_ref().map(Passing::backing);
            // The kernel drops the pages it has, and takes none in while this is so: what is changed meanwhile leaves no old ones behind.
            answer.keep_cache = false;
            answer.direct_io = mode != Mode::Passed;
            // What a shared mapping has written into the copy is found at the close.
            answer.noflush &= mode == Mode::Passed;
        }
        drop(state);
        if mode == Mode::Passed {
            if let Some(cache) = &self.cache {
                cache.passed.fetch_add(1, Ordering::Relaxed);
            }
            // Reads are not seen.
            if flags & libc::O_NOATIME == 0 {
                let now = Instant::now();
                self.touch(inode, now, now);
            }
        }
        Ok((mode, answer))
    }

    /// Whether the kernel may be given local files to read and write by itself.
    pub(crate) fn passes_through(&self) -> bool {
        *self.passthrough.lock() == Passthrough::On
    }

    /// What may be passed through, with its checksums looked at or being looked at.
    fn passable(self: &Arc<Self>, inode: &Arc<Inode>) -> Option<Arc<Entry>> {
        if self.cache.is_none() || !self.passes_through() {
            return None;
        }
        if inode.state.lock().size < PASS_FROM {
            return None;
        }
        let entry = self.entry_of(inode)?;
        // Only while nothing is being changed: the copy is cut to the file's length.
        let (size, readiness) = {
            let state = inode.state.lock();
            let pass = || entry.pass(state.size, &|chunk| self.print_of(inode.ino, chunk));
            (state.size, if state.dirty.is_clean() { pass() } else { Readiness::Incomplete })
        };
        let behind = Arc::clone(&entry);
        match readiness {
            Readiness::Unverified if size <= VERIFY_AT_OPEN => {
                entry.verify();
            }
            Readiness::Unverified => drop(self.runtime.spawn_blocking(move || behind.verify())),
            Readiness::Unsynced => drop(self.runtime.spawn_blocking(move || behind.sync())),
            Readiness::Ready(_) | Readiness::Incomplete => {}
        }
        Some(entry)
    }

    /// An open is over.
    pub(crate) fn left(self: &Arc<Self>, inode: &Inode, mode: Mode) {
        if let Mode::Staged { writes } = mode {
            return self.left_staged(inode, writes);
        }
        if mode == Mode::Passed
            && let Some(cache) = &self.cache
        {
            cache.passed.fetch_sub(1, Ordering::Relaxed);
        }
        let mapped = {
            let mut state = inode.state.lock();
            state.opens.closed(mode);
            if mode == Mode::Cached || state.opens.any_passed() {
                return;
            }
            let mapped = state.passing.as_ref().is_some_and(Passing::is_mapped);
            if !mapped {
                state.passing = None;
            }
            mapped
        };
        if let Some(kept) = self.inodes.find(inode.ino).filter(|_| mapped) {
            self.runtime.spawn(outlive(Arc::downgrade(self), kept));
        }
    }

    /// The front end can have whole files read by the kernel from their local copies, or why not.
    pub fn passthrough_possible(&self, possible: std::result::Result<(), String>) {
        let now = match possible {
            Ok(()) => Passthrough::On,
            Err(why) => {
                tracing::info!(
                    why,
                    "local copies of files are read by this process: the kernel cannot read them by itself"
                );
                Passthrough::Off(why)
            }
        };
        *self.passthrough.lock() = now;
    }

    /// The kernel would not take the local copy of a file that was just opened: how to go on without. From here on none is offered.
    ///
    /// # Errors
    /// The file is not open.
    pub fn not_passed_through(
        self: &Arc<Self>,
        _ino: InodeNo,
        file: FileId,
        why: io::Error,
    ) -> Result<OpenMode> {
        let open = self.handles.get(file)?;
        {
            let mut passthrough = self.passthrough.lock();
            if *passthrough == Passthrough::On {
                let why = match why.raw_os_error() {
                    Some(libc::EPERM) => "the mount lacks CAP_SYS_ADMIN".to_owned(),
                    Some(libc::ELOOP) => "the cache is on a file system that is stacked on others".to_owned(),
                    _ => format!("the kernel does not take files of the cache: {why}"),
                };
                tracing::warn!(
                    why,
                    "local copies of files are read by this process from now on, not by the kernel itself"
                );
                *passthrough = Passthrough::Off(why);
            }
        }
        let before = {
            let mut mode = open.mode.lock();
            if let Mode::Staged { .. } = *mode {
                // This process reads and writes the local file.
                return Ok(self.open_mode(open.flags));
            }
            std::mem::replace(&mut *mode, Mode::Cached)
        };
        self.left(&open.inode, before);
        open.inode.state.lock().opens.opened(Mode::Cached);
        Ok(self.open_mode(open.flags))
    }

    /// The cache on disks; `None` if there is none.
    pub fn cache_status(&self) -> Option<CacheStatus> {
        let cache = self.cache.as_ref()?;
        let directories = cache.disk.status().into_iter().map(|directory| CacheDirectoryStatus {
            path: directory.path.display().to_string(),
            failed: directory.failed,
            bytes: directory.held,
            pinned: directory.pinned,
            limit: directory.limit,
            disk_free: directory.free,
            keep_free: directory.floor,
            entries: directory.entries,
        });
        Some(CacheStatus {
            directories: directories.collect(),
            passthrough: self.passthrough.lock().clone(),
            passed_through: cache.passed.load(Ordering::Relaxed),
        })
    }
}
