//! Requests of any bytes: each gets exactly one well-formed answer, and none brings the worker down.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use zerocopy::IntoBytes as _;

use super::harness::Kernel;
use super::memory::MemFs;
use crate::abi::{CreateIn, Opcode, OpenRequest};

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

#[test]
fn an_open_file_that_the_kernel_did_not_hear_of_is_released() {
    let fs = MemFs::new(true);
    let mut kernel = Kernel::of(&fs);
    let create = CreateIn { flags: 0, mode: 0o600, umask: 0, open_flags: 0 };
    let named = |name: &[u8]| [create.as_bytes(), name, &[0]].concat();
    let open = OpenRequest { flags: 0, open_flags: 0 };
    assert!(kernel.request(Opcode::Create as u32, 1, 0, 0, &named(b"f")));
    assert!(kernel.request(Opcode::Open as u32, 2, 0, 0, open.as_bytes()));
    let releases = || fs.counts.releases.load(Ordering::SeqCst);
    assert_eq!((releases(), fs.references()), (0, 1));
    // The connection is gone, or the answer is none the kernel understands.
    for (round, errno) in (1..).zip([libc::ENOENT, libc::EINVAL]) {
        kernel.refused(errno, Opcode::Open, 2, open.as_bytes());
        assert_eq!((releases(), fs.references()), (2 * round - 1, 1));
        kernel.refused(errno, Opcode::Create, 1, &named(&[b'a' + round as u8]));
        assert_eq!((releases(), fs.references()), (2 * round, 1));
    }
}
