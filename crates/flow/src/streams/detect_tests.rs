//! Where one stream ends and another begins.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const DISORDER: u64 = 4 * MIB;
const LATE: u64 = 32 * MIB;

struct Reader {
    streams: Streams,
    at: u64,
}

impl Reader {
    fn new(most: usize) -> Reader {
        let tuning = Tuning { disorder: DISORDER, late: LATE, most, strides: 4, patience: 4 };
        Reader { streams: Streams::new(tuning), at: 0 }
    }

    fn read(&mut self, handle: u64, start: u64, len: u64) -> Placed {
        self.at += 1;
        self.streams.read(Duration::from_micros(self.at), handle, &(start..start + len))
    }

    /// Two reads that follow each other, which make a stream.
    fn stream(&mut self, handle: u64, start: u64) -> StreamId {
        self.read(handle, start, 64 * KIB);
        let placed = self.read(handle, start + 64 * KIB, 64 * KIB);
        assert!(placed.confirmed);
        placed.stream
    }

    fn reader(&self, stream: StreamId) -> u64 {
        self.streams.get(stream).expect("it is there").reader
    }

    fn count(&self) -> usize {
        self.streams.iter().count()
    }
}

#[test]
fn a_read_belongs_to_the_nearest_stream() {
    let mut reader = Reader::new(16);
    reader.streams = Streams::new(Tuning { disorder: DISORDER, patience: 100, ..Tuning::default() });
    let low = reader.stream(1, 100 * MIB);
    let high = reader.stream(1, 106 * MIB);
    assert_ne!(low, high);
    assert_eq!(reader.read(1, 100 * MIB + 256 * KIB, 64 * KIB).stream, low);
    assert_eq!(reader.read(1, 106 * MIB + 256 * KIB, 64 * KIB).stream, high);
    // A late one of the second is nearer than an early one of the first, and the other way round.
    assert_eq!(reader.read(1, 103 * MIB + 512 * KIB, 64 * KIB).stream, high);
    assert_eq!(reader.read(1, 102 * MIB + 512 * KIB, 64 * KIB).stream, low);
}

#[test]
fn what_was_left_out_is_late_and_what_was_read_is_read_again() {
    let mut reader = Reader::new(16);
    let stream = reader.stream(1, 0);
    let piece = 64 * KIB;
    // A thread stands still with the third piece, and the others go on.
    for n in 3..400 {
        assert_eq!(reader.read(1, n * piece, piece).stream, stream);
    }
    let placed = reader.read(1, 2 * piece, piece);
    assert_eq!((placed.stream, placed.confirmed), (stream, true));
    assert_eq!(reader.reader(stream), 400 * piece, "which does not take the reader back");
    assert_ne!(reader.read(1, 2 * piece, piece).stream, stream, "a second time it is another reader");
    assert_eq!(reader.read(1, 400 * piece, piece).stream, stream);
}

#[test]
fn how_late_a_read_may_be() {
    let mut reader = Reader::new(16);
    let stream = reader.stream(1, 0);
    let piece = 64 * KIB;
    for n in (3..10).chain(11..LATE / piece + 12) {
        assert_eq!(reader.read(1, n * piece, piece).stream, stream);
    }
    let late = reader.reader(stream) - LATE;
    assert_eq!(late, 12 * piece);
    assert_ne!(reader.read(1, 2 * piece, piece).stream, stream);
    assert_ne!(reader.read(1, 10 * piece, piece).stream, stream);
    assert_eq!(reader.read(1, LATE / piece * piece + 12 * piece, piece).stream, stream);
}

proptest! {
    /// As the kernel reads ahead of one reader: a window of requests, of which threads bring the one that they took first or second; the
    /// next window is asked for when the reader, who needs all that is before, gets there.
    #[test]
    fn however_long_threads_stand_still_there_is_one_stream(
        threads in 2usize..6,
        piece in prop::sample::select(vec![128 * KIB, 256 * KIB, MIB]),
        choices in prop::collection::vec(any::<u16>(), 300..600),
    ) {
        let mut reader = Reader::new(16);
        let window = 16 * MIB / piece;
        let (mut sent, mut arrived, mut hand) = (0, std::collections::BTreeSet::new(), Vec::new());
        for choice in choices {
            let first = (0..).find(|n| !arrived.contains(n)).unwrap_or(0);
            while hand.len() < threads && sent < (first / window + 2) * window {
                hand.push(sent);
                sent += 1;
            }
            // The oldest is brought by chance only, which may be long after the others. What is first of all is waited for.
            let oldest = arrived.is_empty() || hand.len() == 1 || choice % 61 == 0;
            let at = if oldest { 0 } else { 1 + usize::from(choice) % (hand.len() - 1).min(2) };
            let n = hand.remove(at);
            arrived.insert(n);
            let placed = reader.read(1, n * piece, piece);
            prop_assert!(n == 0 || arrived.len() < 8 || placed.confirmed, "piece {} after {:?}", n, first);
        }
        let confirmed = reader.streams.iter().filter(|stream| stream.confirmed).count();
        prop_assert_eq!(confirmed, 1, "{:?}", reader.streams);
    }
}

#[test]
fn how_far_disorder_reaches() {
    let mut reader = Reader::new(16);
    reader.streams = Streams::new(Tuning { disorder: DISORDER, patience: 100, ..Tuning::default() });
    let stream = reader.stream(1, 100 * MIB);
    let at = reader.reader(stream);
    assert_eq!(at, 100 * MIB + 128 * KIB);
    assert_eq!(
        reader.read(1, at + DISORDER, 64 * KIB).stream,
        stream,
        "as far ahead as that it is an early one"
    );
    let at = at + DISORDER + 64 * KIB;
    assert_eq!(reader.reader(stream), at);
    assert_eq!(
        reader.read(1, at - DISORDER - 64 * KIB, 64 * KIB).stream,
        stream,
        "as far behind, a late one"
    );
    assert_eq!(reader.reader(stream), at, "which does not take the reader back");
    assert_ne!(reader.read(1, at + DISORDER + 1, 64 * KIB).stream, stream);
    assert_ne!(reader.read(1, at - DISORDER - 64 * KIB - 1, 64 * KIB).stream, stream);
}

#[test]
fn backward_reads_may_be_out_of_order_too() {
    let mut reader = Reader::new(16);
    reader.read(1, 100 * MIB, MIB);
    let stream = reader.read(1, 99 * MIB, MIB).stream;
    // The next but one, and then the next.
    assert_eq!(reader.read(1, 97 * MIB, MIB).stream, stream);
    assert_eq!(reader.reader(stream), 97 * MIB);
    let late = reader.read(1, 98 * MIB + 1, MIB - 1);
    assert_eq!((late.stream, late.confirmed), (stream, true));
    assert_eq!(reader.reader(stream), 97 * MIB);
    assert_eq!(reader.read(1, 97 * MIB - DISORDER - MIB, MIB).stream, stream);
    let at = 97 * MIB - DISORDER - MIB;
    assert_eq!(reader.read(1, at + DISORDER, MIB).stream, stream);
    assert_ne!(reader.read(1, at + DISORDER + 1, MIB).stream, stream);
    assert_ne!(reader.read(1, at - DISORDER - MIB - 1, MIB).stream, stream);
}

#[test]
fn who_turns_round_begins_another_stream() {
    let mut reader = Reader::new(16);
    reader.read(1, 100 * MIB, MIB);
    let backward = reader.read(1, 99 * MIB, MIB);
    assert!(backward.confirmed);
    let turned = reader.read(1, 100 * MIB, MIB);
    assert!(!turned.confirmed);
    assert_eq!(turned.evicted, [backward.stream], "what was fetched for it is for nobody");
    assert!(reader.streams.get(backward.stream).is_none());
    let forward = reader.read(1, 101 * MIB, MIB);
    assert!(forward.confirmed, "two reads that follow each other are a stream");
    assert_eq!((forward.stream, reader.reader(forward.stream)), (turned.stream, 102 * MIB));
}

#[test]
fn a_confirmed_stream_is_not_turned_by_one_read_before_its_last() {
    let mut reader = Reader::new(16);
    let stream = reader.stream(1, 100 * MIB);
    let again = reader.read(1, 100 * MIB, 64 * KIB);
    assert_eq!((again.stream, again.confirmed), (stream, true));
    assert_eq!(reader.streams.get(stream).map(|stream| stream.pattern), Some(Pattern::Forward));
}

#[test]
fn four_pieces_in_any_order_make_a_run_and_three_do_not() {
    let mut reader = Reader::new(16);
    for block in [2, 0, 3] {
        assert!(!reader.read(1, 700 * MIB + block * 128 * KIB, 128 * KIB).confirmed);
    }
    let last = reader.read(1, 700 * MIB + 128 * KIB, 128 * KIB);
    assert!(last.confirmed);
    assert_eq!(reader.reader(last.stream), 700 * MIB + 512 * KIB);
    let mut reader = Reader::new(16);
    for block in [2, 0] {
        reader.read(1, 700 * MIB + block * 128 * KIB, 128 * KIB);
    }
    // Three touch, and the last does not continue the one before it.
    assert!(!reader.read(1, 700 * MIB + 128 * KIB + 1, 128 * KIB - 1).confirmed);
}

#[test]
fn a_part_of_a_large_read_that_is_read_again_makes_no_stream() {
    let mut reader = Reader::new(16);
    reader.read(1, 700 * MIB, MIB);
    assert!(!reader.read(1, 700 * MIB + 64 * KIB, 4 * KIB).confirmed);
    assert!(!reader.read(1, 700 * MIB, 4 * KIB).confirmed);
}

/// Reads 64 KiB and passes over `hole` bytes (and a little more each time, so that it is no stride), from the file's beginning.
fn with_holes(reader: &mut Reader, hole: u64, to: u64) -> Option<Placed> {
    let (mut at, mut uneven, mut first) = (0, 0, None);
    while at < to {
        let placed = reader.read(1, at, 64 * KIB);
        if !placed.confirmed {
            return Some(placed);
        }
        assert_eq!(*first.get_or_insert(placed.stream), placed.stream);
        uneven = (uneven + 1) % 5;
        at += 64 * KIB + hole + uneven * KIB;
    }
    None
}

#[test]
fn what_is_read_with_few_holes_stays_a_stream() {
    let mut reader = Reader::new(16);
    assert_eq!(with_holes(&mut reader, 30 * KIB, 40 * MIB), None);
    assert_eq!(reader.count(), 1);
}

#[test]
fn what_is_mostly_holes_is_found_to_be_none() {
    let mut reader = Reader::new(16);
    let found = with_holes(&mut reader, 64 * KIB, 40 * MIB).expect("half of it was not read");
    assert_eq!(found.evicted.len(), 1);
    assert!(reader.streams.get(StreamId(0)).is_none());
    let after = reader.at * 128 * KIB;
    // Not sooner than disorder could explain, and not long after.
    assert!(after > DISORDER * 3 / 4 && after < 12 * MIB, "{after}");
}

#[test]
fn who_begins_to_leave_holes_after_a_long_time_is_found_out_as_soon() {
    let mut reader = Reader::new(16);
    for n in 0..1_600 {
        assert!(reader.read(1, n * 64 * KIB, 64 * KIB).confirmed);
    }
    let (mut at, mut uneven) = (100 * MIB, 0);
    while reader.read(1, at, 64 * KIB).confirmed {
        uneven = (uneven + 1) % 5;
        // A little less than half of it is passed over.
        at += 64 * KIB + 51 * KIB + uneven * KIB;
        assert!(at < 112 * MIB);
    }
}

#[test]
fn the_one_unused_for_longest_goes_and_streams_after_places() {
    let mut reader = Reader::new(3);
    let old = reader.stream(1, 100 * MIB);
    let new = reader.stream(1, 200 * MIB);
    let place = reader.read(1, 300 * MIB, 4 * KIB).stream;
    assert_eq!(reader.count(), 3);
    let another = reader.read(1, 400 * MIB, 4 * KIB);
    assert_eq!(another.evicted, [place], "one read makes no stream, though it was the newest");
    let third = reader.read(1, 400 * MIB + 4 * KIB, 4 * KIB);
    assert!(third.confirmed && third.stream == another.stream);
    assert_eq!(reader.read(1, 100 * MIB + 128 * KIB, 4 * KIB).stream, old, "it is used again");
    assert_eq!(reader.read(1, 500 * MIB, 4 * KIB).evicted, [new]);
    assert_eq!(reader.count(), 3);
}

#[test]
fn a_stream_is_of_whoever_read_it_last() {
    let mut reader = Reader::new(16);
    let stream = reader.stream(1, 100 * MIB);
    reader.read(2, 100 * MIB + 128 * KIB, 64 * KIB);
    assert_eq!(
        reader.streams.get(stream).map(|stream| (stream.handle, stream.used)),
        Some((2, Duration::from_micros(3)))
    );
    reader.streams.remove(stream);
    assert_eq!((reader.streams.get(stream).map(|stream| stream.id), reader.count()), (None, 0));
}

/// Pieces of a handle at these places; how many were taken for a stream.
fn pieces(reader: &mut Reader, handle: u64, starts: impl IntoIterator<Item = u64>, len: u64) -> usize {
    starts.into_iter().filter(|start| reader.read(handle, *start, len).confirmed).count()
}

#[test]
fn it_takes_four_equal_steps_to_be_strided() {
    let mut reader = Reader::new(64);
    let steps = |from: u64, count: u64| (0..count).map(move |n| from + n * 16 * MIB);
    assert_eq!(pieces(&mut reader, 1, steps(MIB, 4), 64 * KIB), 0, "three steps");
    assert_eq!(pieces(&mut reader, 1, steps(MIB + 64 * MIB, 4), 64 * KIB), 4, "and from the fourth on");
    // A step of another length begins again.
    assert_eq!(pieces(&mut reader, 1, steps(400 * MIB, 4), 64 * KIB), 0);
    // Pieces of other lengths are none.
    let mut reader = Reader::new(64);
    let uneven =
        (0..12).filter(|n| reader.read(1, MIB + n * 16 * MIB, 64 * KIB + n % 2 * KIB).confirmed).count();
    assert_eq!(uneven, 0);
    // Nor is going back.
    let mut reader = Reader::new(64);
    assert_eq!(pieces(&mut reader, 1, (0..12).map(|n| 900 * MIB - n * 16 * MIB), 64 * KIB), 0);
    // Nor are the same pieces of several handles.
    let mut reader = Reader::new(64);
    assert_eq!((0..12).filter(|n| reader.read(n % 6, MIB + n * 16 * MIB, 64 * KIB).confirmed).count(), 0);
}

#[test]
fn strided_pieces_are_followed_in_order_only_and_by_anybody() {
    let mut reader = Reader::new(64);
    assert_eq!(pieces(&mut reader, 1, (0..5).map(|n| MIB + n * 16 * MIB), 64 * KIB), 1);
    let next = reader.read(2, MIB + 5 * 16 * MIB, 64 * KIB);
    assert!(next.confirmed);
    assert_eq!(reader.reader(next.stream), MIB + 5 * 16 * MIB);
    let shorter = reader.read(2, MIB + 6 * 16 * MIB, 4 * KIB);
    assert_eq!((shorter.confirmed, shorter.stream), (true, next.stream), "a part of a piece");
    let longer = reader.read(2, MIB + 7 * 16 * MIB, 64 * KIB + 1);
    assert!(!longer.confirmed, "more than a piece");
    assert!(!reader.read(2, MIB + 9 * 16 * MIB, 64 * KIB).confirmed, "one was left out");
}

#[test]
fn the_steps_of_a_closed_handle_are_forgotten() {
    let mut reader = Reader::new(64);
    assert_eq!(pieces(&mut reader, 1, (0..4).map(|n| MIB + n * 16 * MIB), 64 * KIB), 0);
    reader.streams.closed(2);
    reader.streams.closed(1);
    assert_eq!(pieces(&mut reader, 1, (4..8).map(|n| MIB + n * 16 * MIB), 64 * KIB), 0, "they count anew");
    let mut reader = Reader::new(64);
    assert_eq!(pieces(&mut reader, 1, (0..4).map(|n| MIB + n * 16 * MIB), 64 * KIB), 0);
    reader.streams.closed(2);
    assert_eq!(pieces(&mut reader, 1, (4..8).map(|n| MIB + n * 16 * MIB), 64 * KIB), 4, "another's are not");
}

#[test]
fn the_steps_of_few_handles_are_known() {
    let mut reader = Reader::new(4);
    let piece = |reader: &mut Reader, handle: u64, n: u64| {
        reader.read(handle, handle * 4096 * MIB + MIB + n * 16 * MIB, 64 * KIB)
    };
    // As many as there may be streams: all of them are seen to be strided.
    for n in 0..4 {
        for handle in 1..=4 {
            assert!(!piece(&mut reader, handle, n).confirmed);
        }
    }
    for handle in 1..=4 {
        assert!(piece(&mut reader, handle, 4).confirmed, "{handle}");
    }
    // One more in turns, and each is forgotten before it comes again.
    let mut reader = Reader::new(4);
    for n in 0..12 {
        for handle in 1..=5 {
            assert!(!piece(&mut reader, handle, n).confirmed);
        }
    }
}

#[test]
fn only_who_reads_forward_is_gone_on_from() {
    let mut reader = Reader::new(256);
    let mut read = |handle: u64, at: u64, len: u64, pieces: &[u64]| {
        let placed = pieces.iter().map(|piece| reader.read(handle, at * MIB + piece * len, len).stream);
        placed.last().expect("a piece")
    };
    let all: Vec<u64> = (0..24).collect();
    let long = read(1, 0, MIB, &all);
    // Behind it, where it has been: one that follows it, one that goes backward, and a single read.
    let follows = read(2, 4, 4 * KIB, &[0, 1, 2]);
    let backward = read(3, 10, 4 * KIB, &[2, 1, 0]);
    let single = read(4, 16, 4 * KIB, &[0]);
    let goes_on = |from: StreamId| {
        let (long, other) = reader.streams.get(long).zip(reader.streams.get(from)).expect("they are there");
        long.goes_on_from(other)
    };
    assert_eq!([follows, backward, single, long].map(goes_on), [true, false, false, false]);
}
