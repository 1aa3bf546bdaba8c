//! What calls do with a staged file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use headrace_layout::InodeNo;
use headrace_meta::{Attr, Time};
use rustix::fs::{FallocateFlags, SeekFrom};

use super::directory::{Directory, Name};
use super::file::Staged;
use crate::ReadReply;
use crate::caching::modes::Mode;
use crate::error::{Error, Result};
use crate::handles::{Backing, OpenFile, OpenMode};
use crate::inode::{FileState, Inode};
use crate::vfs::Vfs;

/// A file that is opened so is durable with every write, of which its name would not be.
const SYNCHRONOUS: i32 = libc::O_SYNC | libc::O_DSYNC;

impl Vfs {
    fn staging_directory(&self) -> Result<&Directory> {
        self.staging.directory.as_ref().ok_or_else(|| Error::Internal("nothing is staged here".into()))
    }

    /// How one more open is served if the file is staged, or becomes so with this open; else `None`. `state`: that of the inode.
    pub(crate) fn enter_staged(
        &self,
        inode: &Inode,
        state: &mut FileState,
        flags: i32,
    ) -> Result<Option<(Mode, OpenMode)>> {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if state.staged.is_none() && writes && flags & SYNCHRONOUS == 0 && self.staging.has_room() {
            self.begin_staging(inode, state);
        }
        let Some(staged) = &mut state.staged else { return Ok(None) };
        let file = staged.open(self.staging_directory()?).map_err(|error| local(&error))?;
        staged.life.opened(writes);
        staged.mappable |= flags & libc::O_ACCMODE != libc::O_WRONLY;
        self.staging.open.lock().insert(inode.ino);
        let mut answer = self.open_mode(flags);
        if self.passes_through() {
            answer.backing = Some(Backing(file));
            answer.keep_cache = false;
            // What is closed is in the local file already.
            answer.noflush = true;
        }
        Ok(Some((Mode::Staged { writes }, answer)))
    }

    /// Has a file staged from here on, if it is empty and nobody has it open. Where that does not work it is a file like others.
    fn begin_staging(&self, inode: &Inode, state: &mut FileState) {
        let Some(directory) = &self.staging.directory else { return };
        let empty =
            state.size == 0 && state.dirty.is_clean() && state.passing.is_none() && state.opens.none();
        if !empty || !self.exclusive() {
            return;
        }
        let begin = || -> io::Result<Option<Staged>> {
            let Ok(attr) = self.meta().getattr(inode.ino) else { return Ok(None) };
            if attr.allocated != 0 || !self.staging.measure_room() {
                return Ok(None);
            }
            let name = Name::of(&attr);
            Staged::new(name, directory.create(name)?).map(Some)
        };
        match begin() {
            Ok(None) => {}
            Ok(Some(staged)) => self.staging.add(state, staged),
            Err(error) => {
                // Until it is looked again how much room there is.
                self.staging.room.store(false, Ordering::Relaxed);
                tracing::warn!(ino = %inode.ino, %error, "cannot write a new file to this machine's disk first");
            }
        }
    }

    /// An open of a staged file is over.
    pub(crate) fn left_staged(&self, inode: &Inode, writes: bool) {
        let mut state = inode.state.lock();
        let (Some(staged), Some(directory)) = (&mut state.staged, &self.staging.directory) else { return };
        staged.life.closed(writes);
        if let Err(error) = staged.look(directory) {
            tracing::error!(ino = %inode.ino, %error, "cannot look at the local copy of a file");
        }
        let bytes = staged.last.allocated;
        self.staging.count(staged, bytes);
        if !staged.life.is_open() {
            self.staging.open.lock().remove(&inode.ino);
        }
        if !self.goes_at_once(staged) {
            staged.close();
            self.staging.enqueue(inode.ino);
        }
    }

    /// Whether a file that was just closed is small enough for metadata, which takes it at once.
    fn goes_at_once(&self, staged: &Staged) -> bool {
        !staged.life.is_open() && self.staging.rate.is_none() && self.fits_metadata(staged.last.size)
    }

    /// A file has no name any more: if nobody has it open, this machine's disk soon has the room.
    pub(crate) fn unlinked_staged(&self, inode: &Inode) {
        let mut state = inode.state.lock();
        if state.staged.as_ref().is_some_and(|staged| !staged.life.is_open()) {
            self.staging.drop_staged(inode.ino, &mut state);
            drop(state);
            // Whoever is storing it stops.
            inode.changed.notify_waiters();
        }
    }

    /// A staged file was closed.
    pub(crate) async fn closed_staged(self: &Arc<Self>, inode: &Arc<Inode>) {
        let at_once = inode.state.lock().staged.as_ref().is_some_and(|staged| self.goes_at_once(staged));
        if at_once && let Err(error) = self.see_to_staged(inode, false).await {
            tracing::error!(ino = %inode.ino, %error, "cannot store a file that is written back; trying again");
            self.staging.watch(inode.ino);
        }
    }

    /// Attributes of a staged file.
    pub(crate) fn staged_attributes(&self, state: &mut FileState, attr: &mut Attr) -> bool {
        let (Some(staged), Some(directory)) = (&mut state.staged, &self.staging.directory) else {
            return false;
        };
        if let Err(error) = staged.look(directory) {
            tracing::error!(ino = %attr.ino, %error, "cannot look at the local copy of a file");
        }
        staged.apply(attr);
        true
    }

    /// Reads of it that come here.
    pub(crate) async fn read_staged(&self, file: Arc<File>, offset: u64, len: u32) -> Result<ReadReply> {
        let memory = self.reads.acquire(u64::from(len)).await;
        let read = move || -> io::Result<Bytes> {
            let mut bytes = vec![0; len as usize];
            let mut done = 0;
            while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, offset + done as u64) {
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            bytes.truncate(done);
            Ok(Bytes::from(bytes))
        };
        let read = self.runtime.spawn_blocking(read).await;
        let bytes = read.map_err(|error| Error::Internal(format!("reading a local file failed: {error}")))?;
        Ok(vec![memory.attach(bytes.map_err(|error| local(&error))?)])
    }

    /// Writes to it that come here.
    pub(crate) async fn write_staged(
        self: &Arc<Self>,
        open: &OpenFile,
        file: Arc<File>,
        offset: u64,
        data: Bytes,
    ) -> Result<()> {
        let write = self.runtime.spawn_blocking(move || file.write_all_at(&data, offset));
        let written = write.await;
        let written =
            written.map_err(|error| Error::Internal(format!("writing a local file failed: {error}")))?;
        written.map_err(|error| local(&error))?;
        if open.synchronous() || self.options.sync {
            self.make_durable(open).await?;
        }
        Ok(())
    }

    /// Sets the length of a staged file; false if it is not staged.
    pub(crate) fn truncate_staged(&self, inode: &Inode, size: u64) -> Result<bool> {
        self.change_staged(inode, |file| file.set_len(size))
    }

    /// As `fallocate(2)`; false if it is not staged.
    pub(crate) fn allocate_staged(&self, inode: &Inode, offset: u64, len: u64, mode: i32) -> Result<bool> {
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        self.change_staged(inode, |file| Ok(rustix::fs::fallocate(file, flags, offset, len)?))
    }

    fn change_staged(&self, inode: &Inode, change: impl FnOnce(&File) -> io::Result<()>) -> Result<bool> {
        let mut state = inode.state.lock();
        let Some(staged) = &mut state.staged else { return Ok(false) };
        let directory = self.staging_directory()?;
        let file = staged.open(directory).map_err(|error| local(&error))?;
        let changed = change(&file);
        drop(file);
        let looked = staged.look(directory);
        let bytes = staged.last.allocated;
        self.staging.count(staged, bytes);
        staged.close();
        if !staged.life.is_open() {
            self.staging.enqueue(inode.ino);
        }
        changed.and(looked.map(drop)).map_err(|error| local(&error))?;
        Ok(true)
    }

    /// Sets the time of the last change of a staged file.
    pub(crate) fn set_staged_mtime(&self, state: &mut FileState, mtime: Time) -> Result<()> {
        let Some(staged) = &mut state.staged else { return Ok(()) };
        staged.set_mtime(mtime, self.staging_directory()?).map_err(|error| local(&error))
    }

    /// `SEEK_DATA` and `SEEK_HOLE`; `None` if it is not staged.
    pub(crate) fn seek_staged(&self, inode: &Inode, offset: u64, hole: bool) -> Result<Option<u64>> {
        let mut state = inode.state.lock();
        let Some(staged) = &mut state.staged else { return Ok(None) };
        let file = staged.open(self.staging_directory()?).map_err(|error| local(&error))?;
        let to = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        let found = rustix::fs::seek(&*file, to).map_err(|error| local(&error.into()));
        drop(file);
        staged.close();
        found.map(Some)
    }

    /// Makes what is in the local file durable, if there is one.
    pub(crate) async fn sync_staged(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        let file = {
            let mut state = inode.state.lock();
            let Some(staged) = &mut state.staged else { return Ok(()) };
            let file = staged.open(self.staging_directory()?).map_err(|error| local(&error))?;
            staged.close();
            file
        };
        let (vfs, synced) = (Arc::clone(self), Arc::clone(inode));
        let sync = move || {
            file.sync_all().map_err(|error| local(&error))?;
            let named = synced.state.lock().staged.as_ref().is_none_or(|staged| staged.named);
            if !named {
                vfs.staging_directory()?.sync().map_err(|error| local(&error))?;
                if let Some(staged) = &mut synced.state.lock().staged {
                    staged.named = true;
                }
            }
            Ok(())
        };
        let synced = self.runtime.spawn_blocking(sync).await;
        synced.map_err(|error| Error::Internal(format!("syncing a local file failed: {error}")))?
    }

    /// The front end is gone: nobody has anything open that this process knows of.
    pub(crate) fn abandon_staged(&self) {
        for ino in std::mem::take(&mut *self.staging.open.lock()) {
            let Some(inode) = self.inodes.find(ino) else { continue };
            if let Some(staged) = &mut inode.state.lock().staged {
                staged.life.abandoned();
                staged.close();
            }
        }
    }

    /// Whether a file is staged.
    pub(crate) fn is_staged(&self, ino: InodeNo) -> bool {
        self.inodes.find(ino).is_some_and(|inode| inode.state.lock().staged.is_some())
    }
}

/// What this machine's disk says is what the program hears.
pub(super) fn local(error: &io::Error) -> Error {
    Error::Local { errno: error.raw_os_error().unwrap_or(libc::EIO), detail: error.to_string() }
}
