//! Bytes come back as they were written: through the buffer, inline values, segments, after packing, after reopening.
#![allow(missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::{CALLER, File, READ_WRITE, Rig, pattern};
use headrace_layout::{Compression, InodeNo};
use headrace_vfs::{AtimePolicy, SetAttr, Time, VfsOptions, XattrMode};
use headrace_volume::FormatOptions;
use proptest::prelude::*;

fn small_segments() -> FormatOptions {
    FormatOptions { segment_size: 1 << 20, frame_size: 4096, ..FormatOptions::default() }
}

#[test]
fn a_large_file_reads_back_while_it_is_written_and_after() {
    let rig = Rig::new(&small_segments(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "large");
    let data = pattern(1, 9_000_001);
    for (i, part) in data.chunks(700_000).enumerate() {
        file.write(i as u64 * 700_000, part);
        assert_eq!(file.read(0, 300_000), &data[..300_000]);
    }
    let uploading = || rig.root().join("segments").read_dir().is_ok_and(|mut d| d.next().is_some());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !uploading() {
        assert!(std::time::Instant::now() < deadline, "uploads begin before close");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    file.flush().expect("flush");
    assert_eq!(file.size(), data.len() as u64);
    assert_eq!(file.read(0, 16 << 20), data);
    file.release();
    let vfs = rig.reopen_checked(vfs);
    let file = File::open(&rig, &vfs, "large");
    assert_eq!(file.read(4_999_999, 1_000_003), &data[4_999_999..6_000_002]);
    assert_eq!(file.read(9_000_000, 100), &data[9_000_000..], "short at the end");
    assert!(file.read(9_000_001, 100).is_empty());
    file.release();
    rig.close(vfs);
}

/// Files that are open together and written a little each, more than there is memory for, share objects.
#[test]
fn many_files_written_at_one_time_share_segments() {
    const FILES: u64 = 300;
    const BYTES: u64 = 200_000;
    let options = VfsOptions { memory: headrace_flow::memory::MIN_CEILING, ..VfsOptions::default() };
    let rig = Rig::new(&FormatOptions::default(), options);
    let vfs = rig.open();
    let files: Vec<_> = (0..FILES).map(|i| File::create(&rig, &vfs, &format!("f{i}"))).collect();
    let data: Vec<_> = (0..FILES).map(|i| pattern(i, BYTES as usize)).collect();
    let mut most_inline = 0;
    for at in (0..BYTES).step_by(40_000) {
        for (file, data) in files.iter().zip(&data) {
            file.write(at, &data[at as usize..][..40_000]);
        }
        most_inline = vfs.status().inline_bytes.max(most_inline);
    }
    for (file, data) in files.iter().zip(&data) {
        assert_eq!(file.read(0, BYTES as u32), data[..]);
    }
    let count = |dir: std::path::PathBuf| {
        let shelves = std::fs::read_dir(dir).expect("segments").map(|shelf| shelf.unwrap().path());
        shelves.map(|shelf| std::fs::read_dir(shelf).unwrap().count()).sum::<usize>()
    };
    let objects = count(rig.root().join("segments"));
    assert!((1..60).contains(&objects), "{objects} objects for what was flushed of {FILES} files");
    assert!(most_inline < FILES * BYTES / 20, "{most_inline} bytes went through the metadata engine");
    files.into_iter().for_each(|file| {
        file.flush().expect("flush");
        file.release();
    });
    let vfs = rig.reopen_checked(vfs);
    for (i, data) in data.iter().enumerate() {
        let file = File::open(&rig, &vfs, &format!("f{i}"));
        assert_eq!(file.read(0, 1 << 20), data[..]);
        file.release();
    }
    rig.close(vfs);
}

#[test]
fn small_files_need_no_object_until_they_are_packed() {
    let rig = Rig::new(&FormatOptions::default(), VfsOptions::default());
    let vfs = rig.open();
    for i in 0..100u64 {
        let file = File::create(&rig, &vfs, &format!("f{i}"));
        file.write(0, &pattern(i, 1000 + i as usize));
        file.flush().expect("flush");
        file.release();
    }
    let objects = || std::fs::read_dir(rig.root().join("segments")).map(|d| d.count()).unwrap_or(0);
    assert_eq!(objects(), 0);
    assert!(vfs.status().inline_bytes > 100_000);
    rig.runtime.block_on(headrace_volume::pack(vfs.volume(), u64::MAX)).expect("pack");
    assert_eq!((objects(), vfs.status().inline_bytes), (1, 0));
    let vfs = rig.reopen_checked(vfs);
    for i in 0..100u64 {
        let file = File::open(&rig, &vfs, &format!("f{i}"));
        assert_eq!(file.read(0, 1 << 20), pattern(i, 1000 + i as usize));
        file.release();
    }
    rig.close(vfs);
}

#[test]
fn writers_wait_for_the_store_and_memory_stays_bounded() {
    let options = VfsOptions { memory: 64 << 20, ..VfsOptions::default() };
    let rig = Rig::new(&small_segments(), options);
    let vfs = rig.open();
    let part = pattern(3, 1 << 20);
    let files: Vec<_> = (0..8).map(|i| File::create(&rig, &vfs, &format!("w{i}"))).collect();
    for i in 0..40u64 {
        for file in &files {
            file.write(i << 20, &part);
            let status = vfs.status();
            assert!(
                status.dirty_bytes <= status.dirty_limit,
                "{} of {}",
                status.dirty_bytes,
                status.dirty_limit
            );
        }
    }
    for file in files {
        file.fsync().expect("fsync");
        assert_eq!(file.read(39 << 20, 1 << 20), part);
        file.release();
    }
    assert_eq!(vfs.status().dirty_bytes, 0, "everything is given back");
    rig.close(vfs);
}

#[test]
fn a_store_that_fails_is_reported_once_and_loses_nothing() {
    let rig = Rig::new(&small_segments(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "precious");
    let data = pattern(4, 3 << 20);
    file.write(0, &data[..2 << 20]);
    file.fsync().expect("the store works");
    // Where segments should go stands something else.
    let (segments, aside) = (rig.root().join("segments"), rig.root().join("aside"));
    std::fs::rename(&segments, &aside).expect("move away");
    std::fs::write(&segments, b"in the way").expect("block");
    let failed = file.try_write(2 << 20, &data[2 << 20..]).map(|_| ()).and_then(|()| file.fsync());
    let error = failed.expect_err("the store is gone");
    assert_eq!(error.errno(), libc::EIO, "{error}");
    assert_eq!(file.read(2 << 20, 1 << 20), &data[2 << 20..], "still readable from memory");
    std::fs::remove_file(&segments).expect("unblock");
    std::fs::rename(&aside, &segments).expect("move back");
    // A background attempt may have failed meanwhile and be reported once.
    let _ = file.fsync();
    file.fsync().expect("the store is back");
    file.release();
    let vfs = rig.reopen_checked(vfs);
    let file = File::open(&rig, &vfs, "precious");
    assert_eq!(file.read(0, 4 << 20), data);
    file.release();
    rig.close(vfs);
}

#[test]
fn deleted_files_go_when_the_last_reference_goes() {
    let rig = Rig::new(&small_segments(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "temp");
    file.write(0, &pattern(5, 3 << 20));
    file.fsync().expect("fsync");
    vfs.unlink(InodeNo::ROOT, b"temp").expect("unlink");
    file.write(3 << 20, b"more");
    assert_eq!(file.read(3 << 20, 10), b"more");
    let ino = file.ino;
    assert_eq!(vfs.getattr(ino).expect("still there").nlink, 0);
    file.release();
    assert!(vfs.getattr(ino).is_ok(), "the kernel still refers to it");
    vfs.forget(ino, 1);
    let vfs = rig.reopen_checked(vfs);
    assert!(vfs.getattr(ino).is_err());
    assert_eq!(vfs.status().bytes, 0);
    rig.close(vfs);
}

#[test]
fn times_set_after_a_write_are_kept() {
    let rig = Rig::new(&FormatOptions::default(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "dated");
    file.write(0, b"data");
    let when = headrace_vfs::Time { secs: 1_000_000_000, nanos: 7 };
    let change = headrace_vfs::SetAttr { mtime: Some(when), ..Default::default() };
    rig.runtime.block_on(vfs.setattr(file.ino, change, None)).expect("utimens");
    file.flush().expect("flush");
    assert_eq!(vfs.getattr(file.ino).expect("getattr").mtime, when);
    let ino = file.ino;
    file.release();
    let vfs = rig.reopen_checked(vfs);
    assert_eq!(vfs.getattr(ino).expect("getattr").mtime, when);
    rig.close(vfs);
}

/// Reads that the kernel makes ahead of a reader come and end whenever they like.
#[test]
fn an_access_time_that_is_set_is_kept_whatever_was_read_before() {
    for atime in [AtimePolicy::RelAtime, AtimePolicy::StrictAtime] {
        let rig = Rig::new(&small_segments(), VfsOptions { atime, ..VfsOptions::default() });
        let vfs = rig.open();
        let file = File::create(&rig, &vfs, "f");
        file.write(0, &pattern(1, 4096));
        file.fsync().expect("fsync");
        let old = Time { secs: -178_285_744, nanos: 942_376_682 };
        let set = || {
            let change = SetAttr { atime: Some(old), ..SetAttr::default() };
            rig.runtime.block_on(vfs.setattr(file.ino, change, None)).expect("setattr");
        };
        let read = |file: &File<'_>| assert_eq!(file.read(0, 4096), pattern(1, 4096));
        let accessed = || vfs.getattr(file.ino).expect("getattr").atime;

        let under_way = vfs.read(file.ino, file.file, 0, 4096);
        read(&file);
        set();
        assert_eq!(rig.runtime.block_on(under_way).expect("read").concat(), pattern(1, 4096));
        assert_eq!(accessed(), old, "{atime:?}");
        // One that came too late, unless this machine stood still between the two.
        loop {
            let began = Instant::now();
            set();
            read(&file);
            if began.elapsed() < Duration::from_secs(1) {
                assert_eq!(accessed(), old, "{atime:?}");
                break;
            }
        }
        // Whoever opens it now has not read before.
        let set_at = vfs.getattr(file.ino).expect("getattr").ctime;
        let again = File::open(&rig, &vfs, "f");
        read(&again);
        assert!(accessed() >= set_at, "{atime:?}: {:?}", accessed());
        again.release();
        set();
        std::thread::sleep(Duration::from_millis(1100));
        read(&file);
        assert!(accessed() >= set_at, "{atime:?}: {:?}", accessed());
        file.release();
        rig.close(vfs);
    }
}

#[test]
fn a_write_takes_file_capabilities_away_and_its_commit_does_not() {
    let rig = Rig::new(&FormatOptions::default(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "tool");
    let grant =
        || vfs.setxattr(file.ino, b"security.capability", b"caps", XattrMode::Set, false).expect("setxattr");
    let capable = || vfs.getxattr(file.ino, b"security.capability").is_ok();
    file.write(0, b"program");
    grant();
    file.flush().expect("flush");
    assert!(capable(), "granted after the write");
    file.write(0, b"x");
    assert!(!capable());
    grant();
    file.write(1, b"y");
    assert!(!capable());
    file.release();
    rig.close(vfs);
}

#[test]
fn overwriting_does_not_make_a_file_larger_on_disk() {
    let rig = Rig::new(&FormatOptions::default(), VfsOptions::default());
    let vfs = rig.open();
    let file = File::create(&rig, &vfs, "f");
    let held = || vfs.getattr(file.ino).expect("getattr").allocated;
    file.write(0, &pattern(1, 50_000));
    assert_eq!(held(), 50_000);
    file.flush().expect("flush");
    file.write(10_000, &pattern(2, 20_000));
    assert_eq!(held(), 50_000);
    file.flush().expect("flush");
    assert_eq!(held(), 50_000);
    file.release();
    rig.close(vfs);
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: u64, len: usize },
    Truncate(u64),
    Punch { offset: u64, len: u64 },
    Zero { offset: u64, len: u64 },
    Collapse { page: u64, pages: u64 },
    Insert { page: u64, pages: u64 },
    CopyWithin { from: u64, to: u64, len: u64 },
    Flush,
    Fsync,
    Pack,
    Compact,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let offset = 0u64..3_000_000;
    let len = prop_oneof![1usize..100, 4000usize..5000, 60_000usize..70_000, 200_000usize..1_500_000];
    prop_oneof![
        10 => (offset.clone(), len.clone()).prop_map(|(offset, len)| Op::Write { offset, len }),
        2 => offset.clone().prop_map(Op::Truncate),
        2 => (offset.clone(), 1u64..500_000).prop_map(|(offset, len)| Op::Punch { offset, len }),
        1 => (offset.clone(), 1u64..500_000).prop_map(|(offset, len)| Op::Zero { offset, len }),
        1 => (0u64..300, 1u64..50).prop_map(|(page, pages)| Op::Collapse { page, pages }),
        1 => (0u64..300, 1u64..50).prop_map(|(page, pages)| Op::Insert { page, pages }),
        2 => (offset.clone(), offset, 1u64..400_000).prop_map(|(from, to, len)| Op::CopyWithin { from, to, len }),
        3 => Just(Op::Flush),
        1 => Just(Op::Fsync),
        1 => Just(Op::Pack),
        1 => Just(Op::Compact),
        1 => Just(Op::Reopen),
    ]
}

fn format_variants() -> impl Strategy<Value = FormatOptions> {
    prop_oneof![Just(Compression::None), Just(Compression::Lz4)]
        .prop_map(|compression| FormatOptions { compression, ..small_segments() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]
    /// Any sequence of operations leaves the bytes that the same sequence leaves in an array.
    #[test]
    fn behaves_like_an_array_of_bytes(format in format_variants(), ops in prop::collection::vec(op(), 1..40)) {
        let rig = Rig::new(&format, VfsOptions { memory: 64 << 20, ..VfsOptions::default() });
        let mut vfs = rig.open();
        let mut file = File::create(&rig, &vfs, "f");
        let mut model: Vec<u8> = Vec::new();
        for (i, op) in ops.into_iter().enumerate() {
            match op {
                Op::Write { offset, len } => {
                    let data = pattern(i as u64 + 1, len);
                    file.write(offset, &data);
                    let end = offset as usize + len;
                    if model.len() < end { model.resize(end, 0); }
                    model[offset as usize..end].copy_from_slice(&data);
                }
                Op::Truncate(size) => { file.truncate(size); model.resize(size as usize, 0); }
                Op::Punch { offset, len } => {
                    file.fallocate(offset, len, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE).expect("punch");
                    let (s, e) = ((offset as usize).min(model.len()), ((offset + len) as usize).min(model.len()));
                    model[s..e].fill(0);
                }
                Op::Zero { offset, len } => {
                    file.fallocate(offset, len, libc::FALLOC_FL_ZERO_RANGE).expect("zero");
                    let end = (offset + len) as usize;
                    if model.len() < end { model.resize(end, 0); }
                    model[offset as usize..end].fill(0);
                }
                Op::Collapse { page, pages } => {
                    let (s, e) = ((page * 4096) as usize, ((page + pages) * 4096) as usize);
                    if e < model.len() {
                        file.fallocate(page * 4096, pages * 4096, libc::FALLOC_FL_COLLAPSE_RANGE).expect("collapse");
                        model.drain(s..e);
                    }
                }
                Op::Insert { page, pages } => {
                    let at = (page * 4096) as usize;
                    if at < model.len() {
                        file.fallocate(page * 4096, pages * 4096, libc::FALLOC_FL_INSERT_RANGE).expect("insert");
                        model.splice(at..at, std::iter::repeat_n(0, (pages * 4096) as usize));
                    }
                }
                Op::CopyWithin { from, to, len } => {
                    let len = len.min((model.len() as u64).saturating_sub(from));
                    if len > 0 && (from + len <= to || to + len <= from) {
                        let copy = vfs.copy_file_range(file.ino, from, file.ino, to, len);
                        let copied = rig.runtime.block_on(copy).expect("copy");
                        prop_assert_eq!(copied, len);
                        let bytes = model[from as usize..(from + len) as usize].to_vec();
                        let end = (to + len) as usize;
                        if model.len() < end { model.resize(end, 0); }
                        model[to as usize..end].copy_from_slice(&bytes);
                    }
                }
                Op::Flush => file.flush().expect("flush"),
                Op::Fsync => file.fsync().expect("fsync"),
                Op::Pack => { rig.runtime.block_on(headrace_volume::pack(vfs.volume(), u64::MAX)).expect("pack"); }
                Op::Compact => {
                    rig.runtime.block_on(headrace_volume::compact_chunk(vfs.volume(), file.ino, 0)).expect("compact");
                }
                Op::Reopen => {
                    file.flush().expect("flush");
                    file.release();
                    vfs = rig.reopen_checked(vfs);
                    file = File::open(&rig, &vfs, "f");
                }
            }
            prop_assert_eq!(file.size(), model.len() as u64, "size after operation {}", i);
            let got = file.read(0, u32::MAX);
            if got != model {
                let at = got.iter().zip(&model).position(|(a, b)| a != b);
                prop_assert!(false, "operation {}: differs at {:?}", i, at);
            }
        }
        file.flush().expect("flush");
        file.release();
        rig.close(vfs);
        rig.check();
    }
}

#[test]
fn appends_by_several_threads_all_arrive() {
    let rig = Rig::new(&small_segments(), VfsOptions::default());
    let vfs = rig.open();
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let (rig, vfs) = (&rig, &vfs);
            scope.spawn(move || {
                for i in 0..50 {
                    let file = File::create(rig, vfs, &format!("t{t}-{i}"));
                    file.write(0, &pattern(t * 1000 + i, 20_000));
                    file.fsync().expect("fsync");
                    file.release();
                }
            });
        }
    });
    let mut seen = 0;
    vfs.readdir(InodeNo::ROOT, 0, true, &mut |entry| {
        if entry.name.starts_with(b"t") {
            assert_eq!(entry.attr.map(|a| a.size), Some(20_000));
            seen += 1;
        }
        true
    })
    .expect("readdir");
    assert_eq!(seen, 200);
    let (attr, file, _) = vfs.create(InodeNo::ROOT, b"x", 0o644, READ_WRITE, &CALLER).expect("create");
    let _ = rig.runtime.block_on(vfs.release(attr.ino, file));
    rig.close(vfs);
    rig.check();
}
