//! When bytes that were fetched are given up again.

use std::time::Duration;

use super::driven::{Driven, KIB, LEN, MIB, limits, one_file};
use super::*;

const MS: Duration = Duration::from_millis(1);
const AT: u64 = 64 * MIB;

/// A piece that was fetched for nobody in particular, and of which most was not read.
fn leftover(driven: &mut Driven, file: u64, start: u64) {
    let request = driven.read(file, start..start + 4 * KIB);
    driven.settle(MS);
    driven.take(request);
    driven.sent();
}

#[test]
fn what_has_been_read_goes_and_the_rest_stays() {
    let mut driven = one_file(64 * MIB);
    leftover(&mut driven, 1, AT);
    assert_eq!((driven.released.len(), driven.reads.held()), (0, 32 * KIB));
    let end = driven.read(1, AT + 20 * KIB..AT + 32 * KIB);
    driven.take(end);
    let rest = driven.read(1, AT + 4 * KIB..AT + 24 * KIB);
    assert!(driven.is_answered(rest) && driven.released.is_empty(), "it is not taken yet");
    driven.take(rest);
    assert_eq!(driven.released, [(1, AT..AT + 32 * KIB)]);
    assert_eq!((driven.reads.held(), driven.reads.stats().wasted), (0, 0));
}

#[test]
fn the_oldest_that_nobody_asked_for_goes_first() {
    // Room for four pieces of 32 KiB; at uneven distances.
    let mut driven = one_file(128 * KIB);
    let piece = |n: usize| {
        let start = AT + [0, 1, 3, 4, 6, 2, 5][n] * 32 * MIB;
        (1, start..start + 32 * KIB)
    };
    for n in 0..4 {
        leftover(&mut driven, 1, piece(n).1.start);
    }
    assert_eq!((driven.released.len(), driven.reads.held()), (0, 128 * KIB));
    leftover(&mut driven, 1, piece(4).1.start);
    assert_eq!(driven.released, [piece(0)]);
    assert_eq!(driven.reads.stats().wasted, 28 * KIB);
    // One that somebody is about to take is not given up.
    let start = piece(1).1.start;
    let held = driven.read(1, start + 8 * KIB..start + 12 * KIB);
    leftover(&mut driven, 1, piece(5).1.start);
    assert_eq!(driven.released[1..], [piece(2)]);
    driven.take(held);
    // But when its turn comes again it is.
    for n in 0..4 {
        leftover(&mut driven, 1, piece(6).1.start + n * n * MIB);
    }
    assert!(driven.released.contains(&piece(1)), "{:?}", driven.released);
    assert_eq!(driven.reads.held(), 128 * KIB);
}

#[test]
fn less_memory_takes_effect_at_once_and_no_more_than_needed_goes() {
    let mut driven = one_file(MIB);
    for n in 1..=4 {
        leftover(&mut driven, 1, n * AT);
    }
    driven.memory(128 * KIB);
    assert!(driven.released.is_empty(), "it fits");
    driven.memory(128 * KIB - 1);
    assert_eq!(driven.released, [(1, AT..AT + 32 * KIB)]);
    driven.memory(32 * KIB);
    assert_eq!(driven.reads.held(), 32 * KIB);
    assert!(!driven.released.contains(&(1, 4 * AT..4 * AT + 32 * KIB)), "the newest is kept for longest");
}

/// One large piece that is there, under a read that is not over, which keeps it from being given back as a whole.
fn large(driven: &mut Driven) -> RequestId {
    let request = driven.read(1, AT..AT + 8 * MIB);
    driven.settle(MS);
    driven.sent();
    request
}

#[test]
fn the_beginning_of_a_large_piece_goes_when_it_has_been_read() {
    let mut driven = one_file(64 * MIB);
    // Fetched with what comes after it, for a stream.
    driven.whole(1, 0..MIB, 20 * MS);
    driven.whole(1, MIB..2 * MIB, 20 * MS);
    driven.settle(20 * MS);
    let (held, before) = (driven.reads.held(), driven.released.len());
    let large = large(&mut driven);
    assert_eq!(driven.reads.held(), held + 8 * MIB);
    driven.take(large);
    assert_eq!(driven.reads.held(), held, "all of it was read");
    assert_eq!(driven.released[before..], [(1, AT..AT + 8 * MIB)]);
}

#[test]
fn a_stream_holds_no_more_than_its_window_and_all_of_it_goes_with_its_file() {
    let mut driven = one_file(64 * MIB);
    for n in 0..32 {
        driven.whole(1, n * MIB..(n + 1) * MIB, 20 * MS);
    }
    assert!(driven.reads.held() > 0 && driven.reads.is_known(FileId(1)));
    let window: u64 = driven.reads.windows().map(|(_, _, bytes)| bytes).sum();
    assert!(driven.reads.held() <= window + 8 * MIB, "{} of {window}", driven.reads.held());
    let flying = driven.flying.len();
    assert!(flying > 0);
    let (cancelled, stats) = (driven.cancelled.len(), driven.reads.stats().cancelled);
    driven.close(1);
    assert_eq!((driven.reads.held(), driven.flying.len()), (0, 0));
    assert_eq!(driven.cancelled.len() - cancelled, flying);
    assert_eq!(driven.reads.stats().cancelled - stats, flying as u64);
    assert_eq!(driven.reads.windows().count(), 0);
    assert!(!driven.reads.is_known(FileId(1)));
}

#[test]
fn a_file_that_is_closed_while_it_is_read_is_known_until_the_read_is_over() {
    let mut driven = one_file(64 * MIB);
    let request = driven.read(1, AT..AT + 64 * KIB);
    let fetch = driven.one().fetch;
    driven.close(1);
    assert!(driven.reads.is_known(FileId(1)) && driven.cancelled.is_empty());
    driven.finish(fetch);
    assert!(driven.is_answered(request) && driven.reads.is_known(FileId(1)), "its bytes are to be taken");
    driven.take(request);
    assert!(!driven.reads.is_known(FileId(1)));
    assert_eq!((driven.reads.held(), driven.released.clone()), (0, vec![(1, AT..AT + 64 * KIB)]));
}

#[test]
fn with_one_of_two_handles_goes_only_what_it_read_ahead() {
    let mut driven = one_file(64 * MIB);
    driven.reads.opened(FileId(1), HandleId(9), LEN);
    leftover(&mut driven, 1, AT);
    driven.whole(1, 0..MIB, 20 * MS);
    driven.whole(1, MIB..2 * MIB, 20 * MS);
    driven.settle(20 * MS);
    assert!(driven.reads.held() > 32 * KIB && driven.reads.windows().count() == 1);
    driven.close(1);
    assert_eq!((driven.reads.held(), driven.reads.windows().count()), (32 * KIB, 0));
    assert!(driven.reads.is_known(FileId(1)));
    driven.reads.closed(driven.now, HandleId(9));
    assert_eq!(driven.reads.held(), 0);
    assert!(!driven.reads.is_known(FileId(1)));
}

#[test]
fn another_handle_does_not_take_a_stream_with_it() {
    let mut driven = one_file(64 * MIB);
    driven.reads.opened(FileId(1), HandleId(9), LEN);
    driven.whole(1, 0..MIB, 20 * MS);
    driven.whole(1, MIB..2 * MIB, 20 * MS);
    let held = driven.reads.held();
    driven.reads.closed(driven.now, HandleId(9));
    assert_eq!((driven.reads.held(), driven.reads.windows().count()), (held, 1));
}

/// Two streams of a file each, read so far.
fn two_streams(driven: &mut Driven, first: u64, second: u64) {
    driven.open(2, LEN);
    for n in 0..first.max(second) {
        if n < first {
            driven.whole(1, n * MIB..(n + 1) * MIB, 20 * MS);
        }
        if n < second {
            driven.whole(2, n * MIB..(n + 1) * MIB, 20 * MS);
        }
    }
    driven.settle(20 * MS);
}

#[test]
fn what_lies_furthest_ahead_of_the_stream_that_holds_most_is_given_up_first() {
    let mut driven = one_file(256 * MIB);
    two_streams(&mut driven, 32, 4);
    driven.released.clear();
    let of = |driven: &Driven, file: u64| {
        driven.released.iter().filter(|(of, _)| *of == file).map(|(_, range)| range.start).collect::<Vec<_>>()
    };
    let held = driven.reads.held();
    driven.memory(held - 1);
    let gone = of(&driven, 1);
    assert_eq!((gone.len(), of(&driven, 2).len()), (1, 0), "{:?}", driven.released);
    driven.memory(held / 2);
    assert!(driven.reads.held() <= held / 2);
    let gone = of(&driven, 1);
    assert!(gone.windows(2).all(|pair| pair[0] > pair[1]), "the last first: {gone:?}");
    // What is next is still there.
    let next = driven.read(1, 32 * MIB..32 * MIB + 4 * KIB);
    assert!(driven.is_answered(next));
    driven.take(next);
    driven.memory(0);
    assert_eq!(driven.reads.held(), 0);
}

#[test]
fn what_was_given_up_is_fetched_again_when_there_is_room() {
    let mut driven = one_file(256 * MIB);
    two_streams(&mut driven, 32, 0);
    let held = driven.reads.held();
    driven.memory(held / 2);
    driven.memory(256 * MIB);
    for n in 32..40 {
        driven.whole(1, n * MIB..(n + 1) * MIB, 20 * MS);
    }
    assert!(driven.reads.held() + driven.flying_bytes() > held / 2);
    let stats = driven.reads.stats();
    assert!(stats.fetched - stats.wasted >= 40 * MIB, "{stats:?}");
}

#[test]
fn backward_what_lies_furthest_ahead_is_what_is_lowest() {
    let mut driven = one_file(256 * MIB);
    for n in 1..24 {
        driven.whole(1, LEN - n * MIB..LEN - (n - 1) * MIB, 20 * MS);
    }
    driven.settle(20 * MS);
    driven.released.clear();
    let held = driven.reads.held();
    assert!(held >= 4 * MIB, "{held}");
    driven.memory(held / 2);
    let gone: Vec<u64> = driven.released.iter().map(|(_, range)| range.start).collect();
    assert!(gone.windows(2).all(|pair| pair[0] < pair[1]), "the lowest first: {gone:?}");
    let next = driven.read(1, LEN - 23 * MIB - 4 * KIB..LEN - 23 * MIB);
    assert!(driven.is_answered(next), "what is next is still there");
}

#[test]
fn what_a_reader_with_holes_has_left_far_behind_goes() {
    let mut driven = one_file(256 * MIB);
    driven.whole(1, 0..MIB, 20 * MS);
    driven.whole(1, MIB..2 * MIB, 20 * MS);
    // A third of each piece is passed over: too little to be no stream.
    for n in 2..64 {
        driven.whole(1, n * MIB..n * MIB + 700 * KIB, 20 * MS);
    }
    let late = Tuning::default().streams.late;
    let behind = driven.released.iter().map(|(_, range)| range.end).max().expect("some were released");
    assert!(behind >= 63 * MIB - late, "{behind}");
    let window: u64 = driven.reads.windows().map(|(_, _, bytes)| bytes).sum();
    assert!(driven.reads.held() <= window + late + 4 * MIB, "{} of {window}", driven.reads.held());
    assert!(driven.reads.stats().wasted > 10 * MIB);
}

#[test]
fn large_parts_are_given_back_in_pieces_as_they_are_read() {
    let mut driven = Driven::fixed(limits(64 * MIB), 8 * MIB, 16, 8 * MIB);
    driven.open(1, 8 * MIB);
    for n in 0..128 {
        driven.whole(1, n * 64 * KIB..(n + 1) * 64 * KIB, MS);
        driven.settle(MS);
        let read = (n + 1) * 64 * KIB;
        assert_eq!(driven.reads.held(), 8 * MIB - read / MIB * MIB, "after {read}");
    }
    let pieces: Vec<_> = (0..8).map(|n| (1, n * MIB..(n + 1) * MIB)).collect();
    assert_eq!(driven.released, pieces);
    assert_eq!((driven.one().range, driven.reads.stats().wasted), (0..8 * MIB, 0));
}

#[test]
fn a_file_that_is_closed_between_an_answer_and_its_taking_is_known_until_then() {
    let mut driven = one_file(64 * MIB);
    driven.open(2, LEN);
    let request = driven.read(1, AT..AT + 64 * KIB);
    driven.settle(MS);
    assert!(driven.is_answered(request));
    driven.close(1);
    assert!(driven.reads.is_known(FileId(1)) && driven.released.is_empty(), "its bytes are to be taken");
    driven.close(2);
    assert!(!driven.reads.is_known(FileId(2)), "of this one nothing is");
    driven.take(request);
    assert!(!driven.reads.is_known(FileId(1)));
    assert_eq!((driven.reads.held(), driven.released.clone()), (0, vec![(1, AT..AT + 64 * KIB)]));
}
