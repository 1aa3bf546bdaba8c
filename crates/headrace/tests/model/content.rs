//! A sparse file's content in memory: pages that were written, zeros everywhere else.

use std::collections::BTreeMap;

/// Bytes per page; also the alignment that collapse and insert ask for.
pub const PAGE: u64 = 4096;

#[derive(Clone, Default)]
pub struct Content {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What `pread` gives.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = (offset + len).min(self.size);
        let Some(len) = end.checked_sub(offset) else { return Vec::new() };
        let mut out = vec![0; len as usize];
        for (&page, bytes) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = page * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            if from < to {
                let target = &mut out[(from - offset) as usize..(to - offset) as usize];
                target.copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
        out
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let n = (PAGE as usize - within).min(data.len() - done);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize]);
            page[within..within + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            let old = self.size;
            self.zero(size, old - size);
            self.size = size;
        }
        self.size = size;
    }

    /// Grows to at least `size`.
    pub fn extend(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// Makes a range read as zeros; the size stays.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let touched: Vec<u64> =
            self.pages.range(offset / PAGE..end.div_ceil(PAGE)).map(|(page, _)| *page).collect();
        for page in touched {
            let start = page * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            if from == start && to == start + PAGE {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                bytes[(from - start) as usize..(to - start) as usize].fill(0);
            }
        }
    }

    /// Removes `[offset, offset + len)`, both multiples of [`PAGE`], and moves what follows down.
    pub fn collapse(&mut self, offset: u64, len: u64) {
        let (first, count) = (offset / PAGE, len / PAGE);
        let moved = self.pages.split_off(&first);
        self.pages.extend(
            moved.into_iter().filter(|(page, _)| *page >= first + count).map(|(p, b)| (p - count, b)),
        );
        self.size -= len;
    }

    /// Inserts a hole of `len` at `offset`, both multiples of [`PAGE`], and moves what follows up.
    pub fn insert(&mut self, offset: u64, len: u64) {
        let moved = self.pages.split_off(&(offset / PAGE));
        self.pages.extend(moved.into_iter().map(|(page, bytes)| (page + len / PAGE, bytes)));
        self.size += len;
    }

    /// The first byte at or after `offset` that is not zero.
    pub fn first_data(&self, offset: u64) -> Option<u64> {
        for (&page, bytes) in self.pages.range(offset / PAGE..) {
            let start = page * PAGE;
            let from = offset.max(start) - start;
            if let Some(at) = bytes[from as usize..].iter().position(|byte| *byte != 0) {
                return Some(start + from + at as u64);
            }
        }
        None
    }
}
