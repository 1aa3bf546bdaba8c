//! Reads many extents with few requests: those of one segment that lie close together come with one.
//!
//! A file that was overwritten here and there has its pieces in a few segments, in each in the file's order.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use headrace_layout::{Extent, ExtentData, InodeNo, SegmentId, SegmentSlice};

use super::read_ahead::ReadAhead;
use crate::error::Result;
use crate::open::Volume;
use crate::read::read_extent;

/// So many bytes that nobody wants cost less than another request.
const GAP: u64 = 128 << 10;
/// Requests side by side.
const WIDTH: usize = 8;

/// One request.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    segment: SegmentId,
    /// Stored bytes.
    range: Range<u64>,
    /// What is in it: the number of the extent, and its stored bytes.
    members: Vec<(usize, Range<u64>)>,
}

/// As few requests of at most `most` bytes (or one extent) as bring all that is wanted, by segment and place.
fn spans(mut wanted: Vec<(usize, SegmentId, Range<u64>)>, most: u64) -> Vec<Span> {
    wanted.sort_by_key(|(_, segment, range)| (*segment, range.start));
    let mut spans: Vec<Span> = Vec::new();
    for (number, segment, range) in wanted {
        let joins = |span: &&mut Span| {
            span.segment == segment
                && range.start <= span.range.end.saturating_add(GAP)
                && range.end.max(span.range.end) - span.range.start <= most
        };
        match spans.last_mut().filter(joins) {
            Some(span) => {
                span.range.end = span.range.end.max(range.end);
                span.members.push((number, range));
            }
            None => spans.push(Span { segment, range: range.clone(), members: vec![(number, range)] }),
        }
    }
    spans
}

/// The plain bytes of each extent, checked; `None` if an inline value is not there any more.
pub(super) async fn read_all(
    volume: &Volume,
    memory: &ReadAhead,
    ino: InodeNo,
    extents: &[Extent],
) -> Result<Option<Vec<Vec<Bytes>>>> {
    let mut plain = vec![Vec::new(); extents.len()];
    let mut wanted = Vec::new();
    for (number, extent) in extents.iter().enumerate() {
        match &extent.data {
            ExtentData::Segment(slice) => {
                wanted.push((number, slice.segment, volume.codec.stored_range(slice, 0, extent.len)));
            }
            ExtentData::Inline { .. } => match read_extent(volume, ino, &extent.data, 0, extent.len).await? {
                Some(parts) => plain[number] = parts,
                None => return Ok(None),
            },
        }
    }
    let read = stream::iter(spans(wanted, volume.memory.rewrite_piece / 2))
        .map(|span| read_span(volume, memory, extents, span))
        .buffer_unordered(WIDTH);
    read.try_for_each(|found| {
        found.into_iter().for_each(|(number, parts)| plain[number] = parts);
        async { Ok(()) }
    })
    .await?;
    Ok(Some(plain))
}

async fn read_span(
    volume: &Volume,
    memory: &ReadAhead,
    extents: &[Extent],
    span: Span,
) -> Result<Vec<(usize, Vec<Bytes>)>> {
    let len = span.range.end - span.range.start;
    let _held = memory.hold(u32::try_from(len).unwrap_or(u32::MAX)).await;
    let begin = span.range.start;
    let stored = volume.store.get_range(&span.segment.object_key(), span.range).await?;
    let decode = |(number, range): (usize, Range<u64>)| {
        let Some((slice, len)) = extents.get(number).and_then(of_segment) else {
            return Ok((number, Vec::new()));
        };
        let stored = stored.slice((range.start - begin) as usize..(range.end - begin) as usize);
        let parts = volume.codec.decode(slice, 0, len, stored)?;
        // A small piece may be a slice of a large buffer: keep the piece only.
        Ok((number, parts.into_iter().map(|part| Bytes::copy_from_slice(&part)).collect()))
    };
    span.members.into_iter().map(decode).collect()
}

fn of_segment(extent: &Extent) -> Option<(&SegmentSlice, u32)> {
    match &extent.data {
        ExtentData::Segment(slice) => Some((slice, extent.len)),
        ExtentData::Inline { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(number: u8) -> SegmentId {
        SegmentId::from_bytes([number; 16])
    }

    #[test]
    fn what_lies_close_together_comes_together() {
        let wanted = vec![
            (0, segment(1), 0..100),
            (1, segment(2), 0..100),
            (2, segment(1), 100 + GAP..200 + GAP),
            (3, segment(1), 201 + 2 * GAP..300 + 2 * GAP),
        ];
        let found = spans(wanted, 1 << 30);
        let members: Vec<Vec<usize>> =
            found.iter().map(|span| span.members.iter().map(|(number, _)| *number).collect()).collect();
        assert_eq!(members, [vec![0, 2], vec![3], vec![1]]);
        assert_eq!(found[0].range, 0..200 + GAP);
    }

    proptest! {
        #[test]
        fn everything_comes_once_and_no_request_is_too_large(
            wanted in proptest::collection::vec((0u8..4, 0u64..(4 << 20), 1u64..100_000), 0..60),
            most in 1u64..(2 << 20),
        ) {
            let wanted: Vec<_> = wanted.into_iter().enumerate()
                .map(|(number, (id, start, len))| (number, segment(id), start..start + len)).collect();
            let found = spans(wanted.clone(), most);
            let mut members: Vec<_> = found.iter()
                .flat_map(|span| span.members.iter().map(|(number, range)| (*number, span.segment, range.clone()))).collect();
            members.sort_by_key(|(number, ..)| *number);
            prop_assert_eq!(members, wanted);
            for span in &found {
                prop_assert!(span.range.end - span.range.start <= most || span.members.len() == 1);
                prop_assert!(span.members.iter().all(|(_, range)| span.range.start <= range.start && range.end <= span.range.end));
            }
        }
    }
}
