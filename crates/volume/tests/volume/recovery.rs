//! Damage of every kind to a real volume: errors that name the file and never wrong bytes, repair, rebuild.

use std::fs;
use std::path::PathBuf;

use crate::common::*;
use headrace_layout::{InodeNo, SegmentId};
use headrace_meta::{Kind, RenameMode};
use headrace_volume::progress::silent;
use headrace_volume::{
    Compactor, Correction, DamagedFile, RebuildReport, RepairOptions, RepairReport, Volume, VolumeError,
    pack, read_extent, rebuild, repair,
};

on_every_store!(
    a_flipped_bit_costs_the_file_and_nothing_else,
    a_cut_segment_costs_the_file_and_nothing_else,
    a_deleted_segment_costs_the_file_and_nothing_else,
    swapped_segments_are_noticed,
    damaged_metadata_is_repaired_and_the_rest_stays,
    everything_that_was_stored_comes_back,
    a_rebuild_goes_around_a_damaged_segment,
);

/// Three files of one segment each.
async fn sample(volume: &Volume) -> Vec<(InodeNo, Vec<u8>, SegmentId)> {
    let mut files = Vec::new();
    for (seed, name) in ["one", "two", "three"].iter().enumerate() {
        let ino = create(volume, name);
        let data = pattern(seed as u64 + 1, 200_000);
        let id = write_segment(volume, &[(ino, 0, &data)]).await;
        files.push((ino, data, id));
    }
    files
}

/// Reads a file extent by extent: what can be read must be right, and answers the bytes that cannot.
async fn readable(volume: &Volume, ino: InodeNo, expected: &[u8]) -> u64 {
    let mut lost = 0;
    for extent in volume.meta.extents(ino, 0).unwrap().extents() {
        match read_extent(volume, ino, &extent.data, 0, extent.len).await {
            Ok(parts) => {
                let start = extent.start as usize;
                assert_eq!(parts.unwrap().concat(), expected[start..start + extent.len as usize]);
            }
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                lost += u64::from(extent.len);
            }
        }
    }
    lost
}

async fn mend(volume: &Volume) -> RepairReport {
    let options = RepairOptions { dry_run: false, data: true };
    repair(volume, options, &silent, &mut |_: &Correction| (), &mut |_| ()).await.unwrap()
}

/// Damages the first file's segment; the others must stay as they are, and the check must name it.
async fn costs_one_file(place: Place, lost: u64, damage: impl Fn(PathBuf)) {
    let volume = place.volume().await;
    let files = sample(&volume).await;
    damage(object_file(&place, files[0].2));
    assert!(readable(&volume, files[0].0, &files[0].1).await > 0);
    for (ino, data, _) in &files[1..] {
        assert_eq!(read(&volume, *ino).await, *data);
    }
    // Twice: a repair has nothing to repair here, and goes on saying what is lost.
    for _ in 0..2 {
        let report = mend(&volume).await;
        assert_eq!((report.repairs, report.losses), (0, 0), "{report:#?}");
        let after = report.after.unwrap();
        let [DamagedFile { path, ino, bytes, .. }] = &after.damaged[..] else { panic!("{after:#?}") };
        assert_eq!((path.as_str(), *ino, *bytes), ("/one", files[0].0.0, lost));
        assert!(readable(&volume, files[0].0, &files[0].1).await > 0, "lost bytes must not read as anything");
    }
    remove(&volume, "one");
    let (report, found) = check(&volume).await;
    assert_eq!(report.damaged_files, 0, "{found:#?}");
    volume.close().await.unwrap();
}

async fn a_flipped_bit_costs_the_file_and_nothing_else(place: Place) {
    // Of the file, one frame.
    costs_one_file(place, 4096, |file| {
        let mut bytes = fs::read(&file).unwrap();
        bytes[100_000] ^= 1;
        fs::write(&file, bytes).unwrap();
    })
    .await;
}

async fn a_cut_segment_costs_the_file_and_nothing_else(place: Place) {
    costs_one_file(place, 200_000, |file| {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    })
    .await;
}

async fn a_deleted_segment_costs_the_file_and_nothing_else(place: Place) {
    costs_one_file(place, 200_000, |file| fs::remove_file(file).unwrap()).await;
}

async fn swapped_segments_are_noticed(place: Place) {
    let volume = place.volume().await;
    let files = sample(&volume).await;
    let (a, b) = (object_file(&place, files[0].2), object_file(&place, files[1].2));
    let (in_a, in_b) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
    fs::write(&a, in_b).unwrap();
    fs::write(&b, in_a).unwrap();
    for (ino, data, _) in &files[..2] {
        assert_eq!(readable(&volume, *ino, data).await, data.len() as u64);
    }
    let (report, _) = check(&volume).await;
    let mut names: Vec<_> = report.damaged.iter().map(|file| file.path.as_str()).collect();
    names.sort();
    assert_eq!(names, ["/one", "/two"]);
    assert_eq!(read(&volume, files[2].0).await, files[2].1);
    volume.close().await.unwrap();
}

async fn damaged_metadata_is_repaired_and_the_rest_stays(place: Place) {
    let volume = place.volume().await;
    let files = sample(&volume).await;
    let (record, inode) =
        ([b"G", &files[0].2.to_bytes()[..]].concat(), [b"I", &files[1].0.0.to_be_bytes()[..]].concat());
    volume
        .engine
        .transact(&mut |txn| {
            txn.delete(&record);
            txn.put(&inode, b"rubbish");
            txn.put(b"Scounters", b"rubbish");
            Ok(())
        })
        .unwrap();
    let dry = RepairOptions { dry_run: true, data: false };
    let foreseen = repair(&volume, dry, &silent, &mut |_: &Correction| (), &mut |_| ()).await.unwrap();
    assert!(foreseen.dry_run && foreseen.repairs > 0 && foreseen.after.is_none());
    let report = mend(&volume).await;
    assert_eq!(report.corrections, foreseen.corrections);
    assert!(report.after.unwrap().is_clean());
    assert_eq!(mend(&volume).await.repairs, 0);
    for (ino, data, _) in &files {
        assert_eq!(read(&volume, *ino).await, *data);
    }
    // The length of the segment came from the store.
    let stored = fs::metadata(object_file(&place, files[0].2)).unwrap().len();
    assert_eq!(volume.meta.segment(files[0].2).unwrap().unwrap().stored, stored);
    volume.close().await.unwrap();
}

/// Deletes everything but the superblock and the segments.
fn lose_metadata(place: &Place, volume: &Volume) {
    let state = volume.state_dir.path().to_owned();
    fs::remove_dir_all(state).unwrap();
    for folder in ["log", "snapshots", "owners"] {
        let folder = place.objects().join(folder);
        if folder.exists() {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

async fn rebuilt(place: &Place, force: bool) -> Result<RebuildReport, VolumeError> {
    rebuild(&place.location, &place.open_options(), force, &silent).await
}

/// A segment as the program writes it, with names.
async fn store(volume: &Volume, ino: InodeNo, offset: u64, data: &[u8]) {
    use headrace_layout::SegmentBuilder;
    use headrace_meta::{DataCommit, NewData, NewExtent, Time};
    let guard = volume.begin_segment();
    let id = guard.id();
    let mut builder = SegmentBuilder::new(&volume.codec, volume.superblock.uuid, id);
    let slice = builder.push_run(ino, offset, &[data]).unwrap();
    volume.describe(&mut builder);
    let body = builder.finish();
    let stored = body.len() as u64;
    volume.store.put(&id.object_key(), body).await.unwrap();
    let commit = DataCommit {
        pieces: vec![NewExtent { offset, len: data.len() as u32, data: NewData::Segment(slice) }],
        new_size: Some(offset + data.len() as u64),
        mtime: Some(Time::now()),
        new_segments: vec![(id, stored)],
        ..DataCommit::default()
    };
    volume.meta.commit_write(ino, &commit).unwrap();
    // The next segment is younger, beyond doubt.
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
}

async fn everything_that_was_stored_comes_back(place: Place) {
    let volume = place.volume().await;
    let dir =
        volume.meta.create(InodeNo::ROOT, b"dir", Kind::Directory, 0o750, 0, None, &CALLER).unwrap().ino;
    let inner = volume.meta.create(dir, b"inner", Kind::Directory, 0o755, 0, None, &CALLER).unwrap().ino;
    let large = volume.meta.create(inner, b"large", Kind::File, 0o640, 0, None, &CALLER).unwrap().ino;
    let mut expected = pattern(1, 900_000);
    store(&volume, large, 0, &expected).await;
    // Written over, twice in one place: the newest counts.
    for (seed, at, len) in [(2, 100_000, 300_000), (3, 200_000, 50_000)] {
        let new = pattern(seed, len);
        expected[at..at + len].copy_from_slice(&new);
        store(&volume, large, at as u64, &new).await;
    }
    let mut small = Vec::new();
    for i in 0..50u64 {
        let ino = volume
            .meta
            .create(dir, format!("small {i}").as_bytes(), Kind::File, 0o600, 0, None, &CALLER)
            .unwrap()
            .ino;
        let data = pattern(100 + i, 500 + i as usize);
        write_inline(&volume, ino, 0, &data);
        small.push((ino, data));
    }
    pack(&volume, u64::MAX).await.unwrap();
    let replaced = create(&volume, "replaced");
    store(&volume, replaced, 0, b"the old contents").await;
    let replacing = create(&volume, "replacing");
    volume.meta.rename(InodeNo::ROOT, b"replacing", InodeNo::ROOT, b"replaced", RenameMode::Replace).unwrap();
    volume.meta.reclaim(replaced).unwrap();
    store(&volume, replacing, 0, b"the new contents").await;
    let never_stored = create(&volume, "in metadata only");
    write_inline(&volume, never_stored, 0, b"lost with the metadata");
    // Old data that moved is not newer than what was written after it.
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    Compactor::new().round(&volume, now, &silent).await.unwrap();
    assert_eq!(read(&volume, large).await, expected);
    volume.close().await.unwrap();

    assert!(matches!(rebuilt(&place, false).await, Err(VolumeError::RebuildRefused { .. })));
    lose_metadata(&place, &volume);
    drop(volume);
    let report = rebuilt(&place, false).await.unwrap();
    assert_eq!((report.damaged_segments, report.unknown.len()), (0, 5), "{report:#?}");

    let volume = place.open().await.unwrap();
    check_clean(&volume).await;
    assert_eq!(volume.meta.path_of(large).unwrap().as_deref(), Some(&b"/dir/inner/large"[..]));
    assert_eq!(read(&volume, large).await, expected);
    let attr = volume.meta.getattr(large).unwrap();
    assert_eq!((attr.mode, attr.size, attr.nlink), (0o640, 900_000, 1));
    assert_eq!(volume.meta.getattr(dir).unwrap().mode, 0o750);
    for (i, (ino, data)) in small.iter().enumerate() {
        let found = volume.meta.lookup(dir, format!("small {i}").as_bytes()).unwrap();
        assert_eq!(found.ino, *ino);
        assert_eq!(read(&volume, *ino).await, *data);
    }
    assert_eq!(volume.meta.lookup(InodeNo::ROOT, b"replaced").unwrap().ino, replacing);
    assert_eq!(read(&volume, replacing).await, b"the new contents");
    assert!(volume.meta.getattr(never_stored).is_err());
    // It is a volume like any other.
    let new = create(&volume, "new");
    assert!(new > never_stored, "a number is used again");
    store(&volume, new, 0, b"new").await;
    check_clean(&volume).await;
    volume.close().await.unwrap();
    drop(volume);
    let volume = place.open().await.unwrap();
    assert_eq!(read(&volume, new).await, b"new");
    volume.close().await.unwrap();
}

async fn a_rebuild_goes_around_a_damaged_segment(place: Place) {
    let volume = place.volume().await;
    let files = sample(&volume).await;
    volume.close().await.unwrap();
    lose_metadata(&place, &volume);
    drop(volume);
    fs::write(object_file(&place, files[0].2), b"not a segment").unwrap();
    let report = rebuilt(&place, false).await.unwrap();
    assert_eq!((report.segments, report.damaged_segments, report.files), (2, 1, 2));
    assert!(report.damaged[0].contains(&files[0].2.object_key()), "{report:#?}");
    let volume = place.open().await.unwrap();
    // These segments name nobody.
    assert_eq!(report.nameless, 2);
    let lost = volume.meta.lookup(InodeNo::ROOT, b"lost+found").unwrap().ino;
    for (ino, data, _) in &files[1..] {
        assert_eq!(volume.meta.lookup(lost, ino.0.to_string().as_bytes()).unwrap().ino, *ino);
        assert_eq!(read(&volume, *ino).await, *data);
    }
    check_clean(&volume).await;
    volume.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_rebuild_sets_the_metadata_aside() {
    let place = Place::local();
    let volume = place.volume().await;
    let files = sample(&volume).await;
    volume.close().await.unwrap();
    drop(volume);
    let report = rebuilt(&place, true).await.unwrap();
    assert!(report.notes[0].contains("set aside"), "{report:#?}");
    let volume = place.open().await.unwrap();
    for (ino, data, _) in &files {
        assert_eq!(read(&volume, *ino).await, *data);
    }
    check_clean(&volume).await;
    volume.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_is_named() {
    let place = Place::local();
    let volume = place.volume().await;
    sample(&volume).await;
    volume.close().await.unwrap();
    drop(volume);
    let options = headrace_volume::OpenOptions { read_only: true, ..place.open_options() };
    let volume = Volume::open(&place.location, &options).await.unwrap();
    let report = check_clean(&volume).await;
    assert!(report.log_objects > 0 && report.restorable.is_some(), "{report:#?}");
    let mut log: Vec<_> =
        fs::read_dir(place.objects().join("log")).unwrap().map(|e| e.unwrap().path()).collect();
    log.sort();
    let victim = log.last().unwrap();
    let mut bytes = fs::read(victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(victim, bytes).unwrap();
    let (report, found) = check(&volume).await;
    assert_eq!(report.damaged_files, 0);
    let name = format!("log/{}", victim.file_name().unwrap().to_str().unwrap());
    assert!(found.iter().any(|f| f.kind == "log" && f.message.contains(&name)), "{found:#?}");
    assert!(found.iter().any(|f| f.kind == "not-restorable"), "{found:#?}");
    volume.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_names_the_file_and_goes_on_where_it_was() {
    use headrace_volume::Scrubber;
    use headrace_volume::scrub::Step;
    let place = Place::local();
    let volume = place.volume().await;
    let files = sample(&volume).await;
    let inline = create(&volume, "small");
    write_inline(&volume, inline, 0, &pattern(9, 2000));
    pack(&volume, u64::MAX).await.unwrap();
    let victim = object_file(&place, files[1].2);
    let mut bytes = fs::read(&victim).unwrap();
    bytes[70_000] ^= 1;
    fs::write(&victim, bytes).unwrap();
    let mut scrubber = Scrubber::load(&volume);
    assert_eq!(scrubber.step(&volume, &|_| true).await.unwrap(), Step::More);
    scrubber.save(&volume).unwrap();
    volume.close().await.unwrap();
    drop(volume);

    let volume = place.open().await.unwrap();
    let mut scrubber = Scrubber::load(&volume);
    assert_eq!(scrubber.status().segments, 1);
    assert_eq!(scrubber.step(&volume, &|_| false).await.unwrap(), Step::Stopped);
    while scrubber.step(&volume, &|_| true).await.unwrap() == Step::More {}
    let pass = scrubber.status().last_pass.clone().unwrap();
    assert_eq!((pass.segments, pass.damaged), (4, 1), "{pass:#?}");
    assert!(pass.found[0].contains("/two") && pass.found[0].contains(&files[1].2.object_key()), "{pass:#?}");
    assert!(!pass.found[0].contains("/one"));
    scrubber.verify_metadata(&volume).unwrap();
    assert_eq!(scrubber.status().metadata, None);
    volume.close().await.unwrap();
}

/// Interrupted wherever it reports progress, a rebuild goes on and comes to the same end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_rebuild_goes_on() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let place = Place::local();
    let volume = place.volume().await;
    let mut files = Vec::new();
    for i in 0..12u64 {
        let ino = create(&volume, &format!("file {i}"));
        let data = pattern(i + 1, 10_000);
        store(&volume, ino, 0, &data).await;
        files.push((ino, data));
    }
    volume.close().await.unwrap();
    lose_metadata(&place, &volume);
    drop(volume);
    let mut interrupted = 0;
    for stop_at in 1.. {
        let (location, options) = (place.location.clone(), place.open_options());
        let calls = AtomicUsize::new(0);
        let attempt = tokio::spawn(async move {
            let stop = |_| {
                if calls.fetch_add(1, Ordering::SeqCst) + 1 == stop_at {
                    std::panic::resume_unwind(Box::new("interrupted"));
                }
            };
            rebuild(&location, &options, false, &stop).await
        });
        match attempt.await {
            Ok(report) => {
                let report = report.unwrap();
                assert_eq!((report.segments, report.files, report.nameless), (12, 12, 0), "{report:#?}");
                break;
            }
            Err(_) => interrupted += 1,
        }
    }
    assert!(interrupted > 1);
    let volume = place.open().await.unwrap();
    for (ino, data) in &files {
        assert_eq!(read(&volume, *ino).await, *data);
    }
    check_clean(&volume).await;
    volume.close().await.unwrap();
}
