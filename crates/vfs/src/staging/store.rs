//! From the local file to the store: its bytes become written data of the file and go the way of all such.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use headrace_meta::{DataCommit, SetAttr, Time};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use tokio::task::JoinSet;

use super::life::{Next, Stamp};
use super::serve::local;
use crate::data::patience::Patience;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::vfs::Vfs;

/// Bytes read from the local file at a time.
const STEP: u64 = 1 << 20;
/// What is read at once, bytes.
const SMALL: u64 = 128 << 10;
/// Before it is tried again when more writes wait than may.
const CROWDED: Duration = Duration::from_millis(100);
/// Longer than the clock of any file system stands still.
const TICK: Duration = Duration::from_millis(100);
/// For how long small files are gathered that somebody waits for.
const GATHER: Duration = Duration::from_millis(200);

/// What is to be done with a staged file, and with what.
pub(super) enum Task {
    Nothing,
    Store {
        file: Arc<File>,
        stamp: Stamp,
        committed: bool,
    },
    /// `durable`: what was committed has to be durable first.
    Remove {
        durable: bool,
    },
}

impl Vfs {
    /// Does what there is to do with a staged file. `now`: somebody waits for it; it is stored as it is, even if it is being written to.
    ///
    /// # Errors
    /// This machine's disk or metadata fails; or somebody waits, and nothing was stored for the store's deadline.
    pub(super) async fn see_to_staged(self: &Arc<Self>, inode: &Arc<Inode>, now: bool) -> Result<()> {
        let patience = now.then(|| Patience::new("waiting for files to be written back"));
        if now {
            // What is written through a mapping from here on is seen by the time of the file.
            self.sync_staged(inode).await?;
        }
        let mut asked = now;
        loop {
            match self.next_task(inode, asked)? {
                Task::Nothing => return Ok(()),
                Task::Store { file, stamp, committed } => {
                    let stored = self.store_staged(inode, &file, &stamp, committed, patience.as_ref()).await;
                    drop(file);
                    self.stored_staged(inode, matches!(stored, Ok(true)));
                    stored?;
                }
                // Many at once, so that one sync does.
                Task::Remove { durable: true } if !now => {
                    self.close_staged(inode);
                    self.staging.stored.lock().push(inode.ino);
                    return Ok(());
                }
                Task::Remove { durable } => {
                    let engine = &self.volume.engine;
                    let upto = engine.position();
                    if durable {
                        engine.durable(upto).await?;
                    }
                    let copy = self.copy_for_cache(inode).await;
                    return self.remove_staged(inode, upto, copy);
                }
            }
            asked = false;
        }
    }

    fn next_task(&self, inode: &Inode, asked: bool) -> Result<Task> {
        let mut state = inode.state.lock();
        if inode.unlinked.load(Ordering::Relaxed) {
            return Ok(Task::Nothing);
        }
        let task = self.task(inode, &mut state, asked)?;
        if let (Task::Store { stamp, .. }, Some(staged)) = (&task, &mut state.staged) {
            let racy = Time::now().before(TICK) <= stamp.mtime.max(stamp.ctime);
            staged.life.begin(*stamp, racy);
        }
        Ok(task)
    }

    pub(super) fn task(
        &self,
        inode: &Inode,
        state: &mut crate::inode::FileState,
        asked: bool,
    ) -> Result<Task> {
        let (Some(staged), Some(directory)) = (&mut state.staged, &self.staging.directory) else {
            return Ok(Task::Nothing);
        };
        let stamp = staged.look(directory).map_err(|error| local(&error))?;
        if staged.life.is_being_stored() || (staged.life.is_open() && staged.life.is_stored(&stamp)) {
            return Ok(Task::Nothing);
        }
        let file = staged.open(directory).map_err(|error| local(&error))?;
        let mapped = staged.is_mapped(&file);
        let task = match staged.life.next(&stamp, mapped, asked) {
            Next::Nothing => Task::Nothing,
            Next::Look => {
                self.staging.watch(inode.ino);
                Task::Nothing
            }
            Next::Store => Task::Store { file, stamp, committed: staged.committed },
            Next::Remove => Task::Remove { durable: staged.committed },
        };
        if matches!(task, Task::Nothing) {
            staged.close();
        }
        Ok(task)
    }

    /// Storing is over.
    fn stored_staged(&self, inode: &Inode, whole: bool) {
        if let Some(staged) = &mut inode.state.lock().staged {
            staged.life.end(whole);
            staged.stored_at = self.volume.engine.position();
            staged.close();
        }
        self.staging.changed.notify_waiters();
    }

    /// Stores a staged file that looks like `stamp`. False if it has changed meanwhile, or is gone.
    async fn store_staged(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        file: &Arc<File>,
        stamp: &Stamp,
        committed: bool,
        patience: Option<&Patience>,
    ) -> Result<bool> {
        let data = {
            let (file, size, allocated) = (Arc::clone(file), stamp.size, stamp.allocated);
            let find = move || if allocated >= size { Ok(vec![(0, size)]) } else { data_of(&file, size) };
            self.on_disk(size, find).await?
        };
        if let Some(staged) = &mut inode.state.lock().staged {
            staged.committed = true;
        }
        for (start, end) in &data {
            let mut at = *start;
            while at < *end {
                let len = STEP.min(end - at);
                let taken = self.take_in(inode, file, stamp, at, len);
                let taken = match patience {
                    Some(patience) => self.in_time(patience, taken).await??,
                    None => taken.await?,
                };
                if !taken {
                    return Ok(false);
                }
                at += len;
            }
        }
        self.send_staged(inode).await;
        let settled = self.staged_settled(inode);
        let settled = match patience {
            Some(patience) => self.in_time(patience, settled).await?,
            None => settled.await,
        };
        if !settled {
            return Ok(false);
        }
        self.commit_staged(inode, stamp, &data, committed)
    }

    /// Makes a piece of the local file written data. False if the file is not what it was.
    async fn take_in(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        file: &Arc<File>,
        stamp: &Stamp,
        at: u64,
        len: u64,
    ) -> Result<bool> {
        if let Some(rate) = self.staging.rate {
            let wait = self.staging.pacer.lock().wait(self.staging.clock.now(), len, rate);
            tokio::time::sleep(wait).await;
        }
        let place = loop {
            match self.backpressure.admit(inode.ino, len).await {
                Ok(place) => break place,
                Err(_) => tokio::time::sleep(CROWDED).await,
            }
        };
        let charge = self.admission.acquire(len).await;
        let bytes = {
            let file = Arc::clone(file);
            let read = move || {
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
                file.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
            };
            self.on_disk(len, read).await
        };
        let pending = {
            let mut state = inode.state.lock();
            let Some((same, mtime)) = self.same_as(&mut state, stamp) else { return Ok(false) };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // It was cut meanwhile.
                Err(_) if !same => return Ok(false),
                Err(error) => return Err(error),
            };
            if !same && state.staged.as_ref().is_none_or(|staged| !staged.life.is_open()) {
                return Ok(false);
            }
            self.accept(inode.ino, &mut state, at, &charge.attach(bytes), Some(place));
            state.mtime = mtime;
            state.dirty.pending_len()
        };
        self.staging.stored_bytes.fetch_add(len, Ordering::Relaxed);
        if pending >= self.plan.batch {
            self.start_full_uploads(inode);
        }
        Ok(true)
    }

    /// Works with so many bytes of a local file. What is small was written a moment ago and is in memory: it is not worth another thread.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = if bytes <= SMALL {
            work()
        } else {
            let done = self.runtime.spawn_blocking(work).await;
            done.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        done.map_err(|error| local(&error))
    }

    /// Whether a staged file looks like `stamp`, and the time of its last change; `None` if it is not staged any more.
    fn same_as(&self, state: &mut crate::inode::FileState, stamp: &Stamp) -> Option<(bool, Option<Time>)> {
        let (Some(staged), Some(directory)) = (&mut state.staged, &self.staging.directory) else {
            return None;
        };
        let now = staged.look(directory).ok()?;
        // Its times may have been set: then what is being stored is known by the new ones.
        let same = staged.life.is_storing(&now) || now.is_as(stamp);
        Some((same, staged.mtime()))
    }

    /// Sends what is pending on its way: small files into metadata, others together with others.
    async fn send_staged(self: &Arc<Self>, inode: &Arc<Inode>) {
        let open = {
            let state = inode.state.lock();
            state.staged.as_ref().is_some_and(|staged| staged.life.is_open())
        };
        if open {
            let _exclusive = inode.exclusive.lock().await;
            self.take_pending(inode);
        } else if let Err(error) = self.hand_over(inode).await {
            tracing::error!(ino = %inode.ino, %error, "cannot send a file on its way");
        }
    }

    /// Waits until everything is committed, however long it takes; false if the file is gone.
    async fn staged_settled(&self, inode: &Inode) -> bool {
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = inode.state.lock();
                if state.staged.is_none() || inode.unlinked.load(Ordering::Relaxed) {
                    return false;
                }
                if state.dirty.is_clean() {
                    return true;
                }
            }
            changed.await;
        }
    }

    /// What data alone does not say: length, holes where there was data before, times.
    fn commit_staged(
        &self,
        inode: &Inode,
        stamp: &Stamp,
        data: &[(u64, u64)],
        committed: bool,
    ) -> Result<bool> {
        let _in_order = inode.commit.lock();
        let mut state = inode.state.lock();
        let Some((_, mtime)) = self.same_as(&mut state, stamp) else { return Ok(false) };
        let before = match self.meta().getattr(inode.ino) {
            Ok(attr) => attr,
            Err(headrace_meta::MetaError::NotFound | headrace_meta::MetaError::Stale) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut corrected = false;
        if committed {
            let mut at = 0;
            for (start, end) in data.iter().copied().chain([(before.size, before.size)]) {
                if at < start {
                    self.meta().punch(inode.ino, at, start - at)?;
                    corrected = true;
                }
                at = end;
            }
            if before.size > stamp.size {
                self.meta().truncate(inode.ino, stamp.size, false)?;
                corrected = true;
            }
        }
        if before.size < stamp.size || mtime.is_some_and(|mtime| mtime != before.mtime) || corrected {
            let commit = DataCommit { new_size: Some(stamp.size), mtime, ..DataCommit::default() };
            self.meta().commit_write(inode.ino, &commit)?;
        }
        if corrected {
            let ctime = Some(mtime.map_or(before.ctime, |mtime| before.ctime.max(mtime)));
            self.meta().setattr(inode.ino, &SetAttr { ctime, ..SetAttr::default() })?;
            state.content.changed_from(0);
            self.cached_bytes_changed(inode.ino, 0..u64::MAX);
        }
        state.mtime = None;
        Ok(true)
    }

    /// Stores every staged file as it is now.
    ///
    /// # Errors
    /// The first one; the others are stored all the same.
    pub(crate) async fn store_all_staged(self: &Arc<Self>) -> Result<()> {
        if !self.staging.is_used() || self.options.read_only {
            return Ok(());
        }
        let mut staged = self.inodes.all();
        staged.retain(|inode| inode.state.lock().staged.is_some() && !inode.unlinked.load(Ordering::Relaxed));
        let mut tasks = JoinSet::new();
        let mut first = Ok(());
        for inode in staged {
            while tasks.len() >= super::run::AT_ONCE {
                first = first.and(self.one_stored(&mut tasks).await);
            }
            let vfs = Arc::clone(self);
            tasks.spawn(async move { vfs.store_now(&inode).await });
        }
        while !tasks.is_empty() {
            first = first.and(self.one_stored(&mut tasks).await);
        }
        // Those that were stored beside this are not left for later: whoever asked is told that none is left.
        first.and(self.remove_stored().await)
    }

    /// Makes every staged file durable on this machine's disk.
    ///
    /// # Errors
    /// The first one.
    pub(crate) async fn sync_all_staged(self: &Arc<Self>) -> Result<()> {
        for inode in self.inodes.all() {
            self.sync_staged(&inode).await?;
        }
        Ok(())
    }

    /// Waits for one of them, and has sent what is gathered meanwhile: at the end nobody else does that.
    async fn one_stored(self: &Arc<Self>, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
        loop {
            match tokio::time::timeout(GATHER, tasks.join_next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(done))) => return done,
                Ok(Some(Err(error))) => {
                    return Err(Error::Internal(format!("storing a local file failed: {error}")));
                }
                Err(_) => drop(self.send_behind(|_| true)),
            }
        }
    }

    /// Waits for who is storing the file, and stores it.
    async fn store_now(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        let patience = Patience::new("waiting for files to be written back");
        loop {
            let changed = self.staging.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let busy = inode.state.lock().staged.as_ref().is_some_and(|staged| staged.life.is_being_stored());
            if !busy {
                return self.see_to_staged(inode, true).await;
            }
            self.in_time(&patience, changed).await?;
        }
    }
}

/// Where a file has data, up to `size`: all of it where its file system does not say.
fn data_of(file: &File, size: u64) -> io::Result<Vec<(u64, u64)>> {
    let (mut data, mut at) = (Vec::new(), 0);
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            // A hole to the end.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(vec![(at, size)]),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).map_or(size, |end| end.min(size));
        if start < end {
            data.push((start, end));
        }
        at = end.max(start.saturating_add(1));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_stored() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 << 20).unwrap();
        assert_eq!(data_of(&file, 10 << 20).unwrap(), []);
        file.write_all_at(b"abc", 5 << 20).unwrap();
        let found = data_of(&file, 10 << 20).unwrap();
        assert!(found.iter().map(|(start, end)| end - start).sum::<u64>() <= 64 << 10, "{found:?}");
        assert!(found.iter().any(|&(start, end)| start <= 5 << 20 && (5 << 20) + 3 <= end));
        assert_eq!(data_of(&file, 1 << 20).unwrap(), []);
    }
}
