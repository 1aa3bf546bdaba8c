//! Requests of any bytes: each gets exactly one well-formed answer, and none brings the worker down.

use proptest::prelude::*;

use super::harness::Kernel;
use crate::abi::Opcode;

/// Bytes that now and then look like names and small numbers.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![5 => Just(0_u8), 3 => 1..8_u8, 3 => b'a'..=b'c', 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..160)
}

fn request() -> impl Strategy<Value = (u32, u64, u16, i32, Vec<u8>)> {
    let opcode = prop_oneof![
        30 => proptest::sample::select(Opcode::ALL).prop_map(|opcode| opcode as u32),
        1 => any::<u32>(),
    ];
    let extensions = prop_oneof![9 => Just(0_u16), 1 => any::<u16>()];
    let wrong_by = prop_oneof![9 => Just(0), 1 => -50..50_i32];
    (opcode, 0..6_u64, extensions, wrong_by, body())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_answer_each(
        requests in proptest::collection::vec(request(), 1..60),
        setxattr_ext: bool,
    ) {
        let mut kernel = Kernel::new(setxattr_ext);
        for (opcode, nodeid, total_extlen, wrong_by, body) in requests {
            prop_assert!(kernel.request(opcode, nodeid, total_extlen, wrong_by, &body), "nothing is slow here");
        }
    }

    #[test]
    fn shorter_than_a_header(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(Kernel::default().send_raw(&bytes), 0);
    }
}
