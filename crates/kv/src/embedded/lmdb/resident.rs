//! How much of the mapped file counts as this process's memory. Pages that were read stay mapped, and a walk through a large
//! database would map all of it; now and then all are unmapped at once. They stay in the system's page cache, so that reading
//! them again costs a fault and no I/O.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What is read between two looks at the process's memory, bytes.
const LOOK_EVERY: u64 = 1 << 20;
/// What a record counts for beside its own length: the page it is on and part of those that the kernel maps around it.
const PAGE: u64 = 8 << 10;

#[derive(Debug)]
pub(super) struct Resident {
    /// Bytes read since the last look.
    read: AtomicU64,
    /// Bytes that may be mapped.
    limit: AtomicU64,
    /// What of this process's memory is backed by files after the pages were last unmapped, bytes: its program, mostly.
    rest: AtomicU64,
    /// The process's memory in pages; `None` where that cannot be known, and then there is nothing to do.
    statm: Option<File>,
    turn: Mutex<()>,
}

impl Resident {
    pub(super) fn new() -> Resident {
        let statm = File::open("/proc/self/statm").ok();
        let resident = Resident {
            read: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            rest: AtomicU64::new(0),
            statm,
            turn: Mutex::new(()),
        };
        resident.rest.store(resident.backed_by_files().unwrap_or(0), Ordering::Relaxed);
        resident
    }

    pub(super) fn limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// A record of `bytes` is being read from the mapping of `len` bytes at `start`, which stays for the time of the call.
    #[inline]
    pub(super) fn read(&self, start: usize, len: usize, bytes: usize) {
        let more = bytes as u64 + PAGE;
        if self.read.fetch_add(more, Ordering::Relaxed) + more >= LOOK_EVERY {
            self.read.store(0, Ordering::Relaxed);
            self.look(start, len);
        }
    }

    #[cold]
    fn look(&self, start: usize, len: usize) {
        let Some(_turn) = self.turn.try_lock() else { return };
        let Some(now) = self.backed_by_files() else { return };
        if now.saturating_sub(self.rest.load(Ordering::Relaxed)) <= self.limit.load(Ordering::Relaxed) {
            return;
        }
        unmap(start, len);
        self.rest.store(self.backed_by_files().unwrap_or(now), Ordering::Relaxed);
    }

    /// Bytes of this process's memory that are pages of files.
    fn backed_by_files(&self) -> Option<u64> {
        let mut line = [0; 128];
        let len = self.statm.as_ref()?.read_at(&mut line, 0).ok()?;
        let pages = std::str::from_utf8(line.get(..len)?).ok()?.split(' ').nth(2)?;
        Some(pages.parse::<u64>().ok()?.saturating_mul(rustix::param::page_size() as u64))
    }
}

fn unmap(start: usize, len: usize) {
    let page = rustix::param::page_size();
    // LMDB's mapping begins with a page and ends with one.
    let start = start - start % page;
    // SAFETY: the range is LMDB's mapping of its file, shared and read-only, which stays while the environment is open, as it
    // is during a read. Its pages are clean ones of the file: those that are touched again are mapped again.
    #[allow(unsafe_code)]
    let done = unsafe {
        rustix::mm::madvise(start as *mut std::ffi::c_void, len, rustix::mm::Advice::LinuxDontNeed)
    };
    if let Err(error) = done {
        tracing::debug!(%error, "cannot unmap pages of the metadata's data file");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn pages_are_unmapped_when_there_are_too_many_and_can_be_read_again() {
        const LEN: usize = 8 << 20;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; LEN]).unwrap();
        let map = |protection| {
            let flags = rustix::mm::MapFlags::SHARED;
            // SAFETY: a fresh mapping, at an address that the system chooses.
            #[allow(unsafe_code)]
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), LEN, protection, flags, &file, 0) }.unwrap()
        };
        let start = map(rustix::mm::ProtFlags::READ);
        // SAFETY: mapped above, of this length, and never unmapped.
        #[allow(unsafe_code)]
        let bytes: &[u8] = unsafe { std::slice::from_raw_parts(start.cast(), LEN) };
        let resident = Resident::new();
        resident.limit(1 << 20);
        let touch = || bytes.iter().step_by(4096).map(|b| u64::from(*b)).sum::<u64>();
        assert_eq!(touch(), 7 * LEN as u64 / 4096);
        let before = resident.backed_by_files().unwrap();
        (0..=LOOK_EVERY / PAGE).for_each(|_| resident.read(start as usize, LEN, 1));
        let after = resident.backed_by_files().unwrap();
        assert!(after + (4 << 20) < before, "{before} bytes before, {after} after");
        assert_eq!(touch(), 7 * LEN as u64 / 4096);
    }
}
