//! Sealed objects with a right checksum and anything inside; nothing opens in another place than its own.
#![no_main]

use headrace_fuzz::{CODECS, encrypted, with_crc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let sealed = with_crc(data);
    for codec in CODECS.iter() {
        let _ = codec.open_object(b"", data);
        let _ = codec.open_object(b"", &sealed);
        let own = codec.seal_object(b"here", data).expect("small");
        assert_eq!(codec.open_object(b"here", &own).expect("its own"), data);
        assert!(codec.open_object(b"there", &own).is_err());
    }
    assert!(encrypted().open_object(b"", &sealed).is_err(), "nobody has the key");
});
