//! What may happen. Inodes are chosen by an index into those that exist, so that most choices make sense.

use std::ops::Range;

use proptest::prelude::*;

use crate::{Kind, RenameMode};

/// Offsets and lengths in files are in cells of this many bytes.
pub const CELL: u64 = 1024;
/// Cells in a chunk.
const CHUNK: u64 = headrace_layout::CHUNK_SIZE / CELL;
/// Cells in a unit of collapse and insert.
pub const BLOCK: u64 = crate::SHIFT_ALIGNMENT / CELL;

/// Chooses among what exists.
pub type Choice = usize;
/// One of a few names.
pub type Name = u8;

#[derive(Clone, Debug)]
pub enum Operation {
    Create {
        dir: Choice,
        name: Name,
        kind: Kind,
    },
    CreateUnnamed,
    Link {
        ino: Choice,
        dir: Choice,
        name: Name,
    },
    Unlink {
        dir: Choice,
        name: Name,
    },
    Rmdir {
        dir: Choice,
        name: Name,
    },
    Rename {
        from: (Choice, Name),
        to: (Choice, Name),
        mode: RenameMode,
    },
    Chmod {
        ino: Choice,
        mode: u16,
    },
    SetXattr {
        ino: Choice,
        name: Name,
        value: u8,
    },
    RemoveXattr {
        ino: Choice,
        name: Name,
    },
    Write {
        file: Choice,
        at: u64,
        len: u64,
        inline: bool,
        grow: bool,
    },
    Truncate {
        file: Choice,
        size: u64,
    },
    Punch {
        file: Choice,
        at: u64,
        len: u64,
    },
    Zero {
        file: Choice,
        at: u64,
        len: u64,
        keep_size: bool,
    },
    Clone {
        src: Choice,
        from: u64,
        dst: Choice,
        to: u64,
        len: u64,
    },
    Collapse {
        file: Choice,
        at: u64,
        len: u64,
    },
    Insert {
        file: Choice,
        at: u64,
        len: u64,
    },
    Seek {
        file: Choice,
        at: u64,
        hole: bool,
    },
    /// Packs what is inline, while a write comes in between.
    Pack {
        file: Choice,
        at: u64,
        len: u64,
    },
    /// Copies what a file has in segments to a new one.
    Compact {
        file: Choice,
    },
    Collect,
    Reclaim {
        ino: Choice,
    },
    Reopen,
}

fn choice() -> impl Strategy<Value = Choice> {
    0..64usize
}

fn name() -> impl Strategy<Value = Name> {
    0..4u8
}

/// Near the start, and around two chunk boundaries.
fn cell() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..40u64, 2 => CHUNK - 12..CHUNK + 12, 1 => 2 * CHUNK - 4..2 * CHUNK + 8]
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..20u64, 1 => CHUNK - 8..CHUNK + 8, 1 => Just(3 * CHUNK)]
}

fn short() -> impl Strategy<Value = u64> {
    1..24u64
}

fn block() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..8u64, 1 => CHUNK / BLOCK - 3..CHUNK / BLOCK + 3].prop_map(|block| block * BLOCK)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::File), 4 => Just(Kind::Directory), 1 => Just(Kind::Symlink), 1 => Just(Kind::Fifo)]
}

fn mode() -> impl Strategy<Value = RenameMode> {
    prop_oneof![
        4 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange),
    ]
}

fn name_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => (choice(), name(), kind()).prop_map(|(dir, name, kind)| Create { dir, name, kind }),
        1 => Just(CreateUnnamed),
        3 => (choice(), choice(), name()).prop_map(|(ino, dir, name)| Link { ino, dir, name }),
        2 => (choice(), name()).prop_map(|(dir, name)| Unlink { dir, name }),
        1 => (choice(), name()).prop_map(|(dir, name)| Rmdir { dir, name }),
        5 => ((choice(), name()), (choice(), name()), mode())
            .prop_map(|(from, to, mode)| Rename { from, to, mode }),
        1 => (choice(), 0..=0o7777u16).prop_map(|(ino, mode)| Chmod { ino, mode }),
        1 => (choice(), name(), any::<u8>()).prop_map(|(ino, name, value)| SetXattr { ino, name, value }),
        1 => (choice(), name()).prop_map(|(ino, name)| RemoveXattr { ino, name }),
        2 => choice().prop_map(|ino| Reclaim { ino }),
        1 => Just(Collect),
        1 => Just(Reopen),
    ]
}

fn data_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let write = (choice(), cell(), short(), any::<bool>(), prop::bool::weighted(0.9));
    prop_oneof![
        8 => write.prop_map(|(file, at, len, inline, grow)| Write { file, at, len, inline, grow }),
        2 => (choice(), cell()).prop_map(|(file, size)| Truncate { file, size }),
        2 => (choice(), cell(), len()).prop_map(|(file, at, len)| Punch { file, at, len }),
        1 => (choice(), cell(), len(), any::<bool>())
            .prop_map(|(file, at, len, keep_size)| Zero { file, at, len, keep_size }),
        3 => (choice(), cell(), choice(), cell(), len())
            .prop_map(|(src, from, dst, to, len)| Clone { src, from, dst, to, len }),
        2 => (choice(), block(), block()).prop_map(|(file, at, len)| Collapse { file, at, len }),
        2 => (choice(), block(), block()).prop_map(|(file, at, len)| Insert { file, at, len }),
        2 => (choice(), cell(), any::<bool>()).prop_map(|(file, at, hole)| Seek { file, at, hole }),
        2 => (choice(), cell(), short()).prop_map(|(file, at, len)| Pack { file, at, len }),
        1 => choice().prop_map(|file| Compact { file }),
    ]
}

pub fn operations(count: Range<usize>) -> impl Strategy<Value = Vec<Operation>> {
    // A few files to begin with, or half of all sequences would have nothing to write to.
    let start = (0..4u8).prop_map(|files| {
        (0..files).map(|name| Operation::Create { dir: 0, name, kind: Kind::File }).collect::<Vec<_>>()
    });
    let rest = prop::collection::vec(prop_oneof![name_operation(), data_operation()], count);
    (start, rest).prop_map(|(mut operations, rest)| {
        operations.extend(rest);
        operations
    })
}
