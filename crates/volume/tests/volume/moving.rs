//! Packing and compaction change where bytes are, never which bytes they are.

use std::time::{Duration, SystemTime};

use crate::common::*;
use headrace_layout::crypto::MasterKey;
use headrace_layout::{CHUNK_SIZE, Compression, ExtentData, InodeNo};
use headrace_meta::{DataCommit, NewData, NewExtent};
use headrace_volume::progress::silent;
use headrace_volume::{
    Compactor, FormatOptions, OpenOptions, Volume, compact, compact_chunk, describe, pack,
};

on_every_store!(
    small_files_are_packed_into_few_segments,
    sparse_segments_are_rewritten_without_what_is_dead,
    tiny_segments_are_merged,
    clones_stay_shared,
    a_chunk_with_very_many_extents_becomes_one_run,
    compressed_and_encrypted_volumes_are_compacted_too,
);

/// Old enough to be compacted.
fn later() -> SystemTime {
    SystemTime::now() + compact::MIN_AGE + Duration::from_secs(1)
}

async fn small_files_are_packed_into_few_segments(place: Place) {
    let volume = place.volume().await;
    let files: Vec<_> = (0..300u64)
        .map(|n| {
            let ino = create(&volume, &format!("f{n}"));
            let data = pattern(n, 1 + (n as usize * 37) % 20_000);
            write_inline(&volume, ino, 0, &data);
            // Some are overwritten in part, some deleted, before they are packed.
            if n % 7 == 0 {
                write_inline(&volume, ino, 0, b"new beginning");
            }
            (n, ino)
        })
        .collect();
    for n in (0..300u64).step_by(10) {
        remove(&volume, &format!("f{n}"));
    }
    let mut before = Vec::new();
    for (n, ino) in &files {
        before.push(if n % 10 == 0 { Vec::new() } else { read(&volume, *ino).await });
    }
    let report = pack(&volume, u64::MAX).await.unwrap();
    assert!(report.moved >= 270 && report.stale == 0 && report.damaged == 0, "{report:?}");
    let bytes: usize = before.iter().map(Vec::len).sum();
    assert_eq!(report.bytes, bytes as u64);
    assert!(report.segments <= 1 + bytes as u64 / (900 << 10), "{report:?}");
    assert_eq!(volume.meta.inline_bytes(), 0);
    for ((n, ino), contents) in files.iter().zip(&before) {
        if n % 10 != 0 {
            assert_eq!(&read(&volume, *ino).await, contents);
        }
    }
    assert_eq!(pack(&volume, u64::MAX).await.unwrap().moved, 0);
    check_clean(&volume).await;
}

async fn sparse_segments_are_rewritten_without_what_is_dead(place: Place) {
    let volume = place.volume().await;
    let keep = create(&volume, "keep");
    let part = create(&volume, "part");
    let gone = create(&volume, "gone");
    let (a, b, c) = (pattern(1, 100_000), pattern(2, 300_000), pattern(3, 500_000));
    let id = write_segment(&volume, &[(keep, 0, &a), (part, 0, &b), (gone, 0, &c)]).await;
    remove(&volume, "gone");
    volume.meta.punch(part, 50_000, 200_000).unwrap();
    let (keep_before, part_before) = (read(&volume, keep).await, read(&volume, part).await);

    let mut compactor = Compactor::new();
    let young = compactor.round(&volume, SystemTime::now(), &silent).await.unwrap();
    assert_eq!(young.rewritten, 0);
    let report = compactor.round(&volume, later(), &silent).await.unwrap();
    assert_eq!((report.rewritten, report.new_segments, report.stale), (1, 1, 0), "{report:?}");
    assert_eq!(report.bytes, 200_000);
    assert_eq!(volume.meta.segment(id).unwrap().unwrap().live, 0);
    assert_eq!(read(&volume, keep).await, keep_before);
    assert_eq!(read(&volume, part).await, part_before);
    check_clean(&volume).await;
    let again = compactor.round(&volume, later(), &silent).await.unwrap();
    assert_eq!(again.rewritten, 0);
}

async fn tiny_segments_are_merged(place: Place) {
    let volume = place.volume().await;
    let mut files = Vec::new();
    for n in 0..compact::TINY_MIN as u64 - 1 {
        let ino = create(&volume, &format!("f{n}"));
        let data = pattern(n, 10_000);
        write_segment(&volume, &[(ino, 0, &data)]).await;
        files.push((ino, data));
    }
    let mut compactor = Compactor::new();
    assert_eq!(compactor.round(&volume, later(), &silent).await.unwrap().rewritten, 0);
    let ino = create(&volume, "last");
    let data = pattern(99, 10_000);
    write_segment(&volume, &[(ino, 0, &data)]).await;
    files.push((ino, data));
    let report = compactor.round(&volume, later(), &silent).await.unwrap();
    assert_eq!((report.rewritten, report.new_segments), (compact::TINY_MIN as u64, 1));
    for (ino, data) in files {
        assert_eq!(read(&volume, ino).await, data);
    }
    check_clean(&volume).await;
}

async fn clones_stay_shared(place: Place) {
    let volume = place.volume().await;
    let original = create(&volume, "original");
    let data = pattern(1, 600_000);
    let id = write_segment(&volume, &[(original, 0, &data)]).await;
    // The clone lies elsewhere in its file, so the segment's index does not lead to it.
    let clone = create(&volume, "clone");
    let offset = 3 * CHUNK_SIZE + 12_288;
    volume.meta.clone_range(original, 100_000, clone, offset, 150_000).unwrap();
    remove(&volume, "original");
    let second = create(&volume, "second");
    volume.meta.clone_range(clone, offset, second, 0, 100_000).unwrap();
    let report = Compactor::new().round(&volume, later(), &silent).await.unwrap();
    assert_eq!((report.rewritten, report.bytes), (1, 150_000), "{report:?}");
    assert_eq!(volume.meta.segment(id).unwrap().unwrap().live, 0);
    assert_eq!(read(&volume, second).await, &data[100_000..200_000]);
    assert_eq!(&read(&volume, clone).await[offset as usize..], &data[100_000..250_000]);
    let key = |ino, index: usize| {
        let info = describe(&volume, ino).unwrap();
        serde_json::to_value(&info.extents[index]).unwrap()["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(key(clone, 0), key(second, 0));
    check_clean(&volume).await;
}

async fn a_chunk_with_very_many_extents_becomes_one_run(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    // Reverse order, so that neighbours are in different places; some inline; one hole; in the second chunk.
    let mut expected = vec![0; 700 * 1000];
    let mut pieces = Vec::new();
    for n in (0..700usize).rev().filter(|n| *n != 300) {
        let data = pattern(n as u64, 1000);
        expected[n * 1000..(n + 1) * 1000].copy_from_slice(&data);
        if n % 50 == 0 {
            write_inline(&volume, ino, CHUNK_SIZE + n as u64 * 1000, &data);
        } else {
            pieces.push((ino, CHUNK_SIZE + n as u64 * 1000, data));
        }
    }
    let parts: Vec<_> = pieces.iter().map(|(ino, offset, data)| (*ino, *offset, &data[..])).collect();
    write_segment(&volume, &parts).await;
    let before = volume.meta.getattr(ino).unwrap();
    let report = compact_chunk(&volume, ino, 1).await.unwrap();
    assert_eq!((report.extents_before, report.extents_after, report.stale), (699, 2, 0));
    assert_eq!(&read(&volume, ino).await[CHUNK_SIZE as usize..], &expected);
    assert_eq!(volume.meta.getattr(ino).unwrap(), before);
    assert_eq!(compact_chunk(&volume, ino, 1).await.unwrap().bytes, 0);
    assert_eq!(compact_chunk(&volume, ino, 0).await.unwrap().extents_before, 0);
    check_clean(&volume).await;
}

async fn compressed_and_encrypted_volumes_are_compacted_too(place: Place) {
    let key = MasterKey::generate();
    let options = FormatOptions {
        compression: Compression::Zstd { level: 1 },
        encryption: Some(key.clone()),
        ..small()
    };
    place.format(&options).await.unwrap();
    let open = OpenOptions { key: Some(key), ..place.open_options() };
    let volume = Volume::open(&place.location, &open).await.unwrap();
    // Compresses well: the stored length says nothing about how much of it is in use.
    let text =
        |n: u64| format!("line {n} of a file that is much the same all over\n").repeat(6000).into_bytes();
    let mut parts = Vec::new();
    for n in 0..10 {
        parts.push((create(&volume, &format!("f{n}")), text(n)));
    }
    let refs: Vec<_> = parts.iter().map(|(ino, data)| (*ino, 0, &data[..])).collect();
    let id = write_segment(&volume, &refs).await;
    for n in 0..7 {
        remove(&volume, &format!("f{n}"));
    }
    let stored = volume.meta.segment(id).unwrap().unwrap();
    assert!(stored.live > stored.stored, "the test needs a segment that compressed well");
    // Tiny as stored, so fill up to the number that makes tiny ones worth it.
    for n in 0..compact::TINY_MIN as u64 {
        let ino = create(&volume, &format!("g{n}"));
        let data = text(100 + n);
        write_segment(&volume, &[(ino, 0, &data)]).await;
        parts.push((ino, data));
    }
    for n in 0..20 {
        let ino = create(&volume, &format!("i{n}"));
        let data = text(200 + n);
        write_inline(&volume, ino, 0, &data[..50_000]);
        parts.push((ino, data[..50_000].to_vec()));
    }
    pack(&volume, u64::MAX).await.unwrap();
    let report = Compactor::new().round(&volume, later(), &silent).await.unwrap();
    assert!(report.rewritten > compact::TINY_MIN as u64, "{report:?}");
    assert_eq!(volume.meta.segment(id).unwrap().unwrap().live, 0);
    for (ino, data) in &parts[7..] {
        assert!(read(&volume, *ino).await == *data);
    }
    check_clean(&volume).await;
}

#[tokio::test]
async fn a_write_during_the_rewrite_wins() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_inline(&volume, ino, 0, &pattern(1, 30_000));
    let offered = volume.meta.inline_backlog(None, u64::MAX).unwrap();
    assert_eq!(offered.len(), 1);
    // What the packer would do, with a write between its read and its swap.
    let ExtentData::Inline { id, skip } = volume.meta.extents(ino, 0).unwrap().extents()[0].data.clone()
    else {
        panic!("not inline")
    };
    let new = pattern(2, 10_000);
    let old = pattern(1, 30_000);
    let upload = crate::common::upload(&volume, volume.begin_segment().id(), &[(ino, 0, &old)]).await;
    write_inline(&volume, ino, 5000, &new);
    let (slice, stored) = upload.only_part();
    let swap =
        headrace_meta::Swap { offset: 0, len: 30_000, expect: ExtentData::Inline { id, skip }, new: slice };
    volume.meta.swap_extents(ino, &[swap], &[(upload.id, stored)]).unwrap();
    let mut expected = old;
    expected[5000..15_000].copy_from_slice(&new);
    assert!(read(&volume, ino).await == expected);
    check_clean(&volume).await;
}

#[tokio::test]
async fn packing_is_bounded() {
    let place = Place::local();
    let volume = place.volume().await;
    for n in 0..100 {
        let ino = create(&volume, &format!("f{n}"));
        write_inline(&volume, ino, 0, &pattern(n, 10_000));
    }
    let report = pack(&volume, 95_000).await.unwrap();
    assert!((95_000..=110_000).contains(&report.bytes), "{report:?}");
    // What was left is taken later.
    let rest = pack(&volume, u64::MAX).await.unwrap();
    assert_eq!(report.bytes + rest.bytes, 1_000_000);
}

#[tokio::test]
async fn a_description_shows_where_bytes_are() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let id = write_segment(&volume, &[(ino, 4096, &pattern(1, 10_000))]).await;
    write_inline(&volume, ino, 5 * CHUNK_SIZE, b"tail");
    let info = serde_json::to_value(describe(&volume, ino).unwrap()).unwrap();
    assert_eq!(info["size"], 5 * CHUNK_SIZE + 4);
    assert_eq!(info["extents"][0]["offset"], 4096);
    assert_eq!(info["extents"][0]["key"], id.object_key());
    assert_eq!(info["extents"][1]["in"], "inline");
    assert_eq!(info["extents"][1]["offset"], 5 * CHUNK_SIZE);
    let root = describe(&volume, InodeNo::ROOT).unwrap();
    assert_eq!((root.kind, root.extents.len()), ("directory", 0));
}

#[tokio::test]
async fn damaged_inline_values_do_not_stop_the_packer() {
    let place = Place::local();
    let volume = place.volume().await;
    let bad = create(&volume, "bad");
    let mut sealed = volume.codec.seal_inline(&pattern(1, 1000));
    let middle = sealed.len() / 2;
    sealed[middle] ^= 1;
    let commit = DataCommit {
        pieces: vec![NewExtent { offset: 0, len: 1000, data: NewData::Inline(sealed) }],
        new_size: Some(1000),
        ..DataCommit::default()
    };
    volume.meta.commit_write(bad, &commit).unwrap();
    let good = create(&volume, "good");
    write_inline(&volume, good, 0, b"fine");
    let report = pack(&volume, u64::MAX).await.unwrap();
    assert_eq!((report.moved, report.damaged), (1, 1));
    assert_eq!(read(&volume, good).await, b"fine");
    let (report, found) = check(&volume).await;
    assert_eq!(report.damaged_files, 1);
    assert!(found.iter().any(|f| f.message.starts_with("/bad: 1000 bytes")), "{found:#?}");
}

/// Writers, the packer, compaction and garbage collection at once: every file ends as its writer left it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_at_once() {
    let place = Place::local();
    let volume = place.volume().await;
    let mut writers = Vec::new();
    for writer in 0..3u64 {
        let volume = std::sync::Arc::clone(&volume);
        writers.push(tokio::spawn(async move {
            let ino = create(&volume, &format!("f{writer}"));
            let mut expected = Vec::new();
            for round in 0..150u64 {
                let seed = writer * 1000 + round;
                let offset = (seed * 7919) % 200_000;
                let data = pattern(seed, 1 + (seed as usize * 104_729) % 30_000);
                if round % 3 == 0 {
                    let guard = volume.begin_segment();
                    let upload = upload(&volume, guard.id(), &[(ino, offset, &data)]).await;
                    tokio::task::yield_now().await;
                    commit(&volume, upload);
                } else {
                    write_inline(&volume, ino, offset, &data);
                }
                let end = offset as usize + data.len();
                if expected.len() < end {
                    expected.resize(end, 0);
                }
                expected[offset as usize..end].copy_from_slice(&data);
                tokio::task::yield_now().await;
            }
            (ino, expected)
        }));
    }
    let mover = {
        let volume = std::sync::Arc::clone(&volume);
        tokio::spawn(async move {
            let mut compactor = Compactor::new();
            let mut moved = 0;
            loop {
                moved += pack(&volume, 500_000).await.unwrap().moved;
                moved += compactor.round(&volume, later(), &silent).await.unwrap().moved;
                let far = SystemTime::now() + Duration::from_secs(48 * 3600);
                headrace_volume::gc::gc_at(&volume, far, Duration::from_secs(60), false, &silent)
                    .await
                    .unwrap();
                if std::sync::Arc::strong_count(&volume) == 2 {
                    return moved;
                }
                // A round with nothing to do need not wait for anything.
                tokio::task::yield_now().await;
            }
        })
    };
    let mut files = Vec::new();
    for writer in writers {
        files.push(writer.await.unwrap());
    }
    assert!(mover.await.unwrap() > 0);
    for (ino, expected) in files {
        assert!(read(&volume, ino).await == expected, "inode {ino} differs");
    }
    check_clean(&volume).await;
}
