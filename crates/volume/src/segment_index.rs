//! Reading a segment's index from the object alone.

use headrace_layout::{Codec, SegmentId, SegmentIndex};
use headrace_store::ObjectStore;
use uuid::Uuid;

use crate::error::{Result, VolumeError};
use crate::open::Volume;

/// The index of a segment of which `stored` bytes are in the store.
pub(crate) async fn read_index(volume: &Volume, id: SegmentId, stored: u64) -> Result<SegmentIndex> {
    read_index_of(&*volume.store, &volume.codec, volume.superblock.uuid, id, stored).await
}

/// The same, for a volume that is not open.
pub(crate) async fn read_index_of(
    store: &dyn ObjectStore,
    codec: &Codec,
    volume: Uuid,
    id: SegmentId,
    stored: u64,
) -> Result<SegmentIndex> {
    let damaged = |detail: String| VolumeError::SegmentIndex { segment: id.to_string(), detail };
    let key = id.object_key();
    let footer_len = SegmentIndex::footer_len() as u64;
    let Some(footer_at) = stored.checked_sub(footer_len) else {
        return Err(damaged(format!("{stored} bytes are too few for a segment")));
    };
    let footer = store.get_range(&key, footer_at..stored).await?;
    let (offset, len) = SegmentIndex::parse_footer(&footer).map_err(|e| damaged(e.to_string()))?;
    let end = offset.checked_add(len).filter(|end| *end <= footer_at);
    let end = end.ok_or_else(|| damaged("its footer points past its end".into()))?;
    let bytes = store.get_range(&key, offset..end).await?;
    let index = SegmentIndex::decode(codec, &bytes).map_err(|e| damaged(e.to_string()))?;
    if index.id != id || index.volume != volume {
        return Err(damaged("its index belongs to another segment or volume".into()));
    }
    Ok(index)
}
