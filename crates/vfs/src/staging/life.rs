//! When a staged file is stored and when its local copy goes: a decision without I/O.

use headrace_meta::Time;

/// What tells one state of a local file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stamp {
    /// Length, bytes.
    pub size: u64,
    /// Bytes it takes on the disk.
    pub allocated: u64,
    /// Last change of its bytes.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
}

impl Stamp {
    /// Whether the bytes are the same. What they take on the disk changes by itself.
    pub fn is_as(&self, other: &Stamp) -> bool {
        Stamp { allocated: 0, ..*self } == Stamp { allocated: 0, ..*other }
    }
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Nothing; its next close asks again.
    Nothing,
    /// Nothing yet, and no call will tell when: ask again in a while.
    Look,
    /// Store its bytes.
    Store,
    /// Everything is stored: make that durable and remove the local copy.
    Remove,
}

/// One staged file.
#[derive(Debug)]
pub(super) struct Life {
    readers: u32,
    writers: u32,
    /// What is being stored.
    storing: Option<Stamp>,
    /// What is stored.
    stored: Option<Stamp>,
    /// The last change was so recent, when storing began, that another one could have had the same time: clocks of files tick.
    racy: bool,
    /// Somebody could change it since storing began.
    disturbed: bool,
    /// How often somebody could.
    changes: u64,
}

impl Life {
    /// A new file; `stored`: what metadata has of it already.
    pub fn new(stored: Option<Stamp>) -> Life {
        Life { readers: 0, writers: 0, storing: None, stored, racy: false, disturbed: false, changes: 0 }
    }

    /// Somebody opens it.
    pub fn opened(&mut self, writes: bool) {
        *self.count(writes) += 1;
        if writes {
            self.changed();
        }
    }

    /// Its bytes may change from here on, or have changed.
    pub fn changed(&mut self) {
        self.disturbed = true;
        self.changes += 1;
        if self.racy {
            self.stored = None;
        }
    }

    /// How often its bytes could change: while it is the same, and nobody has it open or mapped, they have not.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Somebody closes it.
    pub fn closed(&mut self, writes: bool) {
        let count = self.count(writes);
        *count = count.saturating_sub(1);
    }

    /// Nobody has it open any more, whoever did.
    pub fn abandoned(&mut self) {
        (self.readers, self.writers) = (0, 0);
    }

    fn count(&mut self, writes: bool) -> &mut u32 {
        if writes { &mut self.writers } else { &mut self.readers }
    }

    /// Whether somebody has it open.
    pub fn is_open(&self) -> bool {
        self.readers + self.writers > 0
    }

    /// Whether it is stored as it is `now`.
    pub fn is_stored(&self, now: &Stamp) -> bool {
        self.stored.is_some_and(|stored| stored.is_as(now))
    }

    /// Whether it is being stored as it is `now`.
    pub fn is_storing(&self, now: &Stamp) -> bool {
        self.storing.is_some_and(|storing| storing.is_as(now))
    }

    /// Whether somebody is storing it.
    pub fn is_being_stored(&self) -> bool {
        self.storing.is_some()
    }

    /// What to do with the file, which looks like this `now`. `mapped`: somebody may write to it without having it open. `asked`: it is to
    /// be stored as it is, whoever writes to it.
    pub fn next(&self, now: &Stamp, mapped: bool, asked: bool) -> Next {
        match () {
            () if self.storing.is_some() => Next::Nothing,
            () if !self.is_stored(now) => match () {
                () if asked => Next::Store,
                () if self.writers > 0 => Next::Nothing,
                () if mapped => Next::Look,
                () => Next::Store,
            },
            () if self.is_open() => Next::Nothing,
            () if mapped => Next::Look,
            () => Next::Remove,
        }
    }

    /// It is being stored as it is `now`. `racy`: it was changed a moment ago.
    pub fn begin(&mut self, now: Stamp, racy: bool) {
        self.storing = Some(now);
        self.stored = None;
        (self.racy, self.disturbed) = (racy, self.writers > 0);
    }

    /// That is over; `whole`: everything is stored and committed.
    pub fn end(&mut self, whole: bool) {
        let stamp = self.storing.take();
        if whole && !(self.racy && self.disturbed) {
            self.stored = stamp;
        }
    }

    /// Its times were set: what looked like `before` and nothing else looks like `after` now.
    pub fn restamped(&mut self, before: &Stamp, after: Stamp) {
        for stamp in [&mut self.storing, &mut self.stored].into_iter().flatten() {
            if stamp.is_as(before) {
                *stamp = after;
                self.racy = true;
            }
        }
        if self.racy && self.writers > 0 {
            self.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Event {
        Open {
            writes: bool,
        },
        Close {
            which: usize,
        },
        Write,
        SetTimes,
        /// What was begun ends; a file that changed meanwhile is torn.
        End {
            failed: bool,
        },
        Ask {
            asked: bool,
        },
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            any::<bool>().prop_map(|writes| Event::Open { writes }),
            any::<usize>().prop_map(|which| Event::Close { which }),
            Just(Event::Write),
            Just(Event::SetTimes),
            any::<bool>().prop_map(|failed| Event::End { failed }),
            any::<bool>().prop_map(|asked| Event::Ask { asked }),
        ];
        proptest::collection::vec(event, 1..200)
    }

    proptest! {
        /// The local copy is removed only when nobody has the file open and exactly its bytes are stored; and in the end it is.
        #[test]
        fn nothing_is_removed_that_is_not_stored(events in events()) {
            let (mut life, mut open) = (Life::new(None), Vec::new());
            // The clock of files stands still for four events at a time.
            let (mut now, mut clock, mut written) = (Stamp::default(), 0_i64, 0);
            // Versions of the bytes: the file's, of what is stored, and of what is being stored.
            let (mut version, mut stored, mut storing) = (0, None, None);
            let tail = [Event::End { failed: false }, Event::Ask { asked: false }, Event::End { failed: false }, Event::Ask { asked: false }];
            let closing = std::iter::repeat_n(Event::Close { which: 0 }, events.len());
            let all: Vec<_> = events.into_iter().chain(closing).chain(tail).collect();
            let mut removed = false;
            for event in all {
                clock += 1;
                let at = Time { secs: clock / 4, nanos: 0 };
                match event {
                    _ if removed => break,
                    Event::Open { writes } => {
                        life.opened(writes);
                        open.push(writes);
                    }
                    Event::Close { which } if !open.is_empty() => life.closed(open.swap_remove(which % open.len())),
                    Event::Write if open.contains(&true) => {
                        (version, written) = (version + 1, clock);
                        now = Stamp { mtime: at, ctime: at, ..now };
                    }
                    Event::SetTimes => {
                        let after = Stamp { mtime: Time::default(), ctime: at, ..now };
                        life.restamped(&now, after);
                        (now, written) = (after, clock);
                    }
                    Event::End { failed } => if let Some(what) = storing.take() {
                        life.end(!failed);
                        stored = if failed { stored } else { Some(what) };
                    },
                    Event::Ask { asked } => match life.next(&now, false, asked) {
                        Next::Store => {
                            prop_assert!(asked || !open.contains(&true));
                            life.begin(now, clock - written < 4);
                            storing = Some(version);
                        }
                        Next::Remove => {
                            prop_assert!(open.is_empty());
                            prop_assert_eq!(stored, Some(version));
                            removed = true;
                        }
                        Next::Nothing | Next::Look => {}
                    },
                    Event::Close { .. } | Event::Write => {}
                }
            }
            prop_assert!(removed);
        }
    }

    #[test]
    fn what_is_mapped_is_looked_at_again() {
        let stamp = Stamp { size: 1, ..Stamp::default() };
        let mut life = Life::new(None);
        assert_eq!(life.next(&stamp, true, false), Next::Look);
        assert_eq!(life.next(&stamp, true, true), Next::Store);
        life.begin(stamp, false);
        assert_eq!(life.next(&stamp, false, true), Next::Nothing);
        life.end(true);
        assert_eq!(life.next(&stamp, true, false), Next::Look);
        assert_eq!(life.next(&stamp, false, false), Next::Remove);
    }

    #[test]
    fn an_untouched_new_file_needs_no_storing() {
        let stamp = Stamp::default();
        let life = Life::new(Some(stamp));
        assert_eq!(life.next(&Stamp { allocated: 4096, ..stamp }, false, false), Next::Remove);
    }
}
