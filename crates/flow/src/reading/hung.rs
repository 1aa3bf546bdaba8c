//! Fetches of which nothing comes: given up and sent anew, on another connection.
//!
//! Second attempts ([`crate::endpoint::hedge`]) are sooner, but a few in a hundred at most; where many connections hang at once, this is what
//! is left. It is no second attempt: the first one ends.

use std::time::Duration;

use super::reads::{Flight, Reads};
use super::types::{FetchId, FileId};

/// Each time that a part is sent anew, twice the patience, this often at most.
const DOUBLINGS: u32 = 6;

impl Reads {
    /// When a part is hung if nothing more of it comes: as long as anything comes of one of two fetches, there is hope.
    fn hung_when(&self, file: FileId, start: u64) -> Option<Duration> {
        let part = self.files.get(&file)?.parts.get(start)?;
        let of = |fetch: FetchId| {
            let late = self.endpoint.late(fetch)?;
            let patience = late.patience.saturating_mul(self.tuning.hung_lates).max(self.tuning.hung);
            Some(late.last + patience.saturating_mul(1 << part.anew.min(DOUBLINGS)))
        };
        part.fetches.into_iter().flatten().filter_map(of).max()
    }

    /// This part was sent.
    pub(super) fn watch(&mut self, file: FileId, start: u64) {
        let when = self.hung_when(file, start);
        self.hung_at = [self.hung_at, when].into_iter().flatten().min();
    }

    /// Sends anew what is hung, first what is waited for. The rest too: it is in the way of what may be sent.
    pub(super) fn unhang(&mut self, now: Duration) {
        if self.hung_at.is_none_or(|at| at > now) {
            return;
        }
        self.hung_at = None;
        let mut parts: Vec<(FileId, u64)> =
            self.flights.values().map(|&Flight { file, part, .. }| (file, part)).collect();
        parts.sort_unstable();
        parts.dedup();
        for (file, start) in parts {
            match self.hung_when(file, start) {
                Some(when) if when <= now => {
                    let Some(part) = self.part(file, start) else { continue };
                    let fetches = std::mem::take(&mut part.fetches);
                    part.anew += 1;
                    let idle = part.is_idle();
                    self.unhedge(file, start);
                    for fetch in fetches.into_iter().flatten() {
                        self.endpoint.abandoned(now, fetch);
                        self.cancel(now, fetch);
                    }
                    self.stats.hung += 1;
                    match idle {
                        true => self.demands.push_back((file, start)),
                        false => self.demands.push_front((file, start)),
                    }
                }
                _ => self.watch(file, start),
            }
        }
    }
}
