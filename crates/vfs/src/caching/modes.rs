//! How a file is opened: the kernel's rules, as a decision without I/O.
//!
//! While one open of an inode is passed through to a local file, all others must name the same local file; and while one goes through the
//! kernel's page cache none may be passed through. An open keeps its mode until it is closed. (Linux, fs/fuse/iomode.c.)

/// How one open of a file is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Through the kernel's page cache.
    Cached,
    /// The kernel reads the local copy by itself.
    Passed,
    /// Every call comes here, while others are [`Mode::Passed`]: what is written goes into their copy as well. `maps`: it may also be
    /// written through a mapping, which is one of that copy.
    Beside { maps: bool },
    /// The file is in a local file by itself ([`crate::staging`]), as are all opens of it.
    Staged { writes: bool },
}

/// The opens of one inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Opens {
    cached: u32,
    /// Passed through, or beside such.
    passed: u32,
}

impl Opens {
    /// The mode of one more open. `reads`, `writes`: what it can do. `whole`: asked only if it matters: whether there is a local copy of
    /// all of the file as it is now that the kernel may read.
    pub(crate) fn choose(self, reads: bool, writes: bool, whole: impl FnOnce() -> bool) -> Mode {
        match self {
            Opens { passed: 1.., .. } if !writes => Mode::Passed,
            Opens { passed: 1.., .. } => Mode::Beside { maps: reads },
            Opens { cached: 0, .. } if !writes && whole() => Mode::Passed,
            _ => Mode::Cached,
        }
    }

    /// It is open.
    pub(crate) fn opened(&mut self, mode: Mode) {
        if let Some(count) = self.count(mode) {
            *count += 1;
        }
    }

    /// It is closed.
    pub(crate) fn closed(&mut self, mode: Mode) {
        if let Some(count) = self.count(mode) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether there are none.
    pub(crate) fn none(self) -> bool {
        self == Opens::default()
    }

    /// Whether the kernel reads a local copy.
    pub(crate) fn any_passed(self) -> bool {
        self.passed > 0
    }

    fn count(&mut self, mode: Mode) -> Option<&mut u32> {
        match mode {
            Mode::Cached => Some(&mut self.cached),
            Mode::Passed | Mode::Beside { .. } => Some(&mut self.passed),
            // Counted with the local file.
            Mode::Staged { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The kernel never refuses an open: page cache and local file are never open together.
        #[test]
        fn the_kernel_has_nothing_to_refuse(events in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<u8>()), 0..100)) {
            let (mut opens, mut open) = (Opens::default(), Vec::new());
            for (closes, reads, writes, whole, which) in events {
                if closes && !open.is_empty() {
                    opens.closed(open.swap_remove(usize::from(which) % open.len()));
                } else {
                    let mode = opens.choose(reads || !writes, writes, || whole);
                    opens.opened(mode);
                    open.push(mode);
                    prop_assert!(mode != Mode::Passed || !writes, "a writer is never passed through");
                }
                let cached = open.iter().filter(|mode| **mode == Mode::Cached).count();
                prop_assert!(cached == 0 || cached == open.len(), "{open:?}");
                prop_assert_eq!(opens.any_passed(), cached < open.len());
            }
        }
    }

    #[test]
    fn a_whole_file_that_nobody_has_open_is_passed_through() {
        assert_eq!(Opens::default().choose(true, false, || true), Mode::Passed);
        assert_eq!(Opens::default().choose(true, false, || false), Mode::Cached);
        assert_eq!(Opens::default().choose(true, true, || true), Mode::Cached);
    }
}
