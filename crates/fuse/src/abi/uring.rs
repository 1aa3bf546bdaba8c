//! What goes over a ring in place of the device. Fields are named as in `linux/fuse.h`, where they are described.
#![allow(missing_docs)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::request::wire;

wire! {
    /// What an entry of a ring has beside its payload.
    RingHeaders = 288 {
        /// [`super::InHeader`] of a request, [`super::OutHeader`] of its reply.
        in_out: [u8; 128],
        /// The first structure of a request; what else it has is payload.
        op_in: [u8; 128],
        flags: u64,
        commit_id: u64,
        payload_sz: u32,
        padding: u32,
        reserved: u64,
    }
    /// What a command to the kernel carries.
    RingCommand = 24 {
        flags: u64,
        commit_id: u64,
        qid: u16,
        padding: [u8; 6],
    }
}

/// Commands to the kernel.
pub mod ring_command {
    /// Here is an entry: put a request into it.
    pub const REGISTER: u32 = 1;
    /// The entry holds the reply: take it and put the next request there.
    pub const COMMIT_AND_FETCH: u32 = 2;
}
