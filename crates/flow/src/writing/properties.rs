//! Whatever comes, in whatever order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    Request(u8, u64),
    Cancel(usize),
    Withdraw(usize),
    Adjust(u8, u64),
    Sent(u8, u64),
    Staged(usize),
    Stored(usize),
    Committed(usize),
    Abandoned(usize),
    Memory(u64),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let any_part = || any::<usize>();
    prop_oneof![
        6 => (0u8..5, 0u64..300).prop_map(|(file, bytes)| Event::Request(file, bytes)),
        1 => any_part().prop_map(Event::Cancel),
        1 => any_part().prop_map(Event::Withdraw),
        1 => (0u8..5, 0u64..200).prop_map(|(file, bytes)| Event::Adjust(file, bytes)),
        4 => (0u8..5, 1u64..300).prop_map(|(file, bytes)| Event::Sent(file, bytes)),
        1 => any_part().prop_map(Event::Staged),
        4 => any_part().prop_map(Event::Stored),
        3 => any_part().prop_map(Event::Committed),
        1 => any_part().prop_map(Event::Abandoned),
        1 => (0u64..1500).prop_map(Event::Memory),
        2 => (0u64..3_000_000_000).prop_map(Event::Wait),
    ]
}

/// Somebody who drives it, and remembers what he was told.
struct Driver {
    writing: Writing,
    now: Duration,
    memory: u64,
    staging: Option<u64>,
    /// Writes that were accepted and of which nothing was sent, adjusted or withdrawn.
    held: Vec<(FileId, u64)>,
    waits: BTreeMap<u64, VecDeque<(Ticket, u64)>>,
    tickets: Vec<Ticket>,
    parts: Vec<PartId>,
    commit: bool,
    send: bool,
}

impl Driver {
    /// More than the ceiling may be held only by one that is alone, or that could not be refused.
    fn accepted(&self, bytes: u64) -> Result<(), TestCaseError> {
        let writing = &self.writing;
        let only = Amount { bytes, operations: 1 };
        let (flight, held) = (writing.in_flight(), writing.in_flight().plus(writing.uncommitted()));
        let disk = flight.plus(writing.on_disk());
        prop_assert!(held == only || held.bytes <= self.memory, "{:?} of {}", held, self.memory);
        prop_assert!(flight == only || flight.bytes <= writing.window());
        let fits = self.staging.is_none_or(|limit| disk.bytes <= limit);
        prop_assert!(disk == only || fits, "{:?} of {:?}", disk, self.staging);
        Ok(())
    }

    fn actions(&mut self) -> Result<(), TestCaseError> {
        let mut admitted = Vec::new();
        while let Some(action) = self.writing.next_action() {
            match action {
                Action::Admit { ticket, file, bytes } => {
                    let first = self.waits.get_mut(&file.0).and_then(VecDeque::pop_front);
                    prop_assert_eq!(first, Some((ticket, bytes)), "in the order of its file");
                    admitted.push((file, bytes));
                }
                Action::Send => self.send = true,
                Action::Commit => self.commit = true,
            }
        }
        if let [(_, bytes)] = admitted[..] {
            self.accepted(bytes)?;
        }
        self.held.extend(admitted);
        Ok(())
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        let of = |parts: &[PartId], index: usize| parts.get(index % parts.len().max(1)).copied();
        match event {
            Event::Request(file, bytes) => {
                let file = FileId(u64::from(file));
                match self.writing.request(file, bytes) {
                    Admit::Granted => {
                        prop_assert!(
                            self.waits.get(&file.0).is_none_or(VecDeque::is_empty),
                            "it passed its own"
                        );
                        self.accepted(bytes)?;
                        self.held.push((file, bytes));
                    }
                    Admit::Queued(ticket) => {
                        self.waits.entry(file.0).or_default().push_back((ticket, bytes));
                        self.tickets.push(ticket);
                    }
                    Admit::Refused => prop_assert_eq!(self.writing.waiting(), 8),
                }
            }
            Event::Cancel(index) => {
                if let Some(&ticket) = self.tickets.get(index % self.tickets.len().max(1)) {
                    let waited = self.waits.values().flatten().any(|waiter| waiter.0 == ticket);
                    prop_assert_eq!(self.writing.cancel(ticket), waited);
                    self.waits.values_mut().for_each(|line| line.retain(|waiter| waiter.0 != ticket));
                }
            }
            Event::Withdraw(index) => {
                if !self.held.is_empty() {
                    let (file, bytes) = self.held.swap_remove(index % self.held.len());
                    self.writing.withdraw(file, bytes);
                }
            }
            Event::Adjust(file, after) => {
                let file = FileId(u64::from(file));
                let before = self.writing.gathered_of(file).bytes;
                self.held.retain(|write| write.0 != file);
                self.writing.adjust(file, before, after);
            }
            Event::Sent(file, bytes) => {
                let file = FileId(u64::from(file));
                let gathered = self.writing.gathered_of(file);
                if !gathered.is_zero() {
                    self.held.retain(|write| write.0 != file);
                    self.parts.push(self.writing.sent(self.now, file, bytes.min(gathered.bytes)));
                }
            }
            Event::Staged(index) => {
                if let Some(part) = of(&self.parts, index) {
                    self.writing.staged(self.now, part);
                }
            }
            Event::Stored(index) => {
                if let Some(part) = of(&self.parts, index) {
                    self.writing.stored(self.now, part);
                    prop_assert!(!self.writing.stored(self.now, part), "twice");
                }
            }
            Event::Committed(index) => {
                if let Some(part) = of(&self.parts, index) {
                    self.writing.committed(part);
                    prop_assert!(!self.writing.committed(part) && !self.writing.stored(self.now, part));
                }
            }
            Event::Abandoned(index) => {
                if let Some(part) = of(&self.parts, index) {
                    self.writing.abandoned(part);
                    prop_assert!(!self.writing.abandoned(part) && !self.writing.staged(self.now, part));
                }
            }
            Event::Memory(bytes) => {
                self.memory = bytes;
                self.writing.set_memory(bytes);
            }
            Event::Wait(nanoseconds) => self.now += Duration::from_nanos(nanoseconds),
        }
        self.actions()?;
        self.writing.audit();
        let stats = self.writing.stats();
        let held = self.writing.in_flight().plus(self.writing.on_disk()).plus(self.writing.uncommitted());
        let gone = stats.committed.plus(stats.withdrawn).plus(stats.abandoned);
        prop_assert_eq!(stats.accepted, held.plus(gone), "nothing is lost");
        prop_assert_eq!(self.writing.waiting(), self.waits.values().map(VecDeque::len).sum::<usize>());
        Ok(())
    }

    /// Does what it is asked to and no more, until nobody waits. The store does its part.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        // Room of any size is enough, and every part is acknowledged in the end.
        for _ in 0..10_000 {
            if self.writing.waiting() == 0 {
                return Ok(());
            }
            self.now += Duration::from_millis(1);
            if std::mem::take(&mut self.send) {
                for file in 0..5 {
                    let gathered = self.writing.gathered_of(FileId(file));
                    if !gathered.is_zero() {
                        self.parts.push(self.writing.sent(self.now, FileId(file), gathered.bytes));
                    }
                }
            }
            let stored: Vec<PartId> = self.parts.clone();
            for &part in &stored {
                self.writing.stored(self.now, part);
                self.actions()?;
            }
            if std::mem::take(&mut self.commit) {
                for part in std::mem::take(&mut self.parts) {
                    if self.writing.committed(part) {
                        self.actions()?;
                    }
                }
            }
            self.actions()?;
        }
        prop_assert!(false, "somebody waits for ever: {:?}", self.writing);
        Ok(())
    }
}

proptest! {
    /// Bytes are conserved, the ceiling holds but for one large request, files keep their order, duplicates change nothing; and whoever
    /// sends when he is asked to, and commits when he is asked to, leaves nobody waiting.
    #[test]
    fn whatever_comes(
        memory in 0u64..1500,
        part in 0u64..300,
        staging in proptest::option::of(0u64..1000),
        operations in 1u64..40,
        quantum in 1u64..100,
        events in proptest::collection::vec(event(), 1..150),
    ) {
        let limits = Limits {
            memory,
            part,
            operations,
            uncommitted: memory / 3,
            uncommitted_operations: operations / 2,
            staged: staging,
            waiting: 8,
        };
        let mut driver = Driver {
            writing: Writing::new(Tuning { quantum, ..Tuning::default() }, limits),
            now: Duration::ZERO,
            memory,
            staging,
            held: Vec::new(),
            waits: BTreeMap::new(),
            tickets: Vec::new(),
            parts: Vec::new(),
            commit: false,
            send: false,
        };
        for event in events {
            driver.step(event)?;
        }
        driver.finish()?;
    }

    /// No time and no size makes it panic.
    #[test]
    fn no_number_is_too_large(events in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..60)) {
        let mut writing = Writing::new(Tuning::default(), Limits::new(u64::MAX, u64::MAX));
        let mut parts = Vec::new();
        for (number, bytes, time) in events {
            let (file, now) = (FileId(number % 3), Duration::from_nanos(time));
            match number % 5 {
                0 => writing.set_memory(bytes),
                1 => drop(parts.pop().map(|part| (writing.stored(now, part), writing.committed(part)))),
                2 => parts.push(writing.sent(now, file, writing.gathered_of(file).bytes)),
                _ => drop(writing.request(file, bytes >> (number % 40))),
            }
            while writing.next_action().is_some() {}
        }
    }
}
