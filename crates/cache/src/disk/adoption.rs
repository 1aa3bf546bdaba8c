//! A local file that becomes an entry as it is: nothing is copied.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Prints;
use super::cache::DiskCache;
use super::directory::Directory;
use super::entry::{Entry, chunks_of, read_up_to};
use super::key::Key;
use super::presence::{BLOCK, BLOCKS, Presence, checksum};
use super::worker::Job;

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// A file whose content is to be cached, with the checksums of all of it.
pub struct Adoption {
    file: Arc<File>,
    size: u64,
    chunks: Vec<(u32, Presence)>,
}

impl Adoption {
    /// Reads the first `size` bytes of a file that is open for reading and writing and has no more. Blocks.
    ///
    /// # Errors
    /// It cannot be read, or is shorter.
    pub fn of(file: Arc<File>, size: u64) -> io::Result<Adoption> {
        let mut chunks: Vec<(u32, Presence)> =
            chunks_of(&(0..size)).map(|number| (number, Presence::default())).collect();
        let mut buffer = vec![0; STEP];
        let (mut at, mut number) = (0, 0);
        while at < size {
            let wanted = usize::try_from(size - at).map_or(STEP, |left| left.min(STEP));
            let Some(part) = buffer.get_mut(..wanted) else { break };
            if read_up_to(&file, part, at)? < wanted {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than it was"));
            }
            for block in part.chunks(BLOCK as usize) {
                let place = number % BLOCKS;
                if let Some((_, presence)) = chunks.get_mut((number / BLOCKS) as usize) {
                    presence.insert(place, checksum(place, &[block]));
                }
                number += 1;
            }
            at += wanted as u64;
        }
        Ok(Adoption { file, size, chunks })
    }

    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|(_, presence)| presence.bytes()).sum()
    }
}

impl DiskCache {
    /// Whether a file of `size` bytes could stay if it were adopted.
    pub fn could_adopt(&self, key: Key, size: u64) -> bool {
        size > 0
            && self.place(key).is_some_and(|directory| {
                // Not for one file most of what others have read.
                let space = directory.space();
                space.limit.is_none_or(|limit| size <= limit / 2) && space.fits(0)
            })
    }

    /// Moves the file at `from` into the cache as all there is of `key`. To be called while nothing can change the content of `key`, and
    /// nobody else has the file open. False if it stays where it is: there is no room, or the cache is on another disk.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn adopt(&self, key: Key, from: &Path, adoption: Adoption, prints: Prints<'_>) -> io::Result<bool> {
        let Some(directory) = self.place(key) else { return Ok(false) };
        let made_from =
            adoption.chunks.iter().map(|(number, _)| prints(*number)).collect::<Option<Vec<u64>>>();
        let Some(made_from) = made_from else { return Ok(false) };
        if let Some(old) = directory.entry(key, false) {
            old.detach();
        }
        directory.adopt(key, from, adoption, &made_from)
    }
}

impl Directory {
    fn adopt(&self, key: Key, from: &Path, adoption: Adoption, prints: &[u64]) -> io::Result<bool> {
        let to = self.file_path(key);
        let Some(mut entries) = self.room_for_entry() else { return Ok(false) };
        match moved(from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => return Ok(false),
            Err(error) => return Err(error),
        }
        let bytes = adoption.bytes();
        let numbers: Vec<u32> = adoption.chunks.iter().map(|(number, _)| *number).collect();
        let Adoption { file, size, chunks } = adoption;
        let chunks =
            chunks.into_iter().zip(prints).map(|((number, presence), print)| (number, *print, presence));
        let entry = Arc::new(Entry::adopted(key, Arc::clone(&self.lane), file, to, size, chunks));
        entries.insert(key, Arc::clone(&entry));
        drop(entries);
        self.lane.held.fetch_add(bytes, Ordering::Relaxed);
        self.lane.figures.filled_bytes.add(bytes);
        self.lane.send(Job::Adopted(entry, numbers));
        Ok(true)
    }
}

fn moved(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = to.parent().unwrap_or(to);
            match DirBuilder::new().mode(0o700).create(parent) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => fs::rename(from, to),
            }
        }
        moved => moved,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::disk::{DirectoryOptions, DiskOptions, Floor, GROUP, Readiness, sum_of};

    const KEY: Key = Key::File(headrace_layout::InodeNo(7));
    const PRINTS: Prints<'static> = &|chunk| Some(u64::from(chunk) + 100);

    fn open(path: PathBuf, limit: Option<u64>) -> DiskCache {
        DiskCache::open(&DiskOptions {
            directories: vec![DirectoryOptions { path, limit }],
            floor: Floor::Bytes(0),
            expire: None,
            queue: 8 << 20,
            index_memory: 1 << 20,
        })
    }

    fn file(at: &Path, content: &[u8]) -> Arc<File> {
        fs::write(at, content).unwrap();
        Arc::new(File::options().read(true).write(true).open(at).unwrap())
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 + at / 1000) as u8).collect()
    }

    fn read(cache: &DiskCache, len: u64) -> Option<Vec<u8>> {
        Some(cache.find(KEY)?.find(0..len, PRINTS)?.read()?.to_vec())
    }

    #[test]
    fn what_is_adopted_is_read_is_ready_for_the_kernel_and_lasts() {
        let home = tempfile::tempdir().unwrap();
        for len in [1, 40_000, (1 << 20) + 5, (64 << 20) + 100_000] {
            let (path, bytes) = (home.path().join("staged"), content(len));
            let cache = open(home.path().join(format!("cache{len}")), None);
            let adoption = Adoption::of(file(&path, &bytes), len as u64).unwrap();
            assert!(cache.could_adopt(KEY, len as u64));
            assert!(cache.adopt(KEY, &path, adoption, PRINTS).unwrap());
            assert!(!path.exists(), "it was moved");
            assert!(read(&cache, len as u64).unwrap() == bytes);
            let entry = cache.find(KEY).unwrap();
            let first = &bytes[..len.min(GROUP as usize)];
            assert_eq!(entry.sum_of_group(0), Some(sum_of(0, first)));
            entry.sync();
            assert!(matches!(entry.pass(len as u64, PRINTS), Readiness::Ready(_)));
            drop(entry);
            assert!(cache.settle(std::time::Duration::from_secs(10)));
            assert!(cache.status()[0].held >= len as u64);
            drop(cache);
            let again = open(home.path().join(format!("cache{len}")), None);
            assert!(read(&again, len as u64).unwrap() == bytes, "after a restart");
        }
    }

    #[test]
    fn it_takes_the_place_of_what_was_there_before() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(home.path().join("cache"), None);
        for round in 0..5 {
            let path = home.path().join("staged");
            let bytes = content(300_000 + round * 7);
            let adoption = Adoption::of(file(&path, &bytes), bytes.len() as u64).unwrap();
            assert!(cache.adopt(KEY, &path, adoption, PRINTS).unwrap());
            assert!(read(&cache, bytes.len() as u64).unwrap() == bytes, "round {round}");
        }
        assert!(cache.settle(std::time::Duration::from_secs(10)));
        assert!(read(&cache, 300_028).unwrap() == content(300_028), "when all is done that was to be done");
    }

    #[test]
    fn what_was_made_from_something_else_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let (path, cache) = (home.path().join("staged"), open(home.path().join("cache"), None));
        let adoption = Adoption::of(file(&path, &content(100_000)), 100_000).unwrap();
        assert!(cache.adopt(KEY, &path, adoption, PRINTS).unwrap());
        cache.changed(KEY, 0..1);
        assert!(cache.find(KEY).unwrap().find(0..100_000, &|_| Some(1)).is_none());
    }

    #[test]
    fn it_stays_where_it_is_when_it_cannot_be_taken() {
        let home = tempfile::tempdir().unwrap();
        let (path, cache) = (home.path().join("staged"), open(home.path().join("cache"), Some(1 << 20)));
        assert!(!cache.could_adopt(KEY, 900 << 10), "most of the cache for one file");
        let adoption = Adoption::of(file(&path, &content(100_000)), 100_000).unwrap();
        assert!(!cache.adopt(KEY, &path, adoption, &|_| None).unwrap());
        assert!(path.exists());
        assert!(Adoption::of(file(&path, &content(100)), 101).is_err(), "it is shorter");
    }
}
