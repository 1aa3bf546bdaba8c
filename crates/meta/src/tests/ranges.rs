use headrace_layout::{CHUNK_SIZE, ExtentData};

use super::fixture::*;
use crate::*;

const BLOCK: u64 = SHIFT_ALIGNMENT;

#[test]
fn holes_are_punched_and_zeroed() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 10_000, 1);
        let attr = fx.ns.punch(file, 1000, 500).unwrap();
        assert_eq!((attr.size, attr.allocated), (10_000, 9_500));
        assert_eq!(fx.ns.punch(file, 9_000, u64::MAX).unwrap().allocated, 8_500);
        assert_eq!(fx.ns.punch(file, u64::MAX - 1, 1).unwrap().size, 10_000);
        refused!(fx.ns.punch(file, 0, 0), MetaError::Invalid(_));
        let attr = fx.ns.zero_range(file, 8_000, 4_000, true).unwrap();
        assert_eq!((attr.size, attr.allocated), (10_000, 7_500));
        let attr = fx.ns.zero_range(file, 8_000, 4_000, false).unwrap();
        assert_eq!((attr.size, attr.allocated), (12_000, 7_500));
        assert_eq!(fx.live(1), Some(7_500));
    });
}

#[test]
fn allocation_only_grows_the_file() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        assert_eq!(fx.ns.allocate(file, 100, 100, true).unwrap().size, 0);
        assert_eq!(fx.ns.allocate(file, 100, 100, false).unwrap().size, 200);
        assert_eq!(fx.ns.allocate(file, 0, 100, false).unwrap().size, 200);
        refused!(fx.ns.allocate(file, 0, 0, false), MetaError::Invalid(_));
        refused!(fx.ns.allocate(file, MAX_FILE_SIZE, 1, false), MetaError::FileTooBig);
        refused!(fx.ns.allocate(file, u64::MAX, 2, false), MetaError::FileTooBig);
    });
}

#[test]
fn seeking_finds_data_and_holes() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        refused!(fx.ns.seek(file, 0, false), MetaError::NoSuchOffset);
        refused!(fx.ns.seek(file, 0, true), MetaError::NoSuchOffset);
        fx.write(file, 1000, 1000, 1);
        fx.write(file, CHUNK_SIZE - 100, 200, 2);
        fx.ns.truncate(file, 3 * CHUNK_SIZE, false).unwrap();
        let data = |at| fx.ns.seek(file, at, false);
        let hole = |at| fx.ns.seek(file, at, true).unwrap();
        assert_eq!(data(0).unwrap(), 1000);
        assert_eq!(data(1500).unwrap(), 1500);
        assert_eq!(data(2000).unwrap(), CHUNK_SIZE - 100);
        refused!(data(CHUNK_SIZE + 100), MetaError::NoSuchOffset);
        refused!(data(3 * CHUNK_SIZE), MetaError::NoSuchOffset);
        assert_eq!(hole(0), 0);
        assert_eq!(hole(1000), 2000);
        assert_eq!(hole(CHUNK_SIZE - 1), CHUNK_SIZE + 100);
        assert_eq!(hole(2 * CHUNK_SIZE), 2 * CHUNK_SIZE);
        // The end of the file is a hole.
        fx.ns.truncate(file, CHUNK_SIZE, false).unwrap();
        assert_eq!(hole(CHUNK_SIZE - 1), CHUNK_SIZE);
    });
}

#[test]
fn cloning_shares_segments_and_copies_inline_values() {
    each(|fx| {
        let (a, b) = (fx.file(ROOT, "a"), fx.file(ROOT, "b"));
        fx.write(a, 0, 1000, 1);
        fx.write_inline(a, 2000, 100, 5);
        fx.write(b, 0, 5000, 2);
        let before = fx.attr(b).mtime;
        assert_eq!(fx.ns.clone_range(a, 500, b, CHUNK_SIZE - 100, 10_000).unwrap(), 1600);
        assert!(fx.attr(b).mtime > before);
        assert_eq!(fx.attr(b).size, CHUNK_SIZE + 1500);
        assert_eq!(fx.live(1), Some(1500));
        assert_eq!(fx.ns.inline_bytes(), 208);
        let refs = fx.ns.inline_backlog(None, 1 << 20).unwrap();
        let [_, copy] = refs[..] else { panic!("{refs:?}") };
        assert_eq!((copy.ino, copy.offset, copy.skip), (b, CHUNK_SIZE + 1400, 0));
        assert_eq!(fx.ns.inline_value(b, copy.id).unwrap(), Some(vec![5; 104]));
        // The original may go.
        fx.ns.unlink(ROOT, b"a").unwrap();
        fx.ns.reclaim(a).unwrap();
        assert_eq!((fx.live(1), fx.ns.inline_bytes()), (Some(500), 104));
    });
}

#[test]
fn cloning_covers_with_holes_and_stops_at_the_end() {
    each(|fx| {
        let (a, b) = (fx.file(ROOT, "a"), fx.file(ROOT, "b"));
        fx.ns.truncate(a, 3 * CHUNK_SIZE, false).unwrap();
        fx.write(b, 0, 1000, 1);
        assert_eq!(fx.ns.clone_range(a, 0, b, 100, 800).unwrap(), 800);
        assert_eq!(fx.attr(b).allocated, 200);
        assert_eq!(fx.ns.clone_range(a, 3 * CHUNK_SIZE, b, 0, 10).unwrap(), 0);
        assert_eq!(fx.ns.clone_range(a, u64::MAX, b, 0, 10).unwrap(), 0);
        assert_eq!(fx.ns.clone_range(a, 0, b, 0, u64::MAX).unwrap(), 3 * CHUNK_SIZE);
        assert_eq!(fx.attr(b).size, 3 * CHUNK_SIZE);
        refused!(fx.ns.clone_range(a, 0, b, MAX_FILE_SIZE, 1), MetaError::FileTooBig);
        refused!(fx.ns.clone_range(a, 0, ROOT, 0, 1), MetaError::IsDirectory);
    });
}

#[test]
fn cloning_within_a_file_must_not_overlap() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 1000, 1);
        refused!(fx.ns.clone_range(file, 0, file, 500, 501), MetaError::Invalid(_));
        refused!(fx.ns.clone_range(file, 0, file, 0, 1), MetaError::Invalid(_));
        assert_eq!(fx.ns.clone_range(file, 0, file, 500, 500).unwrap(), 500);
        assert_eq!(fx.live(1), Some(1000));
        // Up to the old end, although the file grows.
        assert_eq!(fx.ns.clone_range(file, 0, file, 1000, u64::MAX).unwrap(), 1000);
        assert_eq!(fx.attr(file).size, 2000);
    });
}

#[test]
fn collapsing_closes_the_gap() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let end = 2 * CHUNK_SIZE + 10;
        fx.write(file, 0, 3 * BLOCK as u32, 1);
        fx.write(file, CHUNK_SIZE - 50, 100, 2);
        fx.write(file, end - 10, 10, 3);
        let attr = fx.ns.collapse(file, BLOCK, BLOCK).unwrap();
        assert_eq!((attr.size, attr.allocated), (end - BLOCK, 2 * BLOCK + 110));
        let first = fx.ns.extents(file, 0).unwrap();
        let places: Vec<_> = first.extents().iter().map(|extent| (extent.start, extent.len)).collect();
        let chunk = CHUNK_SIZE as u32;
        assert_eq!(places, [(0, 4096), (4096, 4096), (chunk - 4096 - 50, 100)]);
        assert_eq!(first.extents()[1].data, ExtentData::Segment(slice(1, 3 * 4096, 2 * 4096)));
        let second = fx.ns.extents(file, 1).unwrap();
        assert_eq!(second.extents()[0].start, chunk - 4096);
        for (offset, len) in [(1, BLOCK), (0, 0), (0, 1), (0, end), (BLOCK, 4 * CHUNK_SIZE)] {
            refused!(fx.ns.collapse(file, offset, len), MetaError::Invalid(_));
        }
    });
}

#[test]
fn inserting_opens_a_gap() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, CHUNK_SIZE as u32, 1);
        let attr = fx.ns.insert(file, BLOCK, BLOCK).unwrap();
        assert_eq!((attr.size, attr.allocated), (CHUNK_SIZE + BLOCK, CHUNK_SIZE));
        assert_eq!(fx.ns.seek(file, 0, true).unwrap(), BLOCK);
        assert_eq!(fx.ns.seek(file, BLOCK, false).unwrap(), 2 * BLOCK);
        let second = fx.ns.extents(file, 1).unwrap();
        let expected = ExtentData::Segment(slice(1, CHUNK_SIZE as u32, (CHUNK_SIZE - BLOCK) as u32));
        assert_eq!(second.extents()[0].data, expected);
        refused!(fx.ns.insert(file, 2 * CHUNK_SIZE, BLOCK), MetaError::Invalid(_));
        refused!(fx.ns.insert(file, 0, 5), MetaError::Invalid(_));
        refused!(fx.ns.insert(file, 0, MAX_FILE_SIZE), MetaError::FileTooBig);
        // And back again.
        assert_eq!(fx.ns.collapse(file, BLOCK, BLOCK).unwrap().size, CHUNK_SIZE);
        assert_eq!(fx.ns.extents(file, 0).unwrap().len(), 1);
        assert!(fx.ns.extents(file, 1).unwrap().is_empty());
    });
}
