//! What the files hold: random to a compressor, known to a reader, and checked at about the speed of memory.
//!
//! One page of random words is the same for all; each page of each file has a key of its own that every word is combined
//! with. So bytes from another place, file, version or run never pass, and no page has to be kept to be checked.

/// Bytes of a page, the unit in which content is known. Reads and writes begin at a multiple of it.
pub const PAGE: usize = 4096;

const WORDS: usize = PAGE / 8;

/// The content of all files of one run.
#[derive(Debug, Clone)]
pub struct Content {
    words: Box<[u64; WORDS]>,
    seed: u64,
}

/// Which file, in which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// The large file of a thread.
    pub fn big(thread: u32, version: Version) -> Stream {
        Stream(1 << 62 | u64::from(version as u8) << 56 | u64::from(thread))
    }

    /// A small file of a thread.
    pub fn small(thread: u32, number: u32) -> Stream {
        Stream(1 << 63 | u64::from(thread) << 32 | u64::from(number))
    }
}

/// How often a page was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Once, from the start to the end of the file.
    First = 1,
    /// A second time, at random.
    Second = 2,
}

impl Content {
    /// Content that differs from that of every other seed.
    pub fn new(seed: u64) -> Content {
        let mut state = seed;
        let words = std::array::from_fn(|_| {
            state = state.wrapping_add(GAMMA);
            mix(state)
        });
        Content { words: Box::new(words), seed }
    }

    /// Fills `buffer` with what `stream` holds from page `first` on.
    pub fn fill(&self, stream: Stream, first: u64, buffer: &mut [u8]) {
        for (page, bytes) in (first..).zip(buffer.chunks_mut(PAGE)) {
            let key = self.key(stream, page);
            let (whole, rest) = bytes.as_chunks_mut::<8>();
            for (bytes, word) in whole.iter_mut().zip(self.words.iter()) {
                *bytes = (word ^ key).to_le_bytes();
            }
            if let Some(word) = self.words.get(whole.len()) {
                let last = (word ^ key).to_le_bytes();
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
    }

    /// Where `buffer` first differs from what `stream` holds from page `first` on.
    pub fn check(&self, stream: Stream, first: u64, buffer: &[u8]) -> Option<usize> {
        let wrong = (first..).zip(buffer.chunks(PAGE)).position(|(page, bytes)| {
            let key = self.key(stream, page);
            let (whole, rest) = bytes.as_chunks::<8>();
            // Without a way out, so that the compiler can do several words at a time.
            let differs = whole
                .iter()
                .zip(self.words.iter())
                .fold(0, |all, (bytes, word)| all | (u64::from_le_bytes(*bytes) ^ word ^ key));
            let tail = self.words.get(whole.len()).map_or([0; 8], |word| (word ^ key).to_le_bytes());
            differs != 0 || *rest != tail[..rest.len()]
        })?;
        let start = wrong * PAGE;
        let found = &buffer[start..buffer.len().min(start + PAGE)];
        let mut expected = [0; PAGE];
        self.fill(stream, first + wrong as u64, &mut expected[..found.len()]);
        found.iter().zip(&expected).position(|(found, expected)| found != expected).map(|at| start + at)
    }

    fn key(&self, stream: Stream, page: u64) -> u64 {
        mix(self.seed ^ mix(stream.0 ^ mix(page.wrapping_mul(GAMMA))))
    }
}

/// The step between the states of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): each input bit changes about half of the output.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_filled_passes_and_any_changed_byte_is_found(
            seed: u64, len in 1usize..3 * PAGE, first in 0u64..1 << 40, at: prop::sample::Index, flip in 1u8..,
        ) {
            let content = Content::new(seed);
            let stream = Stream::small(3, 7);
            let mut buffer = vec![0; len];
            content.fill(stream, first, &mut buffer);
            prop_assert_eq!(content.check(stream, first, &buffer), None);
            let at = at.index(len);
            buffer[at] ^= flip;
            prop_assert_eq!(content.check(stream, first, &buffer), Some(at));
        }

        #[test]
        fn pieces_are_what_the_whole_is(pages in 1usize..6, split: prop::sample::Index) {
            let content = Content::new(5);
            let stream = Stream::big(0, Version::First);
            let mut whole = vec![0; pages * PAGE];
            content.fill(stream, 10, &mut whole);
            let split = split.index(pages);
            prop_assert_eq!(content.check(stream, 10 + split as u64, &whole[split * PAGE..]), None);
        }
    }

    #[test]
    fn another_place_file_version_or_run_does_not_pass() {
        let content = Content::new(1);
        let mut buffer = vec![0; PAGE];
        content.fill(Stream::big(1, Version::First), 4, &mut buffer);
        for stream in [
            Stream::big(2, Version::First),
            Stream::big(1, Version::Second),
            Stream::small(1, 4),
            Stream::small(0, 1),
        ] {
            assert!(content.check(stream, 4, &buffer).is_some(), "{stream:?}");
        }
        assert!(content.check(Stream::big(1, Version::First), 5, &buffer).is_some());
        assert!(Content::new(2).check(Stream::big(1, Version::First), 4, &buffer).is_some());
        assert!(content.check(Stream::big(1, Version::First), 4, &vec![0; PAGE]).is_some());
    }
}
