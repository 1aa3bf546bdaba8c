//! How much of the mapped data file can be touched. A damaged length or page number can make LMDB hand out bytes that lie
//! past the end of the file, where reading is a fatal signal: every slice is checked against this before it is read.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct Mapping {
    file: Arc<File>,
    /// Address of the file's first byte.
    start: usize,
    /// Bytes of the file. It never shrinks.
    len: AtomicUsize,
    /// Bytes of address space.
    reserved: usize,
}

impl Mapping {
    pub(super) fn new(file: Arc<File>, start: usize, reserved: usize) -> Mapping {
        let mapping = Mapping { file, start, len: AtomicUsize::new(0), reserved };
        mapping.look();
        mapping
    }

    /// Looks how long the file is now.
    pub(super) fn look(&self) {
        if let Ok(metadata) = self.file.metadata() {
            let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX).min(self.reserved);
            self.len.fetch_max(len, Ordering::AcqRel);
        }
    }

    /// Address and length of the part that can be touched.
    #[inline]
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.start, self.len.load(Ordering::Relaxed))
    }

    /// Whether all of `bytes` is in the file. Looks at where they are only.
    #[inline]
    pub(super) fn covers(&self, bytes: &[u8]) -> bool {
        self.in_known(bytes) || self.in_grown(bytes)
    }

    #[inline]
    fn in_known(&self, bytes: &[u8]) -> bool {
        let offset = (bytes.as_ptr() as usize).wrapping_sub(self.start);
        let len = self.len.load(Ordering::Relaxed);
        offset <= len && bytes.len() <= len - offset
    }

    /// A reader can meet what a commit has appended before the committer has told of it.
    #[cold]
    fn in_grown(&self, bytes: &[u8]) -> bool {
        self.look();
        self.in_known(bytes)
    }

    /// Whether `bytes` may be read within a write transaction, where changed pages are in memory of LMDB's own. Nothing on
    /// those is longer than a page.
    pub(super) fn covers_in_write(&self, bytes: &[u8], page: usize) -> bool {
        let offset = (bytes.as_ptr() as usize).wrapping_sub(self.start);
        if offset < self.reserved { self.covers(bytes) } else { bytes.len() < page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_past_the_end_are_told() {
        let mapped = [0u8; 100];
        let file = Arc::new(tempfile::tempfile().expect("tempfile"));
        file.set_len(60).expect("set_len");
        let mapping = Mapping::new(file.clone(), mapped.as_ptr() as usize, 100);
        assert!(mapping.covers(&mapped[..60]) && mapping.covers(&mapped[60..60]));
        assert!(
            !mapping.covers(&mapped[..61])
                && !mapping.covers(&mapped[59..61])
                && !mapping.covers(&mapped[80..])
        );
        let elsewhere = vec![0u8; 100];
        assert!(!mapping.covers(&elsewhere));
        assert!(mapping.covers_in_write(&elsewhere, 4096) && !mapping.covers_in_write(&elsewhere, 100));
        // Nobody has to tell of growth first.
        file.set_len(1000).expect("set_len");
        assert!(mapping.covers(&mapped));
    }
}
