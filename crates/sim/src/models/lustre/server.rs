//! An object server with a thread per RPC, a cache that nothing falls out of, a prefetcher and disks.
//!
//! RPCs come in over the wire, wait for a thread (a random time that grows with the RPCs that are there:
//! the source of disorder), take blocks from the cache, join reads in flight, read the rest, and go back
//! over the wire one after another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::disks::{Disks, FILE_BLOCKS, GroupId};
use super::parameters::{BLOCK, Parameters, nanos};
use super::prefetch::{Prefetcher, Rules};
use super::random::Random;

/// The longest file the model keeps books on, bytes; reads beyond are cut off.
pub const FILE_MAX: u64 = 1 << 42;

/// How the server differs from the one of the ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variant {
    /// As in the ticket: RPCs start in random order, the prefetcher wants the exact next block.
    #[default]
    Ticket,
    /// RPCs start in the order they came.
    OrderKept,
    /// The prefetcher tolerates reads that are up to 16 MiB out of order.
    Tolerant,
}

/// An answer that arrived at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// What [`Server::submit`] was given.
    pub id: u64,
    /// When.
    pub at: Duration,
}

/// What the server did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// RPCs that were started.
    pub rpcs: u64,
    /// RPCs that were started before one that was submitted earlier.
    pub overtook: u64,
    /// Blocks that demand reads read from disk.
    pub demand: u64,
    /// Blocks that the prefetcher read.
    pub prefetched: u64,
    /// Blocks that a demand read found being prefetched.
    pub joined: u64,
    /// Blocks that a demand read found in the cache.
    pub hits: u64,
}

/// The server, its disks and the wire to one client, in virtual time.
///
/// [`Server::submit`] and [`Server::cancel`] may be called at any time that is not before the last
/// [`Server::advance`]; [`Server::next_event_at`] says until when nothing happens by itself.
#[derive(Debug)]
pub struct Server {
    costs: Costs,
    rules: Rules,
    variant: Variant,
    prefetch: bool,
    random: Random,
    files: BTreeMap<u64, File>,
    rpcs: Vec<Rpc>,
    rpcs_free: Vec<u32>,
    by_id: BTreeMap<u64, u32>,
    ios: Vec<Io>,
    ios_free: Vec<u32>,
    disks: Disks,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    /// RPCs that arrived and were not answered.
    present: u64,
    /// When the last RPC starts, if the order is kept.
    last_start: u64,
    /// Largest submission number that was started.
    newest_started: u64,
    submitted: u64,
    link_free: u64,
    completed: VecDeque<Completion>,
    counts: Counts,
}

#[derive(Debug, Clone, Copy)]
struct Costs {
    half_rpc: u64,
    /// Of one block.
    link: u64,
    delay: f64,
    power: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread takes the RPC.
    Start(u32),
    /// A disk group has read a block.
    Disk(GroupId),
    /// The answer is at the client.
    Arrive(u32),
}

#[derive(Debug, Default)]
struct File {
    number: u64,
    length: u64,
    blocks: Vec<Block>,
    prefetcher: Prefetcher,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Absent,
    Cached,
    Reading(u32),
}

#[derive(Debug, Clone, Copy)]
struct Rpc {
    id: u64,
    submission: u64,
    file: u64,
    first: u64,
    end: u64,
    bytes: u64,
    /// Blocks that are still being read.
    waits: u64,
    cancelled: bool,
}

#[derive(Debug, Default)]
struct Io {
    file: u64,
    block: u64,
    waiting: Vec<u32>,
}

impl Server {
    /// An idle server; every random delay follows from `seed`.
    pub fn new(parameters: &Parameters, prefetch: bool, variant: Variant, seed: u64) -> Self {
        Self {
            costs: Costs {
                half_rpc: nanos(parameters.rpc_ms / 2.0),
                link: nanos(parameters.link_ms),
                delay: parameters.delay_ms * 1e6,
                power: parameters.delay_power,
            },
            rules: Rules::new(parameters, variant == Variant::Tolerant),
            variant,
            prefetch,
            random: Random::new(seed),
            files: BTreeMap::new(),
            rpcs: Vec::new(),
            rpcs_free: Vec::new(),
            by_id: BTreeMap::new(),
            ios: Vec::new(),
            ios_free: Vec::new(),
            disks: Disks::new(parameters),
            events: BinaryHeap::new(),
            sequence: 0,
            present: 0,
            last_start: 0,
            newest_started: 0,
            submitted: 0,
            link_free: 0,
            completed: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Makes a file known, of `length` bytes (at most [`FILE_MAX`]); nothing of it is in the cache.
    pub fn open(&mut self, file: u64, length: u64) {
        let number = self.files.len() as u64;
        let length = length.min(FILE_MAX);
        self.files.entry(file).or_insert_with(|| File { number, length, ..File::default() });
    }

    /// Switches the prefetcher; what is being prefetched still arrives.
    pub fn set_prefetch(&mut self, on: bool) {
        self.prefetch = on;
        for file in self.files.values_mut() {
            file.prefetcher = Prefetcher::default();
        }
    }

    /// Sends a read of `length` bytes at `offset`. Its [`Completion`] comes once all of it is at the client;
    /// of a file that was not opened, or beyond its end, at once.
    pub fn submit(&mut self, now: Duration, id: u64, file: u64, offset: u64, length: u64) {
        let now = at(now);
        let known = self.files.get(&file).map_or(0, |file| file.length);
        let end = offset.saturating_add(length).min(known);
        let offset = offset.min(end);
        self.submitted += 1;
        let rpc = Rpc {
            id,
            submission: self.submitted,
            file,
            first: offset / BLOCK,
            end: if offset == end { offset / BLOCK } else { end.div_ceil(BLOCK) },
            bytes: end - offset,
            waits: 0,
            cancelled: false,
        };
        let slot = match self.rpcs_free.pop() {
            Some(slot) => {
                self.rpcs[slot as usize] = rpc;
                slot
            }
            None => {
                self.rpcs.push(rpc);
                (self.rpcs.len() - 1) as u32
            }
        };
        self.by_id.insert(id, slot);
        let others = self.present as f64;
        self.present += 1;
        let mean = if others > 0.0 { self.costs.delay * others.powf(self.costs.power) } else { 0.0 };
        let delay = (mean * self.random.exponential()) as u64;
        let mut start = now + self.costs.half_rpc + delay;
        if self.variant == Variant::OrderKept {
            start = start.max(self.last_start);
            self.last_start = start;
        }
        self.push(start, Event::Start(slot));
    }

    /// Forgets an RPC: no completion comes of it. Blocks that are being read for it stay in the cache.
    pub fn cancel(&mut self, id: u64) {
        if let Some(slot) = self.by_id.remove(&id) {
            self.rpcs[slot as usize].cancelled = true;
        }
    }

    /// When something happens next, unless something is submitted before.
    pub fn next_event_at(&self) -> Option<Duration> {
        match self.completed.front() {
            Some(completion) => Some(completion.at),
            None => self.events.peek().map(|Reverse((at, _, _))| Duration::from_nanos(*at)),
        }
    }

    /// Lets everything happen that happens until `now`.
    pub fn advance(&mut self, now: Duration) {
        let now = at(now);
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= now
        {
            self.events.pop();
            match event {
                Event::Start(rpc) => self.start(at, rpc),
                Event::Disk(group) => self.read(at, group),
                Event::Arrive(rpc) => self.arrive(at, rpc),
            }
        }
    }

    /// The next answer that arrived until the last [`Server::advance`].
    pub fn completed(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// A thread takes an RPC: reads what is not there, then tells the prefetcher.
    fn start(&mut self, now: u64, slot: u32) {
        let rpc = self.rpcs[slot as usize];
        if rpc.cancelled {
            self.present -= 1;
            self.rpcs_free.push(slot);
            return;
        }
        self.counts.rpcs += 1;
        self.counts.overtook += u64::from(rpc.submission < self.newest_started);
        self.newest_started = self.newest_started.max(rpc.submission);
        let mut waits = 0;
        for block in rpc.first..rpc.end {
            match self.block(rpc.file, block) {
                Block::Cached => self.counts.hits += 1,
                Block::Reading(io) => {
                    self.counts.joined += 1;
                    self.ios[io as usize].waiting.push(slot);
                    waits += 1;
                }
                Block::Absent => {
                    self.counts.demand += 1;
                    self.issue(now, rpc.file, block, Some(slot));
                    waits += 1;
                }
            }
        }
        self.rpcs[slot as usize].waits = waits;
        if waits == 0 {
            self.reply(now, slot);
        }
        if self.prefetch && rpc.first < rpc.end {
            self.prefetch(now, rpc.file, rpc.first..rpc.end);
        }
    }

    fn prefetch(&mut self, now: u64, number: u64, wanted: Range<u64>) {
        let Some(file) = self.files.get_mut(&number) else { return };
        let ahead = file.prefetcher.read(&self.rules, now, wanted);
        let end = ahead.end.min(file.length.div_ceil(BLOCK));
        for block in ahead.start..end {
            if self.block(number, block) == Block::Absent {
                self.counts.prefetched += 1;
                self.issue(now, number, block, None);
            }
        }
    }

    fn block(&self, file: u64, block: u64) -> Block {
        let blocks = self.files.get(&file).map(|file| &file.blocks);
        blocks.and_then(|blocks| blocks.get(block as usize)).copied().unwrap_or(Block::Absent)
    }

    fn set_block(&mut self, file: u64, block: u64, state: Block) -> u64 {
        let Some(file) = self.files.get_mut(&file) else { return 0 };
        let index = block as usize;
        if file.blocks.len() <= index {
            file.blocks.resize(index + 1, Block::Absent);
        }
        file.blocks[index] = state;
        file.number
    }

    /// Queues the read of a block, which `slot` waits for.
    fn issue(&mut self, now: u64, file: u64, block: u64, slot: Option<u32>) {
        let io = self.ios_free.pop().unwrap_or_else(|| {
            self.ios.push(Io::default());
            (self.ios.len() - 1) as u32
        });
        let entry = &mut self.ios[io as usize];
        entry.file = file;
        entry.block = block;
        entry.waiting.extend(slot);
        let number = self.set_block(file, block, Block::Reading(io));
        if let Some((group, due)) = self.disks.push(now, io, number * FILE_BLOCKS + block, slot.is_some()) {
            self.push(due, Event::Disk(group));
        }
    }

    /// A group has read a block: it is in the cache, and whoever waited for it goes on.
    fn read(&mut self, now: u64, group: GroupId) {
        let Some((io, next)) = self.disks.finished(now, group) else { return };
        if let Some(due) = next {
            self.push(due, Event::Disk(group));
        }
        let entry = &mut self.ios[io as usize];
        let (file, block) = (entry.file, entry.block);
        let mut waiting = std::mem::take(&mut entry.waiting);
        self.set_block(file, block, Block::Cached);
        for slot in waiting.drain(..) {
            let rpc = &mut self.rpcs[slot as usize];
            rpc.waits -= 1;
            if rpc.waits == 0 {
                self.reply(now, slot);
            }
        }
        // The allocation is kept for the next one.
        self.ios[io as usize].waiting = waiting;
        self.ios_free.push(io);
    }

    /// All of an RPC is in memory: over the wire, behind the answers before it.
    fn reply(&mut self, now: u64, slot: u32) {
        self.present -= 1;
        let rpc = self.rpcs[slot as usize];
        if rpc.cancelled {
            self.rpcs_free.push(slot);
            return;
        }
        let wire = (self.costs.link as f64 * (rpc.bytes as f64 / BLOCK as f64)) as u64;
        self.link_free = self.link_free.max(now) + wire;
        self.push(self.link_free + self.costs.half_rpc, Event::Arrive(slot));
    }

    fn arrive(&mut self, now: u64, slot: u32) {
        let rpc = self.rpcs[slot as usize];
        if !rpc.cancelled {
            self.by_id.remove(&rpc.id);
            self.completed.push_back(Completion { id: rpc.id, at: Duration::from_nanos(now) });
        }
        self.rpcs_free.push(slot);
    }
}

/// Nanoseconds since the origin.
fn at(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `ids` (block = id) all submitted at once; the order in which they come back and when the last did.
    fn read(server: &mut Server, ids: Range<u64>) -> (Vec<u64>, Duration) {
        let start = server.next_event_at().unwrap_or_default();
        for id in ids.clone() {
            server.submit(start, id, 0, id * BLOCK, BLOCK);
        }
        drain(server)
    }

    fn drain(server: &mut Server) -> (Vec<u64>, Duration) {
        let (mut order, mut last) = (Vec::new(), Duration::ZERO);
        while let Some(next) = server.next_event_at() {
            server.advance(next);
            while let Some(done) = server.completed() {
                order.push(done.id);
                last = done.at;
            }
        }
        (order, last)
    }

    fn server(prefetch: bool, variant: Variant, seed: u64) -> Server {
        let mut server = Server::new(&Parameters::FITTED, prefetch, variant, seed);
        server.open(0, 4096 * BLOCK);
        server
    }

    #[test]
    fn every_read_is_answered_once_and_the_same_seed_gives_the_same_run() {
        let (mut order, last) = read(&mut server(true, Variant::Ticket, 7), 0..200);
        let again = read(&mut server(true, Variant::Ticket, 7), 0..200);
        assert_eq!((&order, last), (&again.0, again.1));
        assert_ne!(last, read(&mut server(true, Variant::Ticket, 8), 0..200).1);
        order.sort_unstable();
        assert_eq!(order, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn many_at_once_are_started_out_of_order_unless_the_order_is_kept() {
        let mut disordered = server(false, Variant::Ticket, 1);
        read(&mut disordered, 0..64);
        assert!(disordered.counts().overtook > 16, "{:?}", disordered.counts());
        let mut kept = server(false, Variant::OrderKept, 1);
        read(&mut kept, 0..64);
        assert_eq!(kept.counts().overtook, 0);
    }

    #[test]
    fn one_at_a_time_in_order_is_prefetched() {
        for (prefetch, expected) in [(true, 90), (false, 0)] {
            let mut server = server(prefetch, Variant::Ticket, 1);
            let mut now = Duration::ZERO;
            for id in 0..100 {
                server.submit(now, id, 0, id * BLOCK, BLOCK);
                let (order, at) = drain(&mut server);
                assert_eq!(order, [id]);
                now = at;
            }
            let counts = server.counts();
            assert!(counts.hits + counts.joined >= expected, "{counts:?}");
            assert!(prefetch || counts.prefetched == 0);
        }
    }

    #[test]
    fn what_is_cancelled_is_not_answered_and_not_read_unless_it_had_started() {
        let mut server = server(false, Variant::Ticket, 1);
        for id in 0..32 {
            server.submit(Duration::ZERO, id, 0, id * BLOCK, BLOCK);
        }
        for id in 1..32 {
            server.cancel(id);
        }
        assert_eq!(drain(&mut server).0, [0]);
        assert_eq!(server.counts().demand, 1);
        assert_eq!(server.present, 0);
    }

    #[test]
    fn beyond_the_end_and_unknown_files_are_answered_at_once() {
        let mut server = server(true, Variant::Ticket, 1);
        server.submit(Duration::ZERO, 1, 0, u64::MAX, 10);
        server.submit(Duration::ZERO, 2, 9, 0, BLOCK);
        let (mut order, _) = drain(&mut server);
        order.sort_unstable();
        assert_eq!(order, [1, 2]);
        assert_eq!(server.counts().demand, 0);
    }

    #[test]
    fn the_prefetcher_can_be_switched_while_it_runs() {
        let mut server = server(true, Variant::Ticket, 1);
        let mut now = Duration::ZERO;
        let mut prefetched = 0;
        for id in 0..200 {
            if id == 100 {
                prefetched = server.counts().prefetched;
                assert!(prefetched >= 50);
                server.set_prefetch(false);
            }
            server.submit(now, id, 0, id * BLOCK, BLOCK);
            now = drain(&mut server).1;
        }
        assert_eq!(server.counts().prefetched, prefetched);
    }
}
