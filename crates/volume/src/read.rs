//! Reading what an extent refers to.

use bytes::Bytes;
use headrace_layout::{ExtentData, InodeNo};

use crate::error::Result;
use crate::open::Volume;

/// The plain bytes `[from, from + len)` of an extent of `ino`, checked. `None` if an inline value is not there any more:
/// the file was written, packed or deleted since the extent was looked up.
pub async fn read_extent(
    volume: &Volume,
    ino: InodeNo,
    data: &ExtentData,
    from: u32,
    len: u32,
) -> Result<Option<Vec<Bytes>>> {
    match data {
        ExtentData::Segment(slice) => {
            let range = volume.codec.stored_range(slice, from, len);
            let stored = volume.store.get_range(&slice.segment.object_key(), range).await?;
            Ok(Some(volume.codec.decode(slice, from, len, stored)?))
        }
        ExtentData::Inline { id, skip } => {
            let Some(sealed) = volume.meta.inline_value(ino, *id)? else { return Ok(None) };
            let plain = volume.codec.open_inline(&sealed)?;
            let start = *skip as usize + from as usize;
            let end = start + len as usize;
            if end > plain.len() {
                return Err(headrace_meta::MetaError::Corrupt(format!(
                    "inode {ino}: an extent needs bytes {start}..{end} of inline value {id}, which has {}",
                    plain.len()
                ))
                .into());
            }
            Ok(Some(vec![plain.slice(start..end)]))
        }
    }
}
