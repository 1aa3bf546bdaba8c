//! What somebody waits for: what is fetched for it, when it is answered, and what happens when a fetch fails.

use std::time::Duration;

use super::driven::{Driven, KIB, LEN, MIB, limits, one_file};
use super::*;
use crate::backoff::Failure;

const MS: Duration = Duration::from_millis(1);
/// Far into the file, where no stream begins.
const AT: u64 = 64 * MIB;

#[test]
fn a_small_read_fetches_whole_grains_within_the_file() {
    let mut driven = Driven::new(limits(64 * MIB));
    driven.open(1, LEN + 10);
    let request = driven.read(1, AT + 40 * KIB..AT + 44 * KIB);
    let sent = driven.one();
    assert_eq!((sent.range, sent.ahead), (AT + 32 * KIB..AT + 64 * KIB, false), "somebody waits for it");
    driven.arrive(sent.fetch, 12 * KIB - 1);
    assert!(!driven.is_answered(request), "a byte is missing");
    driven.arrive(sent.fetch, 1);
    assert!(driven.is_answered(request), "what comes after it is not waited for");
    driven.read(1, LEN + 5..LEN + 500);
    assert_eq!(driven.one().range, LEN..LEN + 10);
    let stats = driven.reads.stats();
    assert_eq!((stats.asked, stats.fetched, stats.fetches), (4 * KIB + 5, 12 * KIB, 2));
    let (held, none) = (driven.reads.held(), driven.read(1, LEN + 10..LEN + 11));
    assert!(driven.is_answered(none) && driven.sent().is_empty(), "nothing is to be had there");
    assert_eq!((driven.reads.held(), held), (held, 32 * KIB + 10));
    let unknown = driven.read(2, 0..10);
    assert!(driven.has_failed(unknown), "it was never opened");
}

#[test]
fn a_large_read_is_fetched_in_pieces_and_answered_with_the_last_byte() {
    let mut driven = Driven::new(Limits { request_max: MIB, ..limits(64 * MIB) });
    driven.open(1, LEN);
    let request = driven.read(1, AT..AT + 2 * MIB + 4 * KIB);
    let sent = driven.sent();
    let ranges: Vec<_> = sent.iter().map(|sent| sent.range.clone()).collect();
    assert_eq!(ranges, [AT..AT + MIB, AT + MIB..AT + 2 * MIB, AT + 2 * MIB..AT + 2 * MIB + 32 * KIB]);
    driven.finish(sent[2].fetch);
    driven.finish(sent[0].fetch);
    driven.arrive(sent[1].fetch, MIB - 1);
    assert!(!driven.is_answered(request));
    driven.arrive(sent[1].fetch, 1);
    assert!(driven.is_answered(request));
    assert!(driven.flying.len() == 1 && driven.released.is_empty());
    driven.finish(sent[1].fetch);
    driven.take(request);
    assert_eq!(driven.released.len(), 2, "the last has bytes that nobody has read");
    assert_eq!(driven.reads.held(), 32 * KIB);
}

#[test]
fn what_is_there_or_on_its_way_is_not_fetched_again() {
    let mut driven = one_file(64 * MIB);
    let first = driven.read(1, AT..AT + 64 * KIB);
    let fetch = driven.one().fetch;
    let second = driven.read(1, AT - 8 * KIB..AT + 8 * KIB);
    let before = driven.one();
    assert_eq!(before.range, AT - 32 * KIB..AT);
    let third = driven.read(1, AT + 4 * KIB..AT + 20 * KIB);
    assert!(driven.sent().is_empty(), "and nothing ahead: it is no stream");
    driven.arrive(fetch, 8 * KIB);
    assert_eq!(driven.answered, [], "each waits for something");
    driven.finish(before.fetch);
    assert_eq!(driven.answered, [second]);
    driven.finish(fetch);
    assert_eq!(driven.answered, [second, first, third]);
    let fourth = driven.read(1, AT..AT + 32 * KIB);
    assert!(driven.is_answered(fourth) && driven.sent().is_empty(), "at once");
}

#[test]
fn reads_wait_for_memory_in_the_order_they_came() {
    let mut driven = one_file(4 * MIB);
    let first = driven.read(1, AT..AT + 3 * MIB);
    let fetch = driven.one().fetch;
    let second = driven.read(1, 2 * AT..2 * AT + 2 * MIB);
    let third = driven.read(1, 3 * AT..3 * AT + 32 * KIB);
    assert!(driven.sent().is_empty(), "there is no room for the second, and the third does not overtake it");
    assert_eq!(driven.reads.held(), 3 * MIB);
    driven.finish(fetch);
    let again = driven.read(1, AT..AT + 4 * KIB);
    assert!(driven.is_answered(again), "what is there is answered, though others wait");
    driven.take(again);
    assert!(driven.sent().is_empty(), "the first is not taken yet");
    driven.take(first);
    assert_eq!(driven.ranges(), [2 * AT..2 * AT + 2 * MIB, 3 * AT..3 * AT + 32 * KIB]);
    driven.settle(MS);
    driven.take(second);
    driven.take(third);
    assert_eq!(driven.reads.held(), 0);
}

#[test]
fn a_read_that_fits_exactly_is_let_in_and_one_that_never_fits_goes_alone() {
    let mut driven = one_file(4 * MIB);
    driven.read(1, AT..AT + 2 * MIB);
    driven.read(1, 2 * AT..2 * AT + 2 * MIB);
    assert_eq!(driven.sent().len(), 2);
    let huge = driven.read(1, 3 * AT..3 * AT + 5 * MIB);
    assert!(driven.sent().is_empty());
    driven.settle(MS);
    let answered = driven.answered.clone();
    driven.take(answered[0]);
    assert!(driven.sent().is_empty(), "something is held still");
    driven.take(answered[1]);
    assert_eq!(driven.one().range, 3 * AT..3 * AT + 5 * MIB);
    let other = driven.read(1, 4 * AT..4 * AT + 32 * KIB);
    assert!(driven.sent().is_empty(), "nothing goes beside it");
    driven.settle(MS);
    driven.take(huge);
    driven.settle(MS);
    assert!(driven.is_answered(other));
}

#[test]
fn a_failed_fetch_is_tried_again_later_and_later() {
    let mut driven = one_file(64 * MIB);
    let request = driven.read(1, AT..AT + 64 * KIB);
    let mut fetch = driven.one().fetch;
    let mut waits = Vec::new();
    for _ in 0..8 {
        driven.fail(fetch, Failure::Transient);
        assert!(driven.sent().is_empty());
        waits.push(driven.sleep().as_millis() as u64);
        fetch = driven.one().fetch;
    }
    let (first, longest) = (Tuning::default().retry, Tuning::default().retry_max);
    assert_eq!(waits[0], first.as_millis() as u64);
    assert!(
        waits.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(longest.as_millis() as u64)),
        "{waits:?}"
    );
    assert_eq!(waits[7], longest.as_millis() as u64);
    driven.finish(fetch);
    assert!(driven.is_answered(request));
    assert_eq!(driven.reads.held(), 64 * KIB);
}

#[test]
fn what_came_before_a_failure_is_not_fetched_again() {
    let mut driven = one_file(64 * MIB);
    let request = driven.read(1, AT..AT + 64 * KIB);
    let first = driven.one().fetch;
    driven.arrive(first, 20 * KIB);
    driven.fail(first, Failure::Transient);
    driven.sleep();
    let second = driven.one();
    assert_eq!(second.range, AT + 20 * KIB..AT + 64 * KIB);
    driven.arrive(second.fetch, 10 * KIB);
    driven.fail(second.fetch, Failure::Transient);
    driven.sleep();
    let third = driven.one();
    assert_eq!(third.range, AT + 30 * KIB..AT + 64 * KIB);
    driven.finish(third.fetch);
    driven.take(request);
    assert_eq!(driven.released, [(1, AT..AT + 64 * KIB)]);
    let stats = driven.reads.stats();
    assert_eq!((stats.fetched, stats.wasted, stats.fetches), (64 * KIB, 0, 3));
}

#[test]
fn what_was_refused_is_sent_again_when_the_endpoint_answers_and_what_broke_is_not() {
    for (how, sent) in [(Failure::Throttled, 1), (Failure::Transient, 0)] {
        let mut driven = one_file(64 * MIB);
        let refused = driven.read(1, AT..AT + 64 * KIB);
        driven.read(1, 2 * AT..2 * AT + 64 * KIB);
        let fetches = driven.sent();
        driven.fail(fetches[0].fetch, how);
        assert!(driven.sent().is_empty());
        driven.finish(fetches[1].fetch);
        assert_eq!(driven.sent().len(), sent, "{how:?}");
        driven.settle(MS);
        assert_eq!(driven.is_answered(refused), sent == 1);
        // It is not sent once more when its time comes.
        driven.pass(Duration::from_secs(1));
        driven.wake();
        assert_eq!(driven.sent().len(), 1 - sent);
    }
}

#[test]
fn what_fails_for_good_fails_those_who_wait_for_it() {
    let mut driven = Driven::new(Limits { request_max: MIB, ..limits(64 * MIB) });
    driven.open(1, LEN);
    driven.open(2, LEN);
    let both = driven.read(1, AT..AT + 2 * MIB);
    let fetches = driven.sent();
    let before = driven.read(1, AT..AT + MIB);
    let after = driven.read(1, AT + MIB + 4 * KIB..AT + MIB + 8 * KIB);
    let elsewhere = driven.read(2, AT + MIB..AT + 2 * MIB);
    driven.fail(fetches[1].fetch, Failure::Permanent);
    assert_eq!(driven.failed, [both, after]);
    driven.finish(fetches[0].fetch);
    assert_eq!(driven.answered, [before]);
    driven.settle(MS);
    assert_eq!(driven.answered, [before, elsewhere]);
    driven.take(before);
    driven.take(elsewhere);
    assert_eq!(driven.reads.held(), 0);
    // Whoever comes later tries again.
    let later = driven.read(1, AT + MIB..AT + MIB + 4 * KIB);
    driven.sent();
    driven.settle(MS);
    assert!(driven.is_answered(later));
}

#[test]
fn those_beside_what_fails_are_answered() {
    let mut driven = Driven::new(Limits { request_max: MIB, ..limits(64 * MIB) });
    driven.open(1, LEN);
    let all = driven.read(1, AT..AT + 3 * MIB);
    let fetches = driven.sent();
    let before = driven.read(1, AT..AT + MIB);
    let after = driven.read(1, AT + 2 * MIB..AT + 3 * MIB);
    driven.fail(fetches[1].fetch, Failure::Permanent);
    assert_eq!(driven.failed, [all]);
    driven.settle(MS);
    assert_eq!(driven.answered, [before, after]);
}

#[test]
fn what_is_there_is_answered_though_memory_was_taken_away() {
    let mut driven = one_file(64 * MIB);
    let first = driven.read(1, AT..AT + MIB);
    driven.settle(MS);
    driven.memory(32 * KIB);
    let second = driven.read(1, AT..AT + 4 * KIB);
    assert!(driven.is_answered(second), "it needs no more of it");
    driven.take(first);
    driven.take(second);
    assert_eq!(driven.reads.held(), 0);
}

#[test]
fn a_streams_reader_waits_for_no_more_than_memory_has_room_for() {
    // Nothing is usable for what nobody waits for but 960 KiB.
    for (memory, more) in [(MIB, false), (64 * MIB, true)] {
        let mut driven = one_file(memory);
        driven.whole(1, 0..512 * KIB, 20 * MS);
        driven.settle(20 * MS);
        driven.sent();
        let request = driven.read(1, 40 * MIB..40 * MIB + 512 * KIB);
        driven.settle(20 * MS);
        driven.take(request);
        driven.sent();
        driven.read(1, 40 * MIB + 512 * KIB..40 * MIB + 960 * KIB);
        let sent = driven.sent();
        let first = sent.first().expect("it is fetched").range.clone();
        assert_eq!(first.end > 40 * MIB + 960 * KIB, more, "{first:?}");
        assert!(driven.reads.held() <= memory);
    }
}

#[test]
fn what_comes_after_a_streams_read_takes_no_memory_that_is_kept_for_others() {
    // Of 4 MiB 256 KiB are kept; 3.5 MiB are in use: there is room for the reads, and for 128 KiB.
    let mut driven = one_file(4 * MIB);
    driven.read(1, 200 * MIB..203 * MIB + 512 * KIB);
    driven.settle(MS);
    driven.read(1, 40 * MIB..40 * MIB + 64 * KIB);
    driven.settle(MS);
    driven.sent();
    driven.read(1, 40 * MIB + 64 * KIB..40 * MIB + 128 * KIB);
    let first = driven.sent().first().map(|sent| sent.range.clone());
    assert_eq!(first, Some(40 * MIB + 64 * KIB..40 * MIB + 128 * KIB));
    assert!(driven.reads.held() <= 4 * MIB - 256 * KIB);
}

#[test]
fn what_failed_was_given_up_and_is_wanted_again_is_fetched_once() {
    let mut driven = one_file(64 * MIB);
    driven.whole(1, 0..64 * KIB, 20 * MS);
    let ahead = driven.flying.keys().next_back().copied().expect("more is fetched");
    let lost = driven.flying[&ahead].0.range.clone();
    driven.fail(ahead, Failure::Transient);
    driven.memory(0);
    driven.memory(64 * MIB);
    driven.read(1, lost.clone());
    let others = |driven: &Driven| {
        driven
            .flying
            .values()
            .filter(|(sent, _)| sent.range.start < lost.end && lost.start < sent.range.end)
            .count()
    };
    assert_eq!(others(&driven), 1);
    // The time comes at which it was to be tried again.
    driven.pass(Duration::from_millis(100));
    driven.wake();
    assert_eq!(others(&driven), 1);
}

#[test]
fn who_waits_for_memory_is_not_failed_by_what_others_wait_for() {
    let mut driven = Driven::new(Limits { request_max: MIB, ..limits(2 * MIB) });
    driven.open(1, LEN);
    let fails = driven.read(1, AT..AT + MIB);
    let lost = driven.one().fetch;
    let beside = driven.read(1, AT + MIB + 32 * KIB..AT + 2 * MIB);
    let fetch = driven.one().fetch;
    let waits = driven.read(1, AT..AT + 3 * MIB);
    assert!(driven.sent().is_empty(), "there is no memory for it");
    driven.fail(lost, Failure::Permanent);
    assert_eq!(driven.failed, [fails]);
    driven.finish(fetch);
    // What is answered is kept until it is taken, whatever becomes of others.
    driven.memory(0);
    assert!(driven.is_answered(beside) && driven.released.is_empty());
    driven.take(beside);
    driven.memory(8 * MIB);
    driven.settle(MS);
    assert!(driven.is_answered(waits));
}

/// So many reads, one after the other, of a store that answers within 20 ms.
fn quick(driven: &mut Driven, count: u64) {
    for n in 0..count {
        let request = driven.read(
            1,
            100 * MIB + n * 37 * 5 * MIB % (400 * MIB)..100 * MIB + n * 37 * 5 * MIB % (400 * MIB) + 4 * KIB,
        );
        let fetches: Vec<FetchId> = driven.flying.keys().copied().collect();
        driven.pass(20 * MS);
        fetches.into_iter().for_each(|fetch| driven.finish(fetch));
        driven.take(request);
    }
    driven.sent();
}

#[test]
fn a_fetch_that_takes_far_too_long_is_overtaken_by_a_second_one() {
    let mut driven = one_file(64 * MIB);
    quick(&mut driven, 150);
    let (held, cancelled) = (driven.reads.held(), driven.cancelled.len());
    let request = driven.read(1, AT..AT + 64 * KIB);
    let late = driven.one();
    let sent = driven.now;
    driven.sleep();
    assert!(driven.now > sent + 20 * MS && driven.now < sent + 500 * MS, "{:?}", driven.now - sent);
    let second = driven.one();
    assert_eq!((second.range.clone(), second.hedge_of, second.ahead), (late.range, Some(late.fetch), false));
    assert_eq!(driven.reads.held(), held + 2 * 64 * KIB, "both may come");
    assert_eq!(driven.reads.stats().hedges, 1);
    driven.pass(MS);
    driven.arrive(second.fetch, 60 * KIB);
    driven.arrive(late.fetch, 10 * KIB);
    assert!(!driven.is_answered(request));
    driven.finish(second.fetch);
    assert!(driven.is_answered(request));
    assert_eq!(driven.cancelled[cancelled..], [late.fetch]);
    assert_eq!(driven.reads.held(), held + 64 * KIB);
    assert_eq!(
        driven.reads.stats().wasted,
        10 * KIB,
        "of two attempts one brings what the other has brought"
    );
    driven.take(request);
    assert_eq!(driven.reads.held(), held);
}

#[test]
fn if_one_of_two_attempts_fails_the_other_still_counts() {
    for first in [true, false] {
        let mut driven = one_file(64 * MIB);
        quick(&mut driven, 150);
        let held = driven.reads.held();
        let request = driven.read(1, AT..AT + 64 * KIB);
        let late = driven.one().fetch;
        driven.sleep();
        let second = driven.one().fetch;
        let (fails, stays) = if first { (late, second) } else { (second, late) };
        driven.fail(fails, Failure::Transient);
        assert!(driven.sent().is_empty());
        assert_eq!(driven.reads.held(), held + 64 * KIB, "only one is left");
        driven.finish(stays);
        assert!(driven.is_answered(request));
        driven.take(request);
        assert_eq!(driven.reads.held(), held);
    }
}

#[test]
fn a_second_attempt_needs_memory_for_what_is_missing() {
    for (spare, sent) in [(118 * KIB - 1, 0), (118 * KIB, 1)] {
        let mut driven = one_file(64 * MIB);
        quick(&mut driven, 150);
        let held = driven.reads.held();
        driven.memory(held + spare);
        driven.read(1, AT..AT + 64 * KIB);
        let late = driven.one().fetch;
        driven.arrive(late, 10 * KIB);
        driven.pass(Duration::from_millis(500));
        driven.wake();
        let ranges = driven.ranges();
        assert_eq!((ranges.len(), driven.reads.stats().hedges), (sent, sent as u64));
        assert!(ranges.iter().all(|range| *range == (AT + 10 * KIB..AT + 64 * KIB)));
        assert_eq!(driven.reads.held(), held + 64 * KIB + sent as u64 * 54 * KIB);
    }
}
