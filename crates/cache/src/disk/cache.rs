//! All directories together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use headrace_metrics::{Collection, Unit};
use parking_lot::Mutex;

use super::directory::Directory;
use super::entry::Entry;
use super::key::Key;
use super::lane::Lane;
use super::room::Floor;
use super::worker::{self, Job};

/// How long a stopping cache waits for a disk.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// One directory.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectoryOptions {
    /// Where; nothing else is in it. It is made if it is not there.
    pub path: PathBuf,
    /// Bytes it may hold.
    pub limit: Option<u64>,
}

/// What a cache is like.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskOptions {
    /// Where it is.
    pub directories: Vec<DirectoryOptions>,
    /// Space that is left free on each disk.
    pub floor: Floor,
    /// What nobody has used for so long is dropped.
    pub expire: Option<Duration>,
    /// Memory for bytes that wait to be written, bytes, all directories together.
    pub queue: u64,
    /// Memory for indexes, bytes, all directories together.
    pub index_memory: u64,
}

/// A directory at one moment. Sizes in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryStatus {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is not used; `None` while it is.
    pub failed: Option<String>,
    /// Cached.
    pub held: u64,
    /// What of that is not evicted.
    pub pinned: u64,
    /// At most.
    pub limit: Option<u64>,
    /// Free on the disk.
    pub free: u64,
    /// Of that to be left free.
    pub floor: u64,
    /// Entries.
    pub entries: u64,
}

struct Place {
    /// The order of directories for a key depends on this and not on their number: one more takes its share of all.
    seed: u64,
    lane: Arc<Lane>,
    directory: Arc<Directory>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A cache in one directory or several.
pub struct DiskCache {
    places: Vec<Place>,
    /// Those that could not be used at all.
    unusable: Vec<(PathBuf, Option<u64>, String)>,
}

impl DiskCache {
    /// Opens it. What cannot be used is logged, shown in the status and done without.
    pub fn open(options: &DiskOptions) -> DiskCache {
        let count = options.directories.len().max(1) as u64;
        let memory = usize::try_from(options.index_memory / count).unwrap_or(usize::MAX);
        let mut cache = DiskCache { places: Vec::new(), unusable: Vec::new() };
        for DirectoryOptions { path, limit } in &options.directories {
            let opened = Directory::open(path, *limit, options.floor, memory, options.queue / count);
            let started = opened.map_err(|error| error.to_string()).and_then(|(directory, jobs)| {
                let thread = worker::start(Arc::clone(&directory), jobs, options.expire);
                Ok((directory, thread.map_err(|error| format!("cannot start a thread: {error}"))?))
            });
            match started {
                Ok((directory, thread)) => cache.places.push(Place {
                    seed: twox_hash::XxHash3_64::oneshot(path.as_os_str().as_encoded_bytes()),
                    lane: Arc::clone(&directory.lane),
                    directory,
                    thread: Mutex::new(Some(thread)),
                }),
                Err(why) => {
                    tracing::warn!(directory = %path.display(), why, "the cache does without this directory");
                    cache.unusable.push((path.clone(), *limit, why));
                }
            }
        }
        cache
    }

    fn home(&self, key: Key) -> Option<&Place> {
        // Rendezvous hashing (Thaler and Ravishankar, 1998).
        self.places.iter().filter(|place| !place.lane.is_failed()).max_by_key(|place| key.hash(place.seed))
    }

    /// The directory for `key`; `None` if there is none.
    pub(super) fn place(&self, key: Key) -> Option<&Directory> {
        self.home(key).map(|place| &*place.directory)
    }

    /// What is cached of `key`, if anything. Asks the index if the entry is not open.
    pub fn find(&self, key: Key) -> Option<Arc<Entry>> {
        self.place(key)?.entry(key, false)
    }

    /// What is cached of `key`, or a new entry. `None`: there is no directory for it.
    pub fn find_or_make(&self, key: Key) -> Option<Arc<Entry>> {
        self.place(key)?.entry(key, true)
    }

    /// Bytes of `range` of `key` have changed, or may have.
    pub fn changed(&self, key: Key, range: std::ops::Range<u64>) {
        // Wherever it is: a directory may have been done without when it was put there.
        for entry in self.places.iter().filter_map(|place| place.directory.loaded(key)) {
            entry.changed(range.clone());
        }
    }

    /// Bytes were moved in the store and are what they were: `prints` says from which extents chunks are made now.
    pub fn moved(&self, prints: &dyn Fn(Key, u32) -> Option<u64>) {
        for entry in self.places.iter().flat_map(|place| place.directory.all_loaded()) {
            entry.moved(&|chunk| prints(entry.key(), chunk));
        }
    }

    /// Nothing of `key` is needed any more.
    pub fn forget(&self, key: Key) {
        if let Some(place) = self.place(key) {
            place.lane.send(Job::Forget(key));
        }
    }

    /// Whether what is fetched now is likely to be kept: no disk is far behind.
    pub fn has_room(&self) -> bool {
        self.places.iter().all(|place| place.lane.is_failed() || place.lane.has_room())
    }

    /// So many bytes of `key` are taken at the moment; `None` if not all of it could be kept, which has `size`, and half of its directory
    /// still were for others.
    pub fn takes(&self, key: Key, size: u64) -> Option<u64> {
        let directory = self.place(key).filter(|it| it.space().most() >= size.saturating_mul(2))?;
        Some(directory.lane.room())
    }

    /// So many bytes may wait to be written from now on, all directories together; `DiskOptions::queue` until then.
    pub fn set_queue(&self, bytes: u64) {
        let each = bytes / self.places.len().max(1) as u64;
        self.places.iter().for_each(|place| place.lane.set_queue(each));
    }

    /// Bytes that wait to be written.
    pub fn queued(&self) -> u64 {
        self.places.iter().map(|place| place.lane.queued()).sum()
    }

    /// Whether nothing waits to be written to any disk.
    pub fn is_idle(&self) -> bool {
        self.places.iter().all(|place| place.lane.is_failed() || place.lane.is_idle())
    }

    /// Blocks until what was handed over before is written and in the indexes; false if a disk takes longer than `at_most`.
    pub fn settle(&self, at_most: Duration) -> bool {
        let waiting = self.places.iter().filter(|place| !place.lane.is_failed()).map(|place| {
            let (done, answered) = mpsc::channel();
            place.lane.send(Job::Settle(done));
            answered
        });
        let waiting: Vec<_> = waiting.collect();
        waiting.iter().all(|answered| answered.recv_timeout(at_most).is_ok())
    }

    /// Ends its threads, when they have done what they were asked for.
    pub fn stop(&self) {
        for place in &self.places {
            place.lane.send(Job::Stop);
        }
        let began = std::time::Instant::now();
        for place in &self.places {
            let Some(thread) = place.thread.lock().take() else { continue };
            // A thread in a disk that hangs ends with the process.
            while !thread.is_finished() && began.elapsed() < STOP_WITHIN {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }

    /// Its directories at this moment.
    pub fn status(&self) -> Vec<DirectoryStatus> {
        let used = self.places.iter().map(|place| {
            let (space, sums) = (place.directory.space(), *place.directory.sums.lock());
            DirectoryStatus {
                path: place.lane.path.clone(),
                failed: place.lane.failure(),
                held: space.held,
                pinned: sums.pinned,
                limit: space.limit,
                free: space.free,
                floor: space.floor,
                entries: sums.entries,
            }
        });
        let unusable = self.unusable.iter().map(|(path, limit, why)| DirectoryStatus {
            path: path.clone(),
            failed: Some(why.clone()),
            held: 0,
            pinned: 0,
            limit: *limit,
            free: 0,
            floor: 0,
            entries: 0,
        });
        used.chain(unusable).collect()
    }

    /// Adds what it holds and what it was good for.
    pub fn collect(&self, into: &mut Collection) {
        for place in &self.places {
            let path = place.lane.path.display().to_string();
            let label = [("directory", path.as_str())];
            let (figures, space) = (&place.lane.figures, place.directory.space());
            for (name, help, counter) in [
                (
                    "hit",
                    "Bytes answered from this directory by the daemon; what the kernel reads by itself is not counted",
                    &figures.hit_bytes,
                ),
                ("filled", "Bytes that came to be cached", &figures.filled_bytes),
                (
                    "skipped",
                    "Bytes that were not cached because the disk was behind or full",
                    &figures.skipped_bytes,
                ),
                ("evicted", "Bytes that made room, or were not used for too long", &figures.evicted_bytes),
            ] {
                let name = format!("headrace_disk_cache_{name}_bytes_total");
                into.counters(&name, help, Unit::Bytes).counter(&label, counter.get());
            }
            let help = "Pieces of 256 KiB that were not what had been written, and were fetched again";
            into.counters("headrace_disk_cache_damaged_total", help, Unit::None)
                .counter(&label, figures.damaged.get());
            let help = "Bytes cached";
            into.gauges("headrace_disk_cache_bytes", help, Unit::Bytes).gauge(&label, space.held as f64);
            let help = "Bytes free on the disk";
            into.gauges("headrace_disk_cache_disk_free_bytes", help, Unit::Bytes)
                .gauge(&label, space.free as f64);
            let help = "1 while the directory is not used because something failed";
            let failed = f64::from(u8::from(place.lane.is_failed()));
            into.gauges("headrace_disk_cache_failed", help, Unit::None).gauge(&label, failed);
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.stop();
    }
}
