//! What programs see of files that are written back.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant, SystemTime};

use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, Run, SmallDisk, TestVolume, pattern};

use super::{assert_stored_by_itself, facts, figure, writing_back};

const MIB: usize = 1 << 20;

/// The store answers after ten seconds: whoever waited for it would be found out.
#[test]
fn files_are_there_and_durable_before_they_are_stored_and_the_same_afterwards() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let options = writing_back().option(&format!("endpoint={}", proxy.endpoint()));
    let mounted = volume.mount_with(&options);
    proxy.always(Fault::Delay(Duration::from_secs(10)));
    let began = Instant::now();
    let content = |n: usize| pattern(n as u64, [100, 70_000, 3 * MIB + 5][n % 3]);
    for n in 0..9 {
        let mut file = File::create(mounted.join(n.to_string())).unwrap();
        file.write_all(&content(n)).unwrap();
        file.sync_all().unwrap();
        drop(file);
        // As cp -p and tar do it.
        let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + n as u64, 123_456_789);
        let file = OpenOptions::new().write(true).open(mounted.join(n.to_string())).unwrap();
        file.set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(9), "somebody waited for the store: {:?}", began.elapsed());
    assert_eq!(figure(&volume, "files"), 9);
    assert!(figure(&volume, "bytes") >= 3 * (3 * MIB) as u64);
    let before: Vec<_> = (0..9).map(|n| facts(&mounted.join(n.to_string()))).collect();
    for n in 0..9 {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}, before it is stored");
    }
    proxy.always(Fault::None);
    volume.command(&["flush"]).arg(mounted.path()).ok();
    assert_eq!((figure(&volume, "files"), figure(&volume, "bytes")), (0, 0));
    let check = |when: &str| {
        for (n, before) in before.iter().enumerate() {
            let path = volume.mount_point().join(n.to_string());
            assert_eq!(facts(&path), *before, "{n} {when}");
            assert!(fs::read(&path).unwrap() == content(n), "{n} {when}");
        }
    };
    check("when it is stored");
    let mounted = mounted.remount();
    check("from the store");
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn many_small_files_share_requests() {
    if native_only() {
        return;
    }
    const FILES: usize = 300;
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&writing_back());
    let content = |n: usize| pattern(n as u64, 66_000 + n);
    for n in 0..FILES {
        fs::write(mounted.join(n.to_string()), content(n)).unwrap();
    }
    assert_stored_by_itself(&volume);
    let segments = volume.segment_files().len();
    assert!((1..=60).contains(&segments), "{segments} segments for {FILES} files");
    let mounted = mounted.remount();
    for n in 0..FILES {
        assert!(fs::read(mounted.join(n.to_string())).unwrap() == content(n), "{n}");
    }
    mounted.unmount();
    volume.assert_clean();
}

/// Changed by every kind of call, before, while and after it is stored.
#[test]
fn a_file_can_be_changed_while_it_is_being_stored() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let options = writing_back().option("upload-rate=4M");
    let mounted = volume.mount_with(&options);
    let path = mounted.join("file");
    let mut expected = pattern(1, 6 * MIB);
    fs::write(&path, &expected).unwrap();
    for round in 0..8_u64 {
        // At different stages of being stored, some of them over.
        std::thread::sleep(Duration::from_millis(round * 400));
        let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let more = pattern(round + 10, 100_000);
        match round % 4 {
            0 => {
                file.seek(SeekFrom::End(0)).unwrap();
                file.write_all(&more).unwrap();
                expected.extend_from_slice(&more);
            }
            1 => {
                let size = expected.len() / 2;
                file.set_len(size as u64).unwrap();
                expected.truncate(size);
            }
            2 => {
                file.write_all_at(&more, 50_000).unwrap();
                expected[50_000..150_000].copy_from_slice(&more);
            }
            _ => {
                // A hole where there were bytes, some of them stored.
                let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, punch, 8192, 500_000).unwrap();
                expected[8192..508_192].fill(0);
                file.set_len(expected.len() as u64 + 300_000).unwrap();
                expected.resize(expected.len() + 300_000, 0);
            }
        }
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found == expected, "round {round}");
    }
    assert_stored_by_itself(&volume);
    assert!(fs::read(&path).unwrap() == expected, "when it is stored");
    let mounted = mounted.remount();
    assert!(fs::read(&path).unwrap() == expected, "from the store");
    mounted.unmount();
    volume.assert_clean();
}

/// Linkers and databases close a file and go on writing through a mapping of it.
#[test]
fn a_mapping_that_outlives_the_close_is_stored_as_it_is_in_the_end() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&writing_back());
    let path = mounted.join("mapped");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(MIB as u64).unwrap();
    let mapping = SharedMapping::new(&file, MIB).unwrap();
    drop(file);
    let expected = pattern(3, MIB);
    for part in 0..4 {
        let range = part * MIB / 4..(part + 1) * MIB / 4;
        mapping.write(range.start, &expected[range]);
        // Whoever took the close for the end stores it now.
        std::thread::sleep(Duration::from_millis(1_500));
    }
    assert_eq!(figure(&volume, "files"), 1, "it is mapped still");
    drop(mapping);
    assert_stored_by_itself(&volume);
    let mounted = mounted.remount();
    assert!(fs::read(&path).unwrap() == expected);
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn names_change_and_files_go_while_they_are_not_stored() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let mounted = volume.mount_with(&writing_back().option(&format!("endpoint={}", proxy.endpoint())));
    proxy.always(Fault::Delay(Duration::from_secs(5)));
    let content = pattern(5, 200_000);
    let at = |name: &str| mounted.join(name);
    fs::write(at("old"), &content).unwrap();
    fs::rename(at("old"), at("new")).unwrap();
    fs::hard_link(at("new"), at("link")).unwrap();
    // Not open when it goes, and open when it goes.
    fs::write(at("gone"), &content).unwrap();
    fs::remove_file(at("gone")).unwrap();
    let mut held =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(at("held")).unwrap();
    held.write_all(&content).unwrap();
    fs::remove_file(at("held")).unwrap();
    held.write_all(&content).unwrap();
    held.seek(SeekFrom::Start(0)).unwrap();
    let mut found = Vec::new();
    held.read_to_end(&mut found).unwrap();
    assert!(found == [&content[..], &content[..]].concat());
    drop(held);
    // One over another.
    fs::write(at("first"), pattern(6, 100_000)).unwrap();
    fs::write(at("second"), pattern(7, 110_000)).unwrap();
    fs::rename(at("second"), at("first")).unwrap();
    proxy.always(Fault::None);
    assert_stored_by_itself(&volume);
    let mounted = mounted.remount();
    assert!(fs::read(mounted.join("new")).unwrap() == content);
    assert!(fs::read(mounted.join("link")).unwrap() == content);
    assert!(fs::read(mounted.join("first")).unwrap() == pattern(7, 110_000));
    let mut names: Vec<_> =
        fs::read_dir(mounted.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["first", "link", "new"]);
    mounted.unmount();
    volume.assert_clean();
}

/// Copies go through calls that share bytes where they can.
#[test]
fn copies_from_and_to_such_files_are_whole() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let stored = pattern(1, 5 * MIB + 77);
    let mounted = volume.mount();
    fs::write(mounted.join("stored"), &stored).unwrap();
    mounted.unmount();
    let mounted = volume.mount_with(&writing_back().option("upload-rate=1M"));
    let staged = pattern(2, 4 * MIB + 5);
    fs::write(mounted.join("staged"), &staged).unwrap();
    for (from, expected) in [("stored", &stored), ("staged", &staged)] {
        fs::copy(mounted.join(from), mounted.join(format!("copy of {from}"))).unwrap();
        Run::new("cp")
            .args(["--reflink=auto", "--sparse=auto"])
            .arg(mounted.join(from))
            .arg(mounted.join(format!("cp of {from}")))
            .ok();
        for copy in ["copy of", "cp of"] {
            assert!(fs::read(mounted.join(format!("{copy} {from}"))).unwrap() == **expected, "{copy} {from}");
        }
    }
    // Into the middle of one that is stored.
    let source = File::open(mounted.join("staged")).unwrap();
    let target = OpenOptions::new().write(true).open(mounted.join("stored")).unwrap();
    let (mut from, mut to) = (1000, 5000);
    let mut left = 100_000;
    while left > 0 {
        let copied =
            rustix::fs::copy_file_range(&source, Some(&mut from), &target, Some(&mut to), left).unwrap();
        assert!(copied > 0);
        left -= copied;
    }
    let mut expected = stored.clone();
    expected[5000..105_000].copy_from_slice(&staged[1000..101_000]);
    assert!(fs::read(mounted.join("stored")).unwrap() == expected);
    drop((source, target));
    mounted.unmount();
    volume.assert_clean();
}

/// Without the right to have the kernel use local files, as in most containers: this process reads and writes them.
#[test]
fn it_works_where_the_kernel_does_not_take_local_files() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let stacked = Overlay::mount(&volume);
    let mounted =
        volume.mount_with(&writing_back().option(&format!("state-dir={}", stacked.path().display())));
    let expected = pattern(8, 3 * MIB);
    let mut file = File::create(mounted.join("file")).unwrap();
    for piece in expected.chunks(100_000) {
        file.write_all(piece).unwrap();
    }
    file.sync_all().unwrap();
    assert_eq!(figure(&volume, "files"), 1);
    assert!(fs::read(mounted.join("file")).unwrap() == expected);
    drop(file);
    assert_stored_by_itself(&volume);
    let mounted = mounted.remount();
    assert!(fs::read(mounted.join("file")).unwrap() == expected);
    mounted.unmount();
    drop(stacked);
}

/// A file system that is stacked on another, which the kernel does not pass through to.
struct Overlay {
    path: std::path::PathBuf,
    _below: SmallDisk,
}

impl Overlay {
    fn mount(volume: &TestVolume) -> Overlay {
        let base = volume.scratch().join("overlay");
        let below = base.join("disk");
        // An overlay's upper directory may not be on an overlay itself, as /tmp is in some containers.
        let disk = SmallDisk::mount(below.clone(), 128);
        let path = base.join("merged");
        fs::create_dir_all(&path).unwrap();
        for name in ["lower", "upper", "work"] {
            fs::create_dir_all(below.join(name)).unwrap();
        }
        let at = below.display();
        let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
        Run::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&path).ok();
        Overlay { path, _below: disk }
    }

    fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Run::new("umount").arg("-l").arg(&self.path).finish();
    }
}

#[test]
fn what_contradicts_it_is_refused() {
    let volume = TestVolume::new(Backing::S3);
    for (options, named) in [
        (&["-o", "writeback,sync"][..], "sync"),
        (&["--writeback", "--durable", "bucket"], "durable bucket"),
        (&["--writeback", "--upload-rate", "0"], "upload-rate"),
    ] {
        let refused =
            volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point()).args(options).fails();
        assert!(refused.stderr.contains(named), "{refused}");
    }
}
