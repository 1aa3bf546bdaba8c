//! The cache on disks: what was read is read again without the store, over restarts; what changed is never read as it was.
#![allow(missing_docs)]

mod common;

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use common::{File, Rig, pattern};
use futures::future::BoxFuture;
use headrace_vfs::{CacheDirectory, CacheOptions, FreeSpace, OpenMode, Pace, Vfs, VfsOptions};
use headrace_volume::FormatOptions;
use proptest::prelude::*;

const MIB: usize = 1 << 20;

fn cached(directories: &[PathBuf], limit: Option<u64>) -> VfsOptions {
    let directories = directories.iter().map(|path| CacheDirectory { path: path.clone(), limit }).collect();
    let cache = CacheOptions { directories, free: FreeSpace::Bytes(0), expire: None };
    VfsOptions { cache: Some(cache), ..VfsOptions::default() }
}

fn small_segments() -> FormatOptions {
    FormatOptions { segment_size: 1 << 20, ..FormatOptions::default() }
}

/// A volume with a cache beside it.
fn rig(format: &FormatOptions, limit: Option<u64>) -> (Rig, tempfile::TempDir) {
    let cache = tempfile::tempdir().expect("a directory");
    (Rig::new(format, cached(&[cache.path().join("one")], limit)), cache)
}

struct AtOnce;

impl Pace for AtOnce {
    fn take(&self, _: u64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    fn done(&self, _: u64) {}
}

fn store(rig: &Rig, name: &str, data: &[u8]) {
    let vfs = rig.open();
    let file = File::create(rig, &vfs, name);
    data.chunks(MIB).enumerate().for_each(|(at, part)| file.write((at * MIB) as u64, part));
    file.flush().expect("flush");
    file.release();
    rig.close(vfs);
}

/// Files f0, f1, …
fn write_each(rig: &Rig, vfs: &Arc<Vfs>, data: &[Vec<u8>]) {
    for (number, data) in data.iter().enumerate() {
        let file = File::create(rig, vfs, &format!("f{number}"));
        file.write(0, data);
        file.flush().expect("flush");
        file.release();
    }
}

fn warm(rig: &Rig, vfs: &Arc<Vfs>, name: &str) {
    let attr = vfs.lookup(headrace_layout::InodeNo::ROOT, name.as_bytes()).expect("lookup");
    let warmth = rig.runtime.block_on(vfs.warm(attr.ino, false, &AtOnce)).expect("warm");
    assert_eq!((warmth.cached, warmth.bytes), (attr.size, attr.size));
}

fn read_all(file: &File<'_>, len: usize) -> Vec<u8> {
    (0..len).step_by(300_000).flat_map(|at| file.read(at as u64, 300_000)).collect()
}

/// All that the store has, out of reach while this lives.
struct StoreGone(PathBuf, PathBuf);

impl StoreGone {
    fn new(rig: &Rig) -> StoreGone {
        let (from, to) = (rig.root().join("segments"), rig.root().join("out-of-reach"));
        std::fs::rename(&from, &to).expect("renamed");
        StoreGone(from, to)
    }
}

impl Drop for StoreGone {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
        std::fs::rename(&self.1, &self.0).expect("renamed");
    }
}

fn entry_files(cache: &tempfile::TempDir) -> Vec<PathBuf> {
    let data = cache.path().join("one/data");
    let shards = std::fs::read_dir(data).expect("data").flatten();
    shards
        .flat_map(|shard| std::fs::read_dir(shard.path()).expect("shard").flatten())
        .map(|file| file.path())
        .collect()
}

#[test]
fn what_was_read_is_read_again_without_the_store_and_over_a_restart() {
    let (rig, _cache) = rig(&small_segments(), None);
    let data = pattern(1, 20 * MIB + 12_345);
    store(&rig, "large", &data);
    let vfs = rig.open();
    let file = File::open(&rig, &vfs, "large");
    assert!(read_all(&file, data.len()) == data);
    // What the disk was behind with comes with another look.
    warm(&rig, &vfs, "large");
    let gone = StoreGone::new(&rig);
    assert!(read_all(&file, data.len()) == data);
    file.release();
    drop(gone);
    rig.close(vfs);
    let vfs = rig.open();
    let gone = StoreGone::new(&rig);
    let file = File::open(&rig, &vfs, "large");
    assert!(read_all(&file, data.len()) == data);
    file.release();
    drop(gone);
    rig.close(vfs);
}

#[test]
fn small_files_are_kept_by_the_segments_they_are_in() {
    let (rig, _cache) = rig(&FormatOptions::default(), None);
    let data: Vec<Vec<u8>> = (0..200).map(|seed| pattern(seed, 1000 + seed as usize * 700)).collect();
    let vfs = rig.open();
    write_each(&rig, &vfs, &data);
    rig.runtime.block_on(async {
        vfs.flush_all().await.expect("flush");
        headrace_volume::pack(vfs.volume(), u64::MAX).await.expect("packed");
    });
    rig.close(vfs);
    let check = |vfs: &Arc<Vfs>| {
        for (number, data) in data.iter().enumerate() {
            let file = File::open(&rig, vfs, &format!("f{number}"));
            assert!(&file.read(0, 1 << 20) == data, "file {number}");
            file.release();
        }
    };
    let vfs = rig.open();
    check(&vfs);
    (0..200).for_each(|number| warm(&rig, &vfs, &format!("f{number}")));
    rig.close(vfs);
    let vfs = rig.open();
    let gone = StoreGone::new(&rig);
    check(&vfs);
    drop(gone);
    rig.close(vfs);
}

#[test]
fn short_files_that_were_written_here_need_no_store() {
    let (rig, _cache) = rig(&FormatOptions::default(), None);
    // In the metadata at first, and not.
    let sizes = (0..200).map(|n| 1000 + n * 300).chain([65_537, 100_000, 700_000, 4 << 20]);
    let data: Vec<Vec<u8>> = sizes.enumerate().map(|(seed, len)| pattern(seed as u64, len)).collect();
    let vfs = rig.open();
    write_each(&rig, &vfs, &data);
    rig.runtime.block_on(async {
        vfs.flush_all().await.expect("flush");
        assert_eq!(vfs.pack(u64::MAX).await.expect("packed").moved, 200);
    });
    rig.close(vfs);
    let vfs = rig.open();
    let gone = StoreGone::new(&rig);
    for (number, data) in data.iter().enumerate() {
        let file = File::open(&rig, &vfs, &format!("f{number}"));
        assert!(&read_all(&file, data.len()) == data, "file {number}");
        file.release();
    }
    drop(gone);
    rig.close(vfs);
}

#[test]
fn bits_that_flip_on_the_disk_are_found_and_fetched_again() {
    let (rig, cache) = rig(&small_segments(), None);
    let data = pattern(2, 8 * MIB);
    store(&rig, "large", &data);
    let vfs = rig.open();
    warm(&rig, &vfs, "large");
    rig.close(vfs);
    let files = entry_files(&cache);
    assert_eq!(files.len(), 1);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&files[0]).expect("open");
    for at in [5u64, 3_000_000, 8 * MIB as u64 - 1] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 4], at).expect("write");
    }
    drop(file);
    let vfs = rig.open();
    let file = File::open(&rig, &vfs, "large");
    assert!(read_all(&file, data.len()) == data);
    file.release();
    warm(&rig, &vfs, "large");
    rig.close(vfs);
}

#[test]
fn a_file_that_is_whole_is_offered_to_the_kernel_and_follows_its_changes() {
    let (rig, _cache) = rig(&small_segments(), None);
    let mut data = pattern(3, 3 * MIB + 77);
    store(&rig, "large", &data);
    let vfs = rig.open();
    vfs.passthrough_possible(Ok(()));
    let ino = vfs.lookup(headrace_layout::InodeNo::ROOT, b"large").expect("lookup").ino;
    let open = |flags| vfs.open(ino, flags).expect("open");
    let close = |file| rig.runtime.block_on(vfs.release(ino, file)).expect("release");
    let (file, mode) = open(libc::O_RDONLY);
    assert_eq!(mode.backing, None, "nothing is there yet");
    close(file);
    warm(&rig, &vfs, "large");
    // A writer keeps it from being passed through, and what it writes is seen by who comes next.
    let writer = File::open(&rig, &vfs, "large");
    let (reader, mode) = open(libc::O_RDONLY);
    assert!(mode.backing.is_none() && mode.keep_cache);
    close(reader);
    writer.release();

    let (first, OpenMode { backing, keep_cache, direct_io, .. }) = open(libc::O_RDONLY);
    let backing = backing.expect("passed through");
    assert!(!keep_cache && !direct_io);
    let local = || {
        let mut bytes = vec![0; backing.0.metadata().expect("metadata").len() as usize];
        backing.0.read_exact_at(&mut bytes, 0).expect("read");
        bytes
    };
    assert!(local() == data);
    let (second, mode) = open(libc::O_RDONLY);
    assert_eq!(mode.backing.as_ref(), Some(&backing), "the same for all");
    // Writers while it is passed through.
    let (attr, mode) = (vfs.getattr(ino).expect("getattr"), open(libc::O_RDWR));
    assert_eq!(attr.size, data.len() as u64);
    assert!(mode.1.direct_io && mode.1.backing.as_ref() == Some(&backing));
    let writer = File { rig: &rig, vfs: Arc::clone(&vfs), ino, file: mode.0 };
    writer.write(100_000, b"changed");
    data[100_000..100_007].copy_from_slice(b"changed");
    assert!(local() == data);
    writer.write(data.len() as u64, b"and longer");
    data.extend_from_slice(b"and longer");
    assert!(local() == data && read_all(&writer, data.len()) == data);
    writer.truncate(2 * MIB as u64 + 5);
    data.truncate(2 * MIB + 5);
    assert!(local() == data);
    writer.fallocate(50_000, 100_000, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE).expect("punch");
    data[50_000..150_000].fill(0);
    assert!(local() == data);
    writer.fallocate(4096, 8192, libc::FALLOC_FL_COLLAPSE_RANGE).expect("collapse");
    data.drain(4096..4096 + 8192);
    assert!(local() == data, "collapsed");
    let copied =
        rig.runtime.block_on(vfs.copy_file_range(ino, 1_000_000, ino, 10_000, 500_000)).expect("copy");
    assert_eq!(copied, 500_000);
    data.copy_within(1_000_000..1_500_000, 10_000);
    assert!(local() == data && read_all(&writer, data.len()) == data, "copied");
    writer.flush().expect("flush");
    writer.release();
    close(first);
    close(second);
    // The copy that was changed is not an entry any more; there may be another one by now.
    warm(&rig, &vfs, "large");
    let (file, mode) = open(libc::O_RDONLY);
    let mut bytes = vec![0; data.len()];
    let again = mode.backing.expect("whole again");
    assert!(again != backing);
    again.0.read_exact_at(&mut bytes, 0).expect("read");
    assert!(bytes == data);
    close(file);
    rig.close(vfs);
}

/// A mapping outlives the open file it was made from, and the kernel tells nobody of its end.
#[test]
fn a_mapping_sees_changes_after_its_file_is_closed_and_what_it_writes_is_kept() {
    let (rig, _cache) = rig(&small_segments(), None);
    let mut data = pattern(5, 2 * MIB);
    store(&rig, "large", &data);
    let vfs = rig.open();
    vfs.passthrough_possible(Ok(()));
    warm(&rig, &vfs, "large");
    let ino = vfs.lookup(headrace_layout::InodeNo::ROOT, b"large").expect("lookup").ino;
    let (reader, mode) = vfs.open(ino, libc::O_RDONLY).expect("open");
    let backing = mode.backing.expect("passed through");
    let writer = File::open(&rig, &vfs, "large");
    // As the kernel does for each open: a file of its own.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", backing.0.as_raw_fd());
    let mapped = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("open");
    writer.release();
    rig.runtime.block_on(vfs.release(ino, reader)).expect("release");

    let writer = File::open(&rig, &vfs, "large");
    writer.write(1000, b"written by a call");
    data[1000..1017].copy_from_slice(b"written by a call");
    let mut seen = [0; 17];
    mapped.read_exact_at(&mut seen, 1000).expect("read");
    assert_eq!(&seen, b"written by a call");
    mapped.write_all_at(b"and by a mapping", 1_500_000).expect("write");
    data[1_500_000..1_500_016].copy_from_slice(b"and by a mapping");
    writer.fsync().expect("fsync");
    assert!(read_all(&writer, data.len()) == data);
    writer.release();
    mapped.write_all_at(b"at the very end", 5).expect("write");
    data[5..20].copy_from_slice(b"at the very end");
    drop(mapped);
    rig.close(vfs);
    let vfs = rig.open();
    let file = File::open(&rig, &vfs, "large");
    assert!(read_all(&file, data.len()) == data);
    file.release();
    rig.close(vfs);
}

#[test]
fn no_more_is_kept_than_may_be() {
    let limit = 6 * MIB as u64;
    let (rig, cache) = rig(&small_segments(), Some(limit));
    let data: Vec<_> = (0..6).map(|seed| pattern(10 + seed, 2 * MIB)).collect();
    for (number, data) in data.iter().enumerate() {
        store(&rig, &format!("f{number}"), data);
    }
    let vfs = rig.open();
    for round in 0..3 {
        for (number, data) in data.iter().enumerate() {
            let file = File::open(&rig, &vfs, &format!("f{number}"));
            assert!(&read_all(&file, data.len()) == data, "round {round}, file {number}");
            file.release();
            let held = vfs.cache_status().expect("a cache").directories[0].bytes;
            assert!(held <= limit, "{held}");
        }
    }
    rig.close(vfs);
    use std::os::unix::fs::MetadataExt;
    let blocks: u64 =
        entry_files(&cache).iter().map(|path| path.metadata().expect("metadata").blocks() * 512).sum();
    assert!(blocks > 0 && blocks <= limit + 64 * 1024, "{blocks} bytes on disk");
}

#[test]
fn a_directory_that_cannot_be_used_is_done_without() {
    let cache = tempfile::tempdir().expect("a directory");
    let file = cache.path().join("file");
    std::fs::write(&file, b"not a directory").expect("written");
    let directories = [file.join("in a file"), cache.path().join("good")];
    let rig = Rig::new(&small_segments(), cached(&directories, None));
    let data = pattern(4, 3 * MIB);
    store(&rig, "large", &data);
    let vfs = rig.open();
    let status = vfs.cache_status().expect("a cache");
    let failed: Vec<bool> = status.directories.iter().map(|directory| directory.failed.is_some()).collect();
    assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
    warm(&rig, &vfs, "large");
    // A second mount of the same directory would find it taken.
    let other = Rig::new(&small_segments(), cached(&directories[1..], None));
    let second = other.open();
    let why = second.cache_status().expect("a cache").directories[0].failed.clone();
    assert!(why.as_deref().is_some_and(|why| why.contains("another mount")), "{why:?}");
    other.close(second);
    rig.close(vfs);
}

/// What happens to a file, its cache and its mount.
#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize, u64),
    Truncate(usize),
    Punch(usize, usize),
    Copy(usize, usize, usize),
    Flush,
    Read(usize, usize),
    Warm,
    Cool,
    Pass,
    Unpass,
    /// What a program does that has mapped the file.
    Map(usize, usize, u64),
    Restart,
    Flip(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0usize..2_000_000;
    let len = || prop_oneof![1usize..5_000, 30_000usize..70_000, 100_000usize..700_000];
    let step = prop_oneof![
        4 => (at(), len(), any::<u64>()).prop_map(|(at, len, seed)| Step::Write(at, len, seed)),
        1 => at().prop_map(Step::Truncate),
        1 => (at(), len()).prop_map(|(at, len)| Step::Punch(at, len)),
        1 => (at(), at(), len()).prop_map(|(from, to, len)| Step::Copy(from, to, len)),
        2 => Just(Step::Flush),
        4 => (at(), len()).prop_map(|(at, len)| Step::Read(at, len)),
        3 => Just(Step::Warm),
        1 => Just(Step::Cool),
        2 => Just(Step::Pass),
        1 => Just(Step::Unpass),
        2 => (at(), len(), any::<u64>()).prop_map(|(at, len, seed)| Step::Map(at, len, seed)),
        1 => Just(Step::Restart),
        1 => at().prop_map(Step::Flip),
    ];
    proptest::collection::vec(step, 5..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Whatever happens, reads and what the kernel would read are what was written.
    #[test]
    fn no_stale_byte(steps in steps()) {
        let (rig, cache) = rig(&small_segments(), Some(3 * MIB as u64));
        let mut vfs = rig.open();
        vfs.passthrough_possible(Ok(()));
        let mut file = Some(File::create(&rig, &vfs, "file"));
        let ino = file.as_ref().expect("open").ino;
        let mut model = pattern(7, 1_500_000);
        file.as_ref().expect("open").write(0, &model);
        let mut passed: Option<(headrace_vfs::FileId, Option<headrace_vfs::Backing>)> = None;
        for step in steps {
            let open = file.as_ref().expect("open");
            match step {
                Step::Write(at, len, seed) => {
                    let data = pattern(seed, len);
                    open.write(at as u64, &data);
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&data);
                }
                Step::Truncate(size) => {
                    open.truncate(size as u64);
                    model.resize(size, 0);
                }
                Step::Punch(at, len) => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    open.fallocate(at as u64, len as u64, mode).expect("punch");
                    let end = (at + len).min(model.len());
                    if at < end {
                        model[at..end].fill(0);
                    }
                }
                Step::Copy(from, to, len) => {
                    let len = len.min(model.len().saturating_sub(from));
                    if len > 0 && (from + len <= to || to + len <= from) {
                        let copy = vfs.copy_file_range(ino, from as u64, ino, to as u64, len as u64);
                        let copied = rig.runtime.block_on(copy).expect("copy") as usize;
                        model.resize(model.len().max(to + copied), 0);
                        model.copy_within(from..from + copied, to);
                    }
                }
                Step::Flush => open.flush().expect("flush"),
                Step::Read(at, len) => {
                    let end = (at + len).min(model.len());
                    let wanted = model.get(at..end).unwrap_or_default();
                    prop_assert!(open.read(at as u64, len as u32) == wanted, "read of {} at {}", len, at);
                }
                Step::Warm => {
                    rig.runtime.block_on(vfs.warm(ino, false, &AtOnce)).expect("warm");
                }
                Step::Cool => {
                    vfs.cool(ino).expect("cool");
                }
                Step::Pass => {
                    // Alone, so that it may be passed through; then the writer beside it.
                    if passed.is_none() {
                        open.flush().expect("flush");
                        rig.runtime.block_on(vfs.warm(ino, false, &AtOnce)).expect("warm");
                        file.take().expect("open").release();
                        let (reader, mode) = vfs.open(ino, libc::O_RDONLY).expect("open");
                        passed = Some((reader, mode.backing));
                        file = Some(File::open(&rig, &vfs, "file"));
                    }
                }
                Step::Unpass => {
                    if let Some((reader, _)) = passed.take() {
                        rig.runtime.block_on(vfs.release(ino, reader)).expect("release");
                    }
                }
                Step::Map(at, len, seed) => {
                    let Some((_, Some(backing))) = &passed else { continue };
                    let end = (at + len).min(model.len());
                    if at < end {
                        let data = pattern(seed, end - at);
                        backing.0.write_all_at(&data, at as u64).expect("write");
                        model[at..end].copy_from_slice(&data);
                    }
                }
                Step::Restart => {
                    if let Some((reader, _)) = passed.take() {
                        rig.runtime.block_on(vfs.release(ino, reader)).expect("release");
                    }
                    open.flush().expect("flush");
                    file.take().expect("open").release();
                    rig.close(vfs);
                    vfs = rig.open();
                    vfs.passthrough_possible(Ok(()));
                    file = Some(File::open(&rig, &vfs, "file"));
                }
                Step::Flip(at) => {
                    if passed.is_some() {
                        continue;
                    }
                    // Only between mounts: what was verified is believed.
                    open.flush().expect("flush");
                    file.take().expect("open").release();
                    rig.close(vfs);
                    for path in entry_files(&cache) {
                        let local = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("open");
                        let mut byte = [0];
                        if local.read_at(&mut byte, at as u64).expect("read") == 1 {
                            local.write_all_at(&[byte[0] ^ 1], at as u64).expect("write");
                        }
                    }
                    vfs = rig.open();
                    vfs.passthrough_possible(Ok(()));
                    file = Some(File::open(&rig, &vfs, "file"));
                }
            }
            if let Some((_, Some(backing))) = &passed {
                let mut local = vec![0; backing.0.metadata().expect("metadata").len() as usize];
                backing.0.read_exact_at(&mut local, 0).expect("read");
                prop_assert!(local == model, "the kernel would read something else");
            }
            let open = file.as_ref().expect("open");
            prop_assert_eq!(open.size(), model.len() as u64);
        }
        prop_assert!(read_all(file.as_ref().expect("open"), model.len()) == model);
        if let Some((reader, _)) = passed.take() {
            rig.runtime.block_on(vfs.release(ino, reader)).expect("release");
        }
        file.take().expect("open").release();
        rig.close(vfs);
    }
}
