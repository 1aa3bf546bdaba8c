//! Reads as programs and the kernel send them, and what they are taken for.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

struct Reader {
    streams: Streams,
    at: u64,
}

impl Reader {
    fn new() -> Reader {
        Reader { streams: Streams::new(Tuning::default()), at: 0 }
    }

    fn read(&mut self, handle: u64, start: u64, len: u64) -> Placed {
        self.at += 1;
        self.streams.read(Duration::from_micros(self.at), handle, &(start..start + len))
    }

    fn of(&self, placed: &Placed) -> &Stream {
        self.streams.get(placed.stream).unwrap()
    }
}

#[test]
fn a_file_read_from_its_beginning_is_a_stream_at_once() {
    let mut reader = Reader::new();
    let first = reader.read(1, 0, 128 * KIB);
    assert!(first.confirmed);
    let second = reader.read(1, 128 * KIB, 128 * KIB);
    assert_eq!(second.stream, first.stream);
    assert_eq!(reader.of(&second).reader, 256 * KIB);
}

#[test]
fn elsewhere_it_takes_a_second_read() {
    let mut reader = Reader::new();
    assert!(!reader.read(1, 700 * MIB, 128 * KIB).confirmed);
    assert!(reader.read(1, 700 * MIB + 128 * KIB, 128 * KIB).confirmed);
}

#[test]
fn streams_in_turns_on_one_handle_are_apart() {
    let mut reader = Reader::new();
    let mut of: Vec<StreamId> = Vec::new();
    for turn in 0..10 {
        for stream in 0..16 {
            let placed = reader.read(1, stream * 64 * MIB + turn * 128 * KIB, 128 * KIB);
            if turn == 1 {
                of.push(placed.stream);
            }
            assert!(
                turn == 0 || (placed.confirmed && placed.stream == of[stream as usize]),
                "{turn} {stream}"
            );
        }
    }
    of.sort_unstable();
    of.dedup();
    assert_eq!(of.len(), 16);
}

#[test]
fn several_handles_go_through_a_file_together() {
    let mut reader = Reader::new();
    for n in 0..64 {
        let placed = reader.read(n % 4, n * MIB, MIB);
        assert!(placed.confirmed, "{n}");
        assert_eq!(placed.stream, StreamId(0));
    }
}

#[test]
fn two_streams_can_begin_near_a_place_that_was_read_at_random() {
    let mut reader = Reader::new();
    reader.read(1, 100 * MIB, 4 * KIB);
    reader.read(1, 101 * MIB, 4 * KIB);
    let first = reader.read(1, 103 * MIB, 128 * KIB);
    assert!(!first.confirmed);
    let second = reader.read(1, 103 * MIB + 128 * KIB, 128 * KIB);
    assert!(second.confirmed);
    assert_eq!(reader.of(&second).reader, 103 * MIB + 256 * KIB);
}

#[test]
fn backward_is_a_stream_too() {
    let mut reader = Reader::new();
    let mut last = None;
    for n in (100..200_u64).rev() {
        last = Some(reader.read(1, n * MIB, MIB));
    }
    let last = last.unwrap();
    assert!(last.confirmed);
    assert_eq!((reader.of(&last).pattern, reader.of(&last).reader), (Pattern::Backward, 100 * MIB));
}

#[test]
fn pieces_at_equal_distances_are_a_stream() {
    for stride in [MIB, 16 * MIB] {
        let mut reader = Reader::new();
        let mut last = None;
        for n in 0..8 {
            last = Some(reader.read(1, n * stride, 64 * KIB));
        }
        let last = last.unwrap();
        let pattern = Pattern::Strided { stride, len: 64 * KIB };
        assert!(last.confirmed);
        assert_eq!((reader.of(&last).pattern, reader.of(&last).reader), (pattern, 7 * stride));
    }
}

proptest! {
    /// The kernel's readahead comes from several threads, so its requests overtake each other.
    #[test]
    fn disorder_does_not_break_a_stream(order in proptest::collection::vec(0usize..4, 200)) {
        let mut reader = Reader::new();
        let mut waiting: Vec<u64> = (0..4).map(|n| n * 256 * KIB).collect();
        let mut next = 4 * 256 * KIB;
        reader.read(1, 0, 4 * KIB);
        for pick in order {
            let start = waiting.remove(pick % waiting.len());
            let placed = reader.read(1, start, 256 * KIB);
            prop_assert_eq!(placed.stream, StreamId(0));
            prop_assert!(placed.confirmed);
            // None waits for ever.
            waiting.push(next);
            waiting.sort_unstable();
            if waiting.first().is_some_and(|first| first + 2 * MIB < next) {
                let late = waiting.remove(0);
                reader.read(1, late, 256 * KIB);
                next += 256 * KIB;
                waiting.push(next);
            }
            next += 256 * KIB;
        }
    }

    #[test]
    fn random_reads_of_a_large_file_are_hardly_ever_taken_for_streams(starts in proptest::collection::vec(1u64..1 << 28, 300)) {
        let mut reader = Reader::new();
        let confirmed = starts.iter().filter(|start| reader.read(1, *start * 4 * KIB, 4 * KIB).confirmed).count();
        prop_assert!(confirmed <= 3, "{confirmed}");
        prop_assert!(reader.streams.iter().count() <= Tuning::default().most);
    }

    #[test]
    fn nothing_is_too_strange(reads in proptest::collection::vec((any::<u64>(), 1u64..1 << 40, 0u64..4), 1..300)) {
        let mut reader = Reader::new();
        for (start, len, handle) in reads {
            let start = start.min(u64::MAX - len);
            reader.read(handle, start, len);
        }
    }
}
