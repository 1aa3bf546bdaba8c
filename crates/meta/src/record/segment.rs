//! A segment and how much of it is in use.

use headrace_kv::Read;
use headrace_layout::SegmentId;

use super::{Fields, VERSION, put_time};
use crate::{Result, SegmentUse, Time, key};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentRecord {
    /// Length of the stored object.
    pub stored: u64,
    /// Plain bytes that extents refer to.
    pub live: u64,
    /// Since when that is none.
    pub dead_since: Option<Time>,
}

impl SegmentRecord {
    pub(crate) fn load(read: &dyn Read, id: SegmentId) -> Result<Option<SegmentRecord>> {
        read.get(&key::segment(id))?.map(|bytes| SegmentRecord::decode(&bytes)).transpose()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentRecord> {
        let mut fields = Fields::new("segment", bytes)?;
        let (stored, live) = (fields.u64()?, fields.u64()?);
        let dead_since = if fields.rest.is_empty() { None } else { Some(fields.time()?) };
        fields.end()?;
        Ok(SegmentRecord { stored, live, dead_since })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.stored.to_be_bytes());
        out.extend_from_slice(&self.live.to_be_bytes());
        if let Some(since) = self.dead_since {
            put_time(&mut out, since);
        }
        out
    }

    pub(crate) fn as_use(&self, id: SegmentId) -> SegmentUse {
        SegmentUse { id, stored: self.stored, live: self.live, dead_since: self.dead_since }
    }
}
