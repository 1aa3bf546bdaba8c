//! A segment's header, footer and index.
#![no_main]

use headrace_fuzz::{CODECS, with_crc};
use headrace_layout::SegmentIndex;
use headrace_layout::segment::{SegmentFooter, SegmentHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for bytes in [data.to_vec(), with_crc(data)] {
        let _ = SegmentHeader::decode(&bytes);
        let _ = SegmentFooter::decode(&bytes);
        let _ = SegmentIndex::parse_footer(&bytes);
        for codec in CODECS.iter() {
            if let Ok(index) = SegmentIndex::decode(codec, &bytes) {
                for run in &index.runs {
                    let range = codec.stored_range(&run.slice, 0, run.slice.run_len);
                    assert!(range.start <= range.end);
                }
            }
        }
    }
});
