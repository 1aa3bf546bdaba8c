//! The ways of a read and of a write, from an object on this machine to the pieces of a reply and back.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;
#[path = "common/volume.rs"]
mod volume;

use std::hint::black_box;

use bytes::Bytes;
use common::{config, noise, tidy_up};
use gungraun::main;
use gungraun::prelude::*;
use headrace_store::{LocalStore, ObjectStore as _};
use headrace_vfs::{FileId, InodeNo};
use tempfile::TempDir;
use volume::Rig;

const MIB: usize = 1 << 20;
const KIB: usize = 1 << 10;

type File = (InodeNo, FileId);

struct Reading {
    rig: Rig,
    file: File,
}

/// A file whose bytes are where `settle` leaves them, and from which was read before.
fn file(len: usize, settle: fn(&Rig, File)) -> Reading {
    let rig = Rig::new();
    let file = rig.create("file");
    rig.write(file, 0, Bytes::from(noise(1, len)));
    settle(&rig, file);
    assert!(rig.read(file, 0, 4096).concat() == noise(1, 4096), "the first bytes");
    tidy_up();
    Reading { rig, file }
}

/// 4 MiB in a segment. Nothing but the kernel caches those.
fn stored() -> Reading {
    file(4 * MIB, |rig, file| rig.flush(file))
}

/// 8 KiB in the metadata engine.
fn inline() -> Reading {
    file(8 * KIB, |rig, file| rig.flush(file))
}

/// 8 KiB in a segment of small files, whose span is in memory.
fn packed() -> Reading {
    file(8 * KIB, |rig, file| {
        rig.flush(file);
        rig.pack();
    })
}

/// 8 KiB that nobody has flushed.
fn unflushed() -> Reading {
    file(8 * KIB, |_, _| ())
}

fn close(reading: (Reading, Vec<Bytes>)) {
    reading.0.rig.close();
}

#[library_benchmark]
#[bench::stored_1_mib(args = (1 << 20, 1 << 20), setup = at_stored, teardown = close)]
#[bench::stored_128_kib(args = (1 << 20, 128 << 10), setup = at_stored, teardown = close)]
#[bench::stored_4_kib(args = (1 << 20, 4 << 10), setup = at_stored, teardown = close)]
#[bench::inline_4_kib(args = (4 << 10, 4 << 10), setup = at_inline, teardown = close)]
#[bench::packed_4_kib(args = (4 << 10, 4 << 10), setup = at_packed, teardown = close)]
#[bench::unflushed_4_kib(args = (4 << 10, 4 << 10), setup = at_unflushed, teardown = close)]
fn read((reading, offset, len): (Reading, u64, u32)) -> (Reading, Vec<Bytes>) {
    let pieces = reading.rig.read(reading.file, black_box(offset), black_box(len));
    (reading, pieces)
}

fn at_stored(offset: u64, len: u32) -> (Reading, u64, u32) {
    (stored(), offset, len)
}

fn at_inline(offset: u64, len: u32) -> (Reading, u64, u32) {
    (inline(), offset, len)
}

fn at_packed(offset: u64, len: u32) -> (Reading, u64, u32) {
    (packed(), offset, len)
}

fn at_unflushed(offset: u64, len: u32) -> (Reading, u64, u32) {
    (unflushed(), offset, len)
}

struct Writing {
    rig: Rig,
    file: File,
    data: Bytes,
}

fn to_write(len: usize) -> Writing {
    let rig = Rig::new();
    let file = rig.create("file");
    rig.write(file, 0, Bytes::from(noise(1, 4096)));
    let data = Bytes::from(noise(2, len));
    tidy_up();
    Writing { rig, file, data }
}

fn end(writing: Writing) {
    writing.rig.close();
}

// Up to the buffer, which is when the kernel gets its answer.
#[library_benchmark]
#[bench::buffered_1_mib(args = (1 << 20), setup = to_write, teardown = end)]
#[bench::buffered_4_kib(args = (4 << 10), setup = to_write, teardown = end)]
fn write(writing: Writing) -> Writing {
    writing.rig.write(writing.file, black_box(64 << 10), black_box(writing.data.clone()));
    writing
}

fn object() -> (LocalStore, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = LocalStore::open(dir.path()).expect("a store");
    let put = store.put("object", Bytes::from(noise(1, 4 * MIB)));
    futures::executor::block_on(put).expect("a put");
    tidy_up();
    (store, dir)
}

// The store alone, below all of that.
#[library_benchmark]
#[bench::get_1_mib(object())]
fn store((store, dir): (LocalStore, TempDir)) -> (LocalStore, TempDir, Bytes) {
    let range = black_box(MIB as u64..2 * MIB as u64);
    let bytes = futures::executor::block_on(store.get_range("object", range)).expect("a get");
    (store, dir, bytes)
}

library_benchmark_group!(name = ways, benchmarks = [read, write, store]);
main!(config = config(), library_benchmark_groups = ways);
