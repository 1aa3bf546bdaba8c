//! The kernel's wire format (`linux/fuse.h`, protocol 7.31 to 7.45).

mod args;
mod flags;
mod opcode;
mod reply;
mod request;
mod uring;

pub use args::{Args, Malformed};
pub use flags::{
    FallocateMode, FsyncFlags, InitFlags, OpenIn, OpenOut, SetattrValid, SetxattrFlags, WriteFlags, rename,
};
pub use opcode::Opcode;
pub use reply::{
    AttrOut, CopyFileRangeOut, DirentHeader, EntryOut, FuseAttr, GetxattrOut, InitOut, LseekOut,
    NotifyInvalEntry, NotifyInvalInode, OpenReply, OutHeader, StatfsOut, Statx, StatxOut, StatxTime,
    WriteOut, notify,
};
pub use request::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn, GetattrIn,
    GetxattrIn, InHeader, InitIn, InterruptIn, LinkIn, LseekIn, MkdirIn, MknodIn, OpenRequest, ReadIn,
    ReleaseIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, WriteIn,
};
pub use uring::{RingCommand, RingHeaders, ring_command};

/// The protocol's major version; there has been no other for twenty years.
pub const MAJOR: u32 = 7;
/// The newest minor version whose additions are understood here.
pub const MINOR: u32 = 45;
/// The oldest minor version that is accepted (Linux 5.4).
pub const MINOR_MIN: u32 = 31;
/// The kernel refuses a read(2) on the device with a smaller buffer.
pub const MIN_READ_BUFFER: usize = 8192;

/// Entries of a directory stream are padded to this.
pub const RECORD_ALIGN: usize = 8;
