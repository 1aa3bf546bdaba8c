//! Files that are read at random all over: fetched whole when that is cheaper than to go on as before.
//!
//! Nobody knows how many more reads will come, which is the ski rental problem: the rent is the time in which somebody waited for bytes of
//! the file that were not there; the price is the time that all of it takes. To buy when the rent has come to the price costs at most twice
//! of what is best (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988); to buy little by little, so that `(e^x - 1) /
//! (e - 1)` is there when `x` of the price has been paid, e / (e - 1) times, which is the least there can be (Karlin, Manasse, McGeoch and
//! Owicki, "Competitive randomized algorithms for nonuniform problems", 1994: their chance of having bought is the part that is bought
//! here).
//!
//! What is larger than memory is fetched whole if it is kept on a local disk. That may be much, so a part of what memory has no
//! room for must have been paid for in bytes, too. Many that are read as if they were one are in [`super::together`].

use std::ops::Range;
use std::time::Duration;

use super::file::File;
use super::part::Part;
use super::reads::{Flight, Pending, Reads};
use super::types::{FetchId, FileId, Kept};
use crate::order::Mode;

/// A file is looked at in so many regions.
const REGIONS: u64 = 64;
/// Of what memory has no room for one so-many-th must have been waited for: who reads that much gets at most so many times as much.
const SHARE: u64 = 128;

/// Time in which somebody waited.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rent {
    /// Reads that wait, and since when what they wait for is not in `paid`.
    waiting: u32,
    since: Duration,
    /// Time in which at least one waited.
    pub paid: Duration,
}

impl Rent {
    /// One begins to wait.
    pub(super) fn waits(&mut self, now: Duration) {
        self.pay(now);
        self.waiting += 1;
    }

    /// One of them waits no longer.
    pub(super) fn waited(&mut self, now: Duration) {
        self.pay(now);
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn pay(&mut self, now: Duration) {
        if self.waiting > 0 {
            self.paid += now.saturating_sub(self.since);
        }
        self.since = now;
    }
}

/// What was paid for one file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    /// Regions in which a read has waited, a bit for each.
    touched: u64,
    rent: Rent,
    /// Reads that have waited.
    pub reads: u32,
    /// Bytes fetched for those who waited.
    fetched: u64,
    /// Times that it was bought: the price doubles with each.
    bought: u32,
    /// All of it has been paid for in another way.
    pub prepaid: bool,
    /// Beside others memory has no room for it: it is held no longer than its disk takes.
    pub beyond: bool,
    /// It is being fetched, up to here.
    edge: Option<u64>,
    /// It was worth it once, so that memory is of use.
    pub wide: bool,
}

impl Whole {
    /// A read of `range`, in a file of `len` bytes, waits for bytes that no stream brings; so many are fetched for it.
    pub(super) fn waits(&mut self, now: Duration, range: &Range<u64>, len: u64, fetched: u64) {
        self.rent.waits(now);
        self.reads = self.reads.saturating_add(1);
        self.fetched = self.fetched.saturating_add(fetched);
        let region = |at: u64| (u128::from(at) * u128::from(REGIONS) / u128::from(len.max(1))).min(63) as u32;
        for region in region(range.start)..=region(range.end.saturating_sub(1).max(range.start)) {
            self.touched |= 1 << region;
        }
    }

    /// Whether reads are all over the file, not in one corner of it: in many regions, or in half as many and seldom twice in one.
    fn is_all_over(&self, regions: u32) -> bool {
        let touched = self.touched.count_ones();
        let again = self.reads.saturating_sub(touched);
        // Reads that are anywhere come to that with the tenth, 19 times of 20.
        touched >= regions || (touched >= regions / 2 && again <= touched / 4)
    }

    /// What so many bytes cost, seconds at `rate`, bytes per second.
    pub(super) fn price(&self, bytes: u64, rate: u64) -> f64 {
        bytes as f64 / rate.max(1) as f64 * f64::from(1u32 << self.bought.min(16))
    }

    /// How much of a file of `len` bytes that costs so much has been paid for, bytes.
    fn paid_for(&self, len: u64, price: f64) -> u64 {
        let paid = self.rent.paid.as_secs_f64();
        if self.prepaid || paid >= price {
            return len;
        }
        (len as f64 * (paid / price).exp_m1() / (std::f64::consts::E - 1.0)) as u64
    }

    /// Whether it is to be fetched whole, or was.
    pub(super) fn is_buying(&self) -> bool {
        self.edge.is_some()
    }

    /// Whether all of it was fetched, or is.
    pub(super) fn was_bought(&self) -> bool {
        self.bought > 0 || self.is_buying()
    }
}

impl Reads {
    /// A read that no stream is known for begins to wait.
    pub(super) fn pay_rent(&mut self, now: Duration, file: FileId, range: &Range<u64>) {
        let grain = self.tuning.grain.max(1);
        let Some(state) = self.files.get_mut(&file) else { return };
        let fetched = range.end.next_multiple_of(grain) - range.start / grain * grain;
        state.whole.waits(now, range, state.len, fetched);
        if state.together {
            self.together.waits(now);
        }
    }

    /// It was answered, or failed.
    pub(super) fn rent_paid(&mut self, now: Duration, file: FileId) {
        let Some(state) = self.files.get_mut(&file) else { return };
        state.whole.rent.waited(now);
        if state.together {
            self.together.waited(now);
        }
        let regions = self.tuning.regions.min(REGIONS as u32);
        if let Some(state) = self.files.get(&file)
            && !state.whole.is_buying()
            && state.whole.is_all_over(regions)
            && state.parts.bytes() < state.len
            && self.may_buy()
            && let price = state.whole.price(state.len, self.rate_whole(false))
            && state.whole.paid_for(state.len, price) >= self.part_size().min(state.len)
        {
            let excess = state.len.saturating_sub(self.usable());
            let on_disk = state.kept != Kept::No && state.whole.fetched >= excess / SHARE;
            let has_room = excess == 0 || on_disk;
            self.mark_wide(file);
            if has_room {
                self.begin_buying(file);
            }
        }
        self.buy_together(file);
    }

    /// Whether one more file can be fetched whole.
    pub(super) fn may_buy(&self) -> bool {
        self.buying.len() < self.tuning.buying.max(1)
    }

    /// It is worth to be fetched whole, so that memory is of use.
    pub(super) fn mark_wide(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            self.wide += u64::from(!std::mem::replace(&mut state.whole.wide, true));
        }
    }

    /// All of a file is to be fetched, when it is its turn.
    pub(super) fn begin_buying(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.whole.edge = Some(0);
            self.buying.push_back((file, 0));
        }
    }

    /// Bytes per second at which a whole file comes: as measured when much of one was just fetched; until then, by what is known of single
    /// fetches.
    pub(super) fn rate_whole(&self, measured: bool) -> u64 {
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
        let (mut others, mut together_waits) = (self.buying.len(), false);
        while self.endpoint.in_flight() < self.allowed() && self.scavenger.has_room() {
            let Some(&(file, sent)) = self.buying.front() else { return };
            if mode == Mode::Ordered && self.endpoint.in_flight() > 0 {
                return;
            }
            let usable = self.usable();
            let has_room = |state: &&File| state.kept != Kept::No || state.len <= usable;
            let open = self.files.get(&file).filter(has_room).filter(|state| !state.handles.is_empty());
            let Some(state) = open else {
                self.bought(file);
                continue;
            };
            let (large, edge) = (self.is_large(state), state.whole.edge.unwrap_or(state.len));
            let beyond = state.whole.beyond;
            // What one of those that are read together waits for, all of them do.
            let part = if beyond && together_waits { None } else { self.part_of_whole(file, state, sent) };
            let Some(part) = part else {
                // Others may be paid for, and have no disk to wait for.
                together_waits |= beyond;
                others -= 1;
                if others == 0 {
                    return;
                }
                self.buying.rotate_left(1);
                continue;
            };
            self.clear(now, file, edge..(edge + 1).next_multiple_of(part));
            let Some(state) = self.files.get(&file) else { continue };
            let Some(range) = state.parts.next_missing(edge, state.len, part) else {
                self.bought(file);
                continue;
            };
            let len = range.end - range.start;
            self.forget_old(now, usable.saturating_sub(len));
            if self.held.saturating_add(len) > usable {
                if large && self.flying(|other, state| other == file || (beyond && state.together)) > 0 {
                    // It goes on when what is under way has come, and is put away.
                    return;
                }
                // Streams have use for the memory.
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

    /// A fetch is over, however.
    pub(super) fn land(&mut self, fetch: FetchId) -> Option<Flight> {
        let flight = self.flights.remove(&fetch)?;
        if flight.bought {
            let idle = !self.pending.values().any(Pending::is_random);
            self.scavenger.landed(idle, self.allowed());
        }
        Some(flight)
    }

    /// All of a fetch is there: tells whether whole files were in its way, if it was what somebody waited for.
    pub(super) fn waited(&mut self, now: Duration, flight: &Flight) {
        let &Flight { file, part, base, sent, bought, .. } = flight;
        let Some(part) = self.part(file, part) else { return };
        let (len, random) = (part.len(), part.stream.is_none());
        if random
            && !bought
            && base == 0
            && let Some(alone) = self.endpoint.duration(len)
        {
            self.scavenger.waited(now, sent, alone, self.allowed());
        }
    }

    /// Bytes to fetch at once of a file that is bought, of which so many fetches were sent; `None` while it has to wait: for a disk, or for
    /// more to be paid.
    fn part_of_whole(&self, file: FileId, state: &File, sent: u64) -> Option<u64> {
        let part = self.part_size();
        // It may take longer than was thought.
        let measured = sent >= 2 * self.allowed() as u64;
        let price = state.whole.price(state.len, self.rate_whole(measured));
        if (state.whole.paid_for(state.len, price)..state.len).contains(&state.whole.edge?) {
            return None;
        }
        let kept = if state.whole.beyond { self.kept_together } else { state.kept };
        let Kept::Yes { room } = kept else { return Some(part) };
        if !self.is_large(state) {
            return Some(part);
        }
        // Several have room, but few small ones would take the disk as long. What the disk does not take would come in vain.
        let part = part.min(1 << (room / 2).max(self.part_least()).ilog2());
        let taken = match state.whole.beyond {
            true => self.taken_together(),
            false => state.put_away.saturating_add(self.flying(|other, _| other == file)),
        };
        (taken.saturating_add(part) <= room).then_some(part)
    }

    /// Whether memory has no room for all of a file.
    fn is_large(&self, state: &File) -> bool {
        state.len > self.usable() || state.whole.beyond
    }

    /// Bytes of such files that are under way.
    pub(super) fn flying(&self, of: impl Fn(FileId, &File) -> bool) -> u64 {
        let bytes = self.flights.values().filter_map(|flight| {
            let state = self.files.get(&flight.file).filter(|state| of(flight.file, state))?;
            Some(state.parts.get(flight.part)?.len())
        });
        bytes.sum()
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
            let Whole { rent, reads, bought, wide, .. } = state.whole;
            let rent = Rent { paid: Duration::ZERO, ..rent };
            state.whole = Whole { rent, reads, bought: bought + 1, wide, ..Whole::default() };
            self.stats.whole += u64::from(sent);
        }
    }
}
