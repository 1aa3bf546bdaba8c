//! How far ahead of its reader a stream is fetched: see [`Window`].

#[cfg(test)]
mod round_tests;

use std::time::Duration;

/// The numbers of a [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Parts at first: one that the reader waits for, and one behind it.
    pub first_parts: u64,
    /// What a round adds to a window that was always too small, as so many times itself: where latency is long, few rounds fit into
    /// the time in which a reader is to have its rate.
    pub grow: u64,
    /// A window that is known to be about right grows and shrinks by one so-many-th of itself.
    pub step: u64,
    /// Bytes that lie ready for longer than so many fetches take are too many.
    pub idle_fetches: u32,
    /// Rounds in a row in which a window that seemed right was too small before it is multiplied again: conditions have changed.
    pub hungry_rounds: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { first_parts: 2, grow: 3, step: 8, idle_fetches: 2, hungry_rounds: 2 }
    }
}

/// A read of a stream, as its window sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// How many bytes.
    pub bytes: u64,
    /// Since when they had all been there; zero if they were not.
    pub ready_for: Duration,
    /// How often the reader has had to wait so far, here or at another place of the file: what it waits for at one place of those
    /// that it reads in turns is that much less time for all.
    pub waits: u64,
    /// How long a fetch takes, from its start to its last byte.
    pub fetch: Duration,
    /// Bytes of a fetch.
    pub part: u64,
    /// More than this is of no use, bytes: what may be in flight, or what memory there is.
    pub most: u64,
    /// This is enough where parts come about in the order in which they were sent, bytes.
    pub enough: u64,
    /// Since the last read the window was full while the reader waited and more could have been sent.
    pub short: bool,
    /// See [`Window::widen`]; zero if nothing is known.
    pub known: u64,
}

/// The window of one stream: it grows fourfold with each round, a window's worth of reading, until the reader does not wait any more. From then on
/// it grows a little when the reader waited and shrinks a little when bytes lie ready for long. So it measures bandwidth times delay
/// without knowing either, of whatever is slowest: store, network or reader.
#[derive(Debug, Clone)]
pub struct Window {
    tuning: Tuning,
    bytes: u64,
    growing: bool,
    widened: bool,
    /// No round is over yet.
    first: bool,
    /// Bytes read in this round.
    read: u64,
    /// In this round it was full while the reader waited and more could have been sent.
    short: bool,
    /// Waits of the reader up to this round.
    waits: u64,
    least_ready: Duration,
    hungry: u32,
}

impl Window {
    /// The first window of a stream that is fetched in parts of so many bytes.
    pub fn new(tuning: Tuning, part: u64) -> Window {
        let bytes = part.saturating_mul(tuning.first_parts.max(1));
        Window {
            tuning,
            bytes,
            growing: true,
            widened: false,
            first: true,
            read: 0,
            short: false,
            waits: 0,
            least_ready: Duration::MAX,
            hungry: 0,
        }
    }

    /// One of so many bytes, which stays so as long as it is not told of reads.
    pub fn fixed(bytes: u64) -> Window {
        Window { bytes, ..Window::new(Tuning::default(), bytes) }
    }

    /// Bytes ahead of the reader that should be there or on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is as large as it is because so much was known to be needed, and its first round is not over: all of it is sent at once.
    pub fn is_widened(&self) -> bool {
        self.first && self.widened
    }

    /// The reader read.
    pub fn read(&mut self, read: &Read) {
        self.least_ready = self.least_ready.min(read.ready_for);
        self.read = self.read.saturating_add(read.bytes);
        self.short |= read.short;
        if self.read >= self.bytes {
            self.end_round(read);
        }
        self.widen(read.known);
        let least = read.part.saturating_mul(self.tuning.first_parts.max(1));
        self.bytes = self.bytes.min(read.most).max(least.min(read.most));
    }

    /// As many bytes are known to be needed, and will be read: while it grows, it need not be smaller.
    pub fn widen(&mut self, known: u64) {
        if self.growing && known > self.bytes {
            (self.bytes, self.widened) = (known, true);
        }
    }

    fn end_round(&mut self, read: &Read) {
        let step = self.bytes / self.tuning.step.max(2);
        let idle = read.fetch.saturating_mul(self.tuning.idle_fetches);
        if read.waits > self.waits {
            self.hungry += 1;
            self.growing |= self.hungry > self.tuning.hungry_rounds;
            let more = if self.growing { self.bytes.saturating_mul(self.tuning.grow) } else { step };
            let most = if self.short { u64::MAX } else { read.enough.max(self.bytes) };
            self.bytes = self.bytes.saturating_add(more).min(most);
        } else {
            (self.growing, self.hungry) = (false, 0);
            if self.least_ready > idle {
                self.bytes -= step;
            }
        }
        (self.first, self.short) = (false, false);
        (self.read, self.waits, self.least_ready) = (0, read.waits, Duration::MAX);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PART: u64 = 1 << 20;
    const FETCH: Duration = Duration::from_millis(20);

    fn read(ready_for: Option<Duration>, waits: &mut u64) -> Read {
        *waits += u64::from(ready_for.is_none());
        let ready_for = ready_for.unwrap_or_default();
        let (most, enough) = (1 << 40, 1 << 40);
        Read {
            bytes: PART,
            ready_for,
            waits: *waits,
            fetch: FETCH,
            part: PART,
            most,
            enough,
            short: false,
            known: 0,
        }
    }

    fn round(window: &mut Window, ready_for: Option<Duration>) {
        let (before, mut waits) = (window.bytes(), window.waits);
        let mut read_so_far = 0;
        while read_so_far < before {
            window.read(&read(ready_for, &mut waits));
            read_so_far += PART;
        }
    }

    #[test]
    fn it_grows_fourfold_while_the_reader_waits_and_then_stays() {
        let mut window = Window::new(Tuning::default(), PART);
        for rounds in 0..4 {
            assert_eq!(window.bytes(), (2 << (2 * rounds)) * PART);
            round(&mut window, None);
        }
        let reached = window.bytes();
        for _ in 0..10 {
            round(&mut window, Some(FETCH));
        }
        assert_eq!(window.bytes(), reached);
    }

    #[test]
    fn what_is_known_to_be_needed_counts_while_it_grows() {
        let mut window = Window::new(Tuning::default(), PART);
        let known = |known| Read { known, ..read(None, &mut 0) };
        window.read(&known(40 * PART));
        assert_eq!(window.bytes(), 40 * PART);
        assert!(window.is_widened() && !Window::new(Tuning::default(), PART).is_widened());
        window.read(&known(3 * PART));
        assert_eq!(window.bytes(), 40 * PART, "it is no bound");
        window.read(&Read { most: 30 * PART, ..known(50 * PART) });
        assert_eq!(window.bytes(), 30 * PART);
        let mut waiting = window.clone();
        round(&mut waiting, None);
        assert!(!waiting.is_widened(), "from the second round on one part is sent when another has come");
        let reached = window.bytes();
        round(&mut window, Some(FETCH));
        window.read(&known(50 * PART));
        assert_eq!(window.bytes(), reached, "it was seen to be enough");
        assert!(!window.is_widened());
    }

    #[test]
    fn what_lies_ready_for_long_was_too_much() {
        let mut window = Window::new(Tuning::default(), PART);
        (0..6).for_each(|_| round(&mut window, None));
        let reached = window.bytes();
        (0..8).for_each(|_| round(&mut window, Some(10 * FETCH)));
        assert!(window.bytes() < reached / 2, "{}", window.bytes());
        (0..100).for_each(|_| round(&mut window, Some(10 * FETCH)));
        assert_eq!(window.bytes(), 2 * PART);
    }

    #[test]
    fn it_follows_a_step_to_ten_times_the_delay_in_few_rounds() {
        let mut window = Window::new(Tuning::default(), PART);
        (0..3).for_each(|_| round(&mut window, None));
        round(&mut window, Some(FETCH));
        let before = window.bytes();
        (0..6).for_each(|_| round(&mut window, None));
        assert!(window.bytes() >= 10 * before);
    }

    proptest! {
        #[test]
        fn it_keeps_within_its_bounds(reads in proptest::collection::vec((0u64..1 << 24, any::<u32>(), any::<(bool, bool)>(), 1u64..1 << 22, (0u64..1 << 28, 0u64..1 << 28), 0u64..1 << 30), 1..200)) {
            let mut window = Window::new(Tuning::default(), PART);
            let mut waits = 0;
            for (bytes, nanos, (waited, short), part, (most, enough), known) in reads {
                waits += u64::from(waited);
                let ready_for = Duration::from_nanos(nanos.into());
                window.read(&Read { bytes, ready_for, waits, fetch: FETCH, part, most, enough, short, known });
                prop_assert!(window.bytes() <= most);
                prop_assert!(window.bytes() >= most.min(2 * part));
            }
        }
    }
}
