//! Work that takes several transactions, and being interrupted in it.

use headrace_layout::{CHUNK_SIZE, InodeNo, SegmentId};

use super::fixture::*;
use crate::data::chunks;
use crate::record::Flags;
use crate::*;

/// One more chunk than a transaction takes in hand.
const CHUNKS: u64 = 4097;

/// A file with a byte of data in each of many chunks.
fn huge(fx: &Fixture, name: &str) -> InodeNo {
    let file = fx.file(ROOT, name);
    let commit = DataCommit {
        pieces: (0..CHUNKS).map(|chunk| piece(chunk * CHUNK_SIZE, 1, slice(1, 1, 0))).collect(),
        new_size: Some(CHUNKS * CHUNK_SIZE),
        new_segments: vec![(SegmentId(1), 1)],
        ..DataCommit::default()
    };
    fx.ns.commit_write(file, &commit).unwrap();
    file
}

#[test]
fn huge_files_shrink_are_punched_cloned_and_reclaimed() {
    each(|fx| {
        let file = huge(fx, "file");
        let copy = fx.file(ROOT, "copy");
        assert_eq!(fx.ns.clone_range(file, 0, copy, 0, u64::MAX).unwrap(), CHUNKS * CHUNK_SIZE);
        assert_eq!(fx.live(1), Some(2 * CHUNKS));
        assert_eq!(fx.ns.punch(copy, 1, CHUNKS * CHUNK_SIZE).unwrap().allocated, 1);
        let attr = fx.ns.truncate(file, 10, false).unwrap();
        assert_eq!((attr.size, attr.allocated), (10, 1));
        assert!(fx.ns.orphans().unwrap().is_empty());
        let other = huge(fx, "other");
        fx.ns.unlink(ROOT, b"other").unwrap();
        fx.ns.reclaim(other).unwrap();
        assert_eq!(fx.live(1), Some(2));
    });
}

/// Leaves a file as a crash in the middle of a truncation does.
fn interrupted(fx: &Fixture, name: &str) -> InodeNo {
    let file = huge(fx, name);
    fx.ns
        .update(|tx| {
            let inode = tx.inode(file)?;
            inode.size = 10;
            inode.flags.set(Flags::UNSETTLED, true);
            tx.put(&key::unsettled(file), &[]);
            chunks::drop_from(tx, file, 10).map(drop)
        })
        .unwrap();
    file
}

#[test]
fn an_interrupted_truncation_shows_nothing_old() {
    each(|fx| {
        let last = (CHUNKS - 1) as u32;
        let file = interrupted(fx, "file");
        fx.assert_consistent();
        assert!(fx.ns.extents(file, last).unwrap().is_empty());
        refused!(fx.ns.seek(file, 1, false), MetaError::NoSuchOffset);
        assert_eq!(fx.ns.orphans().unwrap(), [file]);

        let attr = fx.ns.truncate(file, CHUNKS * CHUNK_SIZE, false).unwrap();
        assert_eq!(attr.allocated, 1);
        assert!(fx.ns.extents(file, last).unwrap().is_empty());
        assert!(fx.ns.orphans().unwrap().is_empty());

        let target = interrupted(fx, "target");
        fx.ns.clone_range(file, 0, target, 0, u64::MAX).unwrap();
        assert_eq!(fx.attr(target).allocated, 1);

        let written = interrupted(fx, "written");
        fx.write(written, (CHUNKS - 1) * CHUNK_SIZE + 100, 10, 2);
        assert_eq!(fx.attr(written).allocated, 11);
    });
}

#[test]
fn an_interrupted_truncation_is_finished_by_reclaim() {
    each(|fx| {
        let file = interrupted(fx, "file");
        fx.ns.reclaim(file).unwrap();
        assert_eq!((fx.attr(file).size, fx.attr(file).allocated), (10, 1));
        assert!(fx.ns.orphans().unwrap().is_empty());
        assert_eq!(fx.live(1), Some(1));

        let gone = interrupted(fx, "gone");
        fx.ns.unlink(ROOT, b"gone").unwrap();
        assert_eq!(fx.ns.orphans().unwrap(), [gone]);
        fx.ns.reclaim(gone).unwrap();
        assert!(fx.ns.orphans().unwrap().is_empty());
        assert_eq!(fx.live(1), Some(1));
    });
}

#[test]
fn many_inline_values_are_cloned_in_steps() {
    each(|fx| {
        let (a, b) = (fx.file(ROOT, "a"), fx.file(ROOT, "b"));
        let count = 200;
        for number in 0..count {
            fx.write_inline(a, number * 65536, 65536, 1);
        }
        assert_eq!(fx.ns.clone_range(a, 10, b, 0, u64::MAX).unwrap(), count * 65536 - 10);
        assert_eq!(fx.attr(b).allocated, count * 65536 - 10);
    });
}

#[test]
fn work_survives_reopening() {
    let fx = Fixture::embedded();
    let file = interrupted(&fx, "file");
    fx.write_inline(file, 0, 5, 1);
    let unnamed = fx.ns.create_unnamed(ROOT, 0o600, &CALLER).unwrap().ino;
    let fx = fx.reopen();
    assert_eq!(fx.ns.orphans().unwrap(), [unnamed]);
    assert_eq!(fx.ns.inline_bytes(), 9);
    fx.ns.reclaim(unnamed).unwrap();
    let fx = fx.reopen();
    assert!(fx.ns.orphans().unwrap().is_empty());
    fx.assert_consistent();
}
