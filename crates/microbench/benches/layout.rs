//! The volume format: frames of 32 KiB encoded and decoded, extents of a chunk.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;

use std::hint::black_box;

use bytes::Bytes;
use common::{config, noise};
use gungraun::main;
use gungraun::prelude::*;
use headrace_layout::{
    Codec, Compression, DataKey, Encryption, Extent, ExtentData, ExtentMap, InodeNo, SegmentBuilder,
    SegmentId, SegmentSlice, Superblock,
};
use uuid::Uuid;

const FRAME: usize = 32 << 10;
const VOLUME: Uuid = Uuid::from_u128(0x0011_2233_4455_4677_8899_aabb_ccdd_eeff);
const SEGMENT: SegmentId = SegmentId(0x0190_1234_5678_0123_4567_89ab_cdef_fedc);

fn codec(compression: Compression, encrypted: bool) -> Codec {
    let mut superblock = Superblock::new(VOLUME, "bench", 1_700_000_000);
    superblock.frame_size = FRAME as u32;
    superblock.segment_size = 1 << 20;
    superblock.compression = compression;
    superblock.encryption = encrypted.then(|| Encryption::new("A".repeat(80)));
    Codec::new(&superblock, encrypted.then(DataKey::generate)).expect("a codec")
}

/// Half noise, half text, as files are.
fn contents() -> Vec<u8> {
    let mut bytes = noise(1, FRAME / 2);
    bytes.extend(b"the quick brown fox jumps over the lazy dog; ".iter().cycle().take(FRAME / 2));
    bytes
}

fn to_encode(compression: Compression, encrypted: bool) -> (SegmentBuilder, Vec<u8>) {
    let mut builder = SegmentBuilder::new(&codec(compression, encrypted), VOLUME, SEGMENT);
    // What is made at the first frame only is not what is measured.
    builder.push_run(InodeNo(1), 0, &[&contents()]).expect("it fits");
    (builder, contents())
}

#[library_benchmark]
#[bench::plain_32_kib(to_encode(Compression::None, false))]
#[bench::lz4_32_kib(to_encode(Compression::Lz4, false))]
#[bench::encrypted_32_kib(to_encode(Compression::None, true))]
fn encode((mut builder, contents): (SegmentBuilder, Vec<u8>)) -> (SegmentBuilder, Vec<u8>, SegmentSlice) {
    let slice = builder.push_run(InodeNo(2), 0, black_box(&[&contents])).expect("it fits");
    (builder, contents, slice)
}

fn to_decode(compression: Compression, encrypted: bool) -> (Codec, SegmentSlice, Bytes) {
    let codec = codec(compression, encrypted);
    let mut builder = SegmentBuilder::new(&codec, VOLUME, SEGMENT);
    let slice = builder.push_run(InodeNo(1), 0, &[&contents()]).expect("it fits");
    let range = codec.stored_range(&slice, 0, FRAME as u32);
    let object = builder.finish();
    (codec, slice, Bytes::copy_from_slice(&object[range.start as usize..range.end as usize]))
}

#[library_benchmark]
#[bench::plain_32_kib(to_decode(Compression::None, false))]
#[bench::lz4_32_kib(to_decode(Compression::Lz4, false))]
#[bench::encrypted_32_kib(to_decode(Compression::None, true))]
fn decode((codec, slice, stored): (Codec, SegmentSlice, Bytes)) -> (Codec, SegmentSlice, Vec<Bytes>) {
    let pieces = codec.decode(&slice, 0, FRAME as u32, black_box(stored)).expect("what was encoded");
    (codec, slice, pieces)
}

fn extents(count: u32) -> ExtentMap {
    let mut map = ExtentMap::default();
    for n in 0..count {
        let slice = SegmentSlice {
            segment: SegmentId(SEGMENT.0 + u128::from(n % 3)),
            run_offset: 64 + n * 5000,
            run_len: 4096,
            skip: 0,
            frames: None,
        };
        map.insert(Extent { start: n * 4096, len: 4096, data: ExtentData::Segment(slice) });
    }
    map
}

#[library_benchmark]
#[bench::hundred(extents(100))]
fn extents_encode(map: ExtentMap) -> (ExtentMap, Vec<u8>) {
    let bytes = black_box(&map).encode();
    (map, bytes)
}

#[library_benchmark]
#[bench::hundred(extents(100).encode())]
fn extents_decode(bytes: Vec<u8>) -> (Vec<u8>, ExtentMap) {
    let map = ExtentMap::decode(black_box(&bytes)).expect("what was encoded");
    (bytes, map)
}

// A random overwrite: one extent is cut in two by a third.
#[library_benchmark]
#[bench::into_a_hundred(extents(100))]
fn extents_insert(mut map: ExtentMap) -> (ExtentMap, Vec<Extent>) {
    let slice = SegmentSlice { segment: SegmentId(1), run_offset: 64, run_len: 512, skip: 0, frames: None };
    let extent = Extent { start: 50 * 4096 + 1024, len: 512, data: ExtentData::Segment(slice) };
    let displaced = map.insert(black_box(extent));
    (map, displaced)
}

library_benchmark_group!(name = frames, benchmarks = [encode, decode]);
library_benchmark_group!(name = chunks, benchmarks = [extents_encode, extents_decode, extents_insert]);
main!(config = config(), library_benchmark_groups = [frames, chunks]);
