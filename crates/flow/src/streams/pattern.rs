//! What comes next in a stream.

use std::ops::Range;

/// How the reads of a stream follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each begins where others end.
    Forward,
    /// Each ends where another begins.
    Backward,
    /// Equal pieces at equal distances, larger than a piece: towards the file's end.
    Strided {
        /// From one start to the next, bytes.
        stride: u64,
        /// Of a piece, bytes.
        len: u64,
    },
}

impl Pattern {
    /// What to fetch after everything up to `edge` is fetched, within a file of `file_len` bytes: at most `part` bytes, ending where
    /// multiples of `part` do, so that pieces of one file do not overlap. `None` at the file's end.
    ///
    /// The edge is what [`Pattern::edge_after`] says of the range before.
    pub fn next(self, edge: u64, part: u64, file_len: u64) -> Option<Range<u64>> {
        let part = part.max(1);
        match self {
            Pattern::Forward => {
                let end = (edge / part).saturating_add(1).saturating_mul(part).min(file_len);
                (edge < end).then_some(edge..end)
            }
            Pattern::Backward => {
                let end = edge.min(file_len);
                let start = end.checked_sub(1)? / part * part;
                Some(start..end)
            }
            Pattern::Strided { len, .. } => {
                let end = edge.saturating_add(len).min(file_len);
                (edge < end).then_some(edge..end)
            }
        }
    }

    /// Where the one after `range` has its edge: its first byte, or going backward the byte after its last.
    pub fn edge_after(self, range: &Range<u64>) -> u64 {
        match self {
            Pattern::Forward => range.end,
            Pattern::Backward => range.start,
            Pattern::Strided { stride, .. } => range.start.saturating_add(stride),
        }
    }

    /// How many bytes that the reader will want lie between the reader and the edge.
    pub fn ahead(self, reader: u64, edge: u64) -> u64 {
        match self {
            Pattern::Forward => edge.saturating_sub(reader),
            Pattern::Backward => reader.saturating_sub(edge),
            Pattern::Strided { stride, len } => edge.saturating_sub(reader) / stride.max(1) * len,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn forward_pieces_cover_the_rest_of_the_file(from in 0u64..5_000, part in 1u64..700, len in 0u64..5_000) {
            let mut edge = from;
            while let Some(range) = Pattern::Forward.next(edge, part, len) {
                prop_assert_eq!(range.start, edge);
                prop_assert!(range.end - range.start <= part && (range.end % part == 0 || range.end == len));
                edge = Pattern::Forward.edge_after(&range);
            }
            prop_assert!(edge >= len || from > len);
        }

        #[test]
        fn backward_pieces_cover_all_before(from in 0u64..5_000, part in 1u64..700) {
            let mut edge = from;
            while let Some(range) = Pattern::Backward.next(edge, part, 10_000) {
                prop_assert_eq!(range.end, edge);
                prop_assert!(range.end - range.start <= part && range.start % part == 0);
                edge = Pattern::Backward.edge_after(&range);
            }
            prop_assert_eq!(edge, 0);
        }
    }

    #[test]
    fn strided_pieces_are_where_the_reader_will_be() {
        let pattern = Pattern::Strided { stride: 100, len: 10 };
        let range = pattern.next(300, 4096, 1_000);
        assert_eq!(range, Some(300..310));
        assert_eq!(pattern.edge_after(&(300..310)), 400);
        assert_eq!(pattern.ahead(100, 400), 30);
        assert_eq!(pattern.next(995, 4096, 1_000), Some(995..1_000));
        assert_eq!(pattern.next(1_000, 4096, 1_000), None);
    }
}
