//! How far the kernel reads ahead by itself. INIT cannot raise that above 128 KiB; sysfs can.
//!
//! A file gets the mount's figure when it is opened, right after the answer to OPEN, and keeps it. So each can have its own. What is read
//! ahead comes in the order the kernel asked, whoever waits for what: with all that 32 readers may have under way, each waits for all of
//! the others' before he gets the next byte. One or two have use for much, which shows at once how much is wanted of a store that is far
//! away; beyond that what serves the mount fetches ahead, and in the order of its readers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// Readahead of each of one or two files, KiB. With 1 MiB requests 64 of which may be in flight, this was the fastest at 20 ms per request.
const MOST_KIB: u32 = 16 << 10;
/// Of each of many: two of the largest requests, one to be answered while the other is read.
const LEAST_KIB: u32 = 2 << 10;
/// Of all files together as long as each has more than the least.
const ALL_KIB: u32 = 32 << 10;

/// The readahead of a mount, by how many of its files are open.
#[derive(Debug, Default)]
pub(crate) struct Readahead {
    /// Where the kernel is told; nothing if it cannot be.
    setting: OnceLock<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    open: u32,
    /// What the kernel was told last, KiB.
    told: u32,
}

impl Readahead {
    /// The mount has device number `dev` from now on.
    ///
    /// Failure only costs speed: reading with 128 KiB in flight is slow from a store that is milliseconds away.
    pub fn begin(&self, dev: u64) {
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        match OpenOptions::new().write(true).open(&path) {
            Ok(file) => drop(self.setting.set(file)),
            Err(error) => {
                tracing::warn!(
                    "cannot set readahead in {path}: {error}; large sequential reads will be slower"
                );
            }
        }
        self.tell(&mut self.state.lock());
    }

    /// A file is about to be opened: to be called before the kernel has its answer.
    pub fn opened(&self) {
        let mut state = self.state.lock();
        state.open = state.open.saturating_add(1);
        self.tell(&mut state);
    }

    /// One is open no longer.
    pub fn closed(&self) {
        let mut state = self.state.lock();
        state.open = state.open.saturating_sub(1);
        self.tell(&mut state);
    }

    fn tell(&self, state: &mut State) {
        let kib = next(state.told, state.open);
        if kib == state.told {
            return;
        }
        // Files may be opened before the mount's number is known.
        let Some(setting) = self.setting.get() else { return };
        state.told = kib;
        if let Err(error) = setting.write_all_at(kib.to_string().as_bytes(), 0) {
            tracing::debug!(kib, %error, "readahead stays as it is");
        }
    }
}

/// The readahead of the file that is opened next, KiB, while so many are open, it among them; it was `told` so far.
///
/// It grows again only when there are half as many as it would do for: programs that open and close small files all the time do not make
/// it go back and forth.
fn next(told: u32, open: u32) -> u32 {
    let share = |open: u32| {
        let each = (ALL_KIB / open.max(1)).clamp(LEAST_KIB, MOST_KIB);
        1 << each.ilog2()
    };
    share(open).min(share(open.saturating_mul(2)).max(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_have_little_each_and_few_have_much() {
        let of = |open| next(0, open);
        assert_eq!(next(MOST_KIB, 2), MOST_KIB);
        assert_eq!(
            [4, 8, 16, 1000, u32::MAX].map(|open| next(MOST_KIB, open)),
            [8192, 4096, 2048, 2048, 2048]
        );
        for open in 0..200 {
            assert!((LEAST_KIB..=MOST_KIB).contains(&of(open)) && of(open).is_power_of_two());
            assert!(of(open) == LEAST_KIB || of(open) * open <= ALL_KIB);
        }
    }

    #[test]
    fn it_does_not_go_back_and_forth_with_every_file() {
        let mut told = next(0, 0);
        assert_eq!(told, MOST_KIB);
        let mut changes = 0;
        for open in [1, 2, 3, 2, 3, 2, 3, 4, 3, 4, 2, 3] {
            changes += u32::from(next(told, open) != told);
            told = next(told, open);
        }
        assert_eq!((told, changes), (8192, 1));
        // With one left it is as it was.
        assert_eq!(next(told, 1), MOST_KIB);
    }
}
