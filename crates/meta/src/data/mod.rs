//! What files hold: chunks of extents.

pub(crate) mod chunks;
mod clone;
mod commit;
mod editor;
mod punch;
mod seek;
mod shift;
mod swap;
mod truncate;
mod types;

use headrace_layout::{CHUNK_SIZE, ExtentMap, InodeNo};
pub use types::{DataCommit, NewData, NewExtent, Swap};

use crate::namespace::Namespace;
use crate::record::{Flags, Inode};
use crate::transaction::Tx;
use crate::{Kind, MAX_FILE_SIZE, MetaError, Result, key};

impl Namespace {
    /// The extents of a chunk, none of them past the end of the file.
    pub fn extents(&self, ino: InodeNo, chunk: u32) -> Result<ExtentMap> {
        self.view(|read| {
            let inode = Inode::require(read, ino)?;
            check_file(&inode)?;
            let within = inode.size.saturating_sub(u64::from(chunk) * CHUNK_SIZE);
            if within == 0 {
                return Ok(ExtentMap::default());
            }
            let mut map = chunks::load(read, ino, chunk)?;
            if let Ok(within) = u32::try_from(within) {
                map.punch(within, u32::MAX);
            }
            Ok(map)
        })
    }

    /// The sealed bytes of an inline value; `None` once nothing refers to it.
    pub fn inline_value(&self, ino: InodeNo, id: u64) -> Result<Option<Vec<u8>>> {
        self.view(|read| Ok(read.get(&key::inline(ino, id))?.map(|value| value.into_owned())))
    }

    /// Runs `f` as a transaction on a regular file that has nothing past its end: an interrupted shortening is finished
    /// first, so that no old byte can come into view again.
    fn update_file<T>(&self, ino: InodeNo, mut f: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        loop {
            let done = self.update(|tx| {
                let inode = tx.inode(ino)?;
                check_file(inode)?;
                if inode.flags.has(Flags::UNSETTLED) {
                    return Ok(None);
                }
                f(tx).map(Some)
            })?;
            match done {
                Some(value) => return Ok(value),
                None => self.settle(ino)?,
            }
        }
    }
}

fn check_file(inode: &Inode) -> Result<()> {
    match inode.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(MetaError::IsDirectory),
        _ => Err(MetaError::Invalid("not a regular file")),
    }
}

/// The end of a range that must be within the longest file.
fn range_end(offset: u64, len: u64) -> Result<u64> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_FILE_SIZE => Ok(end),
        _ => Err(MetaError::FileTooBig),
    }
}
