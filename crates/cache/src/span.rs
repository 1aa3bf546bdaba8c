//! Spans: aligned pieces of stored segment objects, kept in memory under a bound.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::future::try_join_all;
use headrace_layout::SegmentId;
use headrace_metrics::{Collection, Counter, Unit};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Bytes of a span. Large enough that some tens of packed small files arrive with one request, small enough that one small
/// file alone does not cost much more than it is.
pub const SPAN: u64 = 256 << 10;

/// Names a span: the segment, and the span's number within the stored object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpanKey {
    /// The segment.
    pub segment: SegmentId,
    /// Offset in the stored object divided by [`SPAN`].
    pub number: u64,
}

impl SpanKey {
    /// The stored bytes the span covers, given the object's length.
    pub fn range(&self, stored_len: u64) -> Range<u64> {
        let start = (self.number * SPAN).min(stored_len);
        start..(start + SPAN).min(stored_len)
    }
}

/// The spans that a stored range touches, in order.
pub fn spans(segment: SegmentId, stored: &Range<u64>) -> impl Iterator<Item = SpanKey> + use<> {
    let last = stored.end.saturating_sub(1) / SPAN;
    (stored.start / SPAN..=last).map(move |number| SpanKey { segment, number })
}

/// Whether to wait for a span that somebody else is fetching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Others {
    /// Wait for it: it comes once, however many ask.
    Join,
    /// Fetch it as well.
    Ignore,
}

#[derive(Clone)]
struct ByLength;

impl Weighter<SpanKey, Bytes> for ByLength {
    fn weight(&self, _: &SpanKey, value: &Bytes) -> u64 {
        value.len() as u64 + 64
    }
}

/// Stored bytes in memory, at most a given number of them; the least useful go first.
pub struct SpanCache {
    cache: Cache<SpanKey, Bytes, ByLength>,
    hits: Counter,
    misses: Counter,
    fills: Counter,
    hit_bytes: Counter,
    filled_bytes: Counter,
}

impl SpanCache {
    /// A cache of at most `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let items = (capacity / SPAN).max(16) as usize;
        SpanCache {
            cache: Cache::with_weighter(items, capacity, ByLength),
            hits: Counter::new(),
            misses: Counter::new(),
            fills: Counter::new(),
            hit_bytes: Counter::new(),
            filled_bytes: Counter::new(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// The span under `key`; when it is absent `fetch` brings it, once however many ask for it meanwhile.
    ///
    /// # Errors
    /// Those of `fetch`, which are not remembered.
    pub async fn get<E, F>(&self, key: SpanKey, fetch: F) -> Result<Bytes, E>
    where
        F: Future<Output = Result<Bytes, E>>,
    {
        let mut missed = false;
        let fill = async {
            missed = true;
            self.misses.increment();
            let fetched = fetch.await?;
            self.fills.increment();
            self.filled_bytes.add(fetched.len() as u64);
            Ok(fetched)
        };
        let got = self.cache.get_or_insert_async(&key, fill).await?;
        if !missed {
            self.hits.increment();
            self.hit_bytes.add(got.len() as u64);
        }
        Ok(got)
    }

    /// The span under `key`, without ever waiting for what somebody else fetches.
    ///
    /// # Errors
    /// Those of `fetch`.
    pub async fn get_apart<E, F>(&self, key: SpanKey, fetch: F) -> Result<Bytes, E>
    where
        F: Future<Output = Result<Bytes, E>>,
    {
        if let Some(found) = self.cache.get(&key) {
            self.hits.increment();
            self.hit_bytes.add(found.len() as u64);
            return Ok(found);
        }
        self.misses.increment();
        let fetched = fetch.await?;
        self.fills.increment();
        self.filled_bytes.add(fetched.len() as u64);
        self.cache.insert(key, fetched.clone());
        Ok(fetched)
    }

    /// The stored range `wanted` of a segment object of `stored_len` bytes, through spans; `fetch` brings those that are absent.
    /// `None` if the object is too short for it.
    ///
    /// # Errors
    /// Those of `fetch`.
    pub async fn read<E, F>(
        &self,
        segment: SegmentId,
        stored_len: u64,
        wanted: &Range<u64>,
        others: Others,
        fetch: impl Fn(Range<u64>) -> F + Copy,
    ) -> Result<Option<Bytes>, E>
    where
        F: Future<Output = Result<Bytes, E>>,
    {
        let start = wanted.start / SPAN * SPAN;
        let parts = spans(segment, wanted).map(|span| async move {
            let range = span.range(stored_len);
            match others {
                Others::Join => self.get(span, fetch(range)).await,
                Others::Ignore => self.get_apart(span, fetch(range)).await,
            }
        });
        Ok(cut(&try_join_all(parts).await?, start, wanted))
    }

    /// Adds what it holds and what it was good for.
    pub fn collect(&self, into: &mut Collection) {
        let label = [("cache", "spans")];
        let help = "Looked for and found, or brought by somebody else meanwhile";
        into.counters("headrace_cache_hits_total", help, Unit::None).counter(&label, self.hits.get());
        let help = "Looked for and not found";
        into.counters("headrace_cache_misses_total", help, Unit::None).counter(&label, self.misses.get());
        let help = "Brought from the store and kept";
        into.counters("headrace_cache_fills_total", help, Unit::None).counter(&label, self.fills.get());
        let help = "Bytes of what was found";
        let mut family = into.counters("headrace_cache_hit_bytes_total", help, Unit::Bytes);
        family.counter(&label, self.hit_bytes.get());
        let help = "Bytes of what was brought from the store";
        let mut family = into.counters("headrace_cache_filled_bytes_total", help, Unit::Bytes);
        family.counter(&label, self.filled_bytes.get());
        let help = "Bytes held";
        into.gauges("headrace_cache_bytes", help, Unit::Bytes).gauge(&label, self.bytes() as f64);
        let help = "Bytes that may be held";
        let capacity = self.cache.capacity() as f64;
        into.gauges("headrace_cache_limit_bytes", help, Unit::Bytes).gauge(&label, capacity);
    }

    /// Drops a span whose bytes turned out to be wrong.
    pub fn forget(&self, key: &SpanKey) {
        self.cache.remove(key);
    }
}

/// Cuts `wanted` out of consecutive spans, the first of which begins at stored offset `start`.
pub fn cut(parts: &[Bytes], start: u64, wanted: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(wanted.start.checked_sub(start)?).ok()?;
    let len = usize::try_from(wanted.end.checked_sub(wanted.start)?).ok()?;
    if let [only] = parts {
        // A copy: a slice would keep the whole span in memory, long after the cache has let go of it.
        return only.get(from..from.checked_add(len)?).map(Bytes::copy_from_slice);
    }
    let mut joined = BytesMut::with_capacity(len);
    let mut skip = from;
    for part in parts {
        let begin = skip.min(part.len());
        skip -= begin;
        let end = (begin + len - joined.len()).min(part.len());
        joined.extend_from_slice(&part[begin..end]);
    }
    (joined.len() == len).then(|| joined.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(len: usize) -> Bytes {
        (0..len).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>().into()
    }

    proptest! {
        /// Any range read through spans is the same as read directly.
        #[test]
        fn spans_give_back_the_range(len in 1usize..1_200_000, from in 0f64..1.0, size in 0f64..1.0) {
            let object = stored(len);
            let start = (from * (len - 1) as f64) as u64;
            let end = start + 1 + (size * (len as u64 - start - 1) as f64) as u64;
            let wanted = start..end;
            let keys: Vec<_> = spans(SegmentId(7), &wanted).collect();
            let parts: Vec<_> = keys
                .iter()
                .map(|k| { let r = k.range(len as u64); object.slice(r.start as usize..r.end as usize) })
                .collect();
            let got = cut(&parts, keys[0].number * SPAN, &wanted).expect("covered");
            prop_assert_eq!(got, object.slice(start as usize..end as usize));
        }
    }

    #[tokio::test]
    async fn hits_and_misses_are_told_apart() {
        let cache = SpanCache::new(4 << 20);
        let key = SpanKey { segment: SegmentId(1), number: 0 };
        assert_eq!(cache.get(key, async { Err::<Bytes, _>("down") }).await, Err("down"));
        for _ in 0..3 {
            let got: Result<Bytes, ()> = cache.get(key, async { Ok(stored(1000)) }).await;
            assert_eq!(got.map(|b| b.len()), Ok(1000));
        }
        let mut collection = Collection::new();
        cache.collect(&mut collection);
        let told = headrace_metrics::Snapshot::new(collection);
        let count = |what: &str| told.counter(&format!("headrace_cache_{what}_total"), &[("cache", "spans")]);
        assert_eq!((count("misses"), count("fills"), count("hits")), (2, 1, 2));
        assert_eq!((count("filled_bytes"), count("hit_bytes")), (1000, 2000));
        assert_eq!(told.gauge("headrace_cache_limit_bytes", &[]), Some((4 << 20) as f64));
    }

    #[tokio::test]
    async fn holds_no_more_than_its_capacity_and_fetches_once() {
        let cache = SpanCache::new(4 << 20);
        for number in 0..64 {
            let key = SpanKey { segment: SegmentId(1), number };
            let got: Result<Bytes, ()> = cache.get(key, async { Ok(stored(SPAN as usize)) }).await;
            assert_eq!(got.map(|b| b.len()), Ok(SPAN as usize));
        }
        assert!(cache.bytes() <= 4 << 20);
        let key = SpanKey { segment: SegmentId(2), number: 0 };
        assert_eq!(cache.get(key, async { Err::<Bytes, _>("down") }).await, Err("down"));
        assert!(
            cache.get(key, async { Ok::<_, ()>(stored(10)) }).await.is_ok(),
            "an error is not remembered"
        );
        assert!(cache.get(key, async { Err::<Bytes, _>("down") }).await.is_ok(), "fetched once");
    }
}
