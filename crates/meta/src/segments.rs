//! Which segments hold data that is in use, and how much.

use std::ops::ControlFlow;

use headrace_layout::{CHUNK_SIZE, ExtentData, ExtentMap, InodeNo, SegmentId};

use crate::key::Key;
use crate::namespace::Namespace;
use crate::record::SegmentRecord;
use crate::{MetaError, Result, Time, key};

/// Chunks read in one view, so that a long search does not hold on to old pages of the engine.
const CHUNKS_PER_VIEW: usize = 4096;

/// A segment and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentUse {
    /// The segment.
    pub id: SegmentId,
    /// Length of the stored object, bytes.
    pub stored: u64,
    /// Plain bytes that extents refer to (a byte shared by two files counts twice).
    pub live: u64,
    /// Since when nothing refers to it.
    pub dead_since: Option<Time>,
}

impl Namespace {
    /// Up to `limit` segments in order of their ids, from the one behind `after`.
    pub fn segments(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentUse>> {
        let range = key::all(key::SEGMENT);
        let start = after.map_or(range.start, |id| key::behind(&key::segment(id)));
        self.view(|read| {
            let mut found = Vec::new();
            let mut outcome = Ok(());
            read.scan(&start, &range.end, &mut |key, value| {
                if found.len() >= limit {
                    return ControlFlow::Break(());
                }
                let Some(Key::Segment(id)) = Key::parse(key) else { return ControlFlow::Continue(()) };
                match SegmentRecord::decode(value) {
                    Ok(record) => {
                        found.push(record.as_use(id));
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        outcome = Err(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            outcome.map(|()| found)
        })
    }

    /// A segment, if metadata knows it.
    pub fn segment(&self, id: SegmentId) -> Result<Option<SegmentUse>> {
        self.view(|read| Ok(SegmentRecord::load(read, id)?.map(|record| record.as_use(id))))
    }

    /// Up to `limit` segments that nothing has referred to since `dead_before`, longest dead first.
    pub fn dead_segments(&self, dead_before: Time, limit: usize) -> Result<Vec<SegmentId>> {
        let start = key::all(key::DEAD).start;
        let end = key::dead(dead_before, SegmentId(0));
        self.view(|read| {
            let mut found = Vec::new();
            read.scan(&start, &end, &mut |key, _| {
                if found.len() >= limit {
                    return ControlFlow::Break(());
                }
                if let Some(Key::Dead(_, id)) = Key::parse(key) {
                    found.push(id);
                }
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })
    }

    /// Forgets segments whose objects were deleted, all or none. Refuses ones that are referred to; unknown ones are
    /// forgotten already.
    pub fn forget_segments(&self, ids: &[SegmentId]) -> Result<()> {
        self.update(|tx| {
            for &id in ids {
                let Some(record) = SegmentRecord::load(tx.read(), id)? else { continue };
                if record.live > 0 {
                    return Err(MetaError::Invalid("a segment that is in use cannot be forgotten"));
                }
                if let Some(since) = record.dead_since {
                    tx.delete(&key::dead(since, id));
                }
                tx.delete(&key::segment(id));
            }
            Ok(())
        })
    }

    /// Takes note of stored objects (with their lengths) that nothing here refers to: dead from now on. Those that are known
    /// stay as they are.
    pub fn adopt_dead_segments(&self, segments: &[(SegmentId, u64)]) -> Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        self.update(|tx| {
            let mut unknown = Vec::new();
            for &(id, stored) in segments {
                if SegmentRecord::load(tx.read(), id)?.is_none() {
                    unknown.push((id, stored));
                }
            }
            tx.register_segments(&unknown);
            Ok(())
        })
    }

    /// The files and offsets whose extents refer to a segment. Reads every extent of the volume.
    pub fn segment_users(&self, id: SegmentId) -> Result<Vec<(InodeNo, u64)>> {
        let range = key::all(key::CHUNK);
        let mut next = Some(range.start);
        let mut users = Vec::new();
        while let Some(start) = next.take() {
            let (found, more) = self.view(|read| {
                let mut found = Vec::new();
                let (mut seen, mut more) = (0, None);
                let mut outcome = Ok(());
                read.scan(&start, &range.end, &mut |key, value| {
                    if seen == CHUNKS_PER_VIEW {
                        more = Some(key.to_vec());
                        return ControlFlow::Break(());
                    }
                    seen += 1;
                    let Some(Key::Chunk(ino, index)) = Key::parse(key) else {
                        return ControlFlow::Continue(());
                    };
                    match ExtentMap::decode(value) {
                        Ok(map) => {
                            let base = u64::from(index) * CHUNK_SIZE;
                            let uses = map.extents().iter().filter(|extent| {
                                matches!(&extent.data, ExtentData::Segment(slice) if slice.segment == id)
                            });
                            found.extend(uses.map(|extent| (ino, base + u64::from(extent.start))));
                            ControlFlow::Continue(())
                        }
                        Err(error) => {
                            outcome = Err(MetaError::from(error));
                            ControlFlow::Break(())
                        }
                    }
                })?;
                outcome.map(|()| (found, more))
            })?;
            users.extend(found);
            next = more;
        }
        Ok(users)
    }
}
