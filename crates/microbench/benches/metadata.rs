//! Metadata: the embedded engine, and the namespace on it.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::{config, tidy_up};
use gungraun::main;
use gungraun::prelude::*;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt as _, KvError};
use headrace_layout::{InodeNo, SegmentId, SegmentSlice};
use headrace_meta::{Caller, DataCommit, Kind, Namespace, NewData, NewExtent, RenameMode, Time};
use tempfile::TempDir;

const CALLER: Caller = Caller { uid: 1000, gid: 1000, umask: 0o022 };
/// Names in the directory, and keys in the engine.
const MANY: u32 = 1000;

/// The committer stays out of it: what it does is the disk's business, and happens in another thread.
fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        map_size: 64 << 20,
        freeze_age: Duration::from_secs(3600),
        ..EmbeddedOptions::default()
    }
}

struct Store {
    engine: Arc<EmbeddedEngine>,
    _dir: TempDir,
}

fn key(n: u32) -> [u8; 12] {
    let mut key = *b"bench\0\0\0\0\0\0\0";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn open() -> Store {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = Arc::new(EmbeddedEngine::open(&dir.path().join("engine"), options()).expect("an engine"));
    Store { engine, _dir: dir }
}

/// A thousand keys that are not on disk yet.
fn fresh() -> Store {
    let store = open();
    let fill = |txn: &mut dyn headrace_kv::Txn| {
        (0..MANY).for_each(|n| txn.put(&key(n), &[n as u8; 100]));
        Ok::<_, KvError>(())
    };
    store.engine.transact_with(fill).expect("a transaction");
    tidy_up();
    store
}

/// A thousand keys that are on disk, and nothing in front of them.
fn settled() -> Store {
    let store = fresh();
    futures::executor::block_on(store.engine.durable(store.engine.position())).expect("a sync");
    tidy_up();
    store
}

fn stop(store: Store) {
    store.engine.close().expect("close");
}

#[library_benchmark]
#[bench::fresh(setup = fresh, teardown = stop)]
#[bench::settled(setup = settled, teardown = stop)]
fn get(store: Store) -> Store {
    let value =
        store.engine.view_with(|read| Ok::<_, KvError>(read.get(black_box(&key(500)))?.map(|v| v.len())));
    assert_eq!(value.expect("a view"), Some(100));
    store
}

#[library_benchmark]
#[bench::fresh(setup = fresh, teardown = stop)]
#[bench::settled(setup = settled, teardown = stop)]
fn scan_hundred(store: Store) -> Store {
    let mut seen = 0;
    let scanned = store.engine.view_with(|read| {
        read.scan(&key(100), &key(200), &mut |_, value| {
            seen += value.len();
            ControlFlow::Continue(())
        })
    });
    scanned.expect("a view");
    assert_eq!(black_box(seen), 100 * 100);
    store
}

// What a transaction costs its caller: three keys, the size of those that a new file takes.
#[library_benchmark]
#[bench::three_keys(setup = settled, teardown = stop)]
fn commit(store: Store) -> Store {
    let done = store.engine.transact_with(|txn| {
        for n in MANY..MANY + 3 {
            txn.put(black_box(&key(n)), &[n as u8; 100]);
        }
        Ok::<_, KvError>(())
    });
    black_box(done.expect("a transaction"));
    store
}

struct Names {
    names: Namespace,
    file: InodeNo,
    store: Store,
}

/// A directory of a thousand files, of which everything is on disk.
fn directory() -> Names {
    let store = open();
    Namespace::format(&*store.engine, 0, 0, 0o755).expect("format");
    let names = Namespace::open(Arc::clone(&store.engine) as Arc<dyn Engine>).expect("open");
    let mut file = InodeNo::ROOT;
    for n in 0..MANY {
        let name = format!("file number {n}");
        let made = names.create(InodeNo::ROOT, name.as_bytes(), Kind::File, 0o644, 0, None, &CALLER);
        file = made.expect("a file").ino;
    }
    futures::executor::block_on(store.engine.durable(store.engine.position())).expect("a sync");
    tidy_up();
    Names { names, file, store }
}

fn leave(directory: Names) {
    let Names { names, store, .. } = directory;
    drop(names);
    stop(store);
}

#[library_benchmark]
#[bench::in_a_thousand(setup = directory, teardown = leave)]
fn lookup(directory: Names) -> Names {
    black_box(directory.names.lookup(InodeNo::ROOT, black_box(b"file number 500")).expect("it is there"));
    directory
}

#[library_benchmark]
#[bench::in_a_thousand(setup = directory, teardown = leave)]
fn lookup_absent(directory: Names) -> Names {
    black_box(
        directory.names.lookup(InodeNo::ROOT, black_box(b"no such name")).expect_err("it is not there"),
    );
    directory
}

#[library_benchmark]
#[bench::of_a_file(setup = directory, teardown = leave)]
fn getattr(directory: Names) -> Names {
    black_box(directory.names.getattr(black_box(directory.file)).expect("it is there"));
    directory
}

// The first hundred names with their attributes, as `ls -l` has them.
#[library_benchmark]
#[bench::hundred(setup = directory, teardown = leave)]
fn readdir_plus(directory: Names) -> Names {
    let mut left = 100;
    let listed = directory.names.readdir(InodeNo::ROOT, 0, true, &mut |entry| {
        black_box(entry);
        left -= 1;
        left > 0
    });
    listed.expect("a list");
    directory
}

#[library_benchmark]
#[bench::in_a_thousand(setup = directory, teardown = leave)]
fn create(directory: Names) -> Names {
    let name = black_box(b"a new file");
    let made = directory.names.create(InodeNo::ROOT, name, Kind::File, 0o644, 0, None, &CALLER);
    black_box(made.expect("a file"));
    directory
}

#[library_benchmark]
#[bench::in_a_thousand(setup = directory, teardown = leave)]
fn unlink(directory: Names) -> Names {
    black_box(directory.names.unlink(InodeNo::ROOT, black_box(b"file number 500")).expect("it is there"));
    directory
}

#[library_benchmark]
#[bench::in_a_thousand(setup = directory, teardown = leave)]
fn rename(directory: Names) -> Names {
    let moved = directory.names.rename(
        InodeNo::ROOT,
        black_box(b"file number 500"),
        InodeNo::ROOT,
        b"another name",
        RenameMode::Replace,
    );
    black_box(moved.expect("it is there"));
    directory
}

// A batch of written data gets its extent.
#[library_benchmark]
#[bench::one_extent(setup = directory, teardown = leave)]
fn commit_write(directory: Names) -> Names {
    let segment = SegmentId(0x0190_1234_5678_0123_4567_89ab_cdef_fedc);
    let len = 1 << 20;
    let slice = SegmentSlice { segment, run_offset: 64, run_len: len, skip: 0, frames: None };
    let commit = DataCommit {
        pieces: vec![NewExtent { offset: 0, len, data: NewData::Segment(slice) }],
        new_size: Some(u64::from(len)),
        mtime: Some(Time::now()),
        new_segments: vec![(segment, u64::from(len) + 1000)],
        ..DataCommit::default()
    };
    black_box(directory.names.commit_write(directory.file, black_box(&commit)).expect("a commit"));
    directory
}

library_benchmark_group!(name = engine, benchmarks = [get, scan_hundred, commit]);
library_benchmark_group!(
    name = namespace,
    benchmarks = [lookup, lookup_absent, getattr, readdir_plus, create, unlink, rename, commit_write]
);
main!(config = config(), library_benchmark_groups = [engine, namespace]);
