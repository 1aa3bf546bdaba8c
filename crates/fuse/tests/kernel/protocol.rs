//! Parsing requests is total.

use headrace_fuse::abi::{Args, CreateIn, InHeader, MknodIn, Opcode, SetattrIn, SetxattrIn, WriteIn};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_parse_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300), len in 0..400_usize) {
        let mut args = Args::new(&bytes);
        let header = args.take::<InHeader>();
        prop_assert_eq!(header.is_ok(), bytes.len() >= 40);
        let after = args;
        let _ = { args }.take::<SetattrIn>();
        let _ = { args }.take::<WriteIn>();
        let _ = { args }.take::<MknodIn>();
        let _ = { args }.take::<SetxattrIn>();
        let _ = { args }.take::<CreateIn>();
        let two = (args.name(), args.name());
        if let (Ok(first), Ok(second)) = two {
            prop_assert!(!first.is_empty() && !second.is_empty());
            prop_assert!(!first.contains(&0) && !second.contains(&0));
            prop_assert_eq!(&after.rest()[..first.len()], first);
        }
        prop_assert_eq!({ after }.bytes(len).is_ok(), len <= after.rest().len());
    }

    #[test]
    fn opcodes_round_trip(raw: u32) {
        if let Some(opcode) = Opcode::from_raw(raw) {
            prop_assert_eq!(opcode as u32, raw);
        }
    }
}

#[test]
fn every_opcode_is_known_by_its_number() {
    for opcode in Opcode::ALL {
        assert_eq!(Opcode::from_raw(*opcode as u32), Some(*opcode));
    }
    for unknown in [0, 7, 19, 54, 4096, u32::MAX] {
        assert_eq!(Opcode::from_raw(unknown), None);
    }
}
