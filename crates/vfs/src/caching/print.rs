//! What a chunk of a file is made from, in 64 bits.

use headrace_layout::{ExtentData, ExtentMap};

/// A number for the extents of a chunk: another one whenever any of its bytes may differ. Segments never change and their ids are never
/// used again, so their places say all; bytes in the metadata are named by numbers that come again when it is lost and restored, so
/// `inline` says what they are, by a hash of them. `None` if it cannot.
pub(crate) fn print(map: &ExtentMap, inline: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let mut bytes = Vec::with_capacity(map.len() * 40 + 8);
    for extent in map.extents() {
        bytes.extend_from_slice(&extent.start.to_le_bytes());
        bytes.extend_from_slice(&extent.len.to_le_bytes());
        let slice = match &extent.data {
            ExtentData::Segment(slice) => slice,
            ExtentData::Inline { id, skip } => {
                bytes.extend_from_slice(&inline(*id)?.to_le_bytes());
                bytes.extend_from_slice(&skip.to_le_bytes());
                continue;
            }
        };
        bytes.extend_from_slice(&slice.segment.0.to_le_bytes());
        bytes.extend_from_slice(&slice.run_offset.to_le_bytes());
        bytes.extend_from_slice(&slice.run_len.to_le_bytes());
        bytes.extend_from_slice(&slice.skip.to_le_bytes());
    }
    Some(twox_hash::XxHash3_64::oneshot(&bytes))
}

#[cfg(test)]
mod tests {
    use headrace_layout::{Extent, SegmentId, SegmentSlice};

    use super::*;

    fn extent(start: u32, len: u32, segment: u128, skip: u32) -> Extent {
        let slice =
            SegmentSlice { segment: SegmentId(segment), run_offset: 0, run_len: 1 << 20, skip, frames: None };
        Extent { start, len, data: ExtentData::Segment(slice) }
    }

    fn of(extents: &[Extent]) -> Option<u64> {
        let mut map = ExtentMap::default();
        extents.iter().for_each(|extent| {
            map.insert(extent.clone());
        });
        print(&map, |id| (id < 100).then_some(id))
    }

    #[test]
    fn it_is_another_one_for_other_bytes() {
        let same = of(&[extent(0, 100, 1, 0)]);
        assert_eq!(same, of(&[extent(0, 100, 1, 0)]));
        for other in [extent(1, 100, 1, 0), extent(0, 99, 1, 0), extent(0, 100, 2, 0), extent(0, 100, 1, 1)] {
            assert_ne!(same, of(&[other]));
        }
        assert_ne!(same, of(&[extent(0, 100, 1, 0), extent(200, 5, 1, 0)]));
        assert_ne!(same, of(&[]));
    }

    #[test]
    fn bytes_in_the_metadata_count_by_what_they_are() {
        let inline = |id| Extent { start: 500, len: 10, data: ExtentData::Inline { id, skip: 0 } };
        assert_ne!(of(&[extent(0, 100, 1, 0), inline(7)]), of(&[extent(0, 100, 1, 0), inline(8)]));
        assert_eq!(of(&[extent(0, 100, 1, 0), inline(100)]), None, "they are gone");
    }
}
