//! Which segments and which extents are worth rewriting: pure decisions.

use std::time::{Duration, SystemTime};

use headrace_layout::Extent;
use headrace_meta::SegmentUse;

/// Segments younger than this are left alone: the files that share them may still be committing.
pub const MIN_AGE: Duration = Duration::from_secs(300);

/// So many tiny segments are worth a merge. Each merge makes a segment at least this many times larger, so a byte is
/// rewritten at most log(segment size) / log(this) times.
pub const TINY_MIN: usize = 8;

/// A file's chunk with more extents than this is worth a rewrite.
pub const MAX_EXTENTS: usize = 512;

/// Extents at least this long are left where they are: reading them costs one request anyway.
pub const LONG_EXTENT: u32 = 4 << 20;

/// What a segment is to compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Leave it.
    Dense,
    /// Less than half of it is in use.
    Sparse,
    /// Less than half of it may be in use: its index tells.
    Unclear,
    /// Under a quarter of the target size.
    Tiny,
}

/// Classifies a segment. On a compressed volume the stored length says little about how many plain bytes there are, so
/// the answer may be [`Class::Unclear`].
pub(crate) fn classify(segment: &SegmentUse, segment_size: u32, compressed: bool, now: SystemTime) -> Class {
    let old_enough = now.duration_since(segment.id.created()).is_ok_and(|age| age >= MIN_AGE);
    if segment.live == 0 || !old_enough {
        return Class::Dense;
    }
    if is_sparse(segment.live, segment.stored) {
        return Class::Sparse;
    }
    if segment.stored < u64::from(segment_size / 4) {
        return Class::Tiny;
    }
    // Up to 8 plain bytes for a stored one.
    if compressed && is_sparse(segment.live, segment.stored.saturating_mul(8)) {
        return Class::Unclear;
    }
    Class::Dense
}

/// Whether less than half of `total` is in use.
pub(crate) fn is_sparse(live: u64, total: u64) -> bool {
    live.saturating_mul(2) < total
}

/// Stretches of consecutive short extents, as index ranges: each is worth one run instead. Holes and long extents end a
/// stretch; a single extent is none.
pub(crate) fn stretches(extents: &[Extent], long: u32) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for index in 0..=extents.len() {
        let goes_on = index > start
            && extents.get(index).is_some_and(|next| {
                next.len < long && extents[index - 1].len < long && extents[index - 1].end() == next.start
            });
        if !goes_on {
            if index > start + 1 {
                found.push(start..index);
            }
            start = index;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_layout::{ExtentData, SegmentId};
    use proptest::prelude::*;

    fn segment(stored: u64, live: u64) -> SegmentUse {
        SegmentUse { id: SegmentId(0), stored, live, dead_since: None }
    }

    fn later() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(100_000)
    }

    #[test]
    fn classes() {
        let size = 16 << 20;
        let class =
            |stored: u64, live: u64, compressed| classify(&segment(stored, live), size, compressed, later());
        assert_eq!(class(16 << 20, 9 << 20, false), Class::Dense);
        assert_eq!(class(16 << 20, 7 << 20, false), Class::Sparse);
        assert_eq!(class(16 << 20, 0, false), Class::Dense);
        assert_eq!(class(1 << 20, 1 << 20, false), Class::Tiny);
        assert_eq!(class(1 << 20, 1 << 10, false), Class::Sparse);
        assert_eq!(class(16 << 20, 9 << 20, true), Class::Unclear);
        let young =
            classify(&segment(16 << 20, 1), size, false, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!(young, Class::Dense);
    }

    fn extents(parts: &[(u32, u32)]) -> Vec<Extent> {
        parts
            .iter()
            .map(|&(start, len)| Extent { start, len, data: ExtentData::Inline { id: 1, skip: 0 } })
            .collect()
    }

    #[test]
    fn holes_and_long_extents_end_a_stretch() {
        let found =
            stretches(&extents(&[(0, 5), (5, 5), (20, 5), (25, 100), (125, 5), (130, 5), (135, 5)]), 100);
        assert_eq!(found, [0..2, 4..7]);
        assert_eq!(stretches(&[], 100), []);
    }

    proptest! {
        #[test]
        fn stretches_are_maximal_disjoint_and_without_holes(
            parts in proptest::collection::vec((0u32..3, 1u32..20), 0..60),
        ) {
            let mut at = 0;
            let list: Vec<_> = parts.iter().map(|&(gap, len)| {
                let start = at + gap;
                at = start + len;
                (start, len)
            }).collect();
            let list = extents(&list);
            let found = stretches(&list, 15);
            let mut end = 0;
            for stretch in &found {
                prop_assert!(stretch.start >= end && stretch.len() >= 2);
                end = stretch.end;
                for pair in list[stretch.clone()].windows(2) {
                    prop_assert_eq!(pair[0].end(), pair[1].start);
                }
                prop_assert!(list[stretch.clone()].iter().all(|e| e.len < 15));
            }
            // Any two short neighbours without a hole are in one stretch.
            for i in 1..list.len() {
                if list[i - 1].end() == list[i].start && list[i - 1].len < 15 && list[i].len < 15 {
                    prop_assert!(found.iter().any(|s| s.contains(&(i - 1)) && s.contains(&i)));
                }
            }
        }
    }
}
