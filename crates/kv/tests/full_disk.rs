//! A disk that is really full: a small tmpfs. Nothing that was committed is lost, and all goes on once there is room.
//! Needs the right to mount; skipped without.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

struct SmallDisk {
    // Dropped, and so removed, after the unmount.
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().expect("tempdir");
        match mount("headrace-test", dir.path(), "tmpfs", MountFlags::empty(), Some(c"size=8m")) {
            Ok(()) => Some(SmallDisk { dir }),
            Err(e) => {
                eprintln!("skipped: cannot mount a tmpfs: {e}");
                None
            }
        }
    }

    fn engine_dir(&self) -> PathBuf {
        self.dir.path().join("engine")
    }

    fn fill(&self, bytes: usize) -> PathBuf {
        let ballast = self.dir.path().join("ballast");
        fs::write(&ballast, vec![0; bytes]).expect("ballast");
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

fn open(dir: &Path) -> Result<EmbeddedEngine, KvError> {
    let options =
        EmbeddedOptions { freeze_bytes: 1 << 20, max_pending_bytes: 4 << 20, ..EmbeddedOptions::default() };
    EmbeddedEngine::open(dir, options)
}

fn value(i: u32, len: usize) -> Vec<u8> {
    let mut value = vec![i as u8; len];
    value[..4].copy_from_slice(&i.to_be_bytes());
    value
}

fn put(engine: &EmbeddedEngine, i: u32, len: usize) -> Result<CommitSeq, KvError> {
    let put = engine.transact_with(|txn| {
        txn.put(&i.to_be_bytes(), &value(i, len));
        Ok::<_, KvError>(())
    });
    put.map(|((), seq)| seq)
}

fn check(engine: &EmbeddedEngine, count: u32, len: usize) {
    engine
        .view_with(|read| {
            for i in 0..count {
                let found = read.get(&i.to_be_bytes())?;
                assert!(found.as_deref() == Some(&value(i, len)[..]), "entry {i} of {count}");
            }
            assert!(read.get(&count.to_be_bytes())?.is_none());
            Ok::<_, KvError>(())
        })
        .expect("view");
}

fn fills_up_and_recovers(len: usize) {
    let Some(disk) = SmallDisk::new() else { return };
    // Without it, there is room for all that memory may hold on top, with what the database's pages waste.
    let ballast = disk.fill(6 << 20);
    let engine = open(&disk.engine_dir()).expect("open");

    // One fsync each, until the disk is full.
    let mut count = 0;
    let refused = loop {
        let seq = put(&engine, count, len).expect("there is room in memory");
        count += 1;
        if let Err(e) = block_on(engine.durable(seq)) {
            break e;
        }
        assert!(u64::from(count) * len as u64 <= 8 << 20, "the disk never filled up");
    };
    assert!(matches!(refused, KvError::Full { .. }), "{refused:?}");
    check(&engine, count, len);

    // Memory takes some more, then says so, and does not block.
    let refused = loop {
        match put(&engine, count, len) {
            Ok(_) => count += 1,
            Err(e) => break e,
        }
        assert!(u64::from(count) * len as u64 <= 16 << 20, "memory is not bounded");
    };
    assert!(matches!(refused, KvError::Full { .. }), "{refused:?}");
    check(&engine, count, len);
    assert!(matches!(block_on(engine.durable(engine.position())), Err(KvError::Full { .. })));
    // Closing now would lose data: refused, and the engine stays usable.
    assert!(matches!(engine.close(), Err(KvError::Full { .. })));
    check(&engine, count, len);

    fs::remove_file(&ballast).expect("make room");
    block_on(engine.durable(engine.position())).expect("there is room again");
    check(&engine, count, len);
    block_on(engine.durable(put(&engine, count, len).expect("put"))).expect("durable");
    count += 1;
    engine.close().expect("close");
    drop(engine);
    let engine = open(&disk.engine_dir()).expect("reopen");
    check(&engine, count, len);
    assert_eq!(engine.position().0, u64::from(count));
}

#[test]
fn small_values() {
    fills_up_and_recovers(900);
}

/// A long value is one long write, which a nearly full disk cuts short instead of refusing it.
#[test]
fn long_values() {
    fills_up_and_recovers(500_000);
}

#[test]
fn recovers_without_being_asked() {
    let Some(disk) = SmallDisk::new() else { return };
    let ballast = disk.fill(6 << 20);
    let engine = open(&disk.engine_dir()).expect("open");
    let mut count = 0;
    while put(&engine, count, 10_000).is_ok() {
        count += 1;
    }
    fs::remove_file(&ballast).expect("make room");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while engine.stats().pending_bytes > 0 {
        assert!(std::time::Instant::now() < deadline, "never tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    check(&engine, count, 10_000);
}

#[test]
fn no_room_to_begin_with_is_an_error_and_not_a_signal() {
    let Some(disk) = SmallDisk::new() else { return };
    for left in [0, 4 << 10, 100 << 10, 268 << 10, 280 << 10] {
        let ballast = disk.fill((8 << 20) - left);
        let opened = open(&disk.engine_dir());
        match opened {
            Err(KvError::Full { .. }) => {}
            Err(e) => panic!("with {left} bytes left: {e}"),
            Ok(engine) => drop(engine),
        }
        fs::remove_file(ballast).expect("make room");
    }
    let engine = open(&disk.engine_dir()).expect("open");
    block_on(engine.durable(put(&engine, 0, 100).expect("put"))).expect("durable");
}
