//! Format, open, hold, destroy, and every way in which they refuse.

use std::fs;
use std::sync::Arc;

use crate::common::faulty::{Fault, Faulty};
use crate::common::*;
use headrace_layout::crypto::MasterKey;
use headrace_layout::{Compression, InodeNo, SegmentId};
use headrace_store::{Location, StoreOptions};
use headrace_volume::format::format_in;
use headrace_volume::progress::silent;
use headrace_volume::{DestroyOptions, Doomed, FormatOptions, OpenOptions, Volume, VolumeError, holder};

on_every_store!(
    a_volume_is_formatted_opened_used_and_opened_again,
    a_volume_in_use_names_its_holder,
    what_is_not_a_volume_is_refused,
    a_location_that_is_taken_is_refused,
    unknown_formats_are_refused,
    keys_are_checked,
    destroy_removes_the_volume_and_nothing_else,
    destroy_of_a_volume_in_use_is_refused,
    a_format_that_fails_anywhere_can_be_done_again,
    a_lost_answer_does_not_lose_the_volume,
    metadata_of_another_volume_is_refused,
);

async fn a_volume_is_formatted_opened_used_and_opened_again(place: Place) {
    let options = FormatOptions {
        name: "my volume".into(),
        compression: Compression::Lz4,
        root_mode: 0o700,
        ..small()
    };
    let made = place.format(&options).await.unwrap();
    assert!(!made.weak_conditional_put);
    let volume = place.open().await.unwrap();
    assert_eq!(volume.superblock, made);
    assert_eq!(volume.meta.getattr(InodeNo::ROOT).unwrap().mode, 0o700);
    let ino = create(&volume, "f");
    let data = pattern(1, 10_000);
    write_segment(&volume, &[(ino, 0, &data)]).await;
    volume.close().await.unwrap();
    volume.close().await.unwrap();
    drop(volume);
    let volume = place.open().await.unwrap();
    assert_eq!(read(&volume, ino).await, data);
    check_clean(&volume).await;
}

async fn a_volume_in_use_names_its_holder(place: Place) {
    place.format(&small()).await.unwrap();
    let options = OpenOptions { mountpoint: Some("/mnt/x".into()), ..place.open_options() };
    let volume = Volume::open(&place.location, &options).await.unwrap();
    let holder = holder::current_holder(&volume.state_dir).unwrap().unwrap();
    assert_eq!((holder.pid, holder.mountpoint.as_deref()), (std::process::id(), Some("/mnt/x")));
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, VolumeError::Held { .. }));
    let message = error.to_string();
    for part in ["/mnt/x", &std::process::id().to_string(), "umount /mnt/x", &place.location.to_string()] {
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }
    volume.close().await.unwrap();
    place.open().await.unwrap();
}

async fn what_is_not_a_volume_is_refused(place: Place) {
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, VolumeError::NotAVolume { .. }), "{error}");
    assert!(error.to_string().contains("headrace format"), "{error}");
    headrace_store::create_root(&place.location).unwrap();
    let store = place.open_store();
    store.put("photos/cat.jpg", b"meow".as_slice().into()).await.unwrap();
    let message = place.open().await.unwrap_err().to_string();
    assert!(message.contains("photos/cat.jpg"), "{message}");
    store.put("headrace.json", b"<html>".as_slice().into()).await.unwrap();
    let message = place.open().await.unwrap_err().to_string();
    assert!(message.contains("not a Headrace volume"), "{message}");
}

async fn a_location_that_is_taken_is_refused(place: Place) {
    headrace_store::create_root(&place.location).unwrap();
    let store = place.open_store();
    store.put("photos/cat.jpg", b"meow".as_slice().into()).await.unwrap();
    let error = place.format(&small()).await.unwrap_err();
    assert!(
        matches!(&error, VolumeError::NotEmpty { example, .. } if example == "photos/cat.jpg"),
        "{error}"
    );
    assert_eq!(&store.get("photos/cat.jpg").await.unwrap()[..], b"meow");
    store.delete("photos/cat.jpg").await.unwrap();

    let first = place.format(&small()).await.unwrap();
    let error = place.format(&small()).await.unwrap_err();
    assert!(
        matches!(&error, VolumeError::AlreadyVolume { uuid, .. } if *uuid == first.uuid.to_string()),
        "{error}"
    );
    assert_eq!(place.open().await.unwrap().superblock, first);
}

async fn unknown_formats_are_refused(place: Place) {
    place.format(&small()).await.unwrap();
    let store = place.open_store();
    let good = store.get("headrace.json").await.unwrap();
    let text = String::from_utf8(good.to_vec()).unwrap();
    let newer = text.replace("\"version\": 1", "\"version\": 7");
    assert_ne!(newer, text);
    store.put("headrace.json", newer.into()).await.unwrap();
    let message = place.open().await.unwrap_err().to_string();
    assert!(message.contains('7') && message.contains("newer"), "{message}");
    let damaged = text.replace("\"frame_size\": 4096", "\"frame_size\": 8192");
    assert_ne!(damaged, text);
    store.put("headrace.json", damaged.into()).await.unwrap();
    let message = place.open().await.unwrap_err().to_string();
    assert!(message.contains("corrupt"), "{message}");
    // Nor is a volume overwritten because its superblock is not understood.
    place.format(&small()).await.unwrap_err();
    store.put("headrace.json", good).await.unwrap();
    place.open().await.unwrap();
}

async fn keys_are_checked(place: Place) {
    let key = MasterKey::generate();
    let options = FormatOptions { encryption: Some(key.clone()), ..small() };
    place.format(&options).await.unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, VolumeError::KeyNeeded { .. }), "{error}");
    let with = |key| OpenOptions { key: Some(key), ..place.open_options() };
    let error = Volume::open(&place.location, &with(MasterKey::generate())).await.unwrap_err();
    assert!(matches!(error, VolumeError::KeyWrong { .. }), "{error}");
    let volume = Volume::open(&place.location, &with(key)).await.unwrap();
    let ino = create(&volume, "secret");
    let data = pattern(2, 5000);
    let id = write_segment(&volume, &[(ino, 0, &data)]).await;
    assert_eq!(read(&volume, ino).await, data);
    let stored = fs::read(object_file(&place, id)).unwrap();
    assert!(!stored.windows(16).any(|w| w == &data[..16]), "plain text in the store");
}

async fn destroy_removes_the_volume_and_nothing_else(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    for seed in 0..3 {
        write_segment(&volume, &[(ino, 0, &pattern(seed, 5000))]).await;
    }
    let state = volume.state_dir.path().to_owned();
    drop(volume);
    let store = place.open_store();
    store.put("segments/readme", b"theirs".as_slice().into()).await.unwrap();
    store.put("other/file", b"theirs".as_slice().into()).await.unwrap();

    let options = DestroyOptions {
        store: place.store.clone(),
        state_dir: place.state.clone(),
        ..DestroyOptions::default()
    };
    let doomed = Doomed::survey(&place.location, &options, &silent).await.unwrap();
    assert_eq!((doomed.plan().segments, doomed.plan().foreign), (3, 2));
    assert!(doomed.plan().bytes > 15_000);
    // Nobody gets in between the question and the answer.
    assert!(matches!(place.open().await.unwrap_err(), VolumeError::Held { .. }));
    let report = doomed.destroy(&silent).await.unwrap();
    assert_eq!((report.segments, report.foreign), (3, 2));
    assert!(!state.exists());
    assert_eq!(segment_objects(&*store).await, 1);
    assert_eq!(&store.get("other/file").await.unwrap()[..], b"theirs");
    assert!(matches!(place.open().await.unwrap_err(), VolumeError::NotAVolume { .. }));

    store.delete("segments/readme").await.unwrap();
    store.delete("other/file").await.unwrap();
    place.format(&small()).await.unwrap();
    place.open().await.unwrap();
}

async fn destroy_of_a_volume_in_use_is_refused(place: Place) {
    let volume = place.volume().await;
    let options = DestroyOptions {
        store: place.store.clone(),
        state_dir: place.state.clone(),
        force: true,
        ..DestroyOptions::default()
    };
    let error = Doomed::survey(&place.location, &options, &silent).await.err().unwrap();
    assert!(matches!(error, VolumeError::Held { .. }), "{error}");
    check_clean(&volume).await;
}

/// Changes that `format` makes in the store: in the probe, and the one that counts.
const FORMAT_CHANGES: [(&str, u64); 3] = [("probe/", 0), ("probe/", 5), ("headrace.json", 0)];

/// Power fails before or after a change that `format` makes in the store. The next format either finds a whole volume, or
/// makes one.
async fn a_format_that_fails_anywhere_can_be_done_again(place: Place) {
    headrace_store::create_root(&place.location).unwrap();
    for (prefix, change) in FORMAT_CHANGES {
        for fault in [Fault::CrashBefore(change), Fault::CrashAfter(change)] {
            let faulty = Faulty::new(place.open_store(), None);
            faulty.arm_below(prefix, fault);
            let made =
                format_in(Arc::clone(&faulty) as _, &place.location, place.state.as_deref(), &small()).await;
            assert!(faulty.has_fired() && made.is_err());
            match place.format(&small()).await {
                Ok(_) => {}
                // All but the answer was done.
                Err(VolumeError::AlreadyVolume { .. }) => assert!(matches!(fault, Fault::CrashAfter(_))),
                Err(e) => panic!("after {fault:?}: {e}"),
            }
            let volume = place.open().await.unwrap();
            check_clean(&volume).await;
            drop(volume);
            destroy(&place).await;
        }
    }
}

async fn a_lost_answer_does_not_lose_the_volume(place: Place) {
    headrace_store::create_root(&place.location).unwrap();
    for (prefix, change) in FORMAT_CHANGES {
        let faulty = Faulty::new(place.open_store(), None);
        faulty.arm_below(prefix, Fault::LoseAnswer(change));
        let made =
            format_in(Arc::clone(&faulty) as _, &place.location, place.state.as_deref(), &small()).await;
        assert!(faulty.has_fired());
        match made {
            Ok(_) => {
                check_clean(&place.open().await.unwrap()).await;
                destroy(&place).await;
            }
            Err(_) => assert!(matches!(place.open().await.unwrap_err(), VolumeError::NotAVolume { .. })),
        }
    }
}

async fn metadata_of_another_volume_is_refused(place: Place) {
    let base = place.dir.path().join("this machine");
    let open = OpenOptions { state_dir: Some(base.clone()), ..place.open_options() };
    let made = headrace_volume::format(&place.location, &place.store, Some(&base), &small()).await.unwrap();
    let uuid = made.uuid.to_string();
    let second = headrace_volume::FormatOptions { name: "second".into(), ..small() };
    let elsewhere: Location = place.dir.path().join("second").to_str().unwrap().parse().unwrap();
    let wrong =
        headrace_volume::format(&elsewhere, &StoreOptions::default(), Some(&base), &second).await.unwrap();
    // The wrong directory under the right name is found out.
    fs::remove_dir_all(base.join(&uuid)).unwrap();
    fs::rename(base.join(wrong.uuid.to_string()), base.join(&uuid)).unwrap();
    let error = Volume::open(&place.location, &open).await.unwrap_err();
    assert!(matches!(error, VolumeError::WrongMetadata { .. }), "{error}");
    assert!(error.to_string().contains(&wrong.uuid.to_string()), "{error}");
    // A machine that has nothing of it can destroy it all the same.
    let bare = DestroyOptions {
        state_dir: Some(place.dir.path().join("none")),
        store: place.store.clone(),
        ..DestroyOptions::default()
    };
    Doomed::survey(&place.location, &bare, &silent).await.unwrap().destroy(&silent).await.unwrap();
    assert!(matches!(Volume::open(&place.location, &open).await, Err(VolumeError::NotAVolume { .. })));
}

async fn destroy(place: &Place) {
    let options = DestroyOptions {
        store: place.store.clone(),
        state_dir: place.state.clone(),
        ..DestroyOptions::default()
    };
    let doomed = Doomed::survey(&place.location, &options, &silent).await.unwrap();
    let report = doomed.destroy(&silent).await.unwrap();
    assert_eq!((report.foreign, report.state_files_left.len()), (0, 0));
}

#[tokio::test]
async fn credentials_bucket_and_endpoint_are_named_when_they_are_wrong() {
    let place = Place::s3();
    place.format(&small()).await.unwrap();
    let quick = StoreOptions { deadline: std::time::Duration::from_secs(2), ..place.store.clone() };

    let denied = OpenOptions {
        store: StoreOptions { secret_access_key: Some("not the secret".into()), ..quick.clone() },
        ..place.open_options()
    };
    let error = Volume::open(&place.location, &denied).await.unwrap_err();
    assert!(
        matches!(&error, VolumeError::Store(e) if e.kind == headrace_store::ErrorKind::Denied),
        "{error}"
    );
    assert!(!error.to_string().contains("not the secret"));

    let nowhere: Location = "s3://no-such-bucket/x".parse().unwrap();
    for error in [
        Volume::open(&nowhere, &place.open_options()).await.unwrap_err(),
        headrace_volume::format(&nowhere, &place.store, place.state.as_deref(), &small()).await.unwrap_err(),
    ] {
        assert!(matches!(&error, VolumeError::Store(_)), "{error}");
        assert!(error.to_string().contains("bucket"), "{error}");
    }

    // A port that no other test's server is given meanwhile.
    let dead = "http://127.0.0.1:1".to_owned();
    let unreachable =
        OpenOptions { store: StoreOptions { endpoint: Some(dead.clone()), ..quick }, ..place.open_options() };
    let error = Volume::open(&place.location, &unreachable).await.unwrap_err();
    assert!(
        matches!(&error, VolumeError::Store(e) if e.kind == headrace_store::ErrorKind::Transient),
        "{error}"
    );
}

/// `destroy` stops at any point: it, or a new format, can be run again.
#[tokio::test]
async fn a_destroy_that_is_interrupted_can_be_done_again() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_segment(&volume, &[(ino, 0, &pattern(1, 5000))]).await;
    drop(volume);
    let root = place.location.local_path().unwrap();
    // As if it ended between the superblock and the metadata.
    let saved = place.dir.path().join("saved");
    copy_tree(&root.join("meta"), &saved);
    destroy(&place).await;
    fs::rename(&saved, root.join("meta")).unwrap();
    fs::write(root.join("meta/incomplete"), b"").unwrap();
    place.format(&small()).await.unwrap();
    let volume = place.open().await.unwrap();
    assert!(volume.meta.lookup(InodeNo::ROOT, b"f").is_err());
    check_clean(&volume).await;
}

#[tokio::test]
async fn a_local_volume_can_be_moved_as_a_directory() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_inline(&volume, ino, 0, b"hello");
    drop(volume);
    let moved = place.dir.path().join("moved");
    fs::rename(place.location.local_path().unwrap(), &moved).unwrap();
    let location: Location = moved.to_str().unwrap().parse().unwrap();
    let volume = Volume::open(&location, &OpenOptions::default()).await.unwrap();
    assert_eq!(volume.state_dir.path(), moved.join("meta"));
    assert_eq!(read(&volume, ino).await, b"hello");
}

#[tokio::test]
async fn metadata_without_its_superblock_is_not_wiped() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_inline(&volume, ino, 0, b"precious");
    drop(volume);
    let superblock = place.location.local_path().unwrap().join("headrace.json");
    let saved = fs::read(&superblock).unwrap();
    fs::remove_file(&superblock).unwrap();
    let message = place.format(&small()).await.unwrap_err().to_string();
    assert!(message.contains("headrace.json") && message.contains("restore"), "{message}");
    fs::write(&superblock, saved).unwrap();
    assert_eq!(read(&place.open().await.unwrap(), ino).await, b"precious");
}

#[tokio::test]
async fn a_read_only_volume_is_not_changed() {
    let place = Place::local();
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_inline(&volume, ino, 0, b"hello");
    // Unlinked while open, and never reclaimed.
    volume.meta.unlink(InodeNo::ROOT, b"f").unwrap();
    drop(volume);
    let options = OpenOptions { read_only: true, ..place.open_options() };
    let volume = Volume::open(&place.location, &options).await.unwrap();
    assert_eq!(volume.meta.orphans().unwrap(), [ino]);
    let refused = headrace_volume::pack(&volume, u64::MAX).await.unwrap_err();
    assert!(matches!(refused, VolumeError::ReadOnly { .. }));
    assert!(headrace_volume::gc(&volume, headrace_volume::DEFAULT_GRACE, false, &silent).await.is_err());
    headrace_volume::gc(&volume, headrace_volume::DEFAULT_GRACE, true, &silent).await.unwrap();
    drop(volume);
    let volume = place.open().await.unwrap();
    assert_eq!(volume.meta.orphans().unwrap(), [ino], "opening waits for no deleted file");
    volume.reclaim_orphans().unwrap();
    assert_eq!(volume.meta.orphans().unwrap(), []);
}

#[tokio::test]
async fn options_out_of_range_are_refused_before_anything_is_made() {
    let place = Place::local();
    for options in [
        FormatOptions { name: String::new(), ..small() },
        FormatOptions { frame_size: 5000, ..small() },
        FormatOptions { segment_size: 1000, ..small() },
        FormatOptions { inline_max: 1 << 20, ..small() },
        FormatOptions { root_mode: 0o17777, ..small() },
    ] {
        place.format(&options).await.unwrap_err();
        assert!(!place.location.local_path().unwrap().exists());
    }
    let id = SegmentId::new(std::time::SystemTime::now());
    assert!(!object_file(&place, id).exists());
}
