//! What a mount leaves on this machine's disk, and what the next one makes of it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Rng, TestVolume, env_number, pattern};

use super::{facts, figure, writeback, writing_back};

const MIB: usize = 1 << 20;

/// Files of every kind, and what is in them.
fn make_files(at: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for (n, size) in [1, 4096, 65_536, 65_537, 200_000, 3 * MIB + 11].into_iter().enumerate() {
        let path = at.join(format!("file-{n}"));
        fs::write(&path, pattern(n as u64, size)).unwrap();
        files.push((path, pattern(n as u64, size)));
    }
    // A hole, some data, a hole.
    let sparse = File::create(at.join("sparse")).unwrap();
    sparse.write_all_at(&pattern(50, 10_000), MIB as u64).unwrap();
    sparse.set_len(2 * MIB as u64).unwrap();
    let mut content = vec![0; 2 * MIB];
    content[MIB..MIB + 10_000].copy_from_slice(&pattern(50, 10_000));
    files.push((at.join("sparse"), content));
    // Appended to, renamed, and with another name.
    fs::write(at.join("one"), pattern(60, 100_000)).unwrap();
    OpenOptions::new().append(true).open(at.join("one")).unwrap().write_all(&pattern(61, 77_777)).unwrap();
    fs::rename(at.join("one"), at.join("two")).unwrap();
    fs::hard_link(at.join("two"), at.join("three")).unwrap();
    let content = [pattern(60, 100_000), pattern(61, 77_777)].concat();
    files.extend([(at.join("two"), content.clone()), (at.join("three"), content)]);
    // Nothing of these is to be seen again.
    fs::write(at.join("gone"), pattern(70, 100_000)).unwrap();
    fs::remove_file(at.join("gone")).unwrap();
    files
}

fn check(files: &[(PathBuf, Vec<u8>)], when: &str) {
    for (path, content) in files {
        let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == *content, "{} {when}: {} bytes", path.display(), found.len());
        assert_eq!(fs::metadata(path).unwrap().len(), content.len() as u64, "{} {when}", path.display());
    }
}

/// Left by an unmount that was told not to wait, by a kill, and stored by a mount that does not write back itself.
#[test]
fn the_next_mounts_have_and_store_what_was_left() {
    if native_only() {
        return;
    }
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        // So slow that nothing of it is stored before the end.
        let slow = writing_back().option("upload-rate=1K");
        let mounted = volume.mount_with(&slow);
        let files = make_files(&mounted.path());
        let times: Vec<_> = files.iter().map(|(path, _)| facts(path)).collect();
        let left = figure(&volume, "files");
        assert!(left >= 7, "{}", writeback(&volume));
        volume.command(&["umount", "--leave"]).arg(mounted.path()).ok();
        mounted.ended();

        let mounted = volume.mount_with(&slow);
        check(&files, "after a mount that did not wait");
        assert_eq!(files.iter().map(|(path, _)| facts(path)).collect::<Vec<_>>(), times, "{backing:?}");
        assert!(figure(&volume, "files") >= 5, "{}", writeback(&volume));
        mounted.kill();
        mounted.abandon();

        let mounted = volume.mount();
        check(&files, "after a kill");
        volume.command(&["flush"]).arg(mounted.path()).ok();
        assert_eq!(figure(&volume, "files"), 0, "{backing:?}");
        check(&files, "when they are stored");
        let mounted = mounted.remount();
        check(&files, "from the store");
        assert!(!mounted.join("gone").exists());
        mounted.unmount();
        volume.assert_clean();
    }
}

/// Killed again and again while it stores what earlier mounts have left.
#[test]
fn kills_while_it_is_stored_lose_nothing() {
    if native_only() {
        return;
    }
    let mut rng = Rng::new(env_number("HEADRACE_WRITEBACK_SEED", 1));
    let volume = TestVolume::new(Backing::S3);
    let options = writing_back().option("upload-rate=2M");
    let mut mounted = volume.mount_with(&options);
    let mut files = Vec::new();
    for round in 0..8 {
        let dir = mounted.join(format!("round-{round}"));
        fs::create_dir(&dir).unwrap();
        let more = make_files(&dir);
        if round % 2 == 1 {
            // Writes that are not durable survive a kill too: they are in the kernel's hands.
            File::open(&dir).unwrap().sync_all().unwrap();
        } else {
            for (path, _) in &more {
                File::open(path).unwrap().sync_all().unwrap();
            }
        }
        files.extend(more);
        std::thread::sleep(std::time::Duration::from_millis(rng.below(2_500)));
        mounted.kill();
        mounted.abandon();
        mounted = volume.mount_with(&options);
        check(&files, &format!("after kill {round}"));
    }
    mounted.unmount();
    let mounted = volume.mount();
    check(&files, "from the store");
    mounted.unmount();
    volume.assert_clean();
}

/// An unmount waits until everything is stored: another machine, with nothing but the store, sees all of it.
#[test]
fn an_unmount_leaves_nothing_behind() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&writing_back());
    let mut files = make_files(&mounted.path());
    for n in 0..6 {
        let content = pattern(100 + n, 30 * MIB);
        fs::write(mounted.join(format!("large-{n}")), &content).unwrap();
        files.push((mounted.join(format!("large-{n}")), content));
    }
    mounted.unmount();
    let elsewhere = format!("state-dir={}", volume.scratch().join("another machine").display());
    let mounted = volume.mount_with(&MountOptions::default().option(&elsewhere));
    check(&files, "on another machine");
    mounted.unmount();
}

/// Somebody else changed the volume before this machine could store what it had: nothing of theirs is overwritten, and what is here is kept.
#[test]
fn what_another_machine_has_written_since_is_not_overwritten() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let here = volume.scratch().join("here");
    let on = |name: &str| format!("state-dir={}", volume.scratch().join(name).display());
    let mounted =
        volume.mount_with(&writing_back().option(&on("here")).option("upload-rate=1K").option("lease=2s"));
    let ours = pattern(1, 300_000);
    fs::write(mounted.join("file"), &ours).unwrap();
    File::open(mounted.join("file")).unwrap().sync_all().unwrap();
    volume.command(&["umount", "--leave"]).arg(mounted.path()).ok();
    mounted.ended();

    let takeover = MountOptions::default().option(&on("there")).option("lease=2s").arg("--takeover");
    let mounted = volume.mount_with(&takeover);
    let theirs = pattern(2, 400_000);
    for name in ["file", "another"] {
        fs::write(mounted.join(name), &theirs).unwrap();
    }
    mounted.unmount();

    let mounted = volume.mount_with(&writing_back().option(&on("here")).option("lease=2s"));
    for name in ["file", "another"] {
        assert!(fs::read(mounted.join(name)).unwrap() == theirs, "{name}");
    }
    mounted.unmount();
    assert!(holds(&here, &ours), "what was written here is gone\n{}", volume.log());
}

/// Whether a file below `dir` has this content.
fn holds(dir: &Path, content: &[u8]) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            holds(&path, content)
        } else {
            fs::read(&path).is_ok_and(|found| found == content)
        }
    })
}
