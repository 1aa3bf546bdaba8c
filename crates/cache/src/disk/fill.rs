//! Bytes on their way to a disk.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::Entry;
use super::lane::Reserved;
use super::presence::BLOCK;
use super::worker::Job;

/// So many bytes are written together, and where they begin. The kernel keeps long and aligned writes in large pages, which are read faster; but
/// larger ones than these are not, and often of memory that nobody had for long, which a virtual machine has to be given by its host first: with 1 MiB
/// a cold GiB took a quarter more processor time there (`docs/benchmarks/reads.md`).
const TOGETHER: u64 = 256 << 10;

/// Whole blocks that wait to be written.
pub(super) struct Fill {
    pub entry: Arc<Entry>,
    /// A multiple of [`BLOCK`].
    pub offset: u64,
    pub pieces: Vec<Bytes>,
    /// The chunks they are in, with what they were made from.
    pub prints: Vec<(u32, u64)>,
    /// Blocks, by their numbers in the entry, and the crc32c of each, as far as it is known. In order.
    pub sums: Vec<(u64, u32)>,
    pub _reserved: Option<Reserved>,
}

impl Fill {
    pub(super) fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Takes consecutive bytes of one fetch, as they come, and hands whole blocks of them on. Never waits: what the disk is behind with is
/// left out.
pub struct Filling {
    entry: Arc<Entry>,
    prints: Vec<(u32, u64)>,
    /// End of the content: the block that ends there is whole.
    end: Option<u64>,
    /// Offset of the first byte in `pieces`.
    start: u64,
    /// Offset behind the last one.
    at: u64,
    pieces: Vec<Bytes>,
    sums: Vec<(u64, u32)>,
    reserved: Option<Reserved>,
}

impl Filling {
    /// Takes bytes of `entry` from `offset` on. `prints`: what each chunk that will be touched is made from; `end`: where the content ends, if
    /// nothing behind `offset` is going to change it.
    pub fn new(entry: Arc<Entry>, offset: u64, prints: Vec<(u32, u64)>, end: Option<u64>) -> Filling {
        let (pieces, sums) = (Vec::new(), Vec::new());
        Filling { entry, prints, end, start: offset, at: offset, pieces, sums, reserved: None }
    }

    /// The [`BLOCK`] bytes from `offset` on, which are to be pushed after this, have this crc32c: it need not be made again. To be called in
    /// their order.
    pub fn knows(&mut self, offset: u64, crc32c: u32) {
        if offset.is_multiple_of(BLOCK) && offset >= self.at {
            self.sums.push((offset / BLOCK, crc32c));
        }
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &Bytes) {
        let len = bytes.len() as u64;
        self.at += len;
        if len == 0 || self.skips(bytes) {
            return;
        }
        match self.entry.lane().reserve(len) {
            Some(reserved) => {
                match &mut self.reserved {
                    Some(kept) => kept.join(reserved),
                    none => *none = Some(reserved),
                }
                self.pieces.push(bytes.clone());
            }
            None => {
                self.at -= len;
                self.send(self.at - self.at % BLOCK);
                self.at += len;
                (self.pieces, self.reserved, self.start) = (Vec::new(), None, self.at);
                return;
            }
        }
        let whole = self.at - self.at % TOGETHER;
        if whole > self.start {
            self.send(whole);
        }
    }

    /// Leaves out what is before the first whole block.
    fn skips(&mut self, bytes: &Bytes) -> bool {
        if !self.pieces.is_empty() || self.start.is_multiple_of(BLOCK) {
            return false;
        }
        let whole = self.start.next_multiple_of(BLOCK);
        let before = self.at - bytes.len() as u64;
        if self.at <= whole {
            self.start = self.at;
            return true;
        }
        let rest = bytes.slice((whole - before) as usize..);
        (self.start, self.at) = (whole, whole);
        self.push(&rest);
        true
    }

    /// Hands on what is before `to`.
    fn send(&mut self, to: u64) {
        if to <= self.start {
            return;
        }
        let mut wanted = to - self.start;
        let mut pieces = Vec::new();
        let mut rest = std::mem::take(&mut self.pieces).into_iter();
        for mut piece in rest.by_ref() {
            let len = piece.len() as u64;
            if len > wanted {
                pieces.push(piece.split_to(wanted as usize));
                self.pieces.push(piece);
                break;
            }
            wanted -= len;
            pieces.push(piece);
            if wanted == 0 {
                break;
            }
        }
        self.pieces.extend(rest);
        let reserved = self.reserved.as_mut().map(|reserved| reserved.split(to - self.start));
        let (entry, prints) = (Arc::clone(&self.entry), self.prints.clone());
        let of_these = self.sums.partition_point(|(block, _)| block * BLOCK < to);
        let sums = self.sums.drain(..of_these).collect();
        let fill = Fill { entry, offset: self.start, pieces, prints, sums, _reserved: reserved };
        self.entry.lane().send(Job::Fill(fill));
        self.start = to;
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let whole = if self.end == Some(self.at) { self.at } else { self.at - self.at % BLOCK };
        if self.start.is_multiple_of(BLOCK) {
            self.send(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::disk::{DirectoryOptions, DiskCache, DiskOptions, Floor, GROUP, Key, sum_of};

    const KEY: Key = Key::File(headrace_layout::InodeNo(7));

    fn opened(home: &tempfile::TempDir) -> DiskCache {
        DiskCache::open(&DiskOptions {
            directories: vec![DirectoryOptions { path: home.path().join("cache"), limit: None }],
            floor: Floor::Bytes(0),
            expire: None,
            queue: 1 << 20,
            index_memory: 1 << 20,
        })
    }

    /// Whatever is known of blocks, and wherever the pieces end: what is checked later is the same.
    #[test]
    fn a_checksum_that_is_known_is_not_made_again() {
        let home = tempfile::tempdir().unwrap();
        let cache = opened(&home);
        cache.set_queue(4 << 20);
        let bytes: Bytes = (0..(2 << 20) + 100).map(|at: u32| (at % 251) as u8).collect();
        let sum = |block: usize| crc_fast::crc32_iscsi(&bytes[block * BLOCK as usize..][..BLOCK as usize]);
        let keep = |number: u64, from: usize, knows: &dyn Fn(&mut Filling)| {
            let entry = cache.find_or_make(Key::File(headrace_layout::InodeNo(number))).unwrap();
            let mut filling =
                Filling::new(Arc::clone(&entry), from as u64, vec![(0, 1)], Some(bytes.len() as u64));
            knows(&mut filling);
            let mut at = from;
            while at < bytes.len() {
                let to = (at + 70_000).min(bytes.len());
                filling.push(&bytes.slice(at..to));
                at = to;
            }
            drop(filling);
            assert!(cache.settle(Duration::from_secs(10)));
            let sums: Vec<_> = (0..9).map(|group| entry.sum_of_group(group)).collect();
            sums
        };
        let right: Vec<_> = bytes.chunks(GROUP as usize).zip(0..).map(|(b, n)| Some(sum_of(n, b))).collect();
        let all = |filling: &mut Filling| (0..64).for_each(|n| filling.knows(n as u64 * BLOCK, sum(n)));
        let some = |filling: &mut Filling| {
            [3, 40, 63].iter().for_each(|n| filling.knows(*n as u64 * BLOCK, sum(*n)))
        };
        for (number, knows) in [&all as &dyn Fn(&mut Filling), &some, &|_| {}].into_iter().enumerate() {
            assert_eq!(keep(1 + number as u64, 0, knows), right);
        }
        // It is believed: what comes otherwise is found out when it is compared.
        let wrong = keep(10, 0, &|filling| filling.knows(BLOCK, !sum(1)));
        assert_ne!(wrong[0], right[0]);
        assert_eq!(wrong[1..], right[1..]);
        // Of blocks that are left out nothing is kept, and what is not at the beginning of a block is none.
        let later = keep(11, 100, &|filling| {
            filling.knows(0, 1);
            filling.knows(BLOCK + 1, 2);
            all(filling);
        });
        assert_eq!(later[1..], right[1..]);
    }

    fn is_kept(cache: &DiskCache, bytes: &Bytes) -> bool {
        let entry = cache.find_or_make(KEY).unwrap();
        let len = bytes.len() as u64;
        let mut filling = Filling::new(Arc::clone(&entry), 0, vec![(0, 1)], Some(len));
        filling.push(bytes);
        drop(filling);
        assert!(cache.settle(Duration::from_secs(10)));
        let found = entry.find(0..len, &|_| Some(1)).and_then(|hit| hit.read());
        found.is_some_and(|read| read == *bytes)
    }

    #[test]
    fn what_there_is_no_place_for_is_left_out_and_places_can_be_lent() {
        let home = tempfile::tempdir().unwrap();
        let cache = opened(&home);
        let bytes = Bytes::from(vec![7; 3 << 20]);
        assert!(!is_kept(&cache, &bytes), "three times as much as there are places");
        cache.set_queue(4 << 20);
        assert!(is_kept(&cache, &bytes));
        assert_eq!(cache.queued(), 0, "all is written");
    }
}
