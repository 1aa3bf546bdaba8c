//! A chunk's extents, as metadata keeps them.
#![no_main]

use headrace_fuzz::{CODECS, with_crc};
use headrace_layout::{CHUNK_SIZE, ExtentData, ExtentMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = ExtentMap::decode(data);
    let Ok(map) = ExtentMap::decode(&with_crc(data)) else { return };
    let mut end = 0;
    for extent in map.extents() {
        assert!(extent.len > 0 && extent.start >= end);
        end = extent.end();
        assert!(u64::from(end) <= CHUNK_SIZE);
        if let ExtentData::Segment(slice) = &extent.data {
            for codec in CODECS.iter() {
                let range = codec.stored_range(slice, 0, extent.len);
                assert!(range.start <= range.end);
            }
        }
    }
    assert_eq!(ExtentMap::decode(&map.encode()).expect("what was accepted can be written and read"), map);
});
