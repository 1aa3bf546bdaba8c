//! How all of the benchmarks are measured.
#![allow(dead_code, reason = "each benchmark takes what it needs")]

use std::hint::black_box;

use gungraun::{Callgrind, Dhat, LibraryBenchmarkConfig};

/// Decisions that a benchmark of a decision takes: enough that the loop around them does not matter, few enough for an emulator.
pub const DECISIONS: u64 = 1000;

/// Instructions by callgrind; bytes copied and calls that copy them by DHAT, wherever below the benchmark they are made.
pub fn config() -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config
        // The C library chooses how to copy by the processor. The plainest way is the same on each of them; without this,
        // a `rep movsb` would count as an instruction for each byte on one, and as none on another.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM")
        .tool(Callgrind::with_args(["--cache-sim=no", "--branch-sim=no"]))
        // Futures in futures: DHAT must see far enough up to find the benchmark.
        .tool(Dhat::with_args(["--mode=copy", "--num-callers=120"]));
    config
}

/// Lets the C library's allocator tidy up what setting up has freed, which it does at the next large request, whoever makes it:
/// half a million instructions where that was a small benchmark.
pub fn tidy_up() {
    drop(black_box(Vec::<u8>::with_capacity(100 << 10)));
}

/// Bytes that do not compress and do not repeat: xorshift64 (Marsaglia 2003).
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
