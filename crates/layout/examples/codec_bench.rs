//! Speed of building and reading segments, on one core: `cargo run --release -p headrace-layout --example codec_bench`.
//!
//! Prints GB/s of plain bytes (best of several rounds) for each compression, with and without encryption. Writes come in
//! pieces of 128 KiB, reads ask for 1 MiB, as a kernel does; "4 KiB reads" are at random places.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use headrace_layout::{
    Codec, Compression, DataKey, Encryption, InodeNo, SegmentBuilder, SegmentId, SegmentSlice, Superblock,
};
use uuid::Uuid;

const LEN: u32 = 16 << 20;
const ROUNDS: u32 = 8;
const READ: u32 = 1 << 20;
const SMALL_READ: u32 = 4 << 10;
const SMALL_READS: u32 = 4096;

fn codec(compression: Compression, encrypted: bool) -> Codec {
    let mut superblock = Superblock::new(Uuid::from_u128(1), "bench", 0);
    superblock.compression = compression;
    let key = encrypted.then(DataKey::generate);
    superblock.encryption = encrypted.then(|| Encryption::new("A".repeat(80)));
    Codec::new(&superblock, key).expect("key and superblock agree")
}

/// Words from a small vocabulary: compresses about as well as source code does.
fn plain_bytes() -> Vec<u8> {
    let words: Vec<String> = (0..2000u32).map(|i| format!("{:x} ", i.wrapping_mul(2_654_435_761))).collect();
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(LEN as usize + 16);
    while bytes.len() < LEN as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(words[(state % 2000) as usize].as_bytes());
    }
    bytes.truncate(LEN as usize);
    bytes
}

fn build(codec: &Codec, plain: &[u8]) -> (Bytes, SegmentSlice) {
    let mut builder = SegmentBuilder::new(codec, Uuid::from_u128(1), SegmentId::new(SystemTime::now()));
    let pieces: Vec<&[u8]> = plain.chunks(128 << 10).collect();
    let slice = builder.push_run(InodeNo(1), 0, &pieces).expect("one target's worth of bytes fits");
    (builder.finish(), slice)
}

/// `copy`: give the decoder memory of its own, as a read from a socket would.
fn read(codec: &Codec, object: &Bytes, slice: &SegmentSlice, from: u32, len: u32, copy: bool) {
    let range = codec.stored_range(slice, from, len);
    let stored = object.slice(range.start as usize..range.end as usize);
    let stored = if copy { Bytes::from(stored.to_vec()) } else { stored };
    black_box(codec.decode(slice, from, len, stored).expect("what was built reads back"));
}

/// GB/s of the best round.
fn best(bytes: u64, mut round: impl FnMut()) -> f64 {
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / fastest / 1e9
}

fn main() {
    let plain = plain_bytes();
    println!(
        "{:<10} {:<10} {:>6} {:>12} {:>12} {:>14}",
        "method", "encrypted", "ratio", "push_run", "decode", "4 KiB reads"
    );
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }] {
        for encrypted in [false, true] {
            let codec = codec(compression, encrypted);
            let (object, slice) = build(&codec, &plain);
            let write = best(u64::from(LEN), || drop(black_box(build(&codec, &plain))));
            let sequential = best(u64::from(LEN), || {
                for from in (0..LEN).step_by(READ as usize) {
                    read(&codec, &object, &slice, from, READ, encrypted);
                }
            });
            let random = best(u64::from(SMALL_READ * SMALL_READS), || {
                for i in 0..SMALL_READS {
                    let page = i.wrapping_mul(2_654_435_761) % (LEN / SMALL_READ);
                    read(&codec, &object, &slice, page * SMALL_READ, SMALL_READ, encrypted);
                }
            });
            let ratio = f64::from(LEN) / object.len() as f64;
            println!(
                "{:<10} {:<10} {ratio:>6.2} {write:>7.2} GB/s {sequential:>7.2} GB/s {random:>9.2} GB/s",
                compression.to_string(),
                encrypted,
            );
        }
    }
}
