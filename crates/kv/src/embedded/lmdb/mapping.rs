//! How much of the mapped data file can be touched. A damaged length or page number can make LMDB hand out bytes that lie
//! past the end of the file, where reading is a fatal signal: every slice is checked against this before it is read.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct Mapping {
    /// Address of the file's first byte.
    start: usize,
    /// Bytes of the file. It never shrinks.
    len: AtomicUsize,
    /// Bytes of address space.
    reserved: usize,
}

impl Mapping {
    pub(super) fn new(start: usize, reserved: usize) -> Mapping {
        Mapping { start, len: AtomicUsize::new(0), reserved }
    }

    /// The file is at least this long now.
    pub(super) fn grown_to(&self, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.reserved);
        self.len.fetch_max(len, Ordering::AcqRel);
    }

    /// Address and length of the part that can be touched.
    #[inline]
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.start, self.len.load(Ordering::Relaxed))
    }

    /// Whether all of `bytes` is in the file. Looks at where they are only.
    #[inline]
    pub(super) fn covers(&self, bytes: &[u8]) -> bool {
        let offset = (bytes.as_ptr() as usize).wrapping_sub(self.start);
        let len = self.len.load(Ordering::Relaxed);
        offset <= len && bytes.len() <= len - offset
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
        let file = [0u8; 100];
        let mapping = Mapping::new(file.as_ptr() as usize, 100);
        mapping.grown_to(60);
        assert!(mapping.covers(&file[..60]) && mapping.covers(&file[60..60]));
        assert!(
            !mapping.covers(&file[..61]) && !mapping.covers(&file[59..61]) && !mapping.covers(&file[80..])
        );
        mapping.grown_to(1000);
        assert!(mapping.covers(&file));
        let elsewhere = vec![0u8; 100];
        assert!(!mapping.covers(&elsewhere));
        assert!(mapping.covers_in_write(&elsewhere, 4096) && !mapping.covers_in_write(&elsewhere, 100));
    }
}
