//! What is in every file: a function of the file's number and the offset, cheap to make and to check.
//!
//! A page of 4 KiB is a stamp (file number, page number) and a piece of a fixed random block, at a place of its own. So
//! nothing compresses, no two pages are equal, and a page that is stale, misplaced or torn is found. Checking is a comparison
//! of memory, about 0.1 s for a GiB.

use headrace_testbed::pattern;

/// Bytes that carry one stamp.
pub const PAGE: usize = 4096;
const STAMP: usize = 16;
const BODY: usize = PAGE - STAMP;
/// Fits the second-level cache, so that checking does not compete for memory with what is measured.
const BASE: usize = 128 << 10;

/// Makes and checks content.
#[derive(Debug)]
pub struct Content {
    base: Vec<u8>,
}

impl Default for Content {
    fn default() -> Content {
        Content { base: pattern(0x6865_6164, BASE) }
    }
}

impl Content {
    /// What is to be at `offset` of file `file`.
    pub fn fill(&self, file: u64, offset: u64, buffer: &mut [u8]) {
        let mut rest = buffer;
        let mut at = offset;
        while !rest.is_empty() {
            let (page, from) = split(at);
            let len = (PAGE - from).min(rest.len());
            let (piece, after) = rest.split_at_mut(len);
            let (stamp, body) = self.page(file, page);
            let of_stamp = STAMP.saturating_sub(from).min(len);
            if of_stamp > 0 {
                piece[..of_stamp].copy_from_slice(&stamp[from..from + of_stamp]);
            }
            let start = from.saturating_sub(STAMP);
            piece[of_stamp..].copy_from_slice(&body[start..start + len - of_stamp]);
            rest = after;
            at += len as u64;
        }
    }

    /// Whether `buffer` is what is to be at `offset` of file `file`; else the offset of the first page that is not.
    pub fn check(&self, file: u64, offset: u64, buffer: &[u8]) -> Result<(), u64> {
        let mut rest = buffer;
        let mut at = offset;
        while !rest.is_empty() {
            let (page, from) = split(at);
            let len = (PAGE - from).min(rest.len());
            let (piece, after) = rest.split_at(len);
            let (stamp, body) = self.page(file, page);
            let of_stamp = STAMP.saturating_sub(from).min(len);
            let start = from.saturating_sub(STAMP);
            let right = (of_stamp == 0 || piece[..of_stamp] == stamp[from..from + of_stamp])
                && piece[of_stamp..] == body[start..start + len - of_stamp];
            if !right {
                return Err(at);
            }
            rest = after;
            at += len as u64;
        }
        Ok(())
    }

    fn page(&self, file: u64, page: u64) -> ([u8; STAMP], &[u8]) {
        let mut stamp = [0; STAMP];
        stamp[..8].copy_from_slice(&file.to_le_bytes());
        stamp[8..].copy_from_slice(&page.to_le_bytes());
        // Fibonacci hashing (Knuth, TAOCP 6.4): spreads neighbouring pages over the block.
        let spread = (file.rotate_left(32) ^ page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let start = spread as usize % (BASE - BODY);
        (stamp, &self.base[start..start + BODY])
    }
}

fn split(offset: u64) -> (u64, usize) {
    (offset / PAGE as u64, (offset % PAGE as u64) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_range_is_the_same_as_a_part_of_the_whole(file in 0u64..5, from in 0usize..20_000, len in 0usize..20_000) {
            let content = Content::default();
            let mut whole = vec![0; 40_000];
            content.fill(file, 0, &mut whole);
            let mut part = vec![0; len];
            content.fill(file, from as u64, &mut part);
            prop_assert!(part == whole[from..from + len]);
            prop_assert_eq!(content.check(file, from as u64, &part), Ok(()));
        }

        #[test]
        fn one_wrong_byte_is_found(file in 0u64..5, offset in 0u64..10_000, at in 0usize..9_000, by in 1u8..) {
            let content = Content::default();
            let mut buffer = vec![0; 9_000];
            content.fill(file, offset, &mut buffer);
            buffer[at] = buffer[at].wrapping_add(by);
            let found = content.check(file, offset, &buffer).unwrap_err();
            let wrong = offset + at as u64;
            prop_assert!(found <= wrong && wrong - found < PAGE as u64);
        }
    }

    #[test]
    fn another_file_and_another_place_are_found() {
        let content = Content::default();
        let mut buffer = vec![0; 2 * PAGE];
        content.fill(1, 0, &mut buffer);
        assert_eq!(content.check(2, 0, &buffer), Err(0));
        assert_eq!(content.check(1, PAGE as u64, &buffer), Err(PAGE as u64));
        buffer.copy_within(PAGE.., 0);
        assert_eq!(content.check(1, 0, &buffer), Err(0));
    }
}
