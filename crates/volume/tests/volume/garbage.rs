//! Garbage collection never removes what is live or young, and removes all else.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::common::*;
use headrace_layout::SegmentId;
use headrace_volume::gc::gc_at;
use headrace_volume::progress::silent;
use headrace_volume::{Compactor, PendingSegment, Volume, gc, pack};
use proptest::prelude::*;

on_every_store!(dead_segments_and_orphans_go_after_the_grace, a_dry_run_tells_and_does_nothing);

const HOUR: Duration = Duration::from_secs(3600);

async fn dead_segments_and_orphans_go_after_the_grace(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    let dead = write_segment(&volume, &[(ino, 0, &pattern(1, 5000))]).await;
    let live = write_segment(&volume, &[(ino, 0, &pattern(2, 5000))]).await;
    let orphan = SegmentId::new(SystemTime::now());
    upload(&volume, orphan, &[(ino, 0, b"never committed")]).await;
    volume.store.put("segments/readme", b"theirs".as_slice().into()).await.unwrap();

    let report = gc(&volume, HOUR, false, &silent).await.unwrap();
    assert_eq!((report.dead_segments, report.orphans, report.young, report.foreign), (0, 0, 1, 1));
    assert_eq!(segment_objects(&*volume.store).await, 4);

    let later = SystemTime::now() + 2 * HOUR;
    let report = gc_at(&volume, later, HOUR, false, &silent).await.unwrap();
    assert_eq!((report.dead_segments, report.orphans, report.young, report.foreign), (1, 1, 0, 1));
    assert!(report.dead_bytes > 5000 && report.orphan_bytes > 15);
    for (id, there) in [(dead, false), (live, true), (orphan, false)] {
        assert_eq!(object_file(&place, id).exists(), there);
    }
    assert_eq!(volume.meta.segment(dead).unwrap(), None);
    assert_eq!(read(&volume, ino).await, pattern(2, 5000));
    let report = gc_at(&volume, later, HOUR, false, &silent).await.unwrap();
    assert_eq!((report.dead_segments, report.orphans), (0, 0));
}

async fn a_dry_run_tells_and_does_nothing(place: Place) {
    let volume = place.volume().await;
    let ino = create(&volume, "f");
    write_segment(&volume, &[(ino, 0, &pattern(1, 5000))]).await;
    write_segment(&volume, &[(ino, 0, &pattern(2, 5000))]).await;
    upload(&volume, SegmentId::new(SystemTime::now()), &[(ino, 0, b"never committed")]).await;
    let later = SystemTime::now() + 2 * HOUR;
    let told = gc_at(&volume, later, HOUR, true, &silent).await.unwrap();
    assert!(told.dry_run);
    assert_eq!(segment_objects(&*volume.store).await, 3);
    let mut done = gc_at(&volume, later, HOUR, false, &silent).await.unwrap();
    done.dry_run = true;
    // Only a dry run names what goes.
    assert_eq!(told.objects.len(), 2);
    done.objects = told.objects.clone();
    assert_eq!(done, told);
    assert_eq!(segment_objects(&*volume.store).await, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Inline {
        file: u8,
        offset: u16,
        len: u16,
    },
    Segment {
        files: Vec<u8>,
        offset: u16,
        len: u16,
    },
    /// Put now, commit at a later step.
    Begin {
        file: u8,
        len: u16,
        guarded: bool,
    },
    CommitOldest,
    Remove {
        file: u8,
    },
    Clone {
        from: u8,
        to: u8,
    },
    Truncate {
        file: u8,
        size: u16,
    },
    Pack,
    Compact,
    Gc {
        advance: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0u8..4;
    prop_oneof![
        3 => (file.clone(), any::<u16>(), 1u16..20_000)
            .prop_map(|(file, offset, len)| Step::Inline { file, offset, len }),
        3 => (proptest::collection::vec(file.clone(), 1..4), any::<u16>(), 1u16..60_000)
            .prop_map(|(files, offset, len)| Step::Segment { files, offset, len }),
        2 => (file.clone(), 1u16..60_000, any::<bool>())
            .prop_map(|(file, len, guarded)| Step::Begin { file, len, guarded }),
        2 => Just(Step::CommitOldest),
        1 => file.clone().prop_map(|file| Step::Remove { file }),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Clone { from, to }),
        1 => (file, any::<u16>()).prop_map(|(file, size)| Step::Truncate { file, size }),
        1 => Just(Step::Pack),
        1 => Just(Step::Compact),
        2 => (0u32..5000).prop_map(|advance| Step::Gc { advance }),
    ]
}

/// An upload that metadata does not know yet.
struct InFlight {
    file: u8,
    upload: Upload,
    data: Vec<u8>,
    guard: Option<PendingSegment>,
    begun: u64,
}

/// Files as they should be.
type Model = BTreeMap<u8, Vec<u8>>;

fn name(file: u8) -> String {
    format!("f{file}")
}

fn write(model: &mut Model, file: u8, offset: u64, data: &[u8]) {
    let contents = model.entry(file).or_default();
    let (start, end) = (offset as usize, offset as usize + data.len());
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[start..end].copy_from_slice(data);
}

fn ino(volume: &Volume, file: u8) -> headrace_layout::InodeNo {
    match volume.meta.lookup(headrace_layout::InodeNo::ROOT, name(file).as_bytes()) {
        Ok(attr) => attr.ino,
        Err(_) => create(volume, &name(file)),
    }
}

async fn run(steps: Vec<Step>) {
    let place = Place::local();
    let volume = place.volume().await;
    let mut model = Model::new();
    let mut uploads: Vec<InFlight> = Vec::new();
    let mut compactor = Compactor::new();
    // Simulated seconds since the start. Real ones do not matter: the whole run takes less than the grace.
    let mut clock = 0u64;
    for (seed, step) in steps.into_iter().enumerate() {
        let seed = seed as u64 + 1;
        match step {
            Step::Inline { file, offset, len } => {
                let data = pattern(seed, usize::from(len));
                write_inline(&volume, ino(&volume, file), offset.into(), &data);
                write(&mut model, file, offset.into(), &data);
            }
            Step::Segment { files, offset, len } => {
                let data = pattern(seed, usize::from(len));
                let parts: Vec<_> =
                    files.iter().map(|f| (ino(&volume, *f), u64::from(offset), &data[..])).collect();
                write_segment(&volume, &parts).await;
                for file in files {
                    write(&mut model, file, offset.into(), &data);
                }
            }
            Step::Begin { file, len, guarded } => {
                let data = pattern(seed, usize::from(len));
                let guard = guarded.then(|| volume.begin_segment());
                let id = guard.as_ref().map_or_else(|| SegmentId::new(SystemTime::now()), PendingSegment::id);
                let upload = upload(&volume, id, &[(ino(&volume, file), 0, &data)]).await;
                model.entry(file).or_default();
                uploads.push(InFlight { file, upload, data, guard, begun: clock });
            }
            Step::CommitOldest if !uploads.is_empty() => {
                let InFlight { file, upload, data, guard, begun } = uploads.remove(0);
                // One that is not guarded has only its age, which runs from the start of the whole run: the grace is all the
                // time it has. Files that were removed meanwhile are not written.
                let in_time = guard.is_some() || (clock < HOUR.as_secs() && begun <= clock);
                if in_time && model.contains_key(&file) && upload_is_for(&volume, &upload, file) {
                    commit(&volume, upload);
                    write(&mut model, file, 0, &data);
                }
            }
            Step::Remove { file } if model.remove(&file).is_some() => remove(&volume, &name(file)),
            Step::Clone { from, to } if from != to && model.contains_key(&from) => {
                let data = model[&from].clone();
                let (source, target) = (ino(&volume, from), ino(&volume, to));
                volume.meta.clone_range(source, 0, target, 0, data.len() as u64).unwrap();
                write(&mut model, to, 0, &data);
            }
            Step::Truncate { file, size } if model.contains_key(&file) => {
                volume.meta.truncate(ino(&volume, file), size.into(), false).unwrap();
                model.get_mut(&file).unwrap().resize(size.into(), 0);
            }
            Step::Pack => {
                pack(&volume, u64::MAX).await.unwrap();
            }
            Step::Compact => {
                let now = SystemTime::now() + HOUR + Duration::from_secs(clock);
                compactor.round(&volume, now, &silent).await.unwrap();
            }
            Step::Gc { advance } => {
                clock += u64::from(advance);
                let now = SystemTime::now() + Duration::from_secs(clock);
                gc_at(&volume, now, HOUR, false, &silent).await.unwrap();
            }
            _ => {}
        }
        for (file, contents) in &model {
            assert!(
                read(&volume, ino(&volume, *file)).await == *contents,
                "file {file} differs after step {seed}"
            );
        }
    }
    // All garbage goes in the end, once nothing is in flight, and what remains is exactly what is used.
    drop(uploads);
    let far = SystemTime::now() + Duration::from_secs(clock) + 48 * HOUR;
    gc_at(&volume, far, HOUR, false, &silent).await.unwrap();
    let report = check_clean(&volume).await;
    assert_eq!(report.orphans, 0);
    assert_eq!(segment_objects(&*volume.store).await as u64, report.segments);
    for (file, contents) in &model {
        assert!(read(&volume, ino(&volume, *file)).await == *contents, "file {file} differs in the end");
    }
}

/// Whether the file that an upload was made for still has its name.
fn upload_is_for(volume: &Volume, upload: &Upload, file: u8) -> bool {
    upload.ino() == ino(volume, file)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_files_stay_as_they_were_written(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
