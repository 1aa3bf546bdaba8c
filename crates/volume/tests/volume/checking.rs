//! `fsck` finds damage that was planted, names the files, and finds nothing else.

use std::fs;
use std::time::SystemTime;

use crate::common::*;
use headrace_layout::SegmentId;
use headrace_meta::{DataCommit, Kind, NewData, NewExtent};
use headrace_volume::progress::silent;
use headrace_volume::{FsckOptions, Level, fsck};

on_every_store!(
    a_volume_in_order_is_clean,
    a_deleted_object_is_found_and_its_files_named,
    a_truncated_object_is_found,
    a_flipped_bit_is_found_when_data_is_read,
    an_orphan_is_counted_and_is_no_problem,
);

async fn a_volume_in_order_is_clean(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_segment(&volume, &[(ino, 0, &pattern(1, 700_000))]).await;
    volume.meta.link(ino, headrace_layout::InodeNo::ROOT, b"second name").unwrap();
    let inline = create(&volume, "g");
    write_inline(&volume, inline, 0, &pattern(2, 1000));
    let sparse = create(&volume, "sparse");
    volume.meta.truncate(sparse, headrace_meta::MAX_FILE_SIZE, false).unwrap();
    let report = check_clean(&volume).await;
    assert_eq!((report.segments, report.inline_values, report.orphans), (1, 1, 0));
    assert_eq!((report.files_read, report.bytes_read), (3, 701_000));
}

async fn a_deleted_object_is_found_and_its_files_named(place: Place) {
    let volume = place.volume().await;
    let dir = volume.meta.create(
        headrace_layout::InodeNo::ROOT,
        b"dir\n",
        Kind::Directory,
        0o755,
        0,
        None,
        &CALLER,
    );
    let dir = dir.unwrap().ino;
    let ino = volume.meta.create(dir, b"lost", Kind::File, 0o644, 0, None, &CALLER).unwrap().ino;
    let id = write_segment(&volume, &[(ino, 0, &pattern(1, 70_000))]).await;
    let fine = create(&volume, "fine");
    write_segment(&volume, &[(fine, 0, &pattern(2, 70_000))]).await;
    fs::remove_file(object_file(&place, id)).unwrap();
    // Also without reading data.
    for data in [false, true] {
        let mut found = Vec::new();
        let mut sink = |f: &headrace_volume::Finding| found.push(f.clone());
        let report = fsck(&volume, FsckOptions { data }, &silent, &mut sink).await.unwrap();
        assert_eq!((report.missing_segments, report.damaged_files), (1, 1));
        assert_eq!(report.worst(), Some(Level::Error));
        assert!(found.iter().any(|f| f.kind == "missing-segment" && f.message.contains(&id.object_key())));
        let file = found.iter().find(|f| f.kind == "damaged-file").unwrap();
        assert!(file.message.starts_with("/dir\\n/lost: 70000 bytes"), "{file:?}");
        assert_eq!(found.len(), 2, "{found:#?}");
    }
}

async fn a_truncated_object_is_found(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let id = write_segment(&volume, &[(ino, 0, &pattern(1, 70_000))]).await;
    let file = object_file(&place, id);
    let stored = fs::read(&file).unwrap();
    fs::write(&file, &stored[..stored.len() - 1]).unwrap();
    let (report, found) = check(&volume).await;
    assert_eq!((report.short_segments, report.damaged_files), (1, 1), "{found:#?}");
}

async fn a_flipped_bit_is_found_when_data_is_read(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let data = pattern(1, 70_000);
    let id = write_segment(&volume, &[(ino, 0, &data)]).await;
    let file = object_file(&place, id);
    let mut stored = fs::read(&file).unwrap();
    let at = stored.windows(64).position(|w| w == &data[30_000..30_064]).unwrap();
    stored[at] ^= 0x10;
    fs::write(&file, &stored).unwrap();
    let (report, found) = check(&volume).await;
    assert_eq!((report.errors, report.damaged_files), (1, 1), "{found:#?}");
    assert!(found[0].message.starts_with("/f: ") && found[0].message.contains("checksum"), "{found:#?}");
    let mut sink = |_: &headrace_volume::Finding| {};
    let report = fsck(&volume, FsckOptions { data: false }, &silent, &mut sink).await.unwrap();
    assert!(report.is_clean());
}

async fn an_orphan_is_counted_and_is_no_problem(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    upload(&volume, SegmentId::new(SystemTime::now()), &[(ino, 0, b"never committed")]).await;
    let guard = volume.begin_segment();
    upload(&volume, guard.id(), &[(ino, 0, b"on its way")]).await;
    let report = check_clean(&volume).await;
    assert_eq!(report.orphans, 1);
}

#[tokio::test]
async fn a_wrong_live_counter_is_found() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let id = write_segment(&volume, &[(ino, 0, &pattern(1, 70_000))]).await;
    // The record of the segment, as another segment's: same shape, another count.
    let other = create(&volume, "g");
    let donor = write_segment(&volume, &[(other, 0, &pattern(2, 50_000))]).await;
    let key = |id: SegmentId| [b"G".as_slice(), &id.to_bytes()].concat();
    volume
        .engine
        .transact(&mut |txn| {
            let value = txn.get(&key(donor))?.expect("a segment record").into_owned();
            txn.put(&key(id), &value);
            Ok(())
        })
        .unwrap();
    let (report, found) = check(&volume).await;
    assert!(!report.is_clean());
    assert!(found.iter().any(|f| f.kind == "segment-live"), "{found:#?}");
}

#[tokio::test]
async fn an_extent_in_a_segment_that_is_not_recorded_is_found() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let id = write_segment(&volume, &[(ino, 0, &pattern(1, 70_000))]).await;
    volume
        .engine
        .transact(&mut |txn| {
            txn.delete(&[b"G".as_slice(), &id.to_bytes()].concat());
            Ok(())
        })
        .unwrap();
    let (report, found) = check(&volume).await;
    assert_eq!(report.worst(), Some(Level::Error), "{found:#?}");
    assert!(found.iter().any(|f| f.kind == "unknown-segment" && f.remedy.contains("gc")), "{found:#?}");
}

#[tokio::test]
async fn a_damaged_segment_index_does_not_stop_compaction() {
    let place = Place::local();
    let volume = place.volume().await;
    let (keep, gone) = (create(&volume, "keep"), create(&volume, "gone"));
    let data = pattern(1, 100_000);
    let id = write_segment(&volume, &[(keep, 0, &data), (gone, 0, &pattern(2, 600_000))]).await;
    remove(&volume, "gone");
    let file = object_file(&place, id);
    let mut stored = fs::read(&file).unwrap();
    let last = stored.len() - 1;
    stored[last] ^= 1;
    fs::write(&file, &stored).unwrap();
    let now = SystemTime::now() + headrace_volume::compact::MIN_AGE * 2;
    let report = headrace_volume::Compactor::new().round(&volume, now, &silent).await.unwrap();
    assert_eq!((report.rewritten, report.damaged), (1, 0));
    assert!(read(&volume, keep).await == data);
    assert_eq!(volume.meta.segment(id).unwrap().unwrap().live, 0);
}

#[tokio::test]
async fn a_past_end_piece_cannot_hide() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let sealed = volume.codec.seal_inline(b"0123456789");
    let commit = DataCommit {
        pieces: vec![NewExtent { offset: 0, len: 10, data: NewData::Inline(sealed) }],
        new_size: Some(4),
        ..DataCommit::default()
    };
    volume.meta.commit_write(ino, &commit).unwrap();
    assert_eq!(read(&volume, ino).await, b"0123");
    check_clean(&volume).await;
}
