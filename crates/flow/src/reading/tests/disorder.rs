//! Whether the window of a stream is too small for what could be sent, which it is where parts come out of order.

use std::time::Duration;

use super::super::driven::{Driven, MIB, one_file};

const EACH: Duration = Duration::from_millis(5);

/// A stream of file 1 that is read up to what is still under way; where that is.
fn stream() -> (Driven, u64) {
    let mut driven = one_file(1 << 40);
    let mut at = 0;
    while at < 64 * MIB || driven.flying.values().all(|(sent, _)| sent.range.start != at) {
        driven.whole(1, at..at + MIB, EACH);
        at += MIB;
    }
    (driven, at)
}

/// Reads of the stream that wait, and whether its window was too small.
fn state(driven: &Driven) -> (usize, bool) {
    let mut ahead = driven.reads.files.values().flat_map(|file| file.ahead.values());
    let only = ahead.next().expect("a stream");
    assert!(ahead.next().is_none());
    (only.waiting, only.short)
}

#[test]
fn when_nothing_more_may_be_sent_while_its_reader_waits() {
    let (mut driven, at) = stream();
    let request = driven.read(1, at..at + MIB);
    assert_eq!(state(&driven), (1, false));
    while driven.flying.len() > 1 {
        let last = *driven.flying.keys().next_back().expect("two at least");
        driven.finish(last);
        // Whatever its pace would send by then.
        driven.pass(20 * EACH);
        driven.wake();
    }
    assert_eq!(state(&driven), (1, true), "all came but what he waits for, and no more was sent");
    let before = driven.reads.windows().next().map(|(.., bytes)| bytes);
    let first = *driven.flying.keys().next().expect("it");
    driven.finish(first);
    driven.take(request);
    assert_eq!(state(&driven).0, 0);
    // It counts in the round in which he reads again.
    let mut at = at + MIB;
    while driven.reads.windows().next().map(|(.., bytes)| bytes) == before {
        driven.whole(1, at..at + MIB, EACH);
        at += MIB;
        assert!(at < 512 * MIB, "it grows");
    }
}

#[test]
fn not_while_more_is_sent_for_him() {
    let (mut driven, mut at) = stream();
    for _ in 0..50 {
        // What he waits for comes first.
        driven.whole(1, at..at + MIB, EACH);
        at += MIB;
        assert_eq!(state(&driven), (0, false));
    }
}

#[test]
fn not_while_nobody_waits() {
    let (mut driven, _) = stream();
    driven.settle(EACH);
    assert!(driven.flying.is_empty(), "it is full");
    assert_eq!(state(&driven), (0, false));
}

#[test]
fn nobody_waits_whose_read_failed() {
    let (mut driven, at) = stream();
    let request = driven.read(1, at..at + MIB);
    assert_eq!(state(&driven).0, 1);
    while !driven.has_failed(request) {
        let first = *driven.flying.keys().next().expect("it is tried again");
        driven.fail(first, crate::backoff::Failure::Permanent);
    }
    assert_eq!(state(&driven).0, 0);
}
