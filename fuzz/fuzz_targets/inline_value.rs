//! Inline values: small files' bytes inside of metadata.
#![no_main]

use headrace_fuzz::{CODECS, encrypted, with_crc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let sealed = with_crc(data);
    for codec in CODECS.iter() {
        let _ = codec.open_inline(data);
        let _ = codec.open_inline(&sealed);
        assert_eq!(codec.open_inline(&codec.seal_inline(data)).expect("its own"), data);
    }
    assert!(encrypted().open_inline(&sealed).is_err(), "nobody has the key");
});
