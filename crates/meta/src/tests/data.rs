use headrace_layout::{CHUNK_SIZE, ExtentData, InodeNo, SegmentId};

use super::fixture::*;
use crate::*;

#[test]
fn written_data_is_found_again() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let time = Time { secs: 5_000_000_000, nanos: 1 };
        let commit = DataCommit {
            pieces: vec![piece(1000, 50, slice(7, 200, 100))],
            new_size: Some(1050),
            mtime: Some(time),
            new_segments: vec![(SegmentId(7), 300)],
            kill_suid: false,
        };
        let attr = fx.ns.commit_write(file, &commit).unwrap();
        assert_eq!((attr.size, attr.allocated, attr.mtime, attr.ctime), (1050, 50, time, time));
        let map = fx.ns.extents(file, 0).unwrap();
        let [extent] = map.extents() else { panic!("{map:?}") };
        assert_eq!((extent.start, extent.len), (1000, 50));
        assert_eq!(extent.data, ExtentData::Segment(slice(7, 200, 100)));
        assert_eq!(fx.ns.segment(SegmentId(7)).unwrap().unwrap().stored, 300);
    });
}

#[test]
fn data_crosses_chunks() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let start = CHUNK_SIZE - 100;
        fx.write(file, start, 300, 1);
        fx.write_inline(file, start + 50, 100, 9);
        let (first, second) = (fx.ns.extents(file, 0).unwrap(), fx.ns.extents(file, 1).unwrap());
        assert_eq!(first.covered() + second.covered(), 300);
        assert_eq!(fx.live(1), Some(200));
        let [split, rest] = second.extents() else { panic!("{second:?}") };
        assert!(matches!(split.data, ExtentData::Inline { skip: 50, .. }));
        assert_eq!(rest.data, ExtentData::Segment(slice(1, 300, 150)));
        // The value goes when its last part does.
        fx.ns.punch(file, start, 100).unwrap();
        assert_eq!(fx.ns.inline_bytes(), 104);
        fx.ns.punch(file, CHUNK_SIZE, 50).unwrap();
        assert_eq!(fx.ns.inline_bytes(), 0);
    });
}

#[test]
fn data_past_the_end_is_dropped() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.ns.truncate(file, 100, false).unwrap();
        let commit = DataCommit {
            pieces: vec![piece(50, 100, slice(1, 100, 0)), piece(500, 10, slice(2, 10, 0))],
            new_segments: vec![(SegmentId(1), 100), (SegmentId(2), 10)],
            ..DataCommit::default()
        };
        let attr = fx.ns.commit_write(file, &commit).unwrap();
        assert_eq!((attr.size, attr.allocated), (100, 50));
        assert_eq!((fx.live(1), fx.live(2)), (Some(50), Some(0)));
    });
}

#[test]
fn nonsense_is_refused() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let commit = |extent: NewExtent| {
            let commit =
                DataCommit { new_size: Some(MAX_FILE_SIZE), pieces: vec![extent], ..DataCommit::default() };
            fx.ns.commit_write(file, &commit).map(drop)
        };
        refused!(commit(piece(0, 0, slice(1, 10, 0))), MetaError::Invalid(_));
        refused!(commit(piece(0, 10, slice(1, 10, 5))), MetaError::Invalid(_));
        refused!(commit(piece(0, 1, slice(1, 10, u32::MAX))), MetaError::Invalid(_));
        refused!(commit(piece(0, 10, slice(1, 10, 0))), MetaError::Invalid(_)); // not registered
        refused!(commit(piece(u64::MAX, 10, slice(1, 10, 0))), MetaError::FileTooBig);
        refused!(commit(piece(MAX_FILE_SIZE - 5, 10, slice(1, 10, 0))), MetaError::FileTooBig);
        let inline = NewExtent { offset: 0, len: 1, data: NewData::Inline(vec![0; 1 << 20]) };
        refused!(commit(inline), MetaError::Invalid(_));
        let dir = fx.dir(ROOT, "dir");
        refused!(fx.ns.commit_write(dir, &DataCommit::default()), MetaError::IsDirectory);
        refused!(fx.ns.truncate(dir, 0, false), MetaError::IsDirectory);
        let fifo = fx.make(ROOT, "fifo", Kind::Fifo);
        refused!(fx.ns.truncate(fifo, 0, false), MetaError::Invalid(_));
        refused!(fx.ns.truncate(file, MAX_FILE_SIZE + 1, false), MetaError::FileTooBig);
        refused!(fx.ns.extents(InodeNo(99), 0), MetaError::NotFound);
        assert_eq!(fx.attr(file).size, 0);
    });
}

#[test]
fn shrinking_cuts_and_growing_shows_nothing_old() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 1000, 1);
        fx.write(file, 2 * CHUNK_SIZE, 1000, 2);
        let attr = fx.ns.truncate(file, 400, false).unwrap();
        assert_eq!((attr.size, attr.allocated), (400, 400));
        assert_eq!((fx.live(1), fx.live(2)), (Some(400), Some(0)));
        let attr = fx.ns.truncate(file, 3 * CHUNK_SIZE, false).unwrap();
        assert_eq!((attr.size, attr.allocated), (3 * CHUNK_SIZE, 400));
        assert!(fx.ns.extents(file, 2).unwrap().is_empty());
        assert_eq!(fx.ns.extents(file, 0).unwrap().covered(), 400);
        fx.ns.truncate(file, MAX_FILE_SIZE, false).unwrap();
        fx.write(file, MAX_FILE_SIZE - 10, 10, 3);
        assert_eq!(fx.ns.extents(file, u32::MAX).unwrap().covered(), 10);
        assert_eq!(fx.ns.truncate(file, 0, false).unwrap().allocated, 0);
    });
}

#[test]
fn inline_values_live_as_long_as_they_are_used() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write_inline(file, 0, 100, 1);
        assert_eq!(fx.ns.inline_bytes(), 104);
        let refs = fx.ns.inline_backlog(None, 1 << 20).unwrap();
        let [found] = refs[..] else { panic!("{refs:?}") };
        assert_eq!((found.ino, found.offset, found.len, found.skip), (file, 0, 100, 0));
        assert_eq!(fx.ns.inline_value(file, found.id).unwrap(), Some(vec![1; 104]));
        fx.write_inline(file, 20, 30, 2);
        let refs = fx.ns.inline_backlog(None, 1 << 20).unwrap();
        let places: Vec<_> = refs.iter().map(|found| (found.offset, found.len, found.skip)).collect();
        assert_eq!(places, [(0, 20, 0), (50, 50, 50), (20, 30, 0)]);
        fx.write(file, 0, 100, 1);
        assert_eq!(fx.ns.inline_bytes(), 0);
        assert_eq!(fx.ns.inline_value(file, found.id).unwrap(), None);
        assert!(fx.ns.inline_backlog(None, 1 << 20).unwrap().is_empty());
    });
}

#[test]
fn the_backlog_comes_in_portions() {
    each(|fx| {
        let files: Vec<_> = (0..10).map(|number| fx.file(ROOT, &number.to_string())).collect();
        for &file in &files {
            fx.write_inline(file, 0, 1000, 1);
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let refs = fx.ns.inline_backlog(after, 2500).unwrap();
            let Some(last) = refs.last() else { break };
            assert!(refs.len() <= 3);
            after = Some((last.ino, last.id));
            seen.extend(refs.iter().map(|found| found.ino));
        }
        assert_eq!(seen, files);
        assert_eq!(fx.ns.inline_backlog(None, 0).unwrap().len(), 1);
    });
}

#[test]
fn the_backlog_finds_values_that_moved() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 8192, 1);
        fx.write_inline(file, 8192, 8192, 2);
        fx.write(file, 16384, 4096, 3);
        fx.ns.insert(file, 12288, 2 * CHUNK_SIZE).unwrap();
        let refs = fx.ns.inline_backlog(None, 1 << 20).unwrap();
        let places: Vec<_> = refs.iter().map(|found| (found.offset, found.len, found.skip)).collect();
        assert_eq!(places, [(8192, 4096, 0), (12288 + 2 * CHUNK_SIZE, 4096, 4096)]);
    });
}

#[test]
fn the_packer_moves_what_is_still_there() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write_inline(file, 0, 100, 1);
        fx.write_inline(file, 100, 100, 2);
        let refs = fx.ns.inline_backlog(None, 1 << 20).unwrap();
        // Overwritten in part before the packer is done.
        fx.write_inline(file, 40, 20, 3);
        fx.ns.truncate(file, 150, false).unwrap();
        let before = fx.attr(file);
        let swaps: Vec<_> = refs
            .iter()
            .map(|found| Swap {
                offset: found.offset,
                len: found.len,
                expect: ExtentData::Inline { id: found.id, skip: found.skip },
                new: slice(50, 200, found.offset as u32),
            })
            .collect();
        let segments = [(SegmentId(50), 200)];
        assert_eq!(fx.ns.swap_extents(file, &swaps, &segments).unwrap(), 2);
        assert_eq!(fx.attr(file), before, "neither times nor sizes change");
        assert_eq!(fx.live(50), Some(130));
        assert_eq!(fx.ns.inline_bytes(), 24);
        let map = fx.ns.extents(file, 0).unwrap();
        let [first, middle, last] = map.extents() else { panic!("{map:?}") };
        assert_eq!(first.data, ExtentData::Segment(slice(50, 200, 0)));
        assert!(matches!(middle.data, ExtentData::Inline { .. }));
        assert_eq!((last.start, last.len), (60, 90));
        assert_eq!(last.data, ExtentData::Segment(slice(50, 200, 60)));
        // Nothing is left to swap the second time, nor in a file that is gone.
        assert_eq!(fx.ns.swap_extents(file, &swaps, &[]).unwrap(), 0);
        assert_eq!(fx.ns.swap_extents(InodeNo(99), &swaps, &[]).unwrap(), 0);
    });
}

#[test]
fn compaction_swaps_slices_of_the_same_run_only() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 1000, 1);
        fx.write(file, 300, 100, 2);
        let swap = Swap {
            offset: 100,
            len: 800,
            expect: ExtentData::Segment(slice(1, 1000, 100)),
            new: slice(3, 800, 0),
        };
        let wrong = Swap { expect: ExtentData::Segment(slice(1, 1000, 101)), ..swap.clone() };
        let segments = [(SegmentId(3), 800)];
        assert_eq!(fx.ns.swap_extents(file, &[wrong, swap], &segments).unwrap(), 1);
        assert_eq!((fx.live(1), fx.live(2), fx.live(3)), (Some(200), Some(100), Some(700)));
        assert_eq!(fx.attr(file).allocated, 1000);
    });
}
