//! Two disk groups, each one head: what a request costs is its transfer and the way to it.
//!
//! Requests of demand reads and of the prefetcher queue apart: of the former the nearest ten are active at
//! a time, of the latter the oldest three. A group serves the nearest active one, and takes turns between
//! the two kinds when both are there. So many demand reads are sorted into short ways, while a confused
//! prefetcher beside them makes every way long: that is what makes it slower than none.

use std::collections::VecDeque;

use super::parameters::{ASYNC_ACTIVE, GROUPS, Parameters, SYNC_ACTIVE, blocks, nanos};

/// Files are so many blocks apart, so that nothing of two files is near.
pub const FILE_BLOCKS: u64 = 1 << 32;

/// One of the disk groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(usize);

/// All disks.
#[derive(Debug)]
pub struct Disks {
    groups: [Group; GROUPS],
    costs: Costs,
}

#[derive(Debug, Default)]
struct Group {
    /// Waiting demand reads.
    sync: VecDeque<Request>,
    /// Waiting prefetches.
    prefetch: VecDeque<Request>,
    /// What it chooses the next request from.
    active: Vec<Request>,
    active_sync: usize,
    active_prefetch: usize,
    /// What the head reads now.
    serving: Option<Request>,
    /// Where the head goes on without moving.
    head: u64,
    /// When it last had nothing to do, ns.
    finished: u64,
    /// Whether a demand read was served last.
    last_sync: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    io: u32,
    address: u64,
    sync: bool,
}

#[derive(Debug, Clone, Copy)]
struct Costs {
    transfer: u64,
    resume: u64,
    near: u64,
    far: u64,
    reach: u64,
    stripe: u64,
}

impl Disks {
    /// Disks as in `parameters`, idle.
    pub fn new(parameters: &Parameters) -> Self {
        let costs = Costs {
            transfer: nanos(parameters.transfer_ms),
            resume: nanos(parameters.resume_ms),
            near: nanos(parameters.near_ms),
            far: nanos(parameters.far_ms),
            reach: blocks(parameters.reach_mib),
            stripe: blocks(parameters.stripe_mib),
        };
        Self { groups: Default::default(), costs }
    }

    /// Queues the read of a block; `sync` if somebody waits for it. Returns the group and the time (ns) at
    /// which it will have read something, if it was idle.
    pub fn push(&mut self, now: u64, io: u32, block: u64, sync: bool) -> Option<(GroupId, u64)> {
        let stripe = block / self.costs.stripe;
        let index = (stripe % GROUPS as u64) as usize;
        let address = stripe / GROUPS as u64 * self.costs.stripe + block % self.costs.stripe;
        let group = &mut self.groups[index];
        let request = Request { io, address, sync };
        if sync {
            group.sync.push_back(request)
        } else {
            group.prefetch.push_back(request)
        }
        if group.serving.is_some() {
            return None;
        }
        group.start(now, &self.costs).map(|at| (GroupId(index), at))
    }

    /// A group has read what it was at: which, and when it will have read the next.
    pub fn finished(&mut self, now: u64, group: GroupId) -> Option<(u32, Option<u64>)> {
        let group = &mut self.groups[group.0];
        let done = group.serving.take()?;
        group.finished = now;
        if done.sync {
            group.active_sync -= 1
        } else {
            group.active_prefetch -= 1
        }
        Some((done.io, group.start(now, &self.costs)))
    }
}

impl Group {
    /// Starts on the nearest active request; when it will be done, ns.
    fn start(&mut self, now: u64, costs: &Costs) -> Option<u64> {
        while self.active_sync < SYNC_ACTIVE
            && let Some(request) = self.sync.remove(nearest(self.sync.iter(), self.head))
        {
            self.active.push(request);
            self.active_sync += 1;
        }
        while self.active_prefetch < ASYNC_ACTIVE
            && let Some(request) = self.prefetch.pop_front()
        {
            self.active.push(request);
            self.active_prefetch += 1;
        }
        // The other kind's turn, if there is one of it; otherwise all are of one kind.
        let mixed = self.active_sync > 0 && self.active_prefetch > 0;
        let not_its_turn = |request: &Request| mixed && request.sync == self.last_sync;
        let nearest = (0..self.active.len()).min_by_key(|&at| {
            let request = &self.active[at];
            (not_its_turn(request), request.address.abs_diff(self.head))
        })?;
        let request = self.active.remove(nearest);
        let way = match request.address.abs_diff(self.head) {
            0 if now == self.finished => 0,
            0 => costs.resume,
            distance if distance <= costs.reach => costs.near,
            _ => costs.far,
        };
        self.head = request.address + 1;
        self.last_sync = request.sync;
        self.serving = Some(request);
        Some(now + way + costs.transfer)
    }
}

/// Where in the queue the request nearest to the head is, the oldest of those equally near; 0 if there is none.
fn nearest<'a>(queue: impl Iterator<Item = &'a Request>, head: u64) -> usize {
    let ways = queue.map(|request| request.address.abs_diff(head)).enumerate();
    ways.min_by_key(|&(_, way)| way).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Parameters = Parameters {
        transfer_ms: 1.0,
        resume_ms: 2.0,
        near_ms: 3.0,
        far_ms: 7.0,
        reach_mib: 4.0,
        stripe_mib: 1.0,
        ..Parameters::GUESS
    };

    /// Reads all blocks, queued at once; when the last one was there, ms, and the order.
    fn read(blocks: &[u64], sync: bool) -> (f64, Vec<u32>) {
        let mut disks = Disks::new(&COSTS);
        let mut due = Vec::new();
        for (io, &block) in blocks.iter().enumerate() {
            due.extend(disks.push(1, io as u32, block, sync));
        }
        let (mut last, mut order) = (0, Vec::new());
        while !due.is_empty() {
            let first = (0..due.len()).min_by_key(|&at| due[at].1).unwrap();
            let (group, now) = due.remove(first);
            let (io, next) = disks.finished(now, group).unwrap();
            order.push(io);
            last = now;
            due.extend(next.map(|at| (group, at)));
        }
        assert_eq!(order.len(), blocks.len(), "each is read once");
        (last as f64 / 1e6, order)
    }

    #[test]
    fn a_contiguous_run_costs_its_transfer_and_both_groups_work_at_once() {
        let (ms, _) = read(&(0..20).collect::<Vec<_>>(), true);
        assert!((ms - 12.0).abs() < 0.1, "ten blocks each, one resume: {ms}");
    }

    #[test]
    fn near_and_far_cost_what_the_parameters_say() {
        assert!((read(&[8], true).0 - 4.0).abs() < 0.1, "four blocks of the group away");
        assert!((read(&[10], true).0 - 8.0).abs() < 0.1, "five blocks away");
    }

    #[test]
    fn ten_demand_reads_are_sorted_and_three_prefetches_only() {
        let scattered = [100, 80, 60, 40, 20, 18, 16, 14, 12, 10];
        let (_, order) = read(&scattered, true);
        assert_eq!(order[0], 0, "the first finds the group idle");
        let (demand, _) = read(&scattered, true);
        let (prefetch, _) = read(&scattered, false);
        assert!(demand <= prefetch, "{demand} > {prefetch}");
    }
}
