//! Frames of a segment that was changed: an error, or bytes of the right length; on an encrypted volume the right bytes.
#![no_main]

use std::time::SystemTime;

use arbitrary::Arbitrary;
use bytes::Bytes;
use headrace_fuzz::{CODECS, VOLUME, encrypted};
use headrace_layout::{InodeNo, SegmentBuilder, SegmentId};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    codec: u8,
    from: u16,
    len: u16,
    /// Places in the stored bytes and what is xored there.
    changes: Vec<(u16, u8)>,
    cut: Option<u16>,
    content: &'a [u8],
    repeat: u8,
}

fuzz_target!(|input: Input<'_>| {
    let content = input.content.repeat(usize::from(input.repeat % 64) + 1);
    if content.is_empty() {
        return;
    }
    let codec = &CODECS[usize::from(input.codec) % CODECS.len()];
    let mut builder = SegmentBuilder::new(codec, VOLUME, SegmentId::new(SystemTime::now()));
    let Ok(slice) = builder.push_run(InodeNo(7), 0, &[&content]) else { return };
    let segment = builder.finish();
    let from = u32::from(input.from) % slice.run_len;
    let len = (u32::from(input.len) + 1).min(slice.run_len - from);
    let range = codec.stored_range(&slice, from, len);
    let mut stored = segment[range.start as usize..range.end as usize].to_vec();
    for (place, xor) in &input.changes {
        let place = usize::from(*place) % stored.len();
        stored[place] ^= xor;
    }
    if let Some(cut) = input.cut {
        stored.truncate(usize::from(cut));
    }
    let untouched = stored == segment[range.start as usize..range.end as usize];
    let decoded = codec.decode(&slice, from, len, Bytes::from(stored));
    match decoded {
        Ok(pieces) => {
            let found: Vec<u8> = pieces.concat();
            assert_eq!(found.len(), len as usize);
            if untouched || std::ptr::eq(codec, encrypted()) {
                assert!(untouched, "a changed frame was accepted");
                assert_eq!(found, content[from as usize..(from + len) as usize]);
            }
        }
        Err(error) => assert!(!untouched, "{error}"),
    }
});
