//! Stores that like requests in order: what [`crate::order`] finds out is obeyed, and it is told what it needs to know.

use std::time::Duration;

use super::driven::{Driven, MIB, limits};
use super::whole_tests::ordered;
use super::*;

const MS: Duration = Duration::from_millis(1);
const LEN: u64 = 1 << 40;

/// A store whose throughput depends on whether it is asked in order, one fetch of each stream at a time. MB/s.
#[derive(Clone, Copy)]
struct Store {
    latency: Duration,
    ordered: u64,
    wide: u64,
}

/// Reads its file from the beginning, a MiB at a time.
struct Reader {
    file: u64,
    at: u64,
    request: Option<RequestId>,
    /// Waits so long after each read.
    thinks: Duration,
    ready: Duration,
}

struct Run {
    driven: Driven,
    store: Store,
    readers: Vec<Reader>,
    sent: std::collections::BTreeMap<FetchId, Duration>,
}

impl Run {
    fn new(store: Store, readers: u64, thinks: Duration) -> Run {
        let mut driven = Driven::new(limits(1024 * MIB));
        let reader = |file| Reader { file, at: 0, request: None, thinks, ready: Duration::ZERO };
        (1..=readers).for_each(|file| driven.open(file, LEN));
        Run { driven, store, readers: (1..=readers).map(reader).collect(), sent: Default::default() }
    }

    /// MB/s that are read, and the share of the time in which more than one fetch of a stream was under way.
    fn go(&mut self, time: Duration) -> (f64, f64) {
        let (end, before) = (self.driven.now + time, self.bytes());
        let (mut ticks, mut wide) = (0, 0);
        while self.driven.now < end {
            self.driven.pass(MS);
            let now = self.driven.now;
            self.sent.extend(self.driven.sent().into_iter().map(|sent| (sent.fetch, now)));
            self.sent.retain(|fetch, _| self.driven.flying.contains_key(fetch));
            ticks += 1;
            let several = self.driven.flying.len() > self.readers.len();
            wide += u32::from(several);
            self.deliver(if several { self.store.wide } else { self.store.ordered });
            self.driven.wake();
            self.read();
        }
        ((self.bytes() - before) as f64 / 1e6 / time.as_secs_f64(), f64::from(wide) / f64::from(ticks))
    }

    fn bytes(&self) -> u64 {
        self.readers.iter().map(|reader| reader.at).sum()
    }

    /// A millisecond's bytes, in equal shares for those whose latency has passed.
    fn deliver(&mut self, rate: u64) {
        let now = self.driven.now;
        let old =
            |fetch: &&FetchId| self.sent.get(fetch).is_some_and(|sent| now - *sent >= self.store.latency);
        let moving: Vec<FetchId> = self.driven.flying.keys().filter(old).copied().collect();
        for fetch in &moving {
            let Some((sent, arrived)) = self.driven.flying.get(fetch).cloned() else { continue };
            let left = sent.range.end - sent.range.start - arrived;
            let piece = rate * 1_000 / moving.len() as u64;
            match piece >= left {
                true => self.driven.finish(*fetch),
                false => self.driven.arrive(*fetch, piece),
            }
        }
    }

    fn read(&mut self) {
        let now = self.driven.now;
        for reader in &mut self.readers {
            loop {
                match reader.request {
                    Some(request) if self.driven.is_answered(request) => {
                        self.driven.answered.retain(|one| *one != request);
                        self.driven.reads.taken(now, request);
                        (reader.request, reader.ready) = (None, now + reader.thinks);
                        reader.at += MIB;
                    }
                    None if reader.ready <= now => {
                        reader.request = Some(self.driven.read(reader.file, reader.at..reader.at + MIB));
                    }
                    _ => break,
                }
            }
        }
    }
}

#[test]
fn a_store_that_is_faster_in_order_gets_one_fetch_of_a_stream_after_the_other() {
    for readers in [1, 3] {
        let mut run = Run::new(Store { latency: MS, ordered: 90, wide: 50 }, readers, Duration::ZERO);
        if readers > 1 {
            // What one fetch brings alone is not known while there are several readers.
            let order = crate::order::Tuning { hopeless: 0.0, ..crate::order::Tuning::default() };
            run.driven.reads = Reads::new(Tuning { order, ..Tuning::default() }, limits(1024 * MIB));
            (1..=readers).for_each(|file| run.driven.open(file, LEN));
        }
        run.go(Duration::from_secs(7));
        let (rate, wide) = run.go(Duration::from_secs(6));
        assert!(rate > 1.3 * 50.0, "{readers} readers: {rate}");
        assert!(wide < 0.1, "{readers} readers: {wide}");
    }
}

#[test]
fn a_store_that_is_faster_the_more_it_is_asked_is_hardly_ever_asked_in_order() {
    let mut run = Run::new(Store { latency: MS, ordered: 28, wide: 110 }, 1, Duration::ZERO);
    run.go(Duration::from_secs(3));
    let (rate, wide) = run.go(Duration::from_secs(6));
    assert!(rate > 0.8 * 110.0 && wide > 0.9, "{rate}, {wide}");
}

#[test]
fn a_store_that_changes_its_mind_is_followed() {
    let likes_order = Store { latency: MS, ordered: 90, wide: 50 };
    let mut run = Run::new(likes_order, 1, Duration::ZERO);
    for round in 0..3 {
        run.store =
            if round % 2 == 0 { likes_order } else { Store { ordered: 28, wide: 110, ..likes_order } };
        run.go(Duration::from_secs(3));
        let (rate, _) = run.go(Duration::from_secs(4));
        let best = run.store.ordered.max(run.store.wide) as f64;
        assert!(rate > 0.7 * best, "round {round}: {rate} of {best}");
    }
}

#[test]
fn where_the_latency_alone_makes_order_slower_it_is_never_tried() {
    let mut run = Run::new(Store { latency: 100 * MS, ordered: 50, wide: 100 }, 1, Duration::ZERO);
    let (_, wide) = run.go(Duration::from_secs(10));
    assert_eq!(run.driven.reads.probe.trials(), 0);
    assert!(wide > 0.9, "{wide}");
}

#[test]
fn while_nobody_waits_nothing_is_tried() {
    let store = Store { latency: MS, ordered: 90, wide: 50 };
    let mut run = Run::new(store, 1, 100 * MS);
    run.go(Duration::from_secs(20));
    assert_eq!(run.driven.reads.probe.trials(), 0, "what is read at 10 MB/s is there already");
    run.readers[0].thinks = Duration::ZERO;
    // How many fetches are needed was searched in the beginning: it comes down from there, a step in each second.
    run.go(Duration::from_secs(8));
    assert!(run.driven.reads.probe.trials() > 0);
}

#[test]
fn numbers_that_were_set_by_hand_are_tried_against_nothing() {
    let mut run = Run::new(Store { latency: MS, ordered: 90, wide: 50 }, 1, Duration::ZERO);
    let fixed = Fixed { window: 32 * MIB, fetches: 8, part: MIB };
    run.driven.reads = Reads::new(Tuning { fixed: Some(fixed), ..Tuning::default() }, limits(1024 * MIB));
    run.driven.open(1, LEN);
    let (_, wide) = run.go(Duration::from_secs(5));
    assert!(wide > 0.99, "{wide}");
}

#[test]
fn in_order_the_whole_window_comes_one_fetch_after_the_other_though_nobody_reads() {
    let mut run = Run::new(Store { latency: MS, ordered: 90, wide: 50 }, 1, Duration::ZERO);
    run.go(Duration::from_secs(7));
    while run.driven.flying.len() != 1 || !run.driven.reads.probe.is_ordered() {
        run.go(MS);
    }
    let window: u64 = run.driven.reads.windows().map(|(.., bytes)| bytes).sum();
    run.readers[0].ready = Duration::MAX;
    // The read that is under way, and no other.
    while let Some(fetch) = run.driven.flying.keys().next().copied() {
        assert_eq!(run.driven.flying.len(), 1);
        run.driven.pass(10 * MS);
        run.driven.finish(fetch);
        if run.driven.reads.held() >= window {
            return;
        }
    }
    panic!("{} of {window}", run.driven.reads.held());
}

/// Whether time counts if nothing but bytes comes from now on: then another way of sending is tried sooner or later.
fn counts(driven: &Driven) -> bool {
    let (mut probe, mut now) = (driven.reads.probe.clone(), driven.now);
    let trials = probe.trials();
    for _ in 0..40_000 {
        now += 10 * MS;
        probe.delivered(now, 1_000_000);
        probe.mode(now);
    }
    probe.trials() > trials
}

#[test]
fn in_order_a_window_that_is_not_full_waits_while_a_fetch_is_under_way() {
    let mut driven = Driven::new(limits(256 * MIB));
    (driven.reads.probe, driven.now) = ordered();
    driven.open(1, LEN);
    (0..8).for_each(|n| driven.whole(1, n * MIB..(n + 1) * MIB, 20 * MS));
    let window: u64 = driven.reads.windows().map(|(.., bytes)| bytes).sum();
    let mut seen = Vec::new();
    // Nobody reads any more: it is filled, one fetch after the other.
    while let Some(fetch) = driven.flying.keys().next().copied() {
        assert_eq!(counts(&driven), driven.reads.held() < window, "{} of {window}", driven.reads.held());
        seen.push(driven.reads.held() < window);
        driven.pass(20 * MS);
        driven.finish(fetch);
    }
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
    assert!(!counts(&driven), "it is full");
}

#[test]
fn a_window_that_ends_beyond_the_file_waits_for_nothing_when_all_of_it_is_there() {
    let mut driven = Driven::new(limits(256 * MIB));
    (driven.reads.probe, driven.now) = ordered();
    driven.open(1, 9 * MIB);
    (0..8).for_each(|n| driven.whole(1, n * MIB..(n + 1) * MIB, 20 * MS));
    driven.settle(20 * MS);
    let window: u64 = driven.reads.windows().map(|(.., bytes)| bytes).sum();
    assert!(driven.reads.held() == MIB && window > MIB, "{window}");
    assert!(!counts(&driven));
}
