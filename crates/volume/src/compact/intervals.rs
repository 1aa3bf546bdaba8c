//! Which bytes of a segment are in use: file ranges turned inside out.

use std::collections::BTreeMap;

use headrace_layout::{ExtentData, InodeNo, SegmentSlice};

use crate::rewrite::User;

/// A file range that uses a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The file.
    pub ino: InodeNo,
    /// First byte in the file.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
    /// What it uses.
    pub slice: SegmentSlice,
}

/// Consecutive bytes of one run that are in use, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// The run, `skip` at the first byte.
    pub slice: SegmentSlice,
    /// Length, bytes.
    pub len: u32,
    /// The file that the first byte belongs to.
    pub ino: InodeNo,
    /// Where in that file.
    pub offset: u64,
    /// All who use a part.
    pub users: Vec<User>,
}

impl Interval {
    /// The same in parts of at most `most` bytes. Who uses bytes of two parts uses both.
    pub fn cut(self, most: u32) -> Vec<Interval> {
        let most = most.max(1);
        if self.len <= most {
            return vec![self];
        }
        let mut parts = Vec::new();
        let mut from = 0;
        while from < self.len {
            let len = most.min(self.len - from);
            let to = from + len;
            let users = self.users.iter().filter_map(|user| {
                let (start, end) = (user.at.max(from), user.at.saturating_add(user.len).min(to));
                let skipped = start.saturating_sub(user.at);
                (start < end).then(|| User {
                    offset: user.offset + u64::from(skipped),
                    len: end - start,
                    expect: user.expect.advanced(skipped),
                    at: start - from,
                    ..user.clone()
                })
            });
            let users: Vec<User> = users.collect();
            // Whose first byte it is.
            let first = users.iter().find(|user| user.at == 0);
            let (ino, offset) =
                first.map_or((self.ino, self.offset + u64::from(from)), |user| (user.ino, user.offset));
            let slice = SegmentSlice { skip: self.slice.skip + from, ..self.slice.clone() };
            parts.push(Interval { slice, len, ino, offset, users });
            from = to;
        }
        parts
    }
}

/// The bytes in use, each once, however many files share them; in the order of the files.
///
/// Ranges that overlap become one interval, so that what was shared stays shared. Ranges that only touch do so if they
/// continue each other in the file: then a run that was cut by trimming grows together again.
pub(crate) fn intervals(references: Vec<Reference>) -> Vec<Interval> {
    let mut runs: BTreeMap<u32, Vec<Reference>> = BTreeMap::new();
    for reference in references {
        runs.entry(reference.slice.run_offset).or_default().push(reference);
    }
    let mut all = Vec::new();
    for mut references in runs.into_values() {
        references.sort_by_key(|r| (r.slice.skip, r.ino, r.offset));
        let mut current: Option<Interval> = None;
        for reference in references {
            match &mut current {
                Some(interval) if joins(interval, &reference) => extend(interval, reference),
                _ => {
                    all.extend(current.take());
                    current = Some(begin(reference));
                }
            }
        }
        all.extend(current);
    }
    all.sort_by_key(|i| (i.ino, i.offset));
    all
}

fn begin(reference: Reference) -> Interval {
    let Reference { ino, offset, len, slice } = reference;
    let user = User { ino, offset, len, expect: ExtentData::Segment(slice.clone()), at: 0 };
    Interval { slice, len, ino, offset, users: vec![user] }
}

fn joins(interval: &Interval, next: &Reference) -> bool {
    if !interval.slice.same_run(&next.slice) {
        return false;
    }
    let Some(at) = next.slice.skip.checked_sub(interval.slice.skip) else { return false };
    let continues =
        next.ino == interval.ino && interval.offset.checked_add(u64::from(at)) == Some(next.offset);
    at < interval.len || (at == interval.len && continues)
}

fn extend(interval: &mut Interval, next: Reference) {
    let at = next.slice.skip - interval.slice.skip;
    interval.len = interval.len.max(at.saturating_add(next.len));
    let Reference { ino, offset, len, slice } = next;
    interval.users.push(User { ino, offset, len, expect: ExtentData::Segment(slice), at });
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_layout::SegmentId;
    use proptest::prelude::*;

    fn reference(ino: u64, offset: u64, skip: u32, len: u32) -> Reference {
        run_reference(0, ino, offset, skip, len)
    }

    fn run_reference(run: u32, ino: u64, offset: u64, skip: u32, len: u32) -> Reference {
        let slice = SegmentSlice {
            segment: SegmentId(7),
            run_offset: run * 10_000,
            run_len: 1000,
            skip,
            frames: None,
        };
        Reference { ino: InodeNo(ino), offset, len, slice }
    }

    #[test]
    fn a_hole_in_the_middle_makes_two() {
        let found = intervals(vec![reference(1, 0, 0, 100), reference(1, 200, 200, 100)]);
        assert_eq!(found.iter().map(|i| (i.slice.skip, i.len)).collect::<Vec<_>>(), [(0, 100), (200, 100)]);
    }

    #[test]
    fn what_is_shared_is_written_once() {
        let found = intervals(vec![reference(1, 0, 0, 100), reference(2, 500, 50, 100)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].slice.skip, found[0].len, found[0].users.len()), (0, 150, 2));
        assert_eq!(found[0].users[1].at, 50);
    }

    #[test]
    fn neighbours_of_different_files_stay_apart() {
        assert_eq!(intervals(vec![reference(1, 0, 0, 100), reference(2, 0, 100, 100)]).len(), 2);
        assert_eq!(intervals(vec![reference(1, 0, 0, 100), reference(1, 100, 100, 100)]).len(), 1);
    }

    proptest! {
        /// Every byte in use is in exactly one interval, no other byte is, and every user finds its bytes there.
        #[test]
        fn cover_exactly_what_is_used(refs in proptest::collection::vec(
            (0u32..3, 1u64..4, 0u64..5000, 0u32..900, 1u32..100), 0..40,
        )) {
            let refs: Vec<_> =
                refs.into_iter().map(|(run, ino, offset, skip, len)| run_reference(run, ino, offset, skip, len)).collect();
            let mut used = vec![vec![false; 1000]; 3];
            for r in &refs {
                let run = (r.slice.run_offset / 10_000) as usize;
                used[run][r.slice.skip as usize..(r.slice.skip + r.len) as usize].fill(true);
            }
            let found = intervals(refs.clone());
            let mut covered = vec![vec![false; 1000]; 3];
            let mut users = 0;
            for interval in &found {
                let run = (interval.slice.run_offset / 10_000) as usize;
                for byte in interval.slice.skip..interval.slice.skip + interval.len {
                    prop_assert!(!std::mem::replace(&mut covered[run][byte as usize], true), "byte twice");
                }
                for user in &interval.users {
                    let ExtentData::Segment(slice) = &user.expect else { panic!("not a segment") };
                    prop_assert_eq!(slice.run_offset, interval.slice.run_offset);
                    prop_assert_eq!(slice.skip, interval.slice.skip + user.at);
                    prop_assert!(user.at + user.len <= interval.len);
                    users += 1;
                }
            }
            prop_assert_eq!(covered, used);
            prop_assert_eq!(users, refs.len());
        }

        /// However small the parts: the same bytes, and every user finds all of its own, once.
        #[test]
        fn parts_are_the_whole(
            refs in proptest::collection::vec((1u64..4, 0u64..5000, 0u32..900, 1u32..100), 1..20),
            most in 1u32..200,
        ) {
            let refs: Vec<_> = refs.into_iter().map(|(ino, offset, skip, len)| reference(ino, offset, skip, len)).collect();
            for interval in intervals(refs) {
                let parts = interval.clone().cut(most);
                prop_assert!(parts.iter().all(|part| (1..=most).contains(&part.len)));
                let mut at = interval.slice.skip;
                let mut used = 0u64;
                for part in &parts {
                    prop_assert_eq!(part.slice.skip, at);
                    prop_assert!(part.users.iter().any(|u| u.at == 0 && (u.ino, u.offset) == (part.ino, part.offset)));
                    for user in &part.users {
                        let ExtentData::Segment(slice) = &user.expect else { panic!("not a segment") };
                        prop_assert_eq!(slice.skip, part.slice.skip + user.at);
                        prop_assert!(user.at + user.len <= part.len);
                        used += u64::from(user.len);
                    }
                    at += part.len;
                }
                prop_assert_eq!(at, interval.slice.skip + interval.len);
                prop_assert_eq!(used, interval.users.iter().map(|u| u64::from(u.len)).sum::<u64>());
            }
        }
    }
}
