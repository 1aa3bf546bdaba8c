//! A set of byte ranges.

use std::ops::Range;

/// Disjoint ranges in order, none of which touch. Small: operations are linear in their number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalSet {
    ranges: Vec<Range<u64>>,
}

impl IntervalSet {
    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Those it touches are `from..to`.
        let from = self.ranges.partition_point(|one| one.end < range.start);
        let to = self.ranges.partition_point(|one| one.start <= range.end);
        let touched = self.ranges.get(from..to).unwrap_or_default();
        let start = touched.first().map_or(range.start, |one| one.start.min(range.start));
        let end = touched.last().map_or(range.end, |one| one.end.max(range.end));
        self.ranges.splice(from..to, std::iter::once(start..end));
    }

    /// Where the range that holds `at` ends, if one does.
    pub fn end_of(&self, at: u64) -> Option<u64> {
        let after = self.ranges.partition_point(|one| one.start <= at);
        let one = self.ranges.get(after.checked_sub(1)?)?;
        (at < one.end).then_some(one.end)
    }

    /// Bytes that are in it.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|one| one.end - one.start).sum()
    }

    /// Bytes of `range` that are in it.
    pub fn bytes_within(&self, range: &Range<u64>) -> u64 {
        let within = |one: &Range<u64>| one.end.min(range.end).saturating_sub(one.start.max(range.start));
        self.ranges.iter().map(within).sum()
    }

    /// Its ranges, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.ranges.iter()
    }

    /// Forgets what is before `start`.
    pub fn forget_before(&mut self, start: u64) {
        self.ranges.retain_mut(|one| {
            one.start = one.start.max(start);
            one.start < one.end
        });
    }

    /// Forgets what is at or after `end`.
    pub fn forget_from(&mut self, end: u64) {
        self.ranges.retain_mut(|one| {
            one.end = one.end.min(end);
            one.start < one.end
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_that_ends_where_it_is_cut_is_gone() {
        let mut set = IntervalSet::default();
        set.insert(10..20);
        let mut from = set.clone();
        set.forget_before(20);
        from.forget_from(10);
        assert_eq!((set.iter().count(), from.iter().count()), (0, 0));
    }

    proptest! {
        #[test]
        fn it_is_the_set_of_its_bytes(inserted in proptest::collection::vec((0u64..200, 0u64..40), 0..40), cut in 0u64..240) {
            let (mut set, mut model) = (IntervalSet::default(), BTreeSet::new());
            for (start, len) in inserted {
                set.insert(start..start + len);
                model.extend(start..start + len);
            }
            prop_assert_eq!(set.bytes(), model.len() as u64);
            prop_assert_eq!(set.bytes_within(&(cut..cut + 20)), model.range(cut..cut + 20).count() as u64);
            let ranges: Vec<_> = set.iter().cloned().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            for at in 0..240 {
                let mut end = at;
                while model.contains(&end) {
                    end += 1;
                }
                prop_assert_eq!(set.end_of(at), (end > at).then_some(end));
            }
            let mut later = set.clone();
            later.forget_before(cut);
            prop_assert_eq!(later.bytes(), model.range(cut..).count() as u64);
            set.forget_from(cut);
            prop_assert_eq!(set.bytes(), model.range(..cut).count() as u64);
            prop_assert!(set.iter().chain(later.iter()).all(|range| range.start < range.end));
        }
    }
}
