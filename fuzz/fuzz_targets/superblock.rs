//! The superblock: JSON out of the bucket.
#![no_main]

use headrace_layout::Superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(superblock) = Superblock::decode(data) {
        let again =
            Superblock::decode(&superblock.encode()).expect("what was accepted can be written and read");
        assert_eq!(format!("{again:?}"), format!("{superblock:?}"));
    }
});
