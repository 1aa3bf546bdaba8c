use std::time::Duration;

use headrace_layout::SegmentId;

use super::fixture::*;
use crate::*;

#[test]
fn a_segment_dies_with_its_last_reference_and_can_then_be_forgotten() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 100, 1);
        fx.write(file, 0, 60, 2);
        assert_eq!((fx.live(1), fx.live(2)), (Some(40), Some(60)));
        refused!(fx.ns.forget_segments(&[SegmentId(1)]), MetaError::Invalid(_));
        fx.write(file, 60, 40, 3);
        let dead = fx.ns.segment(SegmentId(1)).unwrap().unwrap();
        assert_eq!(dead.live, 0);
        let since = dead.dead_since.expect("dead");
        let later = Time { secs: since.secs + 1, ..since };
        assert_eq!(fx.ns.dead_segments(later, 10).unwrap(), [SegmentId(1)]);
        assert!(fx.ns.dead_segments(since, 10).unwrap().is_empty());
        assert!(fx.ns.dead_segments(since.before(Duration::from_secs(60)), 10).unwrap().is_empty());
        fx.ns.forget_segments(&[SegmentId(1), SegmentId(999)]).unwrap();
        assert_eq!(fx.ns.segment(SegmentId(1)).unwrap(), None);
        assert!(fx.ns.dead_segments(later, 10).unwrap().is_empty());
    });
}

#[test]
fn a_dead_segment_can_be_referred_to_again() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let segment = SegmentId(1);
        let register = DataCommit { new_segments: vec![(segment, 10)], ..DataCommit::default() };
        fx.ns.commit_write(file, &register).unwrap();
        assert!(fx.ns.segment(segment).unwrap().unwrap().dead_since.is_some(), "named but not used");
        let commit = DataCommit {
            pieces: vec![piece(0, 10, slice(1, 10, 0))],
            new_size: Some(10),
            ..DataCommit::default()
        };
        fx.ns.commit_write(file, &commit).unwrap();
        assert_eq!(fx.ns.segment(segment).unwrap().unwrap().dead_since, None);
        assert!(fx.ns.dead_segments(Time { secs: i64::MAX, nanos: 0 }, 10).unwrap().is_empty());
    });
}

#[test]
fn segments_are_listed_with_their_users() {
    each(|fx| {
        let (a, b) = (fx.file(ROOT, "a"), fx.file(ROOT, "b"));
        for segment in 1..=5 {
            fx.write(a, u64::try_from(segment).unwrap() * 100, 100, segment);
        }
        fx.ns.clone_range(a, 300, b, 0, 100).unwrap();
        let mut found = Vec::new();
        while let Some(last) = {
            let page = fx.ns.segments(found.last().copied(), 2).unwrap();
            found.extend(page.iter().map(|segment| segment.id));
            page.last().map(|segment| segment.id)
        } {
            assert_eq!(found.last(), Some(&last));
        }
        assert_eq!(found, (1..=5).map(SegmentId).collect::<Vec<_>>());
        assert_eq!(fx.ns.segment_users(SegmentId(3)).unwrap(), [(a, 300), (b, 0)]);
        assert_eq!(fx.ns.segment_users(SegmentId(9)).unwrap(), []);
    });
}

#[test]
fn overwriting_within_one_commit_counts_once() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let inline = NewExtent { offset: 0, len: 10, data: NewData::Inline(vec![0; 10]) };
        let commit = DataCommit {
            pieces: vec![inline, piece(0, 10, slice(1, 10, 0)), piece(0, 10, slice(2, 10, 0))],
            new_size: Some(10),
            new_segments: vec![(SegmentId(1), 10), (SegmentId(2), 10)],
            ..DataCommit::default()
        };
        assert_eq!(fx.ns.commit_write(file, &commit).unwrap().allocated, 10);
        assert_eq!((fx.live(1), fx.live(2), fx.ns.inline_bytes()), (Some(0), Some(10), 0));
    });
}
