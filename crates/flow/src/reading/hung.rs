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
    /// When a fetch, of a part that was sent anew so often, is hung if nothing more of it comes.
    fn hung_when(&self, fetch: FetchId, anew: u32) -> Option<Duration> {
        let late = self.endpoint.late(fetch)?;
        let patience = late.patience.saturating_mul(self.tuning.hung_lates).max(self.tuning.hung);
        Some(late.last + patience.saturating_mul(1 << anew.min(DOUBLINGS)))
    }

    /// This part was sent.
    pub(super) fn watch(&mut self, file: FileId, start: u64) {
        let Some(part) = self.part(file, start) else { return };
        let (fetches, anew) = (part.fetches, part.anew);
        let when = fetches.into_iter().flatten().filter_map(|fetch| self.hung_when(fetch, anew)).max();
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
            let Some(part) = self.part(file, start) else { continue };
            let (fetches, anew) = (part.fetches, part.anew);
            // As long as anything comes of one of two, there is hope.
            let when = fetches.into_iter().flatten().filter_map(|fetch| self.hung_when(fetch, anew)).max();
            match when {
                Some(when) if when <= now => {
                    let Some(part) = self.part(file, start) else { continue };
                    part.fetches = [None; 2];
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
                Some(when) => self.hung_at = Some(self.hung_at.map_or(when, |at| at.min(when))),
                None => {}
            }
        }
    }
}
