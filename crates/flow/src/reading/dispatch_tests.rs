//! Who may send a fetch, and how much is fetched ahead.

use std::time::Duration;

use super::driven::{Driven, KIB, MIB, limits};
use super::*;

const MS: Duration = Duration::from_millis(1);
const LEN: u64 = 4096 * MIB;

fn driven(limits: Limits, files: u64) -> Driven {
    let mut driven = Driven::new(limits);
    (1..=files).for_each(|file| driven.open(file, LEN));
    driven
}

#[test]
fn what_is_fetched_ahead_is_for_nobody_yet_and_follows_what_is_read() {
    let mut driven = driven(limits(64 * MIB), 1);
    driven.read(1, 0..64 * KIB);
    let sent = driven.sent();
    assert!(sent.len() >= 2 && !sent[0].ahead && sent[0].range.start == 0);
    assert!(sent[1..].iter().all(|sent| sent.ahead && sent.hedge_of.is_none()));
    assert!(sent.windows(2).all(|pair| pair[0].range.end == pair[1].range.start), "{sent:?}");
}

#[test]
fn elsewhere_nothing_is_fetched_ahead_of_a_first_read() {
    let mut driven = driven(limits(64 * MIB), 1);
    driven.read(1, 100 * MIB..100 * MIB + 64 * KIB);
    assert_eq!(driven.one().range, 100 * MIB..100 * MIB + 64 * KIB);
    assert_eq!(driven.reads.windows().count(), 0);
    driven.read(1, 100 * MIB + 64 * KIB..100 * MIB + 128 * KIB);
    let sent = driven.sent();
    assert!(
        sent[0].range.start == 100 * MIB + 64 * KIB && sent[0].range.end > 100 * MIB + 128 * KIB,
        "{sent:?}"
    );
    assert!(sent[1].ahead);
    assert_eq!(driven.reads.windows().count(), 1);
}

#[test]
fn at_first_each_of_many_readers_has_one_under_way() {
    let mut driven = driven(limits(1024 * MIB), 30);
    for file in 1..=30 {
        driven.read(file, 0..64 * KIB);
    }
    assert_eq!(driven.reads.allowed(), 30);
    let waited_for = driven.sent().iter().filter(|sent| !sent.ahead && sent.range.start == 0).count();
    assert_eq!(waited_for, 30, "nobody waits for another's");
}

#[test]
fn reads_that_somebody_waits_for_go_a_little_beyond_what_is_allowed() {
    let mut driven = driven(limits(1024 * MIB), 1);
    let allowed = driven.reads.allowed();
    for n in 1..60 {
        let at = n * 64 * MIB + n % 3 * MIB;
        driven.read(1, at..at + 4 * KIB);
    }
    assert_eq!(driven.flying.len(), allowed + (allowed / 4).max(2));
    let ranges = driven.ranges();
    assert!(ranges.windows(2).all(|pair| pair[0].start < pair[1].start), "in the order they came");
    // Each that ends lets one more go.
    let fetch = *driven.flying.keys().next().expect("there is one");
    driven.pass(20 * MS);
    driven.finish(fetch);
    assert!(!driven.sent().is_empty());
    driven.settle(20 * MS);
    assert_eq!(driven.answered.len(), 59);
}

#[test]
fn never_more_are_under_way_than_is_allowed_by_whoever_drives() {
    let mut driven = driven(Limits { requests: 3, ..limits(1024 * MIB) }, 4);
    for n in 0..40 {
        driven.read(1 + n % 4, n * 64 * MIB..n * 64 * MIB + 4 * KIB);
        driven.read(1 + n % 4, n / 4 * MIB..(n / 4 + 1) * MIB);
        assert!(driven.flying.len() <= 3, "{}", driven.flying.len());
    }
    while let Some(fetch) = driven.flying.keys().next().copied() {
        driven.pass(5 * MS);
        driven.finish(fetch);
        assert!(driven.flying.len() <= 3);
        let answered = driven.answered.clone();
        driven.answered.clear();
        for request in answered {
            driven.answered.push(request);
            driven.take(request);
            driven.answered.clear();
        }
        if driven.reads.stats().fetches > 2_000 {
            break;
        }
    }
}

#[test]
fn ahead_of_readers_never_more_is_under_way_than_pays() {
    let mut driven = driven(limits(1024 * MIB), 2);
    let (mut full, mut next) = (0, 0);
    while next < 400 {
        let (file, n) = (1 + next % 2, next / 2);
        let request = driven.read(file, n * MIB..(n + 1) * MIB);
        loop {
            if driven.sent().iter().any(|sent| sent.ahead) {
                assert!(driven.flying.len() <= driven.reads.allowed(), "{}", driven.flying.len());
                full += u32::from(driven.flying.len() == driven.reads.allowed());
            }
            if driven.is_answered(request) {
                break;
            }
            let fetch = *driven.flying.keys().next().expect("something is under way");
            driven.pass(2 * MS);
            driven.finish(fetch);
        }
        driven.take(request);
        next += 1;
    }
    assert!(full > 20, "all that pays is made use of: {full}");
}

#[test]
fn streams_get_equal_shares_whatever_the_order_in_which_they_began() {
    let mut driven = driven(limits(1024 * MIB), 4);
    let mut bytes = [0u64; 4];
    for n in 0..150 {
        for file in 1..=4 {
            driven.whole(file, n * MIB..(n + 1) * MIB, 5 * MS);
        }
        for sent in driven.sent() {
            bytes[sent.file as usize - 1] += sent.range.end - sent.range.start;
        }
    }
    let (least, most) = (bytes.iter().min().copied(), bytes.iter().max().copied());
    assert!(most < least.map(|least| least + 64 * MIB), "{bytes:?}");
}

#[test]
fn one_stream_leaves_memory_for_others() {
    let memory = 64 * MIB;
    let mut driven = driven(limits(memory), 2);
    let mut most = 0;
    // The reader waits for each byte, so its window only grows.
    for n in 0..600 {
        driven.whole(1, n * MIB / 2..(n + 1) * MIB / 2, 20 * MS);
        most = most.max(driven.reads.held());
    }
    assert!(most > memory / 2, "it uses what there is: {most}");
    let usable = memory - memory / Tuning::default().reserve;
    assert!(most <= usable, "{most}");
    // Somebody else finds room at once.
    driven.read(2, 100 * MIB..100 * MIB + 64 * KIB);
    assert!(driven.sent().iter().any(|sent| sent.file == 2));
}

#[test]
fn at_the_end_of_the_file_nothing_more_is_fetched() {
    let mut driven = Driven::new(limits(64 * MIB));
    let len = 3 * MIB + 5;
    driven.open(1, len);
    driven.read(1, 0..64 * KIB);
    driven.settle(20 * MS);
    let mut ranges = driven.ranges();
    for n in 1..4 {
        let request = driven.read(1, n * 64 * KIB..(n + 1) * 64 * KIB);
        driven.settle(20 * MS);
        driven.take(request);
        ranges.extend(driven.ranges());
    }
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "nothing twice: {ranges:?}");
    assert!(ranges.iter().all(|range| range.end <= len));
}

#[test]
fn what_is_there_already_is_passed_over() {
    let mut driven = driven(limits(64 * MIB), 1);
    let middle = 6 * MIB + 512 * KIB..6 * MIB + 576 * KIB;
    let request = driven.read(1, middle.clone());
    driven.settle(20 * MS);
    driven.sent();
    let mut ranges = Vec::new();
    for n in 0..100 {
        let request = driven.read(1, n * 64 * KIB..(n + 1) * 64 * KIB);
        driven.settle(20 * MS);
        driven.take(request);
        ranges.extend(driven.ranges());
    }
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.iter().all(|range| range.end <= middle.start || range.start >= middle.end), "{ranges:?}");
    assert!(
        ranges.iter().any(|range| range.start == middle.end),
        "and what is behind it is fetched: {ranges:?}"
    );
    driven.take(request);
}

#[test]
fn nothing_is_fetched_behind_a_reader_that_went_on_beyond_what_was_fetched() {
    let mut driven = driven(limits(64 * MIB), 2);
    driven.whole(1, 0..64 * KIB, 20 * MS);
    driven.settle(20 * MS);
    let edge = driven.sent().iter().map(|sent| sent.range.end).max().expect("it is fetched ahead");
    let reader = edge + MIB + 64 * KIB;
    driven.whole(1, edge + MIB..reader, 20 * MS);
    driven.settle(20 * MS);
    let ahead: Vec<_> = driven.sent().into_iter().filter(|sent| sent.ahead).collect();
    assert!(!ahead.is_empty() && ahead.iter().all(|sent| sent.range.start >= reader), "{ahead:?}");
    // Backward.
    driven.whole(2, 100 * MIB..100 * MIB + 64 * KIB, 20 * MS);
    driven.whole(2, 100 * MIB - 64 * KIB..100 * MIB, 20 * MS);
    driven.settle(20 * MS);
    let edge = driven.sent().iter().map(|sent| sent.range.start).min().expect("it is fetched ahead");
    let reader = edge - MIB - 64 * KIB;
    driven.whole(2, reader..edge - MIB, 20 * MS);
    driven.settle(20 * MS);
    let ahead: Vec<_> = driven.sent().into_iter().filter(|sent| sent.ahead).collect();
    assert!(!ahead.is_empty() && ahead.iter().all(|sent| sent.range.end <= reader), "{ahead:?}");
}

#[test]
fn backward_and_strided_readers_are_fetched_ahead_of_too() {
    let mut driven = driven(limits(64 * MIB), 2);
    driven.read(1, 100 * MIB..101 * MIB);
    driven.read(1, 99 * MIB..100 * MIB);
    let sent = driven.sent();
    assert!(sent.iter().any(|sent| sent.ahead && sent.range.end == 99 * MIB), "{sent:?}");
    assert!(sent.iter().all(|sent| sent.range.end <= 101 * MIB));
    driven.settle(20 * MS);
    driven.sent();
    for n in 0..5 {
        driven.read(2, MIB + n * 16 * MIB..MIB + n * 16 * MIB + 64 * KIB);
        driven.settle(20 * MS);
    }
    let sent = driven.sent();
    let ahead: Vec<_> = sent.iter().filter(|sent| sent.file == 2 && sent.ahead).collect();
    assert!(!ahead.is_empty());
    for sent in ahead {
        assert_eq!(
            (sent.range.start % (16 * MIB), sent.range.end - sent.range.start),
            (MIB, 64 * KIB),
            "{sent:?}"
        );
    }
}
