//! How memory and fetches are shared out.

use std::time::Duration;

use super::driven::{Driven, KIB, MIB, limits};

const MS: Duration = Duration::from_millis(1);
const LEN: u64 = 4096 * MIB;

#[test]
fn what_is_waited_for_goes_beyond_what_is_allowed_by_two_or_a_quarter() {
    for (allowed, sent) in [(1, 3), (4, 6), (8, 10), (16, 20), (40, 50), (60, 64), (64, 64)] {
        let mut driven = Driven::fixed(limits(1024 * MIB), MIB, allowed, MIB);
        driven.open(1, LEN);
        for n in 1..100 {
            let at = n * 32 * MIB + n % 3 * MIB;
            driven.read(1, at..at + 4 * KIB);
        }
        assert_eq!(driven.flying.len(), sent, "{allowed} are allowed");
    }
}

#[test]
fn a_stream_takes_at_most_sixteen_times_what_is_left_so_that_the_next_finds_some() {
    // Of 64 MiB, 60 may be held for what nobody waits for.
    let usable = 60.0;
    for streams in 1..=6 {
        let mut driven = Driven::fixed(limits(64 * MIB), 1024 * MIB, 64, 256 * KIB);
        (1..=streams).for_each(|file| driven.open(file, LEN));
        let requests: Vec<_> = (1..=streams).map(|file| driven.read(file, 0..256 * KIB)).collect();
        driven.settle(MS);
        requests.into_iter().for_each(|request| driven.take(request));
        driven.settle(MS);
        let held = driven.reads.held() as f64 / MIB as f64;
        // Each holds sixteen times what is left, as it was before its last part; what is left to those that come late is less.
        let (together, after_each_other) =
            ((16 * streams) as f64 / (16 * streams + 1) as f64, 1.0 - (1.0 / 17.0f64).powi(streams as i32));
        assert!(
            held > usable * together - 1.0 && held <= usable * after_each_other + 0.25,
            "{streams}: {held}"
        );
    }
}

#[test]
fn what_was_fetched_for_nobody_in_particular_makes_room_for_what_is_ahead_of_readers() {
    let mut driven = Driven::fixed(limits(64 * MIB), 1024 * MIB, 64, MIB);
    driven.open(1, LEN);
    driven.open(2, LEN);
    for n in 0..56 {
        // What is not a multiple lies on, unread.
        let at = 64 * MIB + n * (n + 1) / 2 * MIB;
        driven.whole(2, at..at + 4 * KIB, MS);
    }
    driven.whole(1, 0..MIB, MS);
    driven.settle(MS);
    let ahead = driven.sent().into_iter().filter(|sent| sent.file == 1).map(|sent| sent.range.end).max();
    assert_eq!(ahead, Some(58 * MIB), "16 times the 4 MiB that are left beside 56 are more");
}

/// A reader at the beginning of file 1, while so much is held that was read and not taken; what is fetched for it.
fn beside(pinned: u64, part: u64, read: u64) -> Vec<std::ops::Range<u64>> {
    let mut driven = Driven::fixed(limits(4 * MIB), 1024 * MIB, 64, part);
    driven.open(1, LEN);
    driven.open(2, LEN);
    driven.read(2, 200 * MIB..200 * MIB + pinned);
    driven.settle(MS);
    driven.sent();
    driven.read(1, 0..read);
    driven.ranges()
}

#[test]
fn what_is_fetched_ahead_takes_no_memory_that_is_kept_for_those_who_wait() {
    // Of 4 MiB, 256 KiB are kept.
    assert_eq!(
        beside(3 * MIB + 256 * KIB, 256 * KIB, 256 * KIB),
        [0..256 * KIB, 256 * KIB..512 * KIB],
        "it fits exactly"
    );
    assert_eq!(beside(3 * MIB + 288 * KIB, 256 * KIB, 256 * KIB).len(), 1, "it does not");
    assert_eq!(beside(3 * MIB + 512 * KIB, 512 * KIB, 128 * KIB).len(), 1, "nor does the rest of the part");
}

#[test]
fn what_is_next_is_sent_as_soon_as_something_lands_though_nobody_reads() {
    let mut driven = Driven::fixed(limits(64 * MIB), 8 * MIB, 2, MIB);
    driven.open(1, LEN);
    driven.whole(1, 0..MIB, MS);
    let mut most = 0;
    while let Some(fetch) = driven.flying.keys().next().copied() {
        most = most.max(driven.flying.len());
        driven.pass(MS);
        driven.finish(fetch);
    }
    assert_eq!((most, driven.reads.held()), (2, 8 * MIB));
}

#[test]
fn more_memory_is_wanted_while_something_is_fetched_ahead_and_not_otherwise() {
    let mut driven = Driven::new(limits(64 * MIB));
    driven.open(1, LEN);
    driven.open(2, LEN);
    driven.whole(1, 100 * MIB..100 * MIB + 4 * KIB, MS);
    assert!(!driven.reads.wants_memory(), "a read here and there");
    for file in [1, 2] {
        driven.whole(file, 0..MIB, MS);
        driven.whole(file, MIB..2 * MIB, MS);
    }
    assert!(driven.reads.wants_memory());
    driven.close(1);
    assert!(driven.reads.wants_memory(), "the other one is left");
    driven.close(2);
    assert!(!driven.reads.wants_memory(), "nobody is left");
}
