//! Many files that are read as if they were one: the segments in which small files lie. Who reads small files at random reads a little of
//! each segment, and none of them by itself would soon be worth to be fetched whole.
//!
//! So they are paid for, and bought, together: when the rent has come to the price (see [`super::whole`]). That a reader comes back to what
//! he has read of, and did not just look into each, takes the place of regions: twice as many reads have waited as segments were read. What
//! memory has no room for comes as well, if it is kept on a local disk.

use std::cmp::Reverse;
use std::time::Duration;

use super::file::File;
use super::reads::Reads;
use super::types::{FileId, Kept};

/// So many reads must have waited for each, on an average.
const READS_EACH: usize = 2;

impl Reads {
    /// A read of `file` waits no longer: buys those that are read together if it was worth it, and there is room for them.
    pub(super) fn buy_together(&mut self, file: FileId) {
        if !self.files.get(&file).is_some_and(|state| state.together && !state.whole.is_buying()) {
            return;
        }
        let rate = self.rate_whole(false);
        let (mut files, mut reads, mut bytes, mut price, mut wanted) = (0, 0, 0, 0.0, Vec::new());
        // What was read in order is not missed.
        let at_random = |state: &File| state.together && !state.streamed && state.whole.reads > 0;
        for (file, state) in self.files.iter().filter(|(_, state)| at_random(state)) {
            files += 1;
            reads += state.whole.reads as usize;
            let missing = state.len.saturating_sub(state.parts.bytes());
            if missing > 0 && !state.whole.is_buying() {
                let its = state.whole.price(missing, rate);
                bytes += state.len;
                price += its;
                wanted.push((state.whole.reads, *file, its));
            }
        }
        let all_over = reads >= (self.tuning.regions as usize / 2).max(READS_EACH * files);
        if !all_over || self.together.paid.as_secs_f64() < price {
            return;
        }
        // What is read most comes first.
        wanted.sort_by_key(|(reads, ..)| Reverse(*reads));
        let room_for_all = self.usable();
        let mut room = room_for_all;
        let mut cost = 0.0;
        for (_, file, its) in wanted {
            self.mark_wide(file);
            let may_buy = self.may_buy();
            let Some(state) = self.files.get_mut(&file) else { continue };
            // Those before would have to make room for those that follow.
            let beyond = bytes > room_for_all && state.kept != Kept::No;
            let left = if beyond { Some(room) } else { room.checked_sub(state.len) };
            let Some(left) = left.filter(|_| may_buy) else { continue };
            room = left;
            (state.whole.prepaid, state.whole.beyond) = (true, beyond);
            cost += its;
            self.begin_buying(file);
        }
        let cost = Duration::try_from_secs_f64(cost).unwrap_or(Duration::MAX);
        self.together.paid = self.together.paid.saturating_sub(cost);
    }

    /// What a disk has been given of them since it was told how much it takes, bytes, or will be.
    pub(super) fn taken_together(&self) -> u64 {
        self.put_away_together.saturating_add(self.flying(|_, state| state.together))
    }

    /// One of them is gone: with the last one goes what was paid.
    pub(super) fn forget_together(&mut self) {
        if !self.files.values().any(|state| state.together) {
            self.together.paid = Duration::ZERO;
        }
    }
}
