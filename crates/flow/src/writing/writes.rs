//! The state machine.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::drain::Drain;
use super::queue::Queue;
use super::reach::{Reach, Seen};
use super::slab::Slab;
use super::{Action, Admit, Amount, FileId, Limits, PartId, Stats, Ticket, Tuning};

/// Where a part is. It counts for one budget at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Sent, and not acknowledged: in flight.
    Flying,
    /// On a local disk, and not in the store.
    Staged,
    /// In the store, and not committed; whether a commit that was asked for covers it is told by the number of commits before.
    Stored { commits: u64 },
}

#[derive(Debug)]
struct Part {
    file: FileId,
    amount: Amount,
    sent: Duration,
    place: Place,
}

/// What is held of a file.
#[derive(Debug, Default)]
struct Account {
    /// Accepted and not sent.
    gathered: Amount,
    /// Parts that are not committed.
    parts: usize,
}

/// What a request would have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// Bytes in flight.
    Window,
    /// Writes in flight.
    Operations,
    /// Memory, with what is stored and not committed.
    Memory,
    /// The local disk.
    Staging,
}

/// Backpressure of writes: a pure state machine. Whoever drives it takes all of [`next_action`](Writing::next_action) after each event.
///
/// A write is accepted ([`request`](Writing::request)), gathered with others of its file, sent as a part ([`sent`](Writing::sent)),
/// stored ([`stored`](Writing::stored)) and committed ([`committed`](Writing::committed)). A part that is sent again, or twice at once, is
/// still one part: its first acknowledgement counts, and all others change nothing. So does whatever comes for a part that was given up.
///
/// Most that is in flight is [`window`](Writing::window) bytes, except for one request that is larger, alone. Nobody waits for a commit
/// unless what is stored and not committed fills the memory, which takes a metadata engine that stands still.
#[derive(Debug)]
pub struct Writing {
    limits: Limits,
    queue: Queue,
    files: HashMap<FileId, Account>,
    parts: Slab<Part>,
    drain: Drain,
    reach: Reach,
    window: u64,
    /// See [`Tuning::first_parts`].
    first_parts: u64,
    /// Accepted and not sent, of all files.
    gathered: Amount,
    /// Sent and not acknowledged.
    flying: Amount,
    staged: Amount,
    uncommitted: Amount,
    /// What of `uncommitted` no commit was asked for.
    unasked: Amount,
    /// Sending what is gathered was asked for, and neither was anything added to it nor acknowledged since.
    asked_to_send: bool,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Writing {
    /// Nobody writes yet.
    pub fn new(tuning: Tuning, limits: Limits) -> Writing {
        let mut writing = Writing {
            queue: Queue::new(tuning.quantum, limits.part),
            drain: Drain::new(tuning.drain),
            reach: Reach::new(tuning.reach),
            limits,
            files: HashMap::new(),
            parts: Slab::new(),
            window: 0,
            first_parts: tuning.first_parts.max(2),
            gathered: Amount::default(),
            flying: Amount::default(),
            staged: Amount::default(),
            uncommitted: Amount::default(),
            unasked: Amount::default(),
            asked_to_send: false,
            actions: VecDeque::new(),
            stats: Stats::default(),
        };
        writing.resize();
        writing
    }

    /// Somebody wants to write so many bytes to a file.
    pub fn request(&mut self, file: FileId, bytes: u64) -> Admit {
        let fits = self.full(bytes).is_none();
        if fits && (self.queue.is_empty() || self.queue.pass(file, bytes)) {
            self.accept(file, bytes);
            self.check();
            return Admit::Granted;
        }
        if self.queue.len() >= self.limits.waiting.max(1) {
            self.stats.refused += 1;
            return Admit::Refused;
        }
        self.stats.waited += 1;
        let ticket = self.queue.push(file, bytes);
        self.pump();
        Admit::Queued(ticket)
    }

    /// This one does not want to wait any more. False if it does not wait: it was refused, cancelled before, or accepted; then what it
    /// was given is to be handed back with [`withdraw`](Writing::withdraw).
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some((file, _)) = self.queue.cancel(ticket) else {
            self.stats.duplicates += 1;
            return false;
        };
        if !self.files.contains_key(&file) {
            self.queue.forget(file);
        }
        self.pump();
        true
    }

    /// A write that was accepted, and of which nothing was sent, does not happen.
    pub fn withdraw(&mut self, file: FileId, bytes: u64) {
        self.give_back(file, Amount { bytes, operations: 1 });
    }

    /// What is gathered of a file takes `after` bytes instead of `before`: rounded up to blocks, or overwritten. More cannot be refused.
    pub fn adjust(&mut self, file: FileId, before: u64, after: u64) {
        if let Some(bytes) = after.checked_sub(before) {
            let more = Amount { bytes, operations: 0 };
            if bytes > 0 {
                self.files.entry(file).or_default().gathered.add(more);
                self.gathered.add(more);
                self.stats.accepted.add(more);
                self.asked_to_send = false;
                self.pump();
            }
        } else {
            self.give_back(file, Amount { bytes: before - after, operations: 0 });
        }
    }

    /// So many of the bytes that are gathered of a file are on their way to the store; to a local disk, if there is one. However often they
    /// are sent until they are acknowledged, it is told once.
    pub fn sent(&mut self, now: Duration, file: FileId, bytes: u64) -> PartId {
        let account = self.files.entry(file).or_default();
        let gathered = account.gathered;
        debug_assert!(bytes <= gathered.bytes, "{bytes} sent of {gathered:?}");
        let bytes = bytes.min(gathered.bytes);
        let operations = if bytes == gathered.bytes {
            gathered.operations
        } else {
            // The quotient is at most `operations`.
            (u128::from(gathered.operations) * u128::from(bytes) / u128::from(gathered.bytes.max(1))) as u64
        };
        let amount = Amount { bytes, operations };
        account.gathered.take(amount);
        account.parts += 1;
        if self.flying.is_zero() {
            self.drain.resumed(now);
        }
        self.drain.flew(now, self.flying.bytes);
        self.gathered.take(amount);
        self.flying.add(amount);
        let part = self.parts.insert(Part { file, amount, sent: now, place: Place::Flying });
        self.pump();
        PartId(part)
    }

    /// A part is on the local disk: whoever wrote it needs not wait for the store. False if that is not news.
    pub fn staged(&mut self, now: Duration, part: PartId) -> bool {
        self.moved(now, part, Place::Staged)
    }

    /// The store has acknowledged a part. False if that is not news.
    pub fn stored(&mut self, now: Duration, part: PartId) -> bool {
        self.moved(now, part, Place::Stored { commits: self.stats.commits })
    }

    /// A part is committed: nothing of it counts any more. False if that is not news.
    pub fn committed(&mut self, part: PartId) -> bool {
        let Some(amount) = self.removed(part) else { return false };
        self.stats.committed.add(amount);
        self.pump();
        true
    }

    /// A part is not wanted any more, wherever it is: its file was deleted. False if that is not news.
    pub fn abandoned(&mut self, part: PartId) -> bool {
        let Some(amount) = self.removed(part) else { return false };
        self.stats.abandoned.add(amount);
        self.pump();
        true
    }

    /// The limits move. Whatever was accepted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.resize();
        self.pump();
    }

    /// The memory ceiling moves, bytes. Whatever was accepted stays.
    pub fn set_memory(&mut self, bytes: u64) {
        self.set_limits(Limits { memory: bytes, ..self.limits });
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Bytes that may be in flight now.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Accepted and not acknowledged.
    pub fn in_flight(&self) -> Amount {
        self.gathered.plus(self.flying)
    }

    /// Accepted and not sent.
    pub fn gathered(&self) -> Amount {
        self.gathered
    }

    /// The same of one file.
    pub fn gathered_of(&self, file: FileId) -> Amount {
        self.files.get(&file).map_or(Amount::default(), |account| account.gathered)
    }

    /// On a local disk and not in the store.
    pub fn on_disk(&self) -> Amount {
        self.staged
    }

    /// Stored and not committed.
    pub fn uncommitted(&self) -> Amount {
        self.uncommitted
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// What they ask for together, bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// What the store takes, bytes per second, as far as it is known.
    pub fn drain(&self) -> Option<u64> {
        self.drain.rate()
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn accept(&mut self, file: FileId, bytes: u64) {
        let amount = Amount { bytes, operations: 1 };
        self.files.entry(file).or_default().gathered.add(amount);
        self.gathered.add(amount);
        self.stats.accepted.add(amount);
        self.asked_to_send = false;
    }

    fn give_back(&mut self, file: FileId, amount: Amount) {
        let Some(account) = self.files.get_mut(&file) else { return };
        let gathered = account.gathered;
        debug_assert!(gathered.bytes >= amount.bytes);
        let bytes = amount.bytes.min(gathered.bytes);
        // Of operations that leave no byte nothing would ever be sent. And a part has taken its share of them, rounded.
        let most = if bytes == gathered.bytes { u64::MAX } else { amount.operations };
        let amount = Amount { bytes, operations: most.min(gathered.operations) };
        account.gathered.take(amount);
        self.gathered.take(amount);
        self.stats.withdrawn.add(amount);
        self.forget(file);
        self.pump();
    }

    fn moved(&mut self, now: Duration, part: PartId, to: Place) -> bool {
        let limited = self.queue.is_empty();
        let news = |part: &&mut Part| match part.place {
            Place::Flying => true,
            Place::Staged => to != Place::Staged,
            Place::Stored { .. } => false,
        };
        let Some(part) = self.parts.get_mut(part.0).filter(news) else {
            self.stats.duplicates += 1;
            return false;
        };
        let (from, amount, sent) = (std::mem::replace(&mut part.place, to), part.amount, part.sent);
        if from == Place::Flying {
            let flying = self.flying.bytes;
            self.flying.take(amount);
            let round = self.drain.delivered(now, sent, amount.bytes, flying, limited);
            if let (Some(round), Some(rate)) = (round, self.drain.rate()) {
                let (took, window, part) = (self.drain.took(), self.window, self.limits.part.max(1));
                let in_flight = self.in_flight().bytes;
                self.reach.round(now, Seen { round, rate, took, window, in_flight, part });
            }
            self.resize();
        } else {
            self.staged.take(amount);
        }
        if to == Place::Staged {
            self.staged.add(amount);
        } else {
            self.uncommitted.add(amount);
            self.unasked.add(amount);
        }
        self.asked_to_send = false;
        self.pump();
        true
    }

    /// Takes a part out of whatever it counts for.
    fn removed(&mut self, part: PartId) -> Option<Amount> {
        let Some(part) = self.parts.remove(part.0) else {
            self.stats.duplicates += 1;
            return None;
        };
        match part.place {
            Place::Flying => self.flying.take(part.amount),
            Place::Staged => self.staged.take(part.amount),
            Place::Stored { commits } => {
                self.uncommitted.take(part.amount);
                if commits == self.stats.commits {
                    self.unasked.take(part.amount);
                }
            }
        }
        self.asked_to_send = false;
        if let Some(account) = self.files.get_mut(&part.file) {
            account.parts = account.parts.saturating_sub(1);
        }
        self.forget(part.file);
        Some(part.amount)
    }

    fn forget(&mut self, file: FileId) {
        let empty = |account: &Account| account.parts == 0 && account.gathered.is_zero();
        if self.files.get(&file).is_some_and(empty) {
            self.files.remove(&file);
            self.queue.forget(file);
        }
    }

    /// Bytes stored and not committed that ask for a commit.
    fn commit_at(&self) -> u64 {
        self.limits.uncommitted.min(self.limits.memory / 4).max(1)
    }

    fn resize(&mut self) {
        let part = self.limits.part.max(1);
        // Room for what is being committed, and for what is stored meanwhile.
        let most = (self.limits.memory - 2 * (self.limits.memory / 4).min(self.commit_at())).max(1);
        let (reach, least) = match self.drain.rate() {
            Some(rate) => (rate as f64 * self.reach.get().as_secs_f64(), 2),
            // The first has come, and twice as much is tried as soon as it is known what that brings.
            None if !self.drain.took().is_zero() => (0.0, self.first_parts * 2),
            None => (0.0, self.first_parts),
        };
        let wanted = (reach as u64).saturating_add(part);
        self.window = wanted.max(part.saturating_mul(least)).min(most);
    }

    /// Why a request of so many bytes would have to wait, if it would.
    fn full(&self, bytes: u64) -> Option<Full> {
        let flight = self.in_flight();
        let beyond = |used: u64, limit: u64| used.saturating_add(bytes) > limit;
        let held = flight.plus(self.uncommitted);
        let operations = self.limits.operations.max(1);
        let most_held = operations.saturating_add(self.limits.uncommitted_operations.saturating_mul(2));
        let on_disk = flight.plus(self.staged);
        if !flight.is_zero() && beyond(flight.bytes, self.window) {
            Some(Full::Window)
        } else if flight.operations >= operations {
            Some(Full::Operations)
        } else if !held.is_zero() && (beyond(held.bytes, self.limits.memory) || held.operations >= most_held)
        {
            Some(Full::Memory)
        } else if !on_disk.is_zero() && self.limits.staged.is_some_and(|limit| beyond(on_disk.bytes, limit)) {
            Some(Full::Staging)
        } else {
            None
        }
    }

    /// Most bytes of a request that need not wait; none if any must.
    fn room(&self) -> Option<u64> {
        let flight = self.in_flight();
        let held = flight.plus(self.uncommitted).bytes;
        let on_disk = flight.plus(self.staged).bytes;
        let room = self.window.saturating_sub(flight.bytes).min(self.limits.memory.saturating_sub(held));
        let room = self.limits.staged.map_or(room, |limit| room.min(limit.saturating_sub(on_disk)));
        self.full(room).is_none().then_some(room)
    }

    /// Admits whoever can be, and asks for what stands in the way of others.
    fn pump(&mut self) {
        let mut full = None;
        while let Some((_, _, bytes)) = self.queue.front() {
            full = self.full(bytes);
            let next = match (full, self.room()) {
                (None, _) => self.queue.pop(),
                (_, Some(room)) => self.queue.pop_behind(room),
                (_, None) => None,
            };
            let Some((ticket, file, bytes)) = next else { break };
            self.accept(file, bytes);
            self.actions.push_back(Action::Admit { ticket, file, bytes });
        }
        // A part's worth is worth sending although no file has it alone, if that is a third of all.
        let (gathered, flying) = (self.gathered.bytes, self.flying.bytes);
        let starved = self.flying.is_zero()
            || gathered > flying
            || (gathered >= self.limits.part && gathered.saturating_mul(2) > flying)
            || (full == Some(Full::Operations) && self.gathered.operations > self.flying.operations);
        if full.is_some() && starved && !self.gathered.is_zero() && !self.asked_to_send {
            self.asked_to_send = true;
            self.stats.sends += 1;
            self.actions.push_back(Action::Send);
        }
        let due = self.unasked.bytes >= self.commit_at()
            || self.unasked.operations >= self.limits.uncommitted_operations.max(1)
            || full == Some(Full::Memory);
        if due && !self.unasked.is_zero() {
            self.unasked = Amount::default();
            self.stats.commits += 1;
            self.actions.push_back(Action::Commit);
        }
        self.check();
    }

    /// What holds after each event.
    fn check(&mut self) {
        if cfg!(debug_assertions) {
            let held = self.in_flight().plus(self.staged).plus(self.uncommitted);
            let gone = self.stats.committed.plus(self.stats.withdrawn).plus(self.stats.abandoned);
            let accepted = self.stats.accepted;
            assert!(
                held.plus(gone) == accepted || accepted.bytes == u64::MAX,
                "{held:?} + {gone:?}: {accepted:?}"
            );
            assert!(self.unasked.bytes <= self.uncommitted.bytes);
            assert!(
                self.queue.front().is_none_or(|(_, _, bytes)| self.full(bytes).is_some()),
                "it need not wait"
            );
        }
    }

    /// All accounts, added up anew.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let mut sums = [Amount::default(); 3];
        for part in self.parts.values() {
            let place = match part.place {
                Place::Flying => 0,
                Place::Staged => 1,
                Place::Stored { .. } => 2,
            };
            sums[place].add(part.amount);
        }
        assert_eq!(sums, [self.flying, self.staged, self.uncommitted]);
        let mut gathered = Amount::default();
        self.files.values().for_each(|account| gathered.add(account.gathered));
        assert_eq!(gathered, self.gathered);
        assert_eq!(self.files.values().map(|account| account.parts).sum::<usize>(), self.parts.len());
        let kept = |account: &Account| account.parts > 0 || !account.gathered.is_zero();
        assert!(self.files.values().all(kept), "a file of which nothing is left");
        assert!(self.queue.lines() <= self.files.len() + self.queue.len(), "a line of which nothing is left");
    }
}
