//! Which content of a file has been read: bytes that were fetched are good for as long as its number stays.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of contents; never used again within a process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The committed bytes of a file between two changes of such as somebody may have fetched.
#[derive(Debug)]
pub(crate) struct Content {
    number: u64,
    /// Bytes up to here may have been fetched.
    read_to: u64,
}

/// A number that no content has had.
pub(crate) fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for Content {
    fn default() -> Self {
        Content { number: fresh(), read_to: 0 }
    }
}

impl Content {
    /// Its number, for a reader to whom so many bytes of it are of interest.
    pub(crate) fn read_to(&mut self, end: u64) -> u64 {
        self.read_to = self.read_to.max(end);
        self.number
    }

    /// Committed bytes from `start` on have changed, or may have.
    pub(crate) fn changed_from(&mut self, start: u64) {
        if start < self.read_to {
            *self = Content::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_behind_all_that_was_read_changes_nothing() {
        let mut content = Content::default();
        let number = content.read_to(100);
        content.changed_from(100);
        assert_eq!(content.read_to(200), number);
        content.changed_from(199);
        assert_ne!(content.read_to(0), number);
    }
}
