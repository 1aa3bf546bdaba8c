//! When the committer works: a pure state machine. Events in, the next step out; time is an argument.

use std::time::{Duration, Instant};

/// First delay after a disk was found full; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest delay before a full disk is tried again although nobody asks.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What the committer does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Write a memtable: the one left over from a failed attempt, or else the active one.
    Commit,
    /// Nothing before this moment, unless an event comes.
    Wait(Option<Instant>),
    /// End the thread.
    Stop,
}

#[derive(Debug)]
pub(super) struct Schedule {
    freeze_age: Duration,
    /// Since when the active memtable holds something.
    active_since: Option<Instant>,
    /// The active memtable should go to disk now: it is large, or a writer waits for room.
    pressed: bool,
    /// Set while a memtable is left over from a failed attempt: when to try again, and the delay that led there.
    retry: Option<(Instant, Duration)>,
    stopping: bool,
}

impl Schedule {
    pub(super) fn new(freeze_age: Duration) -> Self {
        Schedule { freeze_age, active_since: None, pressed: false, retry: None, stopping: false }
    }

    /// The active memtable got its first entry.
    pub(super) fn filled(&mut self, now: Instant) {
        self.active_since.get_or_insert(now);
    }

    /// The active memtable should not wait for its age.
    pub(super) fn press(&mut self) {
        self.pressed = true;
    }

    /// The committer ends once nothing more is asked of it.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// The committer is about to write. Called before the active memtable is frozen: an entry that comes between the
    /// two is frozen too, and costs at most one needless wake-up.
    pub(super) fn begin(&mut self) {
        if self.retry.is_none() {
            self.active_since = None;
            self.pressed = false;
        }
    }

    /// The write is on disk.
    pub(super) fn succeeded(&mut self) {
        self.retry = None;
    }

    /// The disk is full. All who waited have been told.
    pub(super) fn found_full(&mut self, now: Instant) {
        let delay = self.retry.map_or(RETRY_MIN, |(_, delay)| (delay * 2).min(RETRY_MAX));
        self.retry = Some((now + delay, delay));
        self.pressed = false;
    }

    /// What to do at `now`; `awaited` says whether somebody waits for durability.
    pub(super) fn step(&self, now: Instant, awaited: bool) -> Step {
        if self.stopping {
            return Step::Stop;
        }
        if awaited || self.pressed {
            return Step::Commit;
        }
        let due = match self.retry {
            Some((at, _)) => Some(at),
            None => self.active_since.map(|since| since + self.freeze_age),
        };
        match due {
            Some(due) if due <= now => Step::Commit,
            due => Step::Wait(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGE: Duration = Duration::from_secs(1);

    #[test]
    fn an_unattended_write_goes_to_disk_at_its_age() {
        let start = Instant::now();
        let mut schedule = Schedule::new(AGE);
        assert_eq!(schedule.step(start, false), Step::Wait(None));
        schedule.filled(start);
        schedule.filled(start + AGE / 2);
        assert_eq!(schedule.step(start, false), Step::Wait(Some(start + AGE)));
        assert_eq!(schedule.step(start + AGE, false), Step::Commit);
        schedule.begin();
        schedule.succeeded();
        assert_eq!(schedule.step(start + AGE, false), Step::Wait(None));
    }

    #[test]
    fn a_full_disk_is_retried_ever_less_often_and_at_once_when_asked() {
        let mut now = Instant::now();
        let mut schedule = Schedule::new(AGE);
        schedule.press();
        let mut delays = Vec::new();
        for _ in 0..8 {
            assert_eq!(schedule.step(now, false), Step::Commit);
            schedule.begin();
            schedule.found_full(now);
            let Step::Wait(Some(at)) = schedule.step(now, false) else { panic!("no retry planned") };
            assert_eq!(schedule.step(now, true), Step::Commit);
            delays.push(at - now);
            now = at;
        }
        assert_eq!(delays[0], RETRY_MIN);
        assert_eq!(delays[1], RETRY_MIN * 2);
        assert_eq!(delays[7], RETRY_MAX);
    }

    #[derive(Clone, Debug)]
    enum Event {
        Fill,
        Press,
        Ask,
        Run { full: bool },
    }

    proptest! {
        /// Follows what the committer would do and checks that nothing is left without a date.
        #[test]
        fn nothing_is_forgotten_and_nothing_spins(
            events in prop::collection::vec(
                prop_oneof![
                    Just(Event::Fill), Just(Event::Press), Just(Event::Ask),
                    any::<bool>().prop_map(|full| Event::Run { full }),
                ],
                0..40,
            ),
        ) {
            let now = Instant::now();
            let mut schedule = Schedule::new(AGE);
            let (mut active, mut retained, mut awaited) = (false, false, false);
            for event in events {
                match event {
                    Event::Fill => { schedule.filled(now); active = true; }
                    Event::Press => schedule.press(),
                    Event::Ask => awaited = true,
                    Event::Run { full } => {
                        if schedule.step(now, awaited) != Step::Commit { continue; }
                        schedule.begin();
                        if !retained { retained = active; active = false; }
                        if full && retained {
                            schedule.found_full(now);
                            awaited = false;
                            prop_assert!(matches!(schedule.step(now, awaited), Step::Wait(Some(_))));
                        } else {
                            schedule.succeeded();
                            retained = false;
                            awaited = awaited && active;
                        }
                    }
                }
                if active || retained {
                    prop_assert_ne!(schedule.step(now, awaited), Step::Wait(None));
                }
            }
        }
    }
}
