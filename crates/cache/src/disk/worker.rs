//! The thread of a directory: it writes what comes, makes room, keeps the index up to date and sweeps.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::directory::{Directory, SHARDS, is_full};
use super::entry::{Entry, now};
use super::fill::Fill;
use super::index::Change;
use super::key::Key;
use super::victim::{Candidate, LOT, choose};

/// How far the index may be behind.
const BEHIND: Duration = Duration::from_secs(1);
/// Changes that are put into the index together, at most.
const CHANGES: usize = 1024;
/// So much is evicted beyond what is needed at once, bytes, or a sixteenth of what is held.
const AHEAD: u64 = 64 << 20;
/// The priority of the thread that syncs, as nice(2) has it: below that of all others.
const NICENESS: i32 = 15;
/// How often the disk is asked for its free space.
const LOOK: Duration = Duration::from_secs(1);
/// Entries that are remembered to be synced; others are when the kernel is to read them by itself.
const UNSYNCED: usize = 1 << 16;
/// Entries that wait for the thread that syncs.
const SYNCING: usize = 16;
/// How often what has expired is looked for.
const EXPIRY: Duration = Duration::from_secs(60);

/// Something for a directory's thread to do.
pub(super) enum Job {
    /// Write what came.
    Fill(Fill),
    /// An entry has come with all that is in it, in these chunks.
    Adopted(Arc<Entry>, Vec<u32>),
    /// The index is to know of a chunk as it is now.
    Dirty(Arc<Entry>, u32),
    /// A chunk is gone: free its space.
    Punch(Arc<Entry>, u32),
    /// An entry has ended.
    Gone(Arc<Entry>),
    /// Nothing of an entry is needed, open or not.
    Forget(Key),
    /// Answer when all that was asked for before is done and in the index.
    Settle(std::sync::mpsc::Sender<()>),
    /// End.
    Stop,
}

enum Op {
    Put(Arc<Entry>, u32),
    Remove(Key, u32),
    RemoveAll(Key),
}

/// What the thread keeps.
pub(super) struct Worker {
    directory: Arc<Directory>,
    expire: Option<Duration>,
    /// What the index does not know yet, in order.
    ops: Vec<Op>,
    put: HashSet<(Key, u32)>,
    /// What was written to and is to be synced when nothing more comes: with how often something was written to it.
    unsynced: HashMap<Key, u64>,
    syncing: SyncSender<Arc<Entry>>,
    /// Since when there is something in `ops`.
    since: Option<Instant>,
    /// Chunks that somebody still reads.
    later: Vec<(Arc<Entry>, u32)>,
    looked: Instant,
    /// Where the next lot of the index begins: of candidates for eviction, of what may have expired.
    next_victims: Vec<u8>,
    next_expired: Vec<u8>,
    expired_at: Instant,
    /// Folders that are swept; then it is done.
    swept: u32,
    /// The disk says it is full although it seems not to be: until then nothing is written.
    full_until: Option<Instant>,
}

impl Worker {
    pub(super) fn new(
        directory: Arc<Directory>,
        expire: Option<Duration>,
        syncing: SyncSender<Arc<Entry>>,
    ) -> Worker {
        let now = Instant::now();
        Worker {
            directory,
            expire,
            ops: Vec::new(),
            put: HashSet::new(),
            unsynced: HashMap::new(),
            syncing,
            since: None,
            later: Vec::new(),
            looked: now,
            next_victims: Vec::new(),
            next_expired: Vec::new(),
            expired_at: now,
            swept: 0,
            full_until: None,
        }
    }

    /// Until it is told to stop. What had been asked for before that is done.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let mut ticked = Instant::now();
        loop {
            let wait = BEHIND.saturating_sub(ticked.elapsed());
            match jobs.recv_timeout(wait) {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if ticked.elapsed() >= BEHIND {
                ticked = Instant::now();
                self.tick();
            }
        }
        self.punch_later();
        self.commit();
        self.directory.close();
    }

    fn work(&mut self, job: Job) {
        if self.directory.lane.is_failed() && !matches!(job, Job::Settle(_)) {
            return;
        }
        match job {
            Job::Fill(fill) => self.fill(&fill),
            Job::Adopted(entry, chunks) => {
                if self.unsynced.len() < UNSYNCED {
                    self.unsynced.entry(entry.key()).or_default();
                }
                chunks.into_iter().for_each(|chunk| self.dirty(Arc::clone(&entry), chunk));
            }
            Job::Dirty(entry, chunk) => self.dirty(entry, chunk),
            Job::Punch(entry, chunk) => self.punch(entry, chunk),
            Job::Gone(entry) => {
                self.directory.take_out(&entry);
                self.remove_all(entry.key());
            }
            Job::Forget(key) => match self.directory.loaded(key) {
                Some(entry) => entry.detach(),
                None => {
                    if let Err(error) = self.directory.remove_file(key) {
                        self.directory.lane.fail(format!("cannot remove a file: {error}"));
                    }
                    self.remove_all(key);
                }
            },
            Job::Settle(done) => {
                self.punch_later();
                self.commit();
                let _ = done.send(());
            }
            Job::Stop => {}
        }
        if self.ops.len() >= CHANGES {
            self.commit();
            self.directory.close_idle();
        }
    }

    fn note(&mut self, op: Op) {
        self.since.get_or_insert_with(Instant::now);
        self.ops.push(op);
    }

    fn dirty(&mut self, entry: Arc<Entry>, chunk: u32) {
        if self.put.insert((entry.key(), chunk)) {
            self.note(Op::Put(entry, chunk));
        }
    }

    fn remove_all(&mut self, key: Key) {
        self.put.retain(|(put, _)| *put != key);
        self.directory.disbelieve(key);
        self.note(Op::RemoveAll(key));
    }

    fn fill(&mut self, fill: &Fill) {
        let bytes = fill.len();
        let lane = Arc::clone(&self.directory.lane);
        let full = self.full_until.is_some_and(|until| Instant::now() < until);
        if full || !self.make_room(bytes) {
            lane.figures.skipped_bytes.add(bytes);
            return;
        }
        match fill.entry.store(fill) {
            Ok(changed) => {
                if !changed.is_empty() {
                    self.directory.taken(bytes);
                    if self.unsynced.len() < UNSYNCED {
                        self.unsynced.entry(fill.entry.key()).or_default();
                    }
                }
                changed.into_iter().for_each(|chunk| self.dirty(Arc::clone(&fill.entry), chunk));
            }
            Err(error) if is_full(&error) => {
                // A quota, or blocks that only root may use: no figure tells of it.
                tracing::info!(directory = %lane.path.display(), %error, "the cache's disk is full; some of it is given back");
                self.evict((self.directory.space().held / 16).max(AHEAD));
                self.full_until = Some(Instant::now() + LOOK);
            }
            Err(error) => lane.fail(format!("cannot write: {error}")),
        }
    }

    /// Whether there is room for so many bytes, after evicting what has to go for it.
    fn make_room(&mut self, bytes: u64) -> bool {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.directory.look_at_disk();
        }
        let space = self.directory.space();
        if !space.fits(bytes) {
            self.punch_later();
            let ahead = AHEAD.min(space.held / 16);
            self.evict(space.excess(bytes + ahead));
        }
        self.directory.space().fits(bytes)
    }

    /// Evicts at least `wanted` bytes, as far as there is something to evict.
    fn evict(&mut self, wanted: u64) {
        // New chunks are candidates too.
        self.commit();
        let mut freed = 0;
        let (mut rounds, mut fruitless) = (0, 0);
        while freed < wanted && rounds < 2 && fruitless < 64 {
            let from = std::mem::take(&mut self.next_victims);
            let began_at_start = from.is_empty();
            let lot = match self.directory.index.lot(&from, LOT) {
                Ok(lot) => lot,
                Err(error) => return self.directory.lane.fail(format!("its index cannot be read: {error}")),
            };
            let whole = began_at_start && lot.next.is_none();
            rounds += usize::from(lot.next.is_none());
            self.next_victims = lot.next.unwrap_or_default();
            let chunks: Vec<_> = lot.records.into_iter().filter(|(_, _, record)| !record.pinned).collect();
            let known: Vec<Candidate> = chunks.iter().map(|(_, _, record)| record.known).collect();
            let sums = *self.directory.sums.lock();
            let mut some = 0;
            for at in choose(&known, whole, wanted - freed, sums.bytes, sums.on_probation) {
                let (key, chunk, _) = &chunks[at];
                some += self.evict_chunk(*key, *chunk);
            }
            freed += some;
            fruitless = if some == 0 { fruitless + 1 } else { 0 };
        }
        self.commit();
    }

    fn evict_chunk(&mut self, key: Key, chunk: u32) -> u64 {
        let Some(entry) = self.directory.entry(key, false) else {
            self.remove_all(key);
            return 0;
        };
        let Some(bytes) = entry.evict(chunk, false) else { return 0 };
        self.directory.lane.figures.evicted_bytes.add(bytes);
        // The job that follows from it finds nothing left to do.
        self.punch(entry, chunk);
        bytes
    }

    fn punch(&mut self, entry: Arc<Entry>, chunk: u32) {
        match entry.punch(chunk) {
            Ok(true) => {
                self.put.remove(&(entry.key(), chunk));
                if entry.record(chunk).is_none() {
                    self.note(Op::Remove(entry.key(), chunk));
                }
                // The table's and this one.
                self.directory.take_out_empty(&entry, 1);
            }
            Ok(false) => self.later.push((entry, chunk)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.directory.lane.fail("its disk cannot make holes in files".to_owned());
            }
            Err(error) => self.directory.lane.fail(format!("cannot free space: {error}")),
        }
    }

    /// Punches what somebody was reading before and nobody does now.
    fn punch_later(&mut self) {
        if self.directory.lane.is_failed() {
            return;
        }
        for (entry, chunk) in std::mem::take(&mut self.later) {
            self.punch(entry, chunk);
        }
    }

    /// Puts everything into the index.
    fn commit(&mut self) {
        self.since = None;
        self.put.clear();
        let ops = std::mem::take(&mut self.ops);
        if ops.is_empty() || self.directory.lane.is_failed() {
            return;
        }
        let changes = ops.iter().map(|op| match op {
            Op::Put(entry, chunk) => match entry.record(*chunk) {
                Some(record) => Change::Put(entry.key(), *chunk, Box::new(record)),
                None => Change::Remove(entry.key(), *chunk),
            },
            Op::Remove(key, chunk) => Change::Remove(*key, *chunk),
            Op::RemoveAll(key) => Change::RemoveAll(*key),
        });
        let changes: Vec<Change> = changes.collect();
        match self.directory.index.apply(&changes) {
            Ok(sums) => {
                *self.directory.sums.lock() = sums;
                self.directory.believed();
            }
            Err(error) => self.directory.lane.fail(format!("its index cannot be written: {error}")),
        }
    }

    fn tick(&mut self) {
        if self.directory.lane.is_failed() {
            return self.directory.close();
        }
        self.punch_later();
        if self.since.is_some_and(|since| since.elapsed() >= BEHIND) {
            self.commit();
        }
        self.sync_what_rests();
        if self.ops.is_empty() {
            self.directory.close_idle();
        }
        // Others fill the disk too.
        self.looked = Instant::now();
        self.directory.look_at_disk();
        let excess = self.directory.space().excess(0);
        if excess > 0 {
            self.evict(excess);
        }
        if self.expired_at.elapsed() >= EXPIRY || !self.next_expired.is_empty() {
            self.expired_at = Instant::now();
            self.drop_expired();
        }
        if self.swept < SHARDS {
            if let Err(error) = self.directory.sweep(self.swept) {
                tracing::debug!(directory = %self.directory.lane.path.display(), %error, "not swept");
            }
            self.swept += 1;
        }
    }

    /// Hands on what nothing was written to since the last time.
    fn sync_what_rests(&mut self) {
        self.unsynced.retain(|key, before| {
            // Closed meanwhile: whoever opens it again does not rely on it.
            let Some(entry) = self.directory.loaded(*key) else { return false };
            let written = entry.written();
            if std::mem::replace(before, written) != written {
                return true;
            }
            matches!(self.syncing.try_send(entry), Err(TrySendError::Full(_)))
        });
    }

    fn drop_expired(&mut self) {
        let Some(expire) = self.expire else { return };
        let from = std::mem::take(&mut self.next_expired);
        let Ok(lot) = self.directory.index.lot(&from, LOT) else { return };
        self.next_expired = lot.next.unwrap_or_default();
        let oldest = now().saturating_sub(u32::try_from(expire.as_secs()).unwrap_or(u32::MAX));
        for (key, chunk, record) in lot.records {
            if record.known.used < oldest && !record.pinned {
                self.evict_chunk(key, chunk);
            }
        }
    }
}

/// Starts the thread of a directory.
pub(super) fn start(
    directory: Arc<Directory>,
    jobs: Receiver<Job>,
    expire: Option<Duration>,
) -> io::Result<std::thread::JoinHandle<()>> {
    // Beside it: a disk takes its time, and what comes meanwhile is not to be left out for that. It ends with the worker.
    let (syncing, unsynced) = sync_channel::<Arc<Entry>>(SYNCING);
    std::thread::Builder::new().name("cache-sync".to_owned()).spawn(move || {
        // Of this thread alone.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        unsynced.iter().for_each(|entry| entry.sync());
    })?;
    let worker = Worker::new(directory, expire, syncing);
    std::thread::Builder::new().name("cache".to_owned()).spawn(move || worker.run(&jobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DirectoryOptions, DiskCache, DiskOptions, Filling, Floor};

    /// The space of what is evicted while somebody reads it is given back when that ends, and not only at some later time.
    #[test]
    fn what_was_evicted_under_a_reader_takes_no_space_after_it_has_stopped() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cache");
        let open = || {
            DiskCache::open(&DiskOptions {
                directories: vec![DirectoryOptions { path: path.clone(), limit: None }],
                floor: Floor::Bytes(0),
                expire: None,
                queue: 4 << 20,
                index_memory: 1 << 20,
            })
        };
        let key = Key::File(headrace_layout::InodeNo(7));
        let bytes = bytes::Bytes::from(vec![7; 1 << 20]);
        let len = bytes.len() as u64;
        let settle = |cache: &DiskCache| assert!(cache.settle(Duration::from_secs(10)));
        let files = || {
            let shards = std::fs::read_dir(path.join("data")).unwrap().flatten();
            let files = shards.flat_map(|shard| std::fs::read_dir(shard.path()).unwrap().flatten());
            files.map(|file| file.path()).collect::<Vec<_>>()
        };
        for stops in [false, true] {
            let cache = open();
            let entry = cache.find_or_make(key).unwrap();
            let mut filling = Filling::new(Arc::clone(&entry), 0, vec![(0, 1)], Some(len));
            filling.push(&bytes);
            drop(filling);
            settle(&cache);
            let hit = entry.find(0..len, &|_| Some(1)).unwrap();
            assert_eq!(entry.cool(), len);
            settle(&cache);
            assert_eq!(files().len(), 1, "it is there for who reads it");
            assert!(std::fs::read(&files()[0]).unwrap() == bytes);
            drop((hit, entry));
            if stops {
                drop(cache);
            } else {
                settle(&cache);
            }
            assert!(files().is_empty(), "stopped: {stops}");
        }
    }
}
