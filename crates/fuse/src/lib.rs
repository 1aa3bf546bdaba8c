//! The kernel front end: the FUSE protocol, mounting, and dispatch to the file system.
//!
//! ```text
//! abi       what goes over /dev/fuse: structures, flags, total parsing
//! mount     getting a mount from the kernel (or fusermount3), the mount table, unmounting
//! session   negotiation, worker threads, interrupts: the life of one mount
//! dispatch  one request: decode, call the file system, encode the answer
//! ```
//!
//! The protocol is spoken directly rather than through a library because the parts that matter here (unnamed
//! temporary files, the kernel's requests to clear setuid bits, interrupts, vectored replies, STATX) are the ones
//! libraries leave out.

// The file system that the tests mount is written against the public API and used by tests in here too.
#[cfg(any(test, fuzzing, feature = "harness"))]
extern crate self as headrace_fuse;

pub mod abi;
mod adapter;
mod dispatch;
mod errno;
mod file_system;
#[cfg(any(fuzzing, feature = "harness"))]
pub mod harness {
    //! Requests without a kernel. For the fuzzers and the benchmarks only.
    pub use crate::dispatch::harness::Kernel;
}
pub mod mount;
mod session;

pub use abi::Opcode;
pub use errno::Errno;
pub use file_system::{
    Attr, Backing, Caller, DirEntry, FileId, FileSystem, InodeNo, Kind, OpenMode, Pending, ReadReply,
    RenameMode, Result, SetAttr, StatFs, Time, XattrMode,
};
pub use mount::{MountEntry, MountError, MountOptions, UnmountError};
pub use session::{MountConfig, Operation, ProcessName, RequestPath, Session, SubscribeError, Subscription};
