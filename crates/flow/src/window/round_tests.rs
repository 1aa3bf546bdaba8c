//! What each round, a window's worth of reading, does to a window.

use std::time::Duration;

use super::{Read, Tuning, Window};

const PART: u64 = 1 << 20;
const FETCH: Duration = Duration::from_millis(20);
/// Lies ready as long as it should.
const RIGHT: Duration = FETCH;

struct Reader {
    window: Window,
    waits: u64,
    most: u64,
    enough: u64,
    short: bool,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            window: Window::new(Tuning::default(), PART),
            waits: 0,
            most: 1 << 40,
            enough: 1 << 40,
            short: false,
        }
    }

    fn read(&mut self, bytes: u64, ready_for: Option<Duration>) {
        self.waits += u64::from(ready_for.is_none());
        let ready_for = ready_for.unwrap_or_default();
        let Reader { waits, most, enough, short, .. } = *self;
        let read = Read { bytes, ready_for, waits, fetch: FETCH, part: PART, most, enough, short, known: 0 };
        self.window.read(&read);
    }

    /// All of a round in one read.
    fn round(&mut self, ready_for: Option<Duration>) -> u64 {
        self.read(self.window.bytes(), ready_for);
        self.window.bytes()
    }

    /// A window of 128 parts that seemed right.
    fn settled() -> Reader {
        let mut reader = Reader::new();
        while reader.window.bytes() < 128 * PART {
            reader.round(None);
        }
        assert_eq!(reader.round(Some(RIGHT)), 128 * PART);
        reader
    }
}

#[test]
fn a_round_ends_when_as_much_was_read_as_the_window_has() {
    let mut reader = Reader::new();
    reader.read(2 * PART - 1, None);
    assert_eq!(reader.window.bytes(), 2 * PART);
    reader.read(1, Some(RIGHT));
    assert_eq!(reader.window.bytes(), 8 * PART, "somebody waited in it");
    reader.read(PART, None);
    reader.read(PART, None);
    assert_eq!(reader.window.bytes(), 8 * PART, "what was read before does not count again");
}

#[test]
fn a_wait_counts_in_its_round_and_in_no_other() {
    let mut reader = Reader::new();
    assert_eq!(reader.round(None), 8 * PART);
    assert_eq!(reader.round(Some(RIGHT)), 8 * PART);
}

#[test]
fn one_that_seemed_right_grows_by_an_eighth_and_manyfold_when_that_is_too_little() {
    let mut reader = Reader::settled();
    assert_eq!(reader.round(None), 144 * PART);
    assert_eq!(reader.round(None), 162 * PART);
    assert_eq!(reader.round(None), 648 * PART, "the third time in a row: conditions have changed");
    assert_eq!(reader.round(None), 2592 * PART);
    let mut reader = Reader::settled();
    for grown in [144, 162] {
        assert_eq!(reader.round(None), grown * PART);
    }
    reader.round(Some(RIGHT));
    assert!(reader.round(None) < 184 * PART, "not in a row");
}

#[test]
fn it_shrinks_by_an_eighth_when_all_lies_ready_for_longer_than_two_fetches() {
    let mut reader = Reader::settled();
    assert_eq!(reader.round(Some(2 * FETCH)), 128 * PART, "so long is right");
    let longer = 2 * FETCH + Duration::from_nanos(1);
    assert_eq!(reader.round(Some(longer)), 112 * PART);
    reader.read(PART, Some(RIGHT));
    assert_eq!(reader.round(Some(longer)), 112 * PART, "one read was in time only just");
    assert_eq!(reader.round(Some(longer)), 98 * PART, "that was another round");
}

#[test]
fn it_is_never_less_than_two_parts_nor_more_than_is_of_use() {
    let mut reader = Reader::settled();
    for _ in 0..100 {
        reader.round(Some(Duration::MAX));
    }
    assert_eq!(reader.window.bytes(), 2 * PART);
    reader.most = 5 * PART;
    (0..10).for_each(|_| _ = reader.round(None));
    assert_eq!(reader.window.bytes(), 5 * PART);
    reader.most = PART;
    reader.read(1, Some(RIGHT));
    assert_eq!(reader.window.bytes(), PART, "at once");
}

#[test]
fn beyond_what_is_enough_it_grows_when_it_was_too_small_for_what_could_have_been_sent() {
    let mut reader = Reader::settled();
    reader.enough = 140 * PART;
    assert_eq!(reader.round(None), 140 * PART);
    assert_eq!(reader.round(None), 140 * PART, "who waits for other reasons waits as long with a larger one");
    reader.short = true;
    reader.read(PART, None);
    reader.short = false;
    assert_eq!(reader.round(None), 560 * PART, "that was a read ago, and the third round in a row");
    assert_eq!(reader.round(None), 560 * PART, "it was in that round and in no other");
    reader.enough = 10 * PART;
    assert_eq!(reader.round(None), 560 * PART, "what it has it keeps");
    reader.short = true;
    assert_eq!(reader.round(Some(RIGHT)), 560 * PART, "nobody waited");
}
