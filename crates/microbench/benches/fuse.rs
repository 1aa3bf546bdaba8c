//! One request of the kernel, from its bytes to the bytes of its answer: decode, file system, encode. What the system calls cost is
//! not in it.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;
#[path = "common/volume.rs"]
mod volume;

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use common::{config, noise, tidy_up};
use gungraun::main;
use gungraun::prelude::*;
use headrace_fuse::abi::Opcode;
use headrace_fuse::harness::Kernel;
use volume::Rig;

/// `struct fuse_in_header`, then `body`, as the kernel sends them.
fn request(opcode: Opcode, node: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40 + body.len());
    bytes.extend_from_slice(&(40 + body.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(&(opcode as u32).to_ne_bytes());
    bytes.extend_from_slice(&2u64.to_ne_bytes()); // unique
    bytes.extend_from_slice(&node.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]); // uid, gid
    bytes.extend_from_slice(&1u32.to_ne_bytes()); // pid
    bytes.extend_from_slice(&[0; 4]); // total_extlen, padding
    bytes.extend_from_slice(body);
    bytes
}

/// `struct fuse_read_in` and the part of `struct fuse_write_in` that is the same.
fn read_in(file: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(40);
    body.extend_from_slice(&file.to_ne_bytes());
    body.extend_from_slice(&offset.to_ne_bytes());
    body.extend_from_slice(&len.to_ne_bytes());
    body.resize(40, 0);
    body
}

struct Mounted {
    kernel: Kernel,
    request: Vec<u8>,
    rig: Rig,
}

/// A file of 8 KiB whose bytes are in memory, in a packed segment's span; the request was answered before.
fn mounted(make: fn(node: u64, file: u64) -> Vec<u8>) -> Mounted {
    let rig = Rig::new();
    let (ino, file) = rig.create("file");
    rig.write((ino, file), 0, Bytes::from(noise(1, 8 << 10)));
    rig.flush((ino, file));
    rig.pack();
    let mut kernel = Kernel::over(Arc::new(Arc::clone(&rig.vfs)));
    let request = make(ino.0, file.0);
    assert_eq!(kernel.send_raw(&request), 1, "one answer");
    tidy_up();
    Mounted { kernel, request, rig }
}

fn to_read() -> Mounted {
    mounted(|node, file| request(Opcode::Read, node, &read_in(file, 4096, 4096)))
}

fn to_write() -> Mounted {
    mounted(|node, file| {
        let body = [read_in(file, 4096, 4096), noise(2, 4096)].concat();
        request(Opcode::Write, node, &body)
    })
}

fn to_getattr() -> Mounted {
    mounted(|node, _| request(Opcode::Getattr, node, &[0; 16]))
}

fn to_lookup() -> Mounted {
    mounted(|_, _| request(Opcode::Lookup, 1, b"file\0"))
}

fn close(mounted: Mounted) {
    mounted.rig.close();
}

#[library_benchmark]
#[bench::read_cached_4_kib(setup = to_read, teardown = close)]
#[bench::write_4_kib(setup = to_write, teardown = close)]
#[bench::getattr(setup = to_getattr, teardown = close)]
#[bench::lookup(setup = to_lookup, teardown = close)]
fn dispatch(mut mounted: Mounted) -> Mounted {
    assert_eq!(mounted.kernel.send_raw(black_box(&mounted.request)), 1);
    mounted
}

library_benchmark_group!(name = requests, benchmarks = [dispatch]);
main!(config = config(), library_benchmark_groups = requests);
