//! Reads in small closed worlds: whatever happens, every read is answered with bytes that are there, and memory is kept to.

mod disorder;
mod hung;
mod pacing;
mod runs;
mod size;
mod whole;
mod world;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::backoff::Failure;
use world::World;

const MIB: u64 = 1 << 20;

#[test]
fn one_reader_gets_what_many_fetches_bring() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 2048 * MIB);
    let rate = world.stream(1, 2048 * MIB, MIB);
    assert!(rate > 10.0 * 90e6, "{rate}");
    assert!(world.most_held <= 256 * MIB);
    let stats = world.reads.stats();
    assert!(stats.fetched - stats.wasted >= 2048 * MIB && stats.wasted < 2048 * MIB / 20, "{stats:?}");
    world.reads.closed(world.now, HandleId(1));
    world.act();
    assert_eq!(world.reads.held(), 0);
}

#[test]
fn numbers_that_were_set_by_hand_are_kept_to() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    let fixed = Fixed { window: 32 * MIB, fetches: 4, part: 2 * MIB };
    let limits = Limits { memory: 256 * MIB, request_max: 8 * MIB, requests: 64 };
    world.reads = Reads::new(Tuning { fixed: Some(fixed), ..Tuning::default() }, limits);
    world.open(1, 1024 * MIB);
    let rate = world.stream(1, 1024 * MIB, MIB);
    // Each of the four takes its latency and its transfer, for two MiB.
    let expected = 4.0 * 2.0 * MIB as f64 / (0.02 + 2.0 * MIB as f64 / 90e6);
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} of {expected}");
    assert_eq!(world.largest, 2 * MIB);
    assert_eq!(world.reads.windows().map(|(_, _, bytes)| bytes).max(), Some(32 * MIB));
}

#[test]
fn a_length_that_is_told_with_each_read_changes_nothing() {
    let mut world = World::new(256 * MIB, Duration::from_millis(100), 20_000_000);
    let len = 512 * MIB;
    let mut at = 0;
    while at < len {
        world.open(1, len);
        let request = world.ask(1, at..at + MIB / 2);
        world.until_answered(request);
        at += MIB / 2;
    }
    let largest = world.reads.windows().map(|(_, _, bytes)| bytes).max();
    assert!(largest > Some(32 * MIB), "the window grows while the reader waits: {largest:?}");
}

#[test]
fn random_reads_fetch_what_they_ask_for_and_little_more() {
    let mut world = World::new(64 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 1024 * MIB);
    let mut at = 7;
    for _ in 0..500 {
        at = u64::wrapping_mul(at, 2_862_933_555_777_941_757).wrapping_add(3_037_000_493) >> 8;
        let start = at % (1024 * MIB - 4096) / 4096 * 4096;
        let request = world.ask(1, start..start + 4096);
        world.until_answered(request);
    }
    assert!(world.largest <= 64 << 10, "{}", world.largest);
    assert!(world.reads.stats().fetched <= 501 * (32 << 10), "{:?}", world.reads.stats());
}

#[test]
fn streams_in_turns_on_one_handle_are_as_fast_as_apart() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 2048 * MIB);
    let mut half = Duration::ZERO;
    for turn in 0..2048_u64 {
        for stream in 0..4 {
            let start = stream * 512 * MIB + turn * 128 * 1024;
            let request = world.ask(1, start..start + 128 * 1024);
            world.until_answered(request);
        }
        if turn == 1024 {
            half = world.now;
        }
    }
    let rate = 512.0 * MIB as f64 / (world.now - half).as_secs_f64();
    assert!(rate > 8.0 * 90e6, "{rate}");
}

#[test]
fn what_fails_for_good_fails_its_readers_and_nobody_else() {
    let mut world = World::new(64 * MIB, Duration::from_millis(1), 90_000_000);
    world.open(1, 10 * MIB);
    world.open(2, 10 * MIB);
    let lost = world.ask(1, 5 * MIB..6 * MIB);
    let other = world.ask(2, 5 * MIB..6 * MIB);
    let fetches: Vec<FetchId> =
        world.flying.iter().filter(|(_, (file, ..))| *file == FileId(1)).map(|(fetch, _)| *fetch).collect();
    for fetch in fetches {
        world.flying.remove(&fetch);
        world.coming.retain(|(_, coming), _| *coming != fetch);
        world.reads.failed(world.now, fetch, Failure::Permanent);
        world.act();
    }
    assert!(world.failed.contains(&lost));
    world.until_answered(other);
}

#[test]
fn what_fails_takes_nothing_from_reads_that_are_answered_later() {
    let mut world = World::new(4 * MIB, Duration::from_millis(5), 50_000_000);
    world.open(1, 40 * MIB);
    // Memory for the first two and no more: the third, which needs bytes of both, waits.
    world.ask(1, 10 * MIB..12 * MIB);
    let kept = world.ask(1, 12 * MIB..14 * MIB);
    let late = world.ask(1, 11 * MIB..15 * MIB);
    let (&fetch, _) =
        world.flying.iter().find(|(_, (_, range, _))| range.start == 10 * MIB).expect("it is sent");
    world.flying.remove(&fetch);
    world.coming.retain(|(_, coming), _| *coming != fetch);
    world.reads.failed(world.now, fetch, Failure::Permanent);
    world.act();
    world.until_answered(kept);
    world.until_answered(late);
}

/// A read in the middle of a file, and the only fetch that it is answered by.
fn one_read(reads: &mut Reads, range: std::ops::Range<u64>) -> (RequestId, FetchId) {
    reads.opened(FileId(1), HandleId(1), 100 * MIB);
    let request = RequestId(1);
    reads.read(Duration::ZERO, FileId(1), HandleId(1), range.clone(), request);
    let Some(Action::Fetch { fetch, range: fetched, hedge_of: None, .. }) = reads.next() else {
        panic!("nothing is fetched")
    };
    assert_eq!((fetched, reads.next()), (range, None));
    (request, fetch)
}

fn limits() -> Limits {
    Limits { memory: 64 * MIB, request_max: 8 * MIB, requests: 64 }
}

#[test]
fn what_is_answered_counts_until_it_is_taken() {
    let mut reads = Reads::new(Tuning::default(), limits());
    let (start, len) = (10 * MIB, 64 << 10);
    let (request, fetch) = one_read(&mut reads, start..start + len);
    let ms = Duration::from_millis;
    reads.arrived(ms(20), fetch, len);
    reads.finished(ms(21), fetch);
    assert_eq!((reads.next(), reads.next()), (Some(Action::Answer { request }), None));
    assert_eq!(reads.held(), len);
    // Memory that is lowered does not take away what somebody is about to take.
    reads.set_memory(ms(22), 4096);
    assert_eq!((reads.next(), reads.held()), (None, len));
    reads.taken(ms(30), request);
    assert_eq!(reads.next(), Some(Action::Release { file: FileId(1), range: start..start + len }));
    assert_eq!((reads.next(), reads.held()), (None, 0));
    reads.taken(ms(31), request);
    assert_eq!((reads.next(), reads.held()), (None, 0), "once");
}

#[test]
fn a_fetch_that_is_tried_again_by_others_keeps_its_place() {
    let mut reads = Reads::new(Tuning::default(), limits());
    let (start, len) = (10 * MIB, 64 << 10);
    let (request, fetch) = one_read(&mut reads, start..start + len);
    let seconds = Duration::from_secs;
    reads.arrived(Duration::from_millis(20), fetch, len / 2);
    for second in 1..40 {
        reads.interrupted(seconds(second), fetch, Failure::Throttled);
        reads.wake(seconds(second) + Duration::from_millis(400));
        assert_eq!(reads.next(), None, "it is not under way and not late");
        reads.resumed(seconds(second) + Duration::from_millis(500), fetch);
        assert_eq!((reads.next(), reads.held()), (None, len));
    }
    reads.arrived(seconds(40), fetch, len / 2);
    assert_eq!(reads.next(), Some(Action::Answer { request }));
    reads.finished(seconds(40), fetch);
    reads.taken(seconds(40), request);
    assert!(matches!(reads.next(), Some(Action::Release { .. })));
    assert_eq!(reads.held(), 0);
}

#[test]
fn a_fetch_that_others_give_up_fails_its_read() {
    let mut reads = Reads::new(Tuning::default(), limits());
    let (request, fetch) = one_read(&mut reads, 10 * MIB..11 * MIB);
    reads.interrupted(Duration::from_secs(1), fetch, Failure::Transient);
    reads.failed(Duration::from_secs(60), fetch, Failure::Permanent);
    assert_eq!((reads.next(), reads.next()), (Some(Action::Fail { request }), None));
    assert_eq!(reads.held(), 0);
}

#[test]
fn what_is_always_refused_fails_after_a_time_and_not_after_a_number_of_attempts() {
    let mut reads = Reads::new(Tuning::default(), limits());
    let (request, first) = one_read(&mut reads, 10 * MIB..11 * MIB);
    let (mut now, mut fetch, mut attempts) = (Duration::ZERO, first, 1);
    let failed_at = loop {
        now += Duration::from_millis(10);
        reads.failed(now, fetch, Failure::Throttled);
        match reads.next() {
            Some(Action::Fail { request: failed }) if failed == request => break now,
            None => {}
            other => panic!("{other:?}"),
        }
        fetch = loop {
            now = now.max(reads.wake_at().expect("it is tried again"));
            reads.wake(now);
            if let Some(Action::Fetch { fetch, .. }) = reads.next() {
                break fetch;
            }
        };
        attempts += 1;
    };
    let patience = Tuning::default().patience;
    assert!(failed_at >= patience && failed_at < patience + Duration::from_secs(4), "{failed_at:?}");
    assert!(attempts > 20, "{attempts}");
}

#[test]
fn lowered_memory_takes_what_is_furthest_ahead() {
    let mut world = World::new(64 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 2048 * MIB);
    for n in 0..400 {
        let request = world.ask(1, n * MIB..(n + 1) * MIB);
        world.until_answered(request);
    }
    assert!(world.reads.held() > 32 * MIB, "{}", world.reads.held());
    world.reads.set_memory(world.now, 16 * MIB);
    world.act();
    assert!(world.reads.held() <= 16 * MIB, "{}", world.reads.held());
    let wasted = world.reads.stats().wasted;
    for n in 400..600 {
        let request = world.ask(1, n * MIB..(n + 1) * MIB);
        world.until_answered(request);
    }
    assert!(world.reads.stats().wasted - wasted < 2 * MIB, "what is left is read: {:?}", world.reads.stats());
}

#[derive(Debug, Clone)]
enum Happens {
    Read { file: u64, start: u64, len: u64 },
    Run { file: u64, start: u64, len: u64, count: u64 },
    Steps(u16),
    Fails { which: usize, how: Failure },
    Reopens { file: u64 },
    Memory(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let start = || prop_oneof![0u64..40 * MIB, (0u64..40).prop_map(|n| n * MIB)];
    prop_oneof![
        4 => (0u64..4, start(), 1u64..2 * MIB).prop_map(|(file, start, len)| Happens::Read { file, start, len }),
        4 => (0u64..4, start(), 4096u64..MIB, 1u64..24)
            .prop_map(|(file, start, len, count)| Happens::Run { file, start, len, count }),
        6 => (1u16..400).prop_map(Happens::Steps),
        1 => (any::<usize>(), prop_oneof![Just(Failure::Transient), Just(Failure::Throttled), Just(Failure::Permanent)])
            .prop_map(|(which, how)| Happens::Fails { which, how }),
        1 => (0u64..4).prop_map(|file| Happens::Reopens { file }),
        1 => (4u64..64).prop_map(|mib| Happens::Memory(mib * MIB)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_all_reads_end_and_memory_is_kept_to(events in proptest::collection::vec(happens(), 1..60)) {
        let mut world = World::new(16 * MIB, Duration::from_millis(5), 50_000_000);
        for file in 0..4 {
            world.open(file, 40 * MIB);
        }
        let mut ceiling = 16 * MIB;
        for event in events {
            match event {
                Happens::Read { file, start, len } => {
                    world.ask(file, start..(start + len).min(40 * MIB).max(start));
                }
                Happens::Run { file, start, len, count } => {
                    for n in 0..count {
                        let from = start + n * len;
                        world.ask(file, from..(from + len).min(40 * MIB).max(from));
                    }
                }
                Happens::Steps(count) => for _ in 0..count {
                    world.step();
                },
                Happens::Fails { which, how } => {
                    let fetches: Vec<FetchId> = world.flying.keys().copied().collect();
                    if let Some(fetch) = fetches.get(which % fetches.len().max(1)) {
                        world.flying.remove(fetch);
                        world.coming.retain(|(_, coming), _| coming != fetch);
                        world.reads.failed(world.now, *fetch, how);
                        world.act();
                    }
                }
                Happens::Reopens { file } => {
                    world.reads.closed(world.now, HandleId(file));
                    world.act();
                    world.open(file, 40 * MIB);
                }
                Happens::Memory(memory) => {
                    world.reads.set_memory(world.now, memory);
                    world.act();
                    // What is in flight comes in yet.
                    ceiling = ceiling.max(memory);
                }
            }
            prop_assert!(world.most_held <= ceiling, "{} of {ceiling}", world.most_held);
        }
        while world.step() {}
        prop_assert!(world.asked.is_empty(), "never answered: {:?}", world.asked);
        for file in 0..4 {
            world.reads.closed(world.now, HandleId(file));
            world.act();
        }
        while world.step() {}
        prop_assert_eq!(world.reads.held(), 0);
        prop_assert!(world.flying.is_empty());
        prop_assert!(world.there.values().all(|there| there.bytes() == 0));
    }
}

/// A stream went while somebody waited for its parts: they were nobody's, and held all memory until the file was closed.
#[test]
fn what_was_fetched_for_a_stream_that_is_gone_makes_room_for_a_read() {
    let mut world = World::new(16 * MIB, Duration::from_millis(5), 50_000_000);
    for file in 0..4 {
        world.open(file, 40 * MIB);
    }
    for (file, start, len, count) in [(0, 0, 174_763, 12), (2, 2 * MIB, 227_952, 23)] {
        for n in 0..count {
            world.ask(file, start + n * len..start + (n + 1) * len);
        }
    }
    world.reads.set_memory(world.now, 25 * MIB);
    world.act();
    for _ in 0..95 + 111 {
        world.step();
    }
    world.ask(2, 11 * MIB..12 * MIB + 1);
    world.reads.set_memory(world.now, 4 * MIB);
    world.act();
    world.ask(0, 0..1);
    while world.step() {}
    assert!(world.asked.is_empty(), "never answered: {:?}", world.asked);
}
