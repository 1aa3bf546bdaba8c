//! Stored bytes in memory: found, and cut to what is wanted.
#![allow(missing_docs, unsafe_code, reason = "what the macros of gungraun write")]

#[path = "common/measure.rs"]
mod common;

use std::convert::Infallible;
use std::hint::black_box;

use bytes::Bytes;
use common::{config, noise};
use futures::FutureExt as _;
use gungraun::main;
use gungraun::prelude::*;
use headrace_cache::{SPAN, SpanCache, SpanKey, cut};
use headrace_layout::SegmentId;

const SPANS: u64 = 32;

fn key(number: u64) -> SpanKey {
    SpanKey { segment: SegmentId(0x0190_1234_5678_0123_4567_89ab_cdef_fedc), number }
}

fn filled() -> SpanCache {
    let cache = SpanCache::new(2 * SPANS * SPAN);
    for number in 0..SPANS {
        let fetch = async { Ok::<_, Infallible>(Bytes::from(vec![number as u8; SPAN as usize])) };
        cache.get(key(number), fetch).now_or_never().expect("nothing to wait for").expect("infallible");
    }
    cache
}

// Thirty-two hits: each span once.
#[library_benchmark]
#[bench::each_of_32(filled())]
fn hit(cache: SpanCache) -> SpanCache {
    for number in 0..SPANS {
        let fetch = async { unreachable!("it is there") };
        let found: Option<Result<Bytes, Infallible>> =
            cache.get(black_box(key(number)), fetch).now_or_never();
        black_box(found.is_some());
    }
    cache
}

#[library_benchmark]
#[bench::one_span_4_kib(vec![Bytes::from(noise(1, SPAN as usize))])]
#[bench::two_spans_4_kib(vec![Bytes::from(noise(1, SPAN as usize)), Bytes::from(noise(2, SPAN as usize))])]
fn cut_out(parts: Vec<Bytes>) -> (Vec<Bytes>, Option<Bytes>) {
    // Across the border where there is one.
    let from = if parts.len() == 1 { 1000 } else { SPAN - 1000 };
    let bytes = cut(black_box(&parts), 0, &(from..from + 4096));
    (parts, bytes)
}

library_benchmark_group!(name = span, benchmarks = [hit, cut_out]);
main!(config = config(), library_benchmark_groups = span);
