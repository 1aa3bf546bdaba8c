//! Which pages have been met: each may be at one place only.

pub(super) struct Seen {
    bits: Vec<u64>,
    last_page: u64,
    count: u64,
}

impl Seen {
    /// For pages up to `last_page`. The headers, pages 0 and 1, count as met.
    pub(super) fn new(last_page: u64) -> Seen {
        let words = usize::try_from(last_page / 64).unwrap_or(usize::MAX - 1) + 1;
        let mut seen = Seen { bits: vec![0; words], last_page, count: 0 };
        seen.mark(0);
        seen.mark(1);
        seen
    }

    /// False if `page` was met before, or does not exist.
    pub(super) fn mark(&mut self, page: u64) -> bool {
        if page > self.last_page {
            return false;
        }
        let Some(word) = usize::try_from(page / 64).ok().and_then(|i| self.bits.get_mut(i)) else {
            return false;
        };
        let bit = 1 << (page % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(fresh);
        fresh
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
