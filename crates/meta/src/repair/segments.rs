//! Seventh step: segments and the queue of dead ones.

use headrace_kv::Read;
use headrace_layout::SegmentId;

use super::overlay::Overlay;
use super::{LOST_SEGMENT, Repairer};
use crate::key::Key;
use crate::record::SegmentRecord;
use crate::{Result, Time, key};

/// The record of a segment of which `live` bytes are in use.
fn corrected(before: Option<SegmentRecord>, live: u64, stored: Option<u64>, now: Time) -> SegmentRecord {
    SegmentRecord {
        // If nobody knows the length, the object is lost: any figure does.
        stored: before.map_or(stored.unwrap_or(live), |record| record.stored),
        live,
        dead_since: (live == 0).then(|| before.and_then(|record| record.dead_since).unwrap_or(now)),
    }
}

impl Repairer<'_> {
    pub(super) fn repair_segments(&mut self) -> Result<()> {
        let mut live = std::mem::take(&mut self.live);
        let mut range = Overlay::all(key::SEGMENT);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, value) in page {
                let Some(Key::Segment(id)) = Key::parse(&key) else { continue };
                let record = SegmentRecord::decode(&value)?;
                self.repair_segment(id, Some(record), live.remove(&id).unwrap_or(0))?;
            }
        }
        for (id, live) in live {
            self.repair_segment(id, None, live)?;
        }
        self.drop_stale_queue()
    }

    fn repair_segment(&mut self, id: SegmentId, before: Option<SegmentRecord>, live: u64) -> Result<()> {
        let record = corrected(before, live, self.stored.get(&id).copied(), self.now);
        if self.kv.put(&key::segment(id), &record.encode())? {
            let what = match before {
                Some(before) => format!("segment {id} counted {} live bytes and has {live}", before.live),
                None if id == LOST_SEGMENT => format!("{live} bytes of files are marked as lost"),
                None => format!("segment {id}, of which files use {live} bytes, is recorded again"),
            };
            self.fixed("segment", what);
        }
        if let Some(since) = record.dead_since
            && self.kv.put(&key::dead(since, id), &[])?
        {
            self.fixed("dead-queue", format!("segment {id}, which nothing uses, is queued for deletion"));
        }
        Ok(())
    }

    fn drop_stale_queue(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::DEAD);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, _) in page {
                let Some(Key::Dead(since, id)) = Key::parse(&key) else { continue };
                let record =
                    self.kv.get(&key::segment(id))?.map(|bytes| SegmentRecord::decode(&bytes)).transpose()?;
                if record.is_none_or(|record| record.dead_since != Some(since)) {
                    self.kv.delete(&key)?;
                    self.fixed("dead-queue", format!("segment {id} is no longer queued for deletion"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_dead_exactly_while_nothing_uses_it() {
        let (then, now) = (Time { secs: 1, nanos: 0 }, Time { secs: 2, nanos: 0 });
        let record = |live, dead_since| SegmentRecord { stored: 9, live, dead_since };
        assert_eq!(corrected(Some(record(0, Some(then))), 0, None, now), record(0, Some(then)));
        assert_eq!(corrected(Some(record(5, None)), 0, None, now), record(0, Some(now)));
        assert_eq!(corrected(Some(record(0, Some(then))), 5, Some(1), now), record(5, None));
        assert_eq!(corrected(None, 5, Some(9), now), record(5, None));
    }
}
