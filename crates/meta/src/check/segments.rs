//! Segments and the queue of dead ones.

use super::{Checker, ProblemKind};
use crate::key::Key;
use crate::record::SegmentRecord;
use crate::{Result, key};

impl Checker<'_> {
    pub(super) fn read_segments(&mut self) -> Result<()> {
        self.each(key::SEGMENT, |checker, key, value| {
            let Key::Segment(id) = key else { return Ok(()) };
            checker.summary.segments += 1;
            let live = checker.live.remove(&id).unwrap_or(0);
            let record = SegmentRecord::decode(value)?;
            if record.live != live {
                let message = format!("segment {id:?} counts {} live bytes of {live}", record.live);
                let kind = ProblemKind::SegmentLive(id);
                // One that counts too few would be deleted too early.
                if record.live < live {
                    checker.error(kind, message);
                } else {
                    checker.warning(kind, message);
                }
            }
            if record.live == 0 {
                checker.summary.dead_segments += 1;
            }
            let queued = match record.dead_since {
                Some(since) => checker.read.get(&key::dead(since, id))?.is_some(),
                None => false,
            };
            match (record.live == 0, record.dead_since.is_some(), queued) {
                (true, true, true) | (false, false, _) => {}
                (true, ..) => checker.warning(
                    ProblemKind::DeadQueue(id),
                    format!("segment {id:?} is dead but not queued for deletion"),
                ),
                (false, ..) => checker.error(
                    ProblemKind::DeadQueue(id),
                    format!("segment {id:?} is in use but marked as dead"),
                ),
            }
            Ok(())
        })?;
        self.each(key::DEAD, |checker, key, _| {
            let Key::Dead(since, id) = key else { return Ok(()) };
            let record = SegmentRecord::load(checker.read, id)?;
            if record.is_none_or(|record| record.dead_since != Some(since)) {
                checker.error(
                    ProblemKind::DeadQueue(id),
                    format!("segment {id:?} is queued for deletion by mistake"),
                );
            }
            Ok(())
        })?;
        for (id, live) in std::mem::take(&mut self.live) {
            self.error(
                ProblemKind::UnknownSegment(id),
                format!("{live} bytes of files are in segment {id:?}, which is not recorded"),
            );
        }
        Ok(())
    }
}
