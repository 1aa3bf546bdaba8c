//! Looks at the data file as bytes, without LMDB, which trusts its file: a damaged page number or length can make it read
//! past a page or give up the process. Here nothing is trusted, and everything reachable from a header is checked:
//!
//! - each page is where it says it is, of the kind its place asks for, and its entries fill it without overlap;
//! - keys ascend, over pages too, and every branch leads to keys of its range only;
//! - no page is used twice, or both used and free;
//! - each record's checksum; and number and digest of all records against what the last commit wrote down;
//! - the log's groups follow each other up to the position.
//!
//! # What is left
//!
//! A small file is verified before LMDB sees it. A larger one is in use while its owner has it verified in the background;
//! until that is done, a damaged branch page can make a key look absent, or end the process. So can end it, at any time, a
//! page that the disk fails to read: with a mapping that is a signal (SIGBUS) and not an error. An end loses nothing: what
//! was acknowledged is on disk and in the log, and verification reads with `pread`, which reports what it meets.
//!
//! The format is that of LMDB's data version 1 on a little-endian machine with 64 bits, as `mdb.c` describes it.

mod file;
mod free;
mod meta;
mod page;
mod seen;
mod tree;
mod verify;

pub(super) use self::file::DataFile;
pub(super) use self::verify::{Outcome, find_state, verify};
