//! Bytes of files.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FallocateFlags, StatxFlags, Timespec, Timestamps};

use crate::memory::{Counts, MemFs};
use crate::support::{Mounted, eventually};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8)) as u8).collect()
}

#[test]
fn large_reads_and_writes_travel_in_requests_of_a_mebibyte() {
    for name in ["cached", "file.direct"] {
        let mounted = Mounted::new();
        let data = pattern(20 * (1 << 20) + 123);
        fs::write(mounted.path(name), &data).unwrap();
        assert!(fs::read(mounted.path(name)).unwrap() == data, "{name}");
        let counts = &mounted.fs.counts;
        assert_eq!(counts.largest_write.load(Ordering::Relaxed), 1 << 20, "{name}");
        assert_eq!(counts.unaligned_large_writes.load(Ordering::Relaxed), 0, "{name}");
    }
}

#[test]
fn readahead_asks_for_a_mebibyte_at_a_time() {
    let mounted = Mounted::with(MemFs::new(true), "");
    let data = pattern(32 << 20);
    fs::write(mounted.path("f"), &data).unwrap();
    let device = mounted.session.dev();
    let bdi =
        format!("/sys/class/bdi/{}:{}/read_ahead_kb", rustix::fs::major(device), rustix::fs::minor(device));
    assert_eq!(fs::read_to_string(bdi).unwrap().trim(), "16384");
    rustix::fs::fadvise(File::open(mounted.path("f")).unwrap(), 0, None, rustix::fs::Advice::DontNeed)
        .unwrap();
    assert!(fs::read(mounted.path("f")).unwrap() == data);
    assert_eq!(mounted.fs.counts.largest_read.load(Ordering::Relaxed), 1 << 20);
    assert!(mounted.fs.counts.reads.load(Ordering::Relaxed) <= 48);
}

/// What is read ahead of each of many files comes before what their readers wait for.
#[test]
fn little_is_read_ahead_of_each_of_many_open_files() {
    let mounted = Mounted::with(MemFs::new(true), "");
    let path = mounted.path("f");
    let data = pattern(40 << 20);
    fs::write(&path, &data).unwrap();
    let settled = |counts: &Counts| {
        let mut before = usize::MAX;
        loop {
            let reads = counts.reads.load(Ordering::Relaxed);
            if reads == before {
                return reads;
            }
            before = reads;
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    // MiB that are asked for by a reader of eight, while so many others have files open.
    let asked = |others: usize| {
        let others: Vec<File> = (0..others).map(|_| File::open(&path).unwrap()).collect();
        let mut file = File::open(&path).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let before = settled(&mounted.fs.counts);
        let mut block = vec![0; 1 << 20];
        for expected in data.chunks_exact(1 << 20).take(8) {
            file.read_exact(&mut block).unwrap();
            assert!(block == expected);
        }
        drop(others);
        settled(&mounted.fs.counts) - before
    };
    let (alone, many) = (asked(0), asked(31));
    assert!(alone >= 16 && many <= 12, "{alone} MiB by one reader, {many} by one of 32");
    // The kernel releases what is closed a little later.
    eventually("one reader alone is read ahead for as before", || asked(0) >= 16);
}

#[test]
fn small_pieces_anywhere() {
    let mounted = Mounted::new();
    let mut expected = vec![0; 300_000];
    let file = File::options().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
    file.set_len(300_000).unwrap();
    for i in 0..500_usize {
        let (at, len) = (i * 7919 % 290_000, 1 + i * 37 % 9000);
        let piece = pattern(len);
        file.write_all_at(&piece, at as u64).unwrap();
        expected[at..at + len].copy_from_slice(&piece);
    }
    let mut seen = vec![0; 300_000];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert!(seen == expected);
    assert_eq!(file.read_at(&mut [0; 10], 300_000).unwrap(), 0);
}

#[test]
fn appending_truncating_and_holes() {
    let mounted = Mounted::new();
    let path = mounted.path("f");
    let mut file = File::options().append(true).create(true).open(&path).unwrap();
    file.write_all(b"one").unwrap();
    file.write_all(b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"on\0\0");
    drop(File::create(&path).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);

    let file = File::options().read(true).write(true).open(&path).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 8192).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 100, 4096).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..100].iter().all(|b| *b == 1) && bytes[100..4196].iter().all(|b| *b == 0));
    assert_eq!(bytes.len(), 8192);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(5)), Ok(8192));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(9000)), Err(rustix::io::Errno::NXIO));
}

#[test]
fn copying_a_range_stays_inside() {
    let mounted = Mounted::new();
    let data = pattern(3 << 20);
    fs::write(mounted.path("a"), &data).unwrap();
    let from = File::open(mounted.path("a")).unwrap();
    let mut to = File::options().read(true).write(true).create_new(true).open(mounted.path("b")).unwrap();
    let reads = mounted.fs.counts.reads.load(Ordering::Relaxed);
    let copied = rustix::fs::copy_file_range(&from, Some(&mut 1000), &to, Some(&mut 10), 2 << 20).unwrap();
    assert_eq!((copied, mounted.fs.counts.reads.load(Ordering::Relaxed)), (2 << 20, reads));
    let mut seen = Vec::new();
    to.seek(SeekFrom::Start(0)).unwrap();
    to.read_to_end(&mut seen).unwrap();
    assert!(seen[..10] == [0; 10] && seen[10..] == data[1000..1000 + (2 << 20)]);
}

#[test]
fn times_and_the_time_of_creation() {
    let mounted = Mounted::new();
    let path = mounted.path("f");
    fs::write(&path, b"x").unwrap();
    let stx = |mask| rustix::fs::statx(CWD, &path, AtFlags::empty(), mask).unwrap();
    let born = stx(StatxFlags::BTIME);
    assert!(born.stx_mask & StatxFlags::BTIME.bits() != 0 && born.stx_btime.tv_sec > 1_600_000_000);

    let times = Timestamps {
        last_access: Timespec { tv_sec: -5, tv_nsec: 1 },
        last_modification: Timespec { tv_sec: 3_000_000_000, tv_nsec: 999_999_999 },
    };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.atime(), metadata.atime_nsec()), (-5, 1));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (3_000_000_000, 999_999_999));
    let again = stx(StatxFlags::BTIME);
    assert_eq!(
        (again.stx_btime.tv_sec, again.stx_btime.tv_nsec),
        (born.stx_btime.tv_sec, born.stx_btime.tv_nsec)
    );
}

#[test]
fn fsync_and_close_arrive_and_read_only_opens_close_without_a_message() {
    let mounted = Mounted::new();
    let counts = &mounted.fs.counts;
    let file = File::create(mounted.path("f")).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(mounted.root()).unwrap().sync_all().unwrap();
    assert_eq!(counts.fsyncs.load(Ordering::Relaxed), 3);
    drop(file);
    assert_eq!(counts.flushes.load(Ordering::Relaxed), 1);
    drop(File::open(mounted.path("f")).unwrap());
    assert_eq!(counts.flushes.load(Ordering::Relaxed), 1);
}
