//! Large directories: complete listings, and positions that stay valid while entries come and go.
//!
//! `HEADRACE_DIRECTORY_ENTRIES` sets the number of entries; `make stress` makes it a million.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::path::Path;

use headrace_testbed::{Backing, TestVolume, env_number, shell};
use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom};

fn create(dir: &Path, range: std::ops::Range<u64>) {
    for n in range {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, dir.join(format!("entry-{n:07}")), flags, Mode::from_raw_mode(0o644))
            .unwrap();
    }
}

fn open_dir(dir: &Path) -> rustix::fd::OwnedFd {
    rustix::fs::openat(CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Reads on from where `fd` stands, at most `limit` entries; gives names and the position after each (`telldir`).
fn read_on(fd: &rustix::fd::OwnedFd, limit: usize) -> Vec<(String, u64)> {
    let mut buffer = [MaybeUninit::uninit(); 32 << 10];
    let mut dir = RawDir::new(fd, &mut buffer);
    let mut entries = Vec::new();
    while entries.len() < limit {
        let Some(entry) = dir.next() else { break };
        let entry = entry.unwrap();
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.next_entry_cookie()));
    }
    entries
}

#[test]
fn a_large_directory_lists_completely() {
    let count = env_number("HEADRACE_DIRECTORY_ENTRIES", 100_000);
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let dir = mounted.join("large");
    std::fs::create_dir(&dir).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| create(&dir, 0..count / 2));
        scope.spawn(|| create(&dir, count / 2..count));
    });
    let complete = |when: &str| {
        let mut seen = HashSet::new();
        for entry in std::fs::read_dir(mounted_dir(&volume)).unwrap() {
            assert!(seen.insert(entry.unwrap().file_name()), "listed twice {when}");
        }
        assert_eq!(seen.len() as u64, count, "{when}");
    };
    complete("at first");
    let mounted = mounted.remount();
    complete("after a remount");
    let listed =
        shell(&mounted.path(), "ls large | wc -l\nls -f large | wc -l\nls -l large | sed 1d | wc -l").ok();
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        [count, count + 2, count].map(|n| n.to_string())
    );

    shell(&mounted.path(), "find large -name '*7' -delete\nrm -rf large\ntest ! -e large").ok();
    mounted.unmount();
    volume.assert_clean();
}

fn mounted_dir(volume: &TestVolume) -> std::path::PathBuf {
    volume.mount_point().join("large")
}

#[test]
fn positions_stay_valid_while_entries_come_and_go() {
    const COUNT: u64 = 20_000;
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let dir = mounted.join("changing");
    std::fs::create_dir(&dir).unwrap();
    create(&dir, 0..COUNT);

    let fd = open_dir(&dir);
    let first = read_on(&fd, 5_000);
    let position = first.last().unwrap().1;
    let read: HashSet<_> = first.iter().map(|(name, _)| name.clone()).collect();

    // Of what was read and of what was not: some go, and new ones come.
    let all: Vec<_> = (0..COUNT).map(|n| format!("entry-{n:07}")).collect();
    let removed: HashSet<_> = all.iter().filter(|name| name.ends_with('3')).cloned().collect();
    for name in &removed {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    create(&dir, COUNT..COUNT + 2_000);

    rustix::fs::seek(&fd, SeekFrom::Start(position)).unwrap();
    let rest = read_on(&fd, usize::MAX);
    let names: HashSet<_> = rest.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), rest.len(), "an entry was listed twice");
    for name in &all {
        let expected = !read.contains(name) && !removed.contains(name);
        assert!(names.contains(name) || !expected, "{name} was there all the time and is not listed");
        assert!(!(names.contains(name) && read.contains(name)), "{name} is listed again after seekdir");
        assert!(!(names.contains(name) && removed.contains(name)), "{name} was removed and is listed");
    }

    // A saved position leads to the same place again, in another descriptor too. It reads the first entries before, as the
    // kernel compares its own cached listing with the directory only there.
    let other = open_dir(&dir);
    read_on(&other, 1);
    rustix::fs::seek(&other, SeekFrom::Start(position)).unwrap();
    let again: Vec<_> = read_on(&other, usize::MAX).into_iter().map(|(name, _)| name).collect();
    assert_eq!(again, rest.into_iter().map(|(name, _)| name).collect::<Vec<_>>());

    // From the start, everything is there.
    rustix::fs::seek(&fd, SeekFrom::Start(0)).unwrap();
    let now = read_on(&fd, usize::MAX).len() as u64;
    assert_eq!(now, COUNT - removed.len() as u64 + 2_000 + 2);
    drop((fd, other));
    mounted.unmount();
}

/// `rm -rf` and others remove while they read, without seeking.
#[test]
fn removing_while_reading_misses_nothing() {
    const COUNT: u64 = 10_000;
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let dir = mounted.join("shrinking");
    std::fs::create_dir(&dir).unwrap();
    create(&dir, 0..COUNT);
    let mut removed = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
        removed += 1;
    }
    assert_eq!(removed, COUNT);
    std::fs::remove_dir(&dir).unwrap();
    mounted.unmount();
}
