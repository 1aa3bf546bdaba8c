//! Requests of any bytes: each gets exactly one well-formed answer.
#![no_main]

use std::cell::RefCell;

use arbitrary::Arbitrary;
use headrace_fuse::harness::Kernel;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Request<'a> {
    opcode: u8,
    node: u8,
    extensions: u16,
    wrong_by: i8,
    body: &'a [u8],
}

thread_local! {
    static KERNEL: RefCell<(Kernel, u32)> = RefCell::new((Kernel::default(), 0));
}

fuzz_target!(|requests: Vec<Request<'_>>| {
    KERNEL.with_borrow_mut(|(kernel, uses)| {
        *uses += 1;
        if *uses % 1000 == 0 {
            *kernel = Kernel::default();
        }
        for request in requests {
            // Mostly right: the length is checked first of all.
            let wrong_by = if request.wrong_by > 100 { i32::from(request.wrong_by) - 110 } else { 0 };
            let extensions = if request.extensions > 60_000 { request.extensions } else { 0 };
            // The file system in memory has a file that panics, for tests of its own.
            if request.body.windows(5).any(|name| name == b"panic") {
                continue;
            }
            let answered = kernel.request(
                u32::from(request.opcode),
                u64::from(request.node),
                extensions,
                wrong_by,
                request.body,
            );
            if !answered {
                *kernel = Kernel::default();
            }
        }
    });
});
