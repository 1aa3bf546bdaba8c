//! Finding who uses a segment.

use std::collections::BTreeSet;

use headrace_layout::{CHUNK_SIZE, ExtentData, InodeNo, SegmentId, SegmentIndex};
use headrace_meta::{MetaError, SegmentUse};

use super::intervals::Reference;
use crate::error::Result;
use crate::open::Volume;

/// The file ranges that use a segment, as far as they can be found.
///
/// The index says where its bytes were written to; what still is there is asked of metadata. Clones and ranges that were
/// shifted are elsewhere: when live bytes are missing from the account, all metadata is searched, as often as
/// `searches_left` allows. What is not found stays where it is.
pub(crate) fn references(
    volume: &Volume,
    segment: &SegmentUse,
    index: Option<&SegmentIndex>,
    searches_left: &mut usize,
) -> Result<Vec<Reference>> {
    let mut chunks = BTreeSet::new();
    for run in index.map_or(&[][..], |index| &index.runs) {
        let end = run.file_offset.saturating_add(u64::from(run.slice.run_len).saturating_sub(1));
        chunks.extend((run.file_offset / CHUNK_SIZE..=end / CHUNK_SIZE).map(|chunk| (run.ino, chunk)));
    }
    let found = in_chunks(volume, segment.id, &chunks)?;
    let accounted: u64 = found.iter().map(|r| u64::from(r.len)).sum();
    let live = volume.meta.segment(segment.id)?.map_or(0, |s| s.live);
    if accounted >= live || *searches_left == 0 {
        return Ok(found);
    }
    *searches_left -= 1;
    chunks.extend(
        volume.meta.segment_users(segment.id)?.iter().map(|(ino, offset)| (*ino, offset / CHUNK_SIZE)),
    );
    in_chunks(volume, segment.id, &chunks)
}

fn in_chunks(volume: &Volume, id: SegmentId, chunks: &BTreeSet<(InodeNo, u64)>) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    for &(ino, chunk) in chunks {
        // An index may name anything: no file reaches a chunk whose number does not fit.
        let Ok(number) = u32::try_from(chunk) else { continue };
        let map = match volume.meta.extents(ino, number) {
            Ok(map) => map,
            Err(MetaError::NotFound | MetaError::Stale) => continue,
            Err(e) => return Err(e.into()),
        };
        for extent in map.extents() {
            let ExtentData::Segment(slice) = &extent.data else { continue };
            if slice.segment == id {
                let offset = (chunk * CHUNK_SIZE).saturating_add(u64::from(extent.start));
                found.push(Reference { ino, offset, len: extent.len, slice: slice.clone() });
            }
        }
    }
    Ok(found)
}
