//! Files that are read at random all over: fetched whole when that is cheaper than to go on as before.
//!
//! Nobody knows how many more reads will come, which is the ski rental problem: to buy as soon as the rent paid so far has come to the
//! price costs at most twice of what is best (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988). The rent is the
//! time in which somebody waited for bytes of the file that were not there; the price is the time that the rest of it will take.

use std::ops::Range;
use std::time::Duration;

use super::part::Part;
use super::reads::Reads;
use super::types::FileId;
use crate::order::Mode;

/// A file is looked at in so many regions.
const REGIONS: u64 = 64;

/// What was paid for one file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    /// Regions in which a read has waited, a bit for each.
    touched: u64,
    /// Reads that wait, and since when what they wait for is not in `rent`.
    waiting: u32,
    since: Duration,
    /// Time in which at least one waited.
    rent: Duration,
    /// Times that it was bought: the price doubles with each.
    bought: u32,
    /// It is being fetched, up to here.
    edge: Option<u64>,
    /// It was worth it once, so that memory is of use.
    pub wide: bool,
}

impl Whole {
    /// A read of `range`, in a file of `len` bytes, waits for bytes that no stream brings.
    pub(super) fn waits(&mut self, now: Duration, range: &Range<u64>, len: u64) {
        self.pay(now);
        self.waiting += 1;
        let region = |at: u64| (u128::from(at) * u128::from(REGIONS) / u128::from(len.max(1))).min(63) as u32;
        for region in region(range.start)..=region(range.end.saturating_sub(1).max(range.start)) {
            self.touched |= 1 << region;
        }
    }

    /// One of them waits no longer.
    pub(super) fn waited(&mut self, now: Duration) {
        self.pay(now);
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn pay(&mut self, now: Duration) {
        if self.waiting > 0 {
            self.rent += now.saturating_sub(self.since);
        }
        self.since = now;
    }

    /// Whether to buy what is `missing`, bytes, at `rate`, bytes per second: as much was paid, and not for one corner of the file.
    fn is_worth(&self, missing: u64, rate: u64, regions: u32) -> bool {
        let price = missing as f64 / rate.max(1) as f64 * f64::from(1u32 << self.bought.min(16));
        self.touched.count_ones() >= regions.min(REGIONS as u32) && self.rent.as_secs_f64() >= price
    }
}

impl Reads {
    /// A read that no stream is known for begins to wait.
    pub(super) fn pay_rent(&mut self, now: Duration, file: FileId, range: &Range<u64>) {
        let Some(state) = self.files.get_mut(&file) else { return };
        state.whole.waits(now, range, state.len);
    }

    /// It was answered, or failed.
    pub(super) fn rent_paid(&mut self, now: Duration, file: FileId) {
        let Some(state) = self.files.get_mut(&file) else { return };
        state.whole.waited(now);
        if state.whole.edge.is_none()
            && let missing = state.len.saturating_sub(state.parts.bytes())
            && missing > 0
            && self.buying.len() < self.tuning.buying.max(1)
            && let (rate, usable) = (self.rate_whole(false), self.usable())
            && let Some(state) = self.files.get_mut(&file)
            && state.whole.is_worth(missing, rate, self.tuning.regions)
        {
            self.wide += u64::from(!std::mem::replace(&mut state.whole.wide, true));
            if state.len <= usable {
                state.whole.edge = Some(0);
                self.buying.push_back((file, 0));
            }
        }
    }

    /// Bytes per second at which a whole file comes: as measured when much of one was just fetched; until then, by what is known of single
    /// fetches.
    fn rate_whole(&self, measured: bool) -> u64 {
        let part = self.part_size();
        // Where nothing but the latency is known, the transfer is taken to last as long again.
        let guess = || Some((part as f64 / self.endpoint.latency()?.as_secs_f64().max(1e-6) / 2.0) as u64);
        let each = self.endpoint.alone(part).or_else(guess).unwrap_or(0);
        let modelled = each.saturating_mul(self.allowed() as u64);
        match self.endpoint.bandwidth() {
            Some(rate) if measured => rate.min(modelled),
            _ => modelled,
        }
    }

    /// Sends what is to be fetched of whole files while nothing else is to be sent.
    pub(super) fn buy(&mut self, now: Duration, mode: Mode) {
        while self.endpoint.in_flight() < self.allowed() {
            let Some(&(file, sent)) = self.buying.front() else { return };
            if mode == Mode::Ordered && self.endpoint.in_flight() > 0 {
                return;
            }
            let (part, usable) = (self.part_size(), self.usable());
            let open = self.files.get(&file).filter(|state| !state.handles.is_empty() && state.len <= usable);
            let Some(state) = open else {
                self.bought(file);
                continue;
            };
            // It may take longer than was thought.
            let missing = state.len.saturating_sub(state.parts.bytes());
            let many = 2 * self.allowed() as u64;
            if sent >= many && !state.whole.is_worth(missing, self.rate_whole(true), 0) {
                return;
            }
            let edge = state.whole.edge.unwrap_or(state.len);
            self.clear(now, file, edge..(edge + 1).next_multiple_of(part));
            let Some(state) = self.files.get(&file) else { continue };
            let Some(range) = state.parts.next_missing(edge, state.len, part) else {
                self.bought(file);
                continue;
            };
            let len = range.end - range.start;
            self.forget_old(now, usable.saturating_sub(len));
            // Streams have use for the memory.
            if self.held.saturating_add(len) > usable {
                self.bought(file);
                continue;
            }
            let Some(state) = self.files.get_mut(&file) else { continue };
            state.whole.edge = Some(range.end);
            let start = range.start;
            state.parts.insert(Part::new(range, None));
            self.parts += 1;
            self.held += len;
            if let Some((_, sent)) = self.buying.front_mut() {
                *sent += 1;
            }
            self.send(now, file, start, None);
        }
    }

    /// A few small parts are fetched again together with what is between them: a request costs as much for little as for much.
    fn clear(&mut self, now: Duration, file: FileId, range: Range<u64>) {
        let Some(state) = self.files.get(&file) else { return };
        let small = |part: &&Part| part.stream.is_none() && part.ready.is_some() && part.is_idle();
        let (mut starts, mut bytes) = (Vec::new(), 0);
        for part in state.parts.overlapping(&range).filter(small) {
            starts.push(part.range.start);
            bytes += part.len();
        }
        if bytes <= (range.end - range.start) / 4 {
            for start in starts {
                self.drop_part(now, file, start);
            }
        }
    }

    /// The first in the queue is fetched, as far as there was room. What goes before it is read was bought in vain: the next time it has to
    /// be worth more.
    fn bought(&mut self, file: FileId) {
        let sent = self.buying.pop_front().is_some_and(|(_, sent)| sent > 0);
        if let Some(state) = self.files.get_mut(&file) {
            let Whole { waiting, since, bought, wide, .. } = state.whole;
            state.whole = Whole { waiting, since, bought: bought + 1, wide, ..Whole::default() };
            self.stats.whole += u64::from(sent);
        }
    }
}
