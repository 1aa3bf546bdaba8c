//! One volume, several machines: each state directory is one. Who may open it, what is there when it does, and what comes
//! back when a machine is gone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::*;
use headrace_layout::crypto::MasterKey;
use headrace_volume::gc::gc_at;
use headrace_volume::progress::silent;
use headrace_volume::restore::Restore;
use headrace_volume::{Durability, FormatOptions, OpenOptions, Volume, VolumeError, gc};

on_every_store!(
    a_volume_moves_to_another_machine_and_back,
    a_lost_machine_is_restored_from_the_bucket_alone,
    an_encrypted_volume_is_restored_with_its_key,
    a_volume_held_elsewhere_is_refused_with_the_holders_name,
    a_dead_machine_is_taken_over_only_when_asked_for,
    changes_of_a_machine_that_was_taken_over_are_set_aside,
    a_reader_claims_nothing_and_sees_what_is_in_the_bucket,
    the_past_is_restored_within_the_retention,
    the_volume_goes_on_after_a_restore_of_the_past,
    damaged_metadata_is_rebuilt,
    garbage_is_kept_for_the_retention,
    a_volume_without_its_log_writes_it_anew,
);

const LEASE: Duration = Duration::from_secs(2);

/// How the machine called `name` opens the volume.
fn machine(place: &Place, name: &str) -> OpenOptions {
    OpenOptions {
        state_dir: Some(place.dir.path().join(name)),
        lease: LEASE,
        retention: Duration::ZERO,
        ..place.open_options()
    }
}

async fn formatted(place: &Place, on: &str, options: &FormatOptions) {
    let state = place.dir.path().join(on);
    headrace_volume::format(&place.location, &place.store, Some(&state), options).await.unwrap();
}

async fn open(place: &Place, options: &OpenOptions) -> Arc<Volume> {
    Volume::open(&place.location, options).await.unwrap()
}

async fn refused(place: &Place, options: &OpenOptions) -> String {
    let error = Volume::open(&place.location, options).await.unwrap_err();
    assert!(matches!(error, VolumeError::HeldElsewhere { .. }), "{error:?}");
    error.to_string()
}

/// A file with contents in a segment and a few inline bytes, so that both ways are there.
async fn write_file(volume: &Volume, name: &str, seed: u64) -> Vec<u8> {
    let ino = create(volume, name);
    let mut data = pattern(seed, 9000);
    write_segment(volume, &[(ino, 0, &data[..8000])]).await;
    write_inline(volume, ino, 8000, &data[8000..]);
    data.truncate(9000);
    data
}

async fn assert_file(volume: &Volume, name: &str, data: &[u8]) {
    let found = volume.meta.lookup(headrace_layout::InodeNo::ROOT, name.as_bytes()).unwrap();
    assert!(read(volume, found.ino).await == data, "{name}");
}

fn has_file(volume: &Volume, name: &str) -> bool {
    volume.meta.lookup(headrace_layout::InodeNo::ROOT, name.as_bytes()).is_ok()
}

fn lose(place: &Place, machine: &str) {
    std::fs::remove_dir_all(place.dir.path().join(machine)).unwrap();
}

/// What the machine has put aside.
fn aside(options: &OpenOptions) -> Vec<std::path::PathBuf> {
    let base: &Path = options.state_dir.as_deref().unwrap();
    let volumes = std::fs::read_dir(base).unwrap().map(|e| e.unwrap().path());
    let entries = volumes.flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()));
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("set-aside")).collect()
}

async fn a_volume_moves_to_another_machine_and_back(place: Place) {
    formatted(&place, "a", &small()).await;
    let (a, b) = (machine(&place, "a"), machine(&place, "b"));
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for (round, options) in [&a, &b, &a, &a, &b].into_iter().enumerate() {
        let volume = open(&place, options).await;
        for (name, data) in &files {
            assert_file(&volume, name, data).await;
        }
        let name = format!("file-{round}");
        files.push((name.clone(), write_file(&volume, &name, round as u64).await));
        check_clean(&volume).await;
        volume.close().await.unwrap();
        // What was all in the bucket is not kept twice.
        assert!(aside(&a).is_empty());
    }
}

async fn a_lost_machine_is_restored_from_the_bucket_alone(place: Place) {
    formatted(&place, "a", &small()).await;
    lose(&place, "a");
    // Nothing but the format, and already there.
    let volume = open(&place, &machine(&place, "b")).await;
    let first = write_file(&volume, "closed", 1).await;
    volume.close().await.unwrap();
    lose(&place, "b");

    let options = OpenOptions { durability: Durability::Bucket, ..machine(&place, "c") };
    let volume = open(&place, &options).await;
    assert_file(&volume, "closed", &first).await;
    let second = write_file(&volume, "acknowledged", 2).await;
    volume.durable().await.unwrap();
    let status = volume.log_status().unwrap();
    assert_eq!((status.position, status.lag_transactions), (status.shipped_position, 0));
    volume.leave().await;
    drop(volume);
    lose(&place, "c");

    let volume = open(&place, &OpenOptions { takeover: true, ..machine(&place, "d") }).await;
    assert!(volume.notes.iter().any(|note| note.contains("rebuilt from the bucket")), "{:?}", volume.notes);
    assert_file(&volume, "closed", &first).await;
    assert_file(&volume, "acknowledged", &second).await;
    check_clean(&volume).await;
}

async fn an_encrypted_volume_is_restored_with_its_key(place: Place) {
    let key = MasterKey::generate();
    formatted(&place, "a", &FormatOptions { encryption: Some(key.clone()), ..small() }).await;
    let with_key = |name| OpenOptions { key: Some(key.clone()), ..machine(&place, name) };
    let volume = open(&place, &with_key("a")).await;
    let data = write_file(&volume, "a name that nobody may read", 1).await;
    volume.close().await.unwrap();
    drop(volume);
    lose(&place, "a");
    for file in walk(&place.objects()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(6).any(|w| w == b"nobody"), "{} shows a name", file.display());
    }
    let volume = open(&place, &with_key("b")).await;
    assert_file(&volume, "a name that nobody may read", &data).await;
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(walk(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files
}

async fn a_volume_held_elsewhere_is_refused_with_the_holders_name(place: Place) {
    formatted(&place, "a", &small()).await;
    let a = OpenOptions { mountpoint: Some("/mnt/of a".into()), ..machine(&place, "a") };
    let volume = open(&place, &a).await;
    for takeover in [false, true] {
        let message = refused(&place, &OpenOptions { takeover, ..machine(&place, "b") }).await;
        let pid = std::process::id().to_string();
        for part in ["/mnt/of a", &pid, "is alive", "headrace umount", &place.location.to_string()] {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
    let message = refused(&place, &OpenOptions { read_only: true, ..machine(&place, "b") }).await;
    assert!(message.contains("is alive"), "{message}");
    // It was not disturbed.
    write_file(&volume, "f", 1).await;
    volume.close().await.unwrap();
    open(&place, &machine(&place, "b")).await.close().await.unwrap();
}

async fn a_dead_machine_is_taken_over_only_when_asked_for(place: Place) {
    formatted(&place, "a", &small()).await;
    let volume = open(&place, &machine(&place, "a")).await;
    let data = write_file(&volume, "shipped", 1).await;
    volume.flush().await.unwrap();
    volume.leave().await;

    let message = refused(&place, &machine(&place, "b")).await;
    for part in ["--takeover", "lost", "no sign of life"] {
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }
    // Its own machine need not ask, nor wait.
    let before = std::time::Instant::now();
    let volume = open(&place, &machine(&place, "a")).await;
    assert!(before.elapsed() < LEASE, "{:?}", before.elapsed());
    assert_file(&volume, "shipped", &data).await;
    volume.leave().await;

    let volume = open(&place, &OpenOptions { takeover: true, ..machine(&place, "b") }).await;
    assert_file(&volume, "shipped", &data).await;
    check_clean(&volume).await;
}

async fn changes_of_a_machine_that_was_taken_over_are_set_aside(place: Place) {
    formatted(&place, "a", &small()).await;
    let a = machine(&place, "a");
    let old = open(&place, &a).await;
    write_file(&old, "shipped", 1).await;
    old.flush().await.unwrap();
    // Paused, as far as others can see.
    write_file(&old, "only here", 2).await;
    old.engine.durable(old.engine.position()).await.unwrap();
    old.leave().await;
    drop(old);

    let new = open(&place, &OpenOptions { takeover: true, ..machine(&place, "b") }).await;
    assert!(has_file(&new, "shipped"));
    let lost = !has_file(&new, "only here");
    write_file(&new, "later", 3).await;
    new.close().await.unwrap();

    let volume = open(&place, &a).await;
    assert!(has_file(&volume, "later"));
    assert_eq!(has_file(&volume, "only here"), !lost);
    if lost {
        assert_eq!(aside(&a).len(), 1);
        let note = volume.notes.join("\n");
        assert!(note.contains(aside(&a)[0].to_str().unwrap()), "{note}");
    }
    check_clean(&volume).await;
}

async fn a_reader_claims_nothing_and_sees_what_is_in_the_bucket(place: Place) {
    formatted(&place, "a", &small()).await;
    let reader = OpenOptions { read_only: true, ..machine(&place, "r") };
    let mut objects = walk(&place.objects()).len();
    for round in 0..3 {
        let volume = open(&place, &machine(&place, "a")).await;
        let data = write_file(&volume, "f", round).await;
        volume.close().await.unwrap();
        drop(volume);
        let before = walk(&place.objects());
        assert!(before.len() > objects);
        objects = before.len();
        for _ in 0..2 {
            let volume = open(&place, &reader).await;
            assert_file(&volume, "f", &data).await;
            let error = gc(&volume, Duration::ZERO, false, &silent).await.unwrap_err();
            assert!(matches!(error, VolumeError::ReadOnly { .. }), "{error}");
            volume.close().await.unwrap();
        }
        assert_eq!(walk(&place.objects()), before);
        let volume = open(&place, &machine(&place, "a")).await;
        remove(&volume, "f");
        volume.close().await.unwrap();
    }
    assert!(aside(&reader).is_empty());
}

/// A moment that is after everything before and before everything after, for the log's milliseconds.
async fn between() -> SystemTime {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let at = SystemTime::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    at
}

/// Three files, each in a log object of its own, and moments between them.
async fn history(place: &Place, options: &OpenOptions) -> (Vec<Vec<u8>>, Vec<SystemTime>) {
    let volume = open(place, options).await;
    let (mut files, mut moments) = (Vec::new(), Vec::new());
    for n in 0..3 {
        moments.push(between().await);
        files.push(write_file(&volume, &format!("f{n}"), n).await);
        volume.flush().await.unwrap();
    }
    moments.push(between().await);
    volume.close().await.unwrap();
    (files, moments)
}

async fn restored(place: &Place, options: &OpenOptions, at: Option<SystemTime>) -> Vec<String> {
    let restore = Restore::prepare(&place.location, options, at, &silent).await.unwrap();
    restore.run(&silent).await.unwrap().notes
}

async fn the_past_is_restored_within_the_retention(place: Place) {
    formatted(&place, "a", &small()).await;
    let a = OpenOptions { retention: Duration::from_secs(3600), ..machine(&place, "a") };
    let (files, moments) = history(&place, &a).await;
    let restore = Restore::prepare(&place.location, &a, Some(moments[1]), &silent).await.unwrap();
    assert!(restore.plan().undone > 0);
    // Who changes his mind has lost nothing.
    restore.give_up().await.unwrap();
    let volume = open(&place, &a).await;
    assert!(has_file(&volume, "f2"));
    volume.close().await.unwrap();
    drop(volume);

    for (machine_name, upto) in [("a", 2), ("b", 1)] {
        let options = OpenOptions { retention: a.retention, ..machine(&place, machine_name) };
        restored(&place, &options, Some(moments[upto])).await;
        let volume = open(&place, &options).await;
        for (n, data) in files.iter().enumerate() {
            let name = format!("f{n}");
            if n < upto {
                assert_file(&volume, &name, data).await;
            } else {
                assert!(!has_file(&volume, &name), "{name} on {machine_name}");
            }
        }
        check_clean(&volume).await;
        volume.close().await.unwrap();
    }
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let error = Restore::prepare(&place.location, &a, Some(long_ago), &silent).await.err().unwrap();
    assert!(error.to_string().contains("oldest"), "{error}");
    // Nor is it left held.
    open(&place, &machine(&place, "c")).await;
}

async fn the_volume_goes_on_after_a_restore_of_the_past(place: Place) {
    formatted(&place, "a", &small()).await;
    let kept = Duration::from_secs(3600);
    let a = OpenOptions { retention: kept, ..machine(&place, "a") };
    let (files, moments) = history(&place, &a).await;
    restored(&place, &a, Some(moments[1])).await;
    let volume = open(&place, &a).await;
    let new = write_file(&volume, "new", 9).await;
    volume.close().await.unwrap();
    drop(volume);
    lose(&place, "a");
    let b = OpenOptions { retention: kept, ..machine(&place, "b") };
    let volume = open(&place, &b).await;
    assert_file(&volume, "f0", &files[0]).await;
    assert_file(&volume, "new", &new).await;
    assert!(!has_file(&volume, "f1"));
    // What was undone can be had back: its segments were not taken for garbage.
    gc(&volume, Duration::ZERO, false, &silent).await.unwrap();
    volume.close().await.unwrap();
    drop(volume);
    restored(&place, &b, Some(moments[3])).await;
    let volume = open(&place, &b).await;
    for (n, data) in files.iter().enumerate() {
        assert_file(&volume, &format!("f{n}"), data).await;
    }
    assert!(!has_file(&volume, "new"));
    check_clean(&volume).await;
}

async fn damaged_metadata_is_rebuilt(place: Place) {
    formatted(&place, "a", &small()).await;
    let a = machine(&place, "a");
    let volume = open(&place, &a).await;
    let data = write_file(&volume, "f", 1).await;
    volume.close().await.unwrap();
    let engine = volume.state_dir.engine();
    drop(volume);
    for file in walk(&engine) {
        let mut bytes = std::fs::read(&file).unwrap();
        let from = bytes.len() / 8;
        bytes[from..].fill(0x5a);
        std::fs::write(&file, bytes).unwrap();
    }
    let message = Volume::open(&place.location, &a).await.unwrap_err().to_string();
    assert!(message.contains(engine.to_str().unwrap()), "{message}");
    let notes = restored(&place, &a, None).await;
    assert_eq!(aside(&a).len(), 1, "{notes:?}");
    let volume = open(&place, &a).await;
    assert_file(&volume, "f", &data).await;
    check_clean(&volume).await;
}

async fn garbage_is_kept_for_the_retention(place: Place) {
    formatted(&place, "a", &small()).await;
    let hour = Duration::from_secs(3600);
    let volume = open(&place, &OpenOptions { retention: 2 * hour, ..machine(&place, "a") }).await;
    write_file(&volume, "f", 1).await;
    remove(&volume, "f");
    let now = SystemTime::now();
    let told = gc_at(&volume, now + hour, Duration::ZERO, true, &silent).await.unwrap();
    assert_eq!((told.dead_segments, told.waiting, told.objects.len()), (0, 1, 0));
    let done = gc_at(&volume, now + hour, Duration::ZERO, false, &silent).await.unwrap();
    assert_eq!(done.dead_segments, 0);
    let told = gc_at(&volume, now + 3 * hour, Duration::ZERO, true, &silent).await.unwrap();
    assert_eq!((told.dead_segments, told.waiting), (1, 0));
    assert!(told.objects[0].key.starts_with("segments/"), "{:?}", told.objects);
    let done = gc_at(&volume, now + 3 * hour, Duration::ZERO, false, &silent).await.unwrap();
    assert_eq!(done.dead_segments, 1);
    assert_eq!(segment_objects(&*volume.store).await, 0);
    // The bucket knows of the death too.
    volume.leave().await;
    drop(volume);
    lose(&place, "a");
    let volume = open(&place, &OpenOptions { takeover: true, ..machine(&place, "b") }).await;
    check_clean(&volume).await;
}

/// A volume whose log was deleted, or never written because `format` was cut short.
async fn a_volume_without_its_log_writes_it_anew(place: Place) {
    formatted(&place, "a", &small()).await;
    let volume = open(&place, &machine(&place, "a")).await;
    let data = write_file(&volume, "f", 1).await;
    volume.close().await.unwrap();
    drop(volume);
    for folder in ["log", "snapshots", "owners"] {
        std::fs::remove_dir_all(place.objects().join(folder)).unwrap();
    }
    let error = Volume::open(&place.location, &machine(&place, "b")).await.unwrap_err();
    assert!(matches!(error, VolumeError::NoMetadata { .. }), "{error}");
    // That claim did not make it the other's.
    let volume = open(&place, &OpenOptions { takeover: true, ..machine(&place, "a") }).await;
    assert_file(&volume, "f", &data).await;
    volume.close().await.unwrap();
    drop(volume);
    let volume = open(&place, &machine(&place, "b")).await;
    assert_file(&volume, "f", &data).await;
}
