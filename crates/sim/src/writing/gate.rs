//! What admits writes: the program's own state machine, and two of Crucible's.

use headrace_flow::writing::{Action, Admit, FileId, Limits, PartId, Ticket, Tuning, Writing};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: f64 = (1 << 30) as f64;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It is accepted.
    Now,
    /// It is accepted after so long.
    After(Duration),
    /// It waits until its name is given.
    Waits,
}

/// What a gate wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// This request is accepted.
    Admit(u64),
    /// Send what is gathered.
    Send,
    /// Commit what is stored.
    Commit,
}

/// Decides who may write. Requests and parts are named by whoever asks, and never twice the same.
pub trait Gate {
    /// Somebody wants to write.
    fn request(&mut self, request: u64, file: u64, bytes: u64) -> Asked;
    /// He does not want to wait any more. Whether he did.
    fn cancel(&mut self, request: u64) -> bool;
    /// So many gathered bytes of a file are on their way.
    fn sent(&mut self, now: Duration, part: u64, file: u64, bytes: u64);
    /// A part is stored. Whether that is news.
    fn stored(&mut self, now: Duration, part: u64) -> bool;
    /// A part is committed. Whether that is news.
    fn committed(&mut self, part: u64) -> bool;
    /// The ceiling moves.
    fn set_memory(&mut self, bytes: u64);
    /// What it wants next.
    fn wish(&mut self) -> Option<Wish>;
    /// Bytes accepted and not acknowledged, as it counts them; none if it does not.
    fn in_flight(&self) -> Option<u64>;
    /// Bytes it would have in flight at most, if it has such a number.
    fn window(&self) -> Option<u64>;
}

/// The program's own, told nothing but its limits.
#[derive(Debug)]
pub struct Program {
    writing: Writing,
    requests: HashMap<u64, Ticket>,
    tickets: HashMap<Ticket, u64>,
    parts: HashMap<u64, PartId>,
}

impl Program {
    /// Of so much memory, and parts of so many bytes.
    pub fn new(memory: u64, part: u64) -> Program {
        Program {
            writing: Writing::new(Tuning::default(), Limits::new(memory, part)),
            requests: HashMap::new(),
            tickets: HashMap::new(),
            parts: HashMap::new(),
        }
    }
}

impl Gate for Program {
    fn request(&mut self, request: u64, file: u64, bytes: u64) -> Asked {
        match self.writing.request(FileId(file), bytes) {
            Admit::Granted => Asked::Now,
            Admit::Queued(ticket) => {
                self.requests.insert(request, ticket);
                self.tickets.insert(ticket, request);
                Asked::Waits
            }
            // As long as the queue; no scenario has so many writers.
            Admit::Refused => Asked::After(Duration::from_millis(1)),
        }
    }

    fn cancel(&mut self, request: u64) -> bool {
        let Some(ticket) = self.requests.remove(&request) else { return false };
        self.tickets.remove(&ticket);
        self.writing.cancel(ticket)
    }

    fn sent(&mut self, now: Duration, part: u64, file: u64, bytes: u64) {
        self.parts.insert(part, self.writing.sent(now, FileId(file), bytes));
    }

    fn stored(&mut self, now: Duration, part: u64) -> bool {
        self.parts.get(&part).is_some_and(|part| self.writing.stored(now, *part))
    }

    fn committed(&mut self, part: u64) -> bool {
        // The name is kept: an acknowledgement that comes later must not be taken for another part's.
        self.parts.get(&part).is_some_and(|part| self.writing.committed(*part))
    }

    fn set_memory(&mut self, bytes: u64) {
        self.writing.set_memory(bytes);
    }

    fn wish(&mut self) -> Option<Wish> {
        Some(match self.writing.next_action()? {
            Action::Admit { ticket, .. } => {
                let request = self.tickets.remove(&ticket).unwrap_or(u64::MAX);
                self.requests.remove(&request);
                Wish::Admit(request)
            }
            Action::Send => Wish::Send,
            Action::Commit => Wish::Commit,
        })
    }

    fn in_flight(&self) -> Option<u64> {
        Some(self.writing.in_flight().bytes)
    }

    fn window(&self) -> Option<u64> {
        Some(self.writing.window())
    }
}

/// What Crucible's laws count.
#[derive(Debug, Default)]
struct Counts {
    parts: HashMap<u64, u64>,
    in_flight: u64,
    done: u64,
}

impl Counts {
    fn stored(&mut self, part: u64) -> Option<u64> {
        let bytes = *self.parts.get(&part)?;
        self.in_flight -= bytes;
        self.done += bytes;
        Some(bytes)
    }

    fn committed(&mut self, part: u64) -> bool {
        let Some(bytes) = self.parts.remove(&part) else { return false };
        self.done -= bytes;
        true
    }
}

/// Crucible until #1515: each write is delayed by 15 ms × ((b / 1 GiB − 0.05) / 0.95)².
#[derive(Debug)]
pub struct DelayLaw {
    /// Whether b is also what is done and not flushed, as before #1208.
    counts_done: bool,
    counts: Counts,
}

impl DelayLaw {
    /// Nothing is in flight.
    pub fn new(counts_done: bool) -> DelayLaw {
        DelayLaw { counts_done, counts: Counts::default() }
    }
}

impl Gate for DelayLaw {
    fn request(&mut self, _request: u64, _file: u64, bytes: u64) -> Asked {
        let counted = self.counts.in_flight + if self.counts_done { self.counts.done } else { 0 };
        let over = ((counted as f64 / GIB - 0.05) / 0.95).max(0.0);
        self.counts.in_flight += bytes;
        Asked::After(Duration::from_secs_f64(0.015 * over * over))
    }

    fn cancel(&mut self, _request: u64) -> bool {
        false
    }

    fn sent(&mut self, _now: Duration, part: u64, _file: u64, bytes: u64) {
        self.counts.parts.insert(part, bytes);
    }

    fn stored(&mut self, _now: Duration, part: u64) -> bool {
        self.counts.stored(part).is_some()
    }

    fn committed(&mut self, part: u64) -> bool {
        self.counts.committed(part)
    }

    fn set_memory(&mut self, _bytes: u64) {}

    fn wish(&mut self) -> Option<Wish> {
        None
    }

    fn in_flight(&self) -> Option<u64> {
        None
    }

    fn window(&self) -> Option<u64> {
        None
    }
}

/// Crucible since #1515: 75 MiB and 1,500 jobs in flight; 64 MiB done and not flushed ask for a flush.
#[derive(Debug)]
pub struct Permits {
    counts: Counts,
    jobs: usize,
    waiting: VecDeque<(u64, u64)>,
    unflushed: u64,
    wishes: VecDeque<Wish>,
}

const PERMITS: u64 = 75 * MIB;
const JOBS: usize = 1_500;
const FLUSH_AT: u64 = 64 * MIB;

impl Permits {
    /// Nothing is in flight.
    pub fn new() -> Permits {
        let (waiting, wishes) = (VecDeque::new(), VecDeque::new());
        Permits { counts: Counts::default(), jobs: 0, waiting, unflushed: 0, wishes }
    }

    fn take(&mut self, bytes: u64) -> bool {
        let fits = self.counts.in_flight + bytes <= PERMITS && self.jobs < JOBS;
        if fits {
            self.counts.in_flight += bytes;
            self.jobs += 1;
        }
        fits
    }
}

impl Default for Permits {
    fn default() -> Permits {
        Permits::new()
    }
}

impl Gate for Permits {
    fn request(&mut self, request: u64, _file: u64, bytes: u64) -> Asked {
        if self.waiting.is_empty() && self.take(bytes) {
            return Asked::Now;
        }
        self.waiting.push_back((request, bytes));
        Asked::Waits
    }

    fn cancel(&mut self, request: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| waiter.0 != request);
        self.waiting.len() < before
    }

    fn sent(&mut self, _now: Duration, part: u64, _file: u64, bytes: u64) {
        self.counts.parts.insert(part, bytes);
    }

    fn stored(&mut self, _now: Duration, part: u64) -> bool {
        let Some(bytes) = self.counts.stored(part) else { return false };
        self.jobs -= 1;
        self.unflushed += bytes;
        if self.unflushed >= FLUSH_AT {
            self.unflushed = 0;
            self.wishes.push_back(Wish::Commit);
        }
        while let Some(&(request, bytes)) = self.waiting.front()
            && self.take(bytes)
        {
            self.waiting.pop_front();
            self.wishes.push_back(Wish::Admit(request));
        }
        true
    }

    fn committed(&mut self, part: u64) -> bool {
        self.counts.committed(part)
    }

    fn set_memory(&mut self, _bytes: u64) {}

    fn wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    fn in_flight(&self) -> Option<u64> {
        Some(self.counts.in_flight)
    }

    fn window(&self) -> Option<u64> {
        Some(PERMITS)
    }
}
