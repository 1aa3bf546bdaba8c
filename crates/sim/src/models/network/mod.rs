//! Network interfaces that transfers share.
//!
//! Rates are max-min fair: a transfer gets its own limit, or an equal share of what the others leave, whichever is less; the idea is
//! that of Bertsekas and Gallager, "Data Networks" (1992), chapter 6.5.2. Rates change at once; the ramp of a new TCP connection is
//! not modelled, since connections to a store are kept.
//!
//! The work per event does not grow with the number of transfers. Transfers of one interface with the same limit always have the
//! same rate, so one counter per such class says how much each of its members got since the beginning (the "virtual time" of fair
//! queueing: Demers, Keshav and Shenker, 1989); a transfer waits for a value of its class's counter.

mod class;

use class::Class;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Names a transfer.
pub type TransferId = u64;

/// A change of the interfaces' rates at some time.
#[derive(Debug, Clone, PartialEq)]
pub struct RateStep {
    /// When.
    pub at: Duration,
    /// Multiplies the rates the network was made with; 0 stops everything.
    pub factor: f64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Network {
    nics: Vec<Nic>,
    transfers: HashMap<TransferId, Transfer>,
    /// Later steps, the next one last.
    steps: Vec<RateStep>,
}

#[derive(Debug)]
struct Nic {
    /// Bytes per second, before the step's factor.
    base: u64,
    rate: u64,
    members: u64,
    classes: BTreeMap<u64, Class>,
    updated: Duration,
    next: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Transfer {
    nic: usize,
    /// Its own limit, which names its class.
    limit: u64,
    /// What its class's counter says when it has what it waits for.
    target: u64,
    /// The length of that, bytes.
    waiting_for: u64,
}

impl Network {
    /// Interfaces of these rates, bytes per second, at least one. Steps may come in any order.
    pub fn new(rates: &[u64], steps: &[RateStep]) -> Network {
        let nics = rates.iter().map(|&rate| Nic::new(rate)).collect();
        let mut steps = steps.to_vec();
        steps.sort_by_key(|step| std::cmp::Reverse(step.at));
        Network { nics, transfers: HashMap::new(), steps }
    }

    /// How many interfaces there are.
    pub fn interfaces(&self) -> usize {
        self.nics.len()
    }

    /// A transfer joins an interface with a limit of its own (bytes per second, above 0) and waits for `bytes` of it.
    pub fn start(&mut self, now: Duration, id: TransferId, nic: usize, limit: u64, bytes: u64) {
        let nic = nic % self.nics.len();
        let shared = &mut self.nics[nic];
        shared.update(now);
        shared.members += 1;
        let class = shared.classes.entry(limit).or_insert_with(|| Class::new(limit));
        class.join();
        let target = class.wait(id, bytes);
        self.transfers.insert(id, Transfer { nic, limit, target, waiting_for: bytes });
        shared.share();
        shared.plan(nic, &self.transfers);
    }

    /// A transfer that got what it waited for waits for so many more bytes.
    pub fn again(&mut self, id: TransferId, bytes: u64) {
        let Some(transfer) = self.transfers.get_mut(&id) else { return };
        let index = transfer.nic;
        let nic = &mut self.nics[index];
        if let Some(class) = nic.classes.get_mut(&transfer.limit) {
            // From its own last target, not from now: no byte is lost to rounding of times.
            transfer.target = class.wait_from(id, transfer.target, bytes);
            transfer.waiting_for = bytes;
        }
        nic.plan(index, &self.transfers);
    }

    /// A transfer leaves. Returns how many of the bytes it waited for it got.
    pub fn stop(&mut self, now: Duration, id: TransferId) -> u64 {
        let Some(transfer) = self.transfers.remove(&id) else { return 0 };
        let nic = &mut self.nics[transfer.nic];
        nic.update(now);
        nic.members -= 1;
        let mut missing = 0;
        if let Some(class) = nic.classes.get_mut(&transfer.limit) {
            missing = class.missing(transfer.target).min(transfer.waiting_for);
            if class.leave() {
                nic.classes.remove(&transfer.limit);
            }
        }
        nic.share();
        nic.plan(transfer.nic, &self.transfers);
        transfer.waiting_for - missing
    }

    /// When a transfer has what it waits for, or the rates change.
    pub fn next_at(&self) -> Option<Duration> {
        let transfers = self.nics.iter().filter_map(|nic| nic.next).min();
        let step = self.steps.last().map(|step| step.at);
        match (transfers, step) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The transfers that by `now` have what they waited for. Each is to be told [`again`](Network::again) or
    /// [`stop`](Network::stop) before the time moves on.
    pub fn advance(&mut self, now: Duration, done: &mut Vec<TransferId>) {
        while self.steps.last().is_some_and(|step| step.at <= now) {
            let Some(step) = self.steps.pop() else { break };
            for (index, nic) in self.nics.iter_mut().enumerate() {
                nic.update(step.at);
                nic.rate = (nic.base as f64 * step.factor) as u64;
                nic.share();
                nic.plan(index, &self.transfers);
            }
        }
        for (index, nic) in self.nics.iter_mut().enumerate() {
            if nic.next.is_none_or(|next| next > now) {
                continue;
            }
            nic.update(now);
            for class in nic.classes.values_mut() {
                while let Some((target, id)) = class.reached() {
                    let current = self.transfers.get(&id);
                    if current.is_some_and(|t| t.nic == index && t.limit == class.limit && t.target == target)
                    {
                        done.push(id);
                    }
                }
            }
            nic.plan(index, &self.transfers);
        }
    }
}

impl Nic {
    fn new(rate: u64) -> Nic {
        Nic { base: rate, rate, members: 0, classes: BTreeMap::new(), updated: Duration::ZERO, next: None }
    }

    /// Everybody gets what the time since the last update gave.
    fn update(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.updated);
        if elapsed.is_zero() {
            return;
        }
        self.updated = now;
        for class in self.classes.values_mut() {
            class.advance(elapsed);
        }
    }

    /// The rate is divided anew: those with the least limits first, so that what they leave goes to the others.
    fn share(&mut self) {
        let (mut rate, mut members) = (self.rate, self.members);
        for (&limit, class) in &mut self.classes {
            let rate_each = limit.min(rate / members.max(1));
            class.rate = rate_each;
            rate -= rate_each * class.members();
            members -= class.members();
        }
    }

    /// When the first of its transfers is served.
    fn plan(&mut self, index: usize, transfers: &HashMap<TransferId, Transfer>) {
        let updated = self.updated;
        self.next = None;
        for class in self.classes.values_mut() {
            let limit = class.limit;
            let live = |id: TransferId, target: u64| {
                transfers.get(&id).is_some_and(|t| t.nic == index && t.limit == limit && t.target == target)
            };
            if let Some(wait) = class.until_next(live) {
                let at = updated.saturating_add(wait);
                self.next = Some(self.next.map_or(at, |next| next.min(at)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
