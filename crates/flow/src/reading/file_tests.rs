//! What comes next ahead of a reader: as far as the window goes, past what is there, and nothing that the reader has left behind.

use std::time::Duration;

use super::driven::{Driven, KIB, MIB, limits};
use super::file::File;
use super::part::Part;
use super::*;
use crate::window::Window;

const MS: Duration = Duration::from_millis(1);
const LEN: u64 = 4096 * MIB;

#[test]
fn a_window_has_room_until_as_much_is_ahead_as_it_has_bytes() {
    let tuning = Tuning::default();
    let mut file = File::new(LEN, tuning.streams);
    let stream = file.streams.read(Duration::ZERO, 1, &(0..MIB)).stream;
    let ahead = file.ahead_of(stream, tuning.window, MIB).expect("it has a reader");
    ahead.window = Window::fixed(4 * MIB);
    let mut ahead = Vec::new();
    loop {
        let room = file.has_room(stream, &file.ahead[&stream]);
        let next = file.next_ahead(stream, MIB);
        assert_eq!(next.is_some(), room, "{ahead:?}");
        let Some(range) = next else { break };
        file.parts.insert(Part::new(range.clone(), Some(stream)));
        ahead.push(range);
    }
    assert_eq!(ahead, [MIB..2 * MIB, 2 * MIB..3 * MIB, 3 * MIB..4 * MIB, 4 * MIB..5 * MIB]);
}

#[test]
fn no_more_is_fetched_ahead_than_the_window_has() {
    let mut driven = Driven::fixed(limits(64 * MIB), 4 * MIB, 16, MIB);
    driven.open(1, LEN);
    driven.whole(1, 0..MIB, MS);
    driven.settle(MS);
    assert_eq!(driven.ranges().into_iter().map(|range| range.end).max(), Some(5 * MIB));
    driven.whole(1, MIB..2 * MIB, MS);
    assert_eq!(driven.one().range, 5 * MIB..6 * MIB, "as much as was read");
}

/// Pieces of 64 KiB, 16 MiB from each other.
fn piece(n: u64) -> std::ops::Range<u64> {
    MIB + n * 16 * MIB..MIB + n * 16 * MIB + 64 * KIB
}

#[test]
fn a_reader_in_strides_that_overtakes_what_is_fetched_ahead_leaves_nothing_behind_it_to_fetch() {
    let mut driven = Driven::fixed(limits(64 * MIB), 256 * KIB, 1, MIB);
    driven.open(1, LEN);
    driven.open(2, LEN);
    // As long as this one is under way, nothing is fetched that nobody waits for.
    driven.read(2, 100 * MIB..101 * MIB);
    let slow = driven.one().fetch;
    let mut last = 0;
    for n in 0..12 {
        let request = driven.read(1, piece(n));
        for sent in driven.sent() {
            driven.pass(MS);
            driven.finish(sent.fetch);
        }
        driven.take(request);
        last = n;
    }
    assert_eq!(driven.reads.windows().count(), 1, "it is known to go on");
    driven.finish(slow);
    driven.settle(MS);
    assert_eq!(driven.ranges(), [piece(last + 1), piece(last + 2), piece(last + 3)]);
}

#[test]
fn after_part_of_a_piece_was_given_up_strides_go_on_where_pieces_are() {
    let mut driven = Driven::fixed(limits(64 * MIB), 512 * KIB, 16, MIB);
    driven.open(1, LEN);
    // The first half of a later piece is there, and kept.
    let kept = driven.read(1, piece(10).start..piece(10).start + 4 * KIB);
    driven.settle(MS);
    for n in 0..6 {
        driven.whole(1, piece(n), MS);
    }
    driven.settle(MS);
    let half = piece(10).start + 32 * KIB..piece(10).end;
    assert!(driven.ranges().contains(&half), "the other half is fetched");
    // It and what is behind it is given up, and nothing else.
    while !driven.released.contains(&(1, half.clone())) {
        driven.memory(driven.reads.held() - 1);
    }
    driven.sent();
    driven.memory(64 * MIB);
    for n in 6..9 {
        driven.whole(1, piece(n), MS);
    }
    driven.settle(MS);
    let again = driven.ranges();
    assert!(again.contains(&half) && again.contains(&piece(11)), "{again:?}");
    let within = |range: &std::ops::Range<u64>| {
        (0..40).any(|n| piece(n).start <= range.start && range.end <= piece(n).end)
    };
    assert!(again.iter().all(within), "{again:?}");
    driven.take(kept);
}

#[test]
fn going_backward_what_is_nearest_to_the_reader_comes_first() {
    let mut driven = Driven::fixed(limits(64 * MIB), 4 * MIB, 16, MIB);
    driven.open(1, LEN);
    let there = 97 * MIB + 512 * KIB..97 * MIB + 544 * KIB;
    let kept = driven.read(1, there.clone());
    driven.settle(MS);
    driven.whole(1, 100 * MIB..101 * MIB, MS);
    driven.sent();
    driven.read(1, 99 * MIB..100 * MIB);
    let ahead: Vec<_> = driven.sent().into_iter().filter(|sent| sent.ahead).map(|sent| sent.range).collect();
    let expected = [
        98 * MIB..99 * MIB,
        there.end..98 * MIB,
        97 * MIB..there.start,
        96 * MIB..97 * MIB,
        95 * MIB..96 * MIB,
    ];
    assert_eq!(ahead, expected, "on both sides of what is there");
    driven.settle(MS);
    driven.take(kept);
}
