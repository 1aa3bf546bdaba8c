//! The operations, and how random ones are made.

use proptest::prelude::*;

use crate::content::PAGE;

/// Names that operations act on: few, so that they collide; every one may be a file at one time and a directory at
/// another. Some are hostile.
pub const PATHS: [&str; 16] = [
    "a",
    "b",
    "c",
    "d",
    "d/a",
    "d/b",
    "d/e",
    "d/e/a",
    "d/e/b",
    "d/e/f",
    "e",
    "e/a",
    "e/b",
    "e/new\nline",
    "ü-☃",
    "b/x",
];

/// Open files per thread.
pub const SLOTS: usize = 4;

pub const XATTRS: [&str; 3] = ["user.one", "user.two", "trusted.three"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Falloc {
    Allocate,
    KeepSize,
    Punch,
    Zero,
    ZeroKeepSize,
    Collapse,
    Insert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    Replace,
    NoReplace,
    Exchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    Set,
    Create,
    Replace,
}

/// Indices: `path` into [`PATHS`], `slot` below [`SLOTS`], `xattr` into [`XATTRS`].
#[derive(Clone, Debug)]
pub enum Op {
    Open { slot: usize, path: usize, create: bool, excl: bool, trunc: bool, append: bool, mode: u32 },
    Tmpfile { slot: usize, mode: u32 },
    LinkSlot { slot: usize, path: usize },
    Close { slot: usize },
    Write { slot: usize, offset: u64, len: u64, seed: u64 },
    Read { slot: usize, offset: u64, len: u64 },
    MapWrite { slot: usize, offset: u64, len: u64, seed: u64, sync: bool },
    MapRead { slot: usize, offset: u64, len: u64 },
    Ftruncate { slot: usize, size: u64 },
    Truncate { path: usize, size: u64 },
    Fallocate { slot: usize, mode: Falloc, offset: u64, len: u64 },
    Copy { from: usize, to: usize, from_offset: u64, to_offset: u64, len: u64 },
    Seek { slot: usize, offset: u64, hole: bool },
    Fsync { slot: usize, data_only: bool },
    Fstat { slot: usize },
    Stat { path: usize },
    Mkdir { path: usize, mode: u32 },
    Rmdir { path: usize },
    Unlink { path: usize },
    Rename { from: usize, to: usize, mode: RenameMode },
    Link { from: usize, to: usize },
    Symlink { path: usize, target: u8 },
    Readlink { path: usize },
    Fifo { path: usize, mode: u32 },
    Chmod { path: usize, mode: u32 },
    Chown { path: usize, uid: Option<u32>, gid: Option<u32> },
    Utimens { path: usize, atime: (i64, u32), mtime: (i64, u32) },
    SetXattr { path: usize, xattr: usize, len: usize, seed: u64, mode: XattrMode },
    GetXattr { path: usize, xattr: usize },
    RemoveXattr { path: usize, xattr: usize },
    ListXattr { path: usize },
    List { path: usize },
    SharedAppend,
    SharedCreate,
    SharedLink,
}

fn path() -> impl Strategy<Value = usize> {
    0..PATHS.len()
}

fn slot() -> impl Strategy<Value = usize> {
    0..SLOTS
}

/// Mostly within a small file, so that operations meet; some around the sizes at which the file system changes its ways
/// (inline data, frames, 64 MiB of range per key).
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0..40_000u64,
        4 => 0..300_000u64,
        2 => (0..64u64).prop_map(|page| page * PAGE),
        1 => 65_000..66_000u64,
        1 => (64u64 << 20) - 9_000..(64 << 20) + 9_000,
    ]
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..5_000u64, 3 => 1..70_000u64, 1 => 100_000..200_000u64]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..0o1000u32, 1 => 0..0o10000u32]
}

fn time() -> impl Strategy<Value = (i64, u32)> {
    // From 1906 to 2255: what every file system of the machine can keep.
    (-2_000_000_000..9_000_000_000i64, 0..1_000_000_000u32)
}

fn falloc() -> impl Strategy<Value = Falloc> {
    use Falloc::*;
    prop_oneof![
        Just(Allocate),
        Just(KeepSize),
        Just(Punch),
        Just(Zero),
        Just(ZeroKeepSize),
        Just(Collapse),
        Just(Insert)
    ]
}

fn data_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (slot(), offset(), len(), any::<u64>()).prop_map(|(slot, offset, len, seed)| Op::Write { slot, offset, len, seed }),
        6 => (slot(), offset(), len()).prop_map(|(slot, offset, len)| Op::Read { slot, offset, len }),
        3 => (slot(), offset(), len(), any::<u64>(), any::<bool>())
            .prop_map(|(slot, offset, len, seed, sync)| Op::MapWrite { slot, offset, len, seed, sync }),
        2 => (slot(), offset(), len()).prop_map(|(slot, offset, len)| Op::MapRead { slot, offset, len }),
        3 => (slot(), offset()).prop_map(|(slot, size)| Op::Ftruncate { slot, size }),
        1 => (path(), offset()).prop_map(|(path, size)| Op::Truncate { path, size }),
        5 => (slot(), falloc(), offset(), len()).prop_map(|(slot, mode, offset, len)| match mode {
            // These two need alignment: the page of the offset, and at least one page.
            Falloc::Collapse | Falloc::Insert => {
                Op::Fallocate { slot, mode, offset: offset / PAGE * PAGE, len: (len / PAGE).max(1) * PAGE }
            }
            _ => Op::Fallocate { slot, mode, offset, len },
        }),
        4 => (slot(), slot(), offset(), offset(), len())
            .prop_map(|(from, to, from_offset, to_offset, len)| Op::Copy { from, to, from_offset, to_offset, len }),
        3 => (slot(), offset(), any::<bool>()).prop_map(|(slot, offset, hole)| Op::Seek { slot, offset, hole }),
        2 => (slot(), any::<bool>()).prop_map(|(slot, data_only)| Op::Fsync { slot, data_only }),
        2 => slot().prop_map(|slot| Op::Fstat { slot }),
    ]
}

fn open_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (slot(), path(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), mode()).prop_map(
            |(slot, path, not_create, excl, trunc, append, mode)| {
                Op::Open { slot, path, create: !not_create, excl: excl && !not_create, trunc, append, mode }
            }
        ),
        1 => (slot(), mode()).prop_map(|(slot, mode)| Op::Tmpfile { slot, mode }),
        1 => (slot(), path()).prop_map(|(slot, path)| Op::LinkSlot { slot, path }),
        3 => slot().prop_map(|slot| Op::Close { slot }),
    ]
}

fn name_op() -> impl Strategy<Value = Op> {
    use RenameMode::*;
    let rename = prop_oneof![3 => Just(Replace), 1 => Just(NoReplace), 1 => Just(Exchange)];
    prop_oneof![
        4 => (path(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        2 => path().prop_map(|path| Op::Rmdir { path }),
        3 => path().prop_map(|path| Op::Unlink { path }),
        6 => (path(), path(), rename).prop_map(|(from, to, mode)| Op::Rename { from, to, mode }),
        3 => (path(), path()).prop_map(|(from, to)| Op::Link { from, to }),
        1 => (path(), 0..200u8).prop_map(|(path, target)| Op::Symlink { path, target }),
        1 => path().prop_map(|path| Op::Readlink { path }),
        1 => (path(), mode()).prop_map(|(path, mode)| Op::Fifo { path, mode }),
        4 => path().prop_map(|path| Op::Stat { path }),
        2 => path().prop_map(|path| Op::List { path }),
    ]
}

fn attribute_op() -> impl Strategy<Value = Op> {
    use XattrMode::*;
    let set = prop_oneof![2 => Just(Set), 1 => Just(Create), 1 => Just(Replace)];
    let id = || prop_oneof![1 => Just(None), 3 => (0..5u32).prop_map(|n| Some(n * 1000))];
    let xattr = || 0..XATTRS.len();
    prop_oneof![
        3 => (path(), mode()).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        2 => (path(), id(), id()).prop_map(|(path, uid, gid)| Op::Chown { path, uid, gid }),
        3 => (path(), time(), time()).prop_map(|(path, atime, mtime)| Op::Utimens { path, atime, mtime }),
        3 => (path(), xattr(), 0..500usize, any::<u64>(), set)
            .prop_map(|(path, xattr, len, seed, mode)| Op::SetXattr { path, xattr, len, seed, mode }),
        1 => (path(), xattr()).prop_map(|(path, xattr)| Op::GetXattr { path, xattr }),
        1 => (path(), xattr()).prop_map(|(path, xattr)| Op::RemoveXattr { path, xattr }),
        1 => path().prop_map(|path| Op::ListXattr { path }),
    ]
}

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => data_op(),
        4 => open_op(),
        6 => name_op(),
        3 => attribute_op(),
        1 => prop_oneof![3 => Just(Op::SharedAppend), 1 => Just(Op::SharedCreate), 1 => Just(Op::SharedLink)],
    ]
}
