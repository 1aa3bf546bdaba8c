//! Power fails at every change that is made in the store: nothing that was durable is lost, and all garbage goes later.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::faulty::{Fault, Faulty};
use crate::common::*;
use headrace_layout::InodeNo;
use headrace_store::StoreOptions;
use headrace_volume::gc::gc_at;
use headrace_volume::progress::silent;
use headrace_volume::{Compactor, OpenOptions, Result, Volume, compact, compact_chunk, pack};

const HOUR: Duration = Duration::from_secs(3600);

/// How long a volume waits for a store that answers nothing: after each crash once for its log, and once more at its close.
const PATIENCE: Duration = Duration::from_secs(1);

fn impatient(place: &Place) -> OpenOptions {
    let options = place.open_options();
    OpenOptions { store: StoreOptions { deadline: PATIENCE, ..options.store }, ..options }
}

fn later() -> SystemTime {
    SystemTime::now() + 48 * HOUR
}

type Files = Vec<(InodeNo, Vec<u8>)>;
type Work<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Runs `work` on a volume that `prepare` filled, with power failing at each change in turn; then checks that every file
/// is as it was, before and after garbage collection.
async fn survives<P, W>(place: fn() -> Place, prepare: P, work: W, least_changes: u64)
where
    P: for<'a> Fn(&'a Volume) -> Pin<Box<dyn Future<Output = Files> + 'a>>,
    W: for<'a> Fn(&'a Volume) -> Work<'a>,
{
    for change in 0.. {
        let mut fired = false;
        for fault in [Fault::CrashBefore(change), Fault::CrashAfter(change), Fault::Refuse(change)] {
            let place = place();
            place.format(&small()).await.unwrap();
            let state: PathBuf = {
                let volume = place.open().await.unwrap();
                volume.state_dir.path().to_owned()
            };
            let image = place.dir.path().join("image");
            let faulty = Faulty::new(place.open_store(), Some((state.clone(), image.clone())));
            let options = impatient(&place);
            let volume = Volume::open_in(Arc::clone(&faulty) as _, &place.location, &options).await.unwrap();
            let files = prepare(&volume).await;
            volume.durable().await.unwrap();
            faulty.arm(fault);
            let done = work(&volume).await;
            fired |= faulty.has_fired();
            assert!(done.is_ok() || faulty.has_fired(), "{fault:?}: {done:?}");
            drop(volume);
            if image.exists() {
                std::fs::remove_dir_all(&state).unwrap();
                std::fs::rename(&image, &state).unwrap();
            }
            let volume = place.open().await.unwrap();
            same(&volume, &files, fault).await;
            check_clean(&volume).await;
            work(&volume).await.unwrap();
            same(&volume, &files, fault).await;
            gc_at(&volume, later(), HOUR, false, &silent).await.unwrap();
            same(&volume, &files, fault).await;
            let report = check_clean(&volume).await;
            assert_eq!(report.orphans, 0);
            assert_eq!(segment_objects(&*volume.store).await as u64, report.segments, "{fault:?}");
        }
        if !fired {
            assert!(change >= least_changes, "only {change} changes: the test does not test what it should");
            return;
        }
    }
}

async fn same(volume: &Volume, files: &Files, fault: Fault) {
    for (ino, contents) in files {
        assert!(read(volume, *ino).await == *contents, "inode {ino} differs after {fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packing() {
    survives(
        Place::local,
        |volume| {
            Box::pin(async move {
                let mut files = Vec::new();
                for n in 0..50 {
                    let ino = create(volume, &format!("f{n}"));
                    let data = pattern(n, 45_000);
                    write_inline(volume, ino, 0, &data);
                    files.push((ino, data));
                }
                files
            })
        },
        |volume| Box::pin(async move { pack(volume, u64::MAX).await.map(drop) }),
        3,
    )
    .await;
}

async fn sparse(volume: &Volume) -> Files {
    let mut files = Vec::new();
    for n in 0..4u64 {
        let keep = create(volume, &format!("keep{n}"));
        let gone = create(volume, &format!("gone{n}"));
        let data = pattern(n, 300_000);
        write_segment(volume, &[(keep, 0, &data), (gone, 0, &pattern(100 + n, 600_000))]).await;
        remove(volume, &format!("gone{n}"));
        files.push((keep, data));
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction() {
    survives(
        Place::local,
        |volume| Box::pin(sparse(volume)),
        |volume| {
            Box::pin(async move {
                let now = SystemTime::now() + compact::MIN_AGE * 2;
                Compactor::new().round(volume, now, &silent).await.map(drop)
            })
        },
        2,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_of_a_chunk() {
    survives(
        Place::local,
        |volume| {
            Box::pin(async move {
                let ino = create(volume, "f");
                let data = pattern(1, 600 * 2000);
                let parts: Vec<_> =
                    (0..600).rev().map(|n| (ino, n as u64 * 2000, &data[n * 2000..(n + 1) * 2000])).collect();
                for half in parts.chunks(300) {
                    write_segment(volume, half).await;
                }
                vec![(ino, data)]
            })
        },
        |volume| Box::pin(async move { compact_chunk(volume, InodeNo(2), 0).await.map(drop) }),
        2,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_collection() {
    survives(
        Place::local,
        |volume| {
            Box::pin(async move {
                let files = sparse(volume).await;
                let ino = create(volume, "f");
                for seed in 0..3 {
                    write_segment(volume, &[(ino, 0, &pattern(seed, 5000))]).await;
                }
                let id = headrace_layout::SegmentId::new(SystemTime::now());
                upload(volume, id, &[(ino, 0, b"never committed")]).await;
                files
            })
        },
        |volume| Box::pin(async move { gc_at(volume, later(), HOUR, false, &silent).await.map(drop) }),
        3,
    )
    .await;
}

/// The death of a segment that is not durable yet must not cost its object: after the crash the file is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_is_not_durable_keeps_its_data() {
    let place = Place::s3();
    place.format(&small()).await.unwrap();
    let state = place.open().await.unwrap().state_dir.path().to_owned();
    let image = place.dir.path().join("image");
    let faulty = Faulty::new(place.open_store(), Some((state.clone(), image.clone())));
    let volume =
        Volume::open_in(Arc::clone(&faulty) as _, &place.location, &impatient(&place)).await.unwrap();
    let ino = create(&volume, "f");
    let data = pattern(1, 5000);
    write_segment(&volume, &[(ino, 0, &data)]).await;
    volume.durable().await.unwrap();
    remove(&volume, "f");
    faulty.arm_below("segments/", Fault::CrashAfter(0));
    gc_at(&volume, later(), HOUR, false, &silent).await.unwrap_err();
    drop(volume);
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::rename(&image, &state).unwrap();
    let volume = place.open().await.unwrap();
    // Either the deletion was durable, or the file is back whole: it is never there without its bytes.
    match volume.meta.lookup(InodeNo::ROOT, b"f") {
        Ok(attr) => assert_eq!(read(&volume, attr.ino).await, data),
        Err(_) => assert_eq!(segment_objects(&*volume.store).await, 0),
    }
    check_clean(&volume).await;
}
