//! The two headers. Transaction n writes header n mod 2; the newer one counts.

use super::file::DataFile;
use super::page::{Fields, HEADER, META};
use crate::KvError;

const MAGIC: u32 = 0xbeef_c0de;
const DATA_VERSION: u32 = 1;
/// The table of free pages has integer keys; no other flag is ever set in our files.
const FREE_FLAGS: u16 = 0x08;
/// Bytes of a table's description.
pub(super) const TABLE_BYTES: usize = 48;
/// Of a header behind the page's own: magic, version, address, size of the mapping, two tables, last page, transaction.
const META_BYTES: usize = 24 + 2 * TABLE_BYTES + 16;
/// A table without pages.
const NO_ROOT: u64 = u64::MAX;
/// As many levels as LMDB goes down.
const MAX_DEPTH: u16 = 32;

/// A table's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TableInfo {
    /// In the table of free pages: the page size.
    pad: u32,
    pub(super) flags: u16,
    pub(super) depth: u16,
    pub(super) entries: u64,
    /// `None` if it is empty.
    pub(super) root: Option<u64>,
}

impl TableInfo {
    /// Reads a description; `None` if it contradicts itself.
    pub(super) fn parse(bytes: &[u8]) -> Option<TableInfo> {
        if bytes.len() != TABLE_BYTES {
            return None;
        }
        let mut fields = Fields(bytes);
        let (pad, flags, depth) = (fields.u32()?, fields.u16()?, fields.u16()?);
        let _pages = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (entries, root) = (fields.u64()?, fields.u64()?);
        let root = (root != NO_ROOT).then_some(root);
        let empty = root.is_none();
        (depth <= MAX_DEPTH && (depth == 0) == empty && (entries == 0) == empty).then_some(TableInfo {
            pad,
            flags,
            depth,
            entries,
            root,
        })
    }
}

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub(super) free: TableInfo,
    pub(super) main: TableInfo,
    pub(super) last_page: u64,
    pub(super) txn: u64,
    pub(super) page_size: usize,
}

impl Meta {
    fn parse(bytes: &[u8], number: u64) -> Option<Meta> {
        let mut fields = Fields(bytes);
        let (own_number, _pad, flags, _bounds) = (fields.u64()?, fields.u16()?, fields.u16()?, fields.u32()?);
        let (magic, version, _address, _map) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
        let free = TableInfo::parse(fields.take(TABLE_BYTES)?)?;
        let main = TableInfo::parse(fields.take(TABLE_BYTES)?)?;
        let (last_page, txn) = (fields.u64()?, fields.u64()?);
        let page_size = usize::try_from(free.pad).ok()?;
        (own_number == number
            && flags == META
            && magic == MAGIC
            && version == DATA_VERSION
            && free.flags == FREE_FLAGS
            && main.flags == 0
            && page_size.is_power_of_two()
            && (512..=32768).contains(&page_size))
        .then_some(Meta { free, main, last_page, txn, page_size })
    }

    fn read(file: &DataFile<'_>, number: u64, page_size: usize) -> Result<Meta, KvError> {
        let mut bytes = [0; HEADER + META_BYTES];
        file.read(&mut bytes, number * page_size as u64)?;
        Meta::parse(&bytes, number).ok_or_else(|| file.damaged(&format!("header {number} is damaged")))
    }

    /// The header that counts, of a file that nobody writes.
    pub(super) fn newest(file: &DataFile<'_>) -> Result<Meta, KvError> {
        let first = Meta::read(file, 0, 0)?;
        let second = Meta::read(file, 1, first.page_size)?;
        let metas = [first, second];
        // Header 0 of a new file was written by nobody.
        let own = |i: usize| metas[i].txn % 2 == i as u64 || metas[i].txn == 0;
        if first.page_size != second.page_size || first.txn.abs_diff(second.txn) > 1 || !own(0) || !own(1) {
            return Err(file.damaged("its two headers do not go together"));
        }
        let meta = if first.txn < second.txn { second } else { first };
        meta.bounded(file)
    }

    /// The header that transaction `txn` wrote, of a file that is in use; `None` if it has been replaced.
    pub(super) fn of(file: &DataFile<'_>, txn: u64) -> Result<Option<Meta>, KvError> {
        // The other header may be written at this moment; this one may be, too, by the transaction after the next.
        let page_size = {
            let mut bytes = [0; HEADER + 28];
            file.read(&mut bytes, 0)?;
            let size = Fields(bytes.get(HEADER + 24..).unwrap_or_default()).u32().unwrap_or(0);
            size as usize
        };
        let number = txn % 2;
        let (Ok(once), Ok(twice)) =
            (Meta::read(file, number, page_size), Meta::read(file, number, page_size))
        else {
            return Ok(None);
        };
        if once != twice || once.txn != txn || once.page_size != page_size {
            return Ok(None);
        }
        once.bounded(file).map(Some)
    }

    /// Pages may be missing from the end of the file only if they are free: those that a transaction took and gave back.
    fn bounded(self, file: &DataFile<'_>) -> Result<Meta, KvError> {
        let in_file = file.len()? / self.page_size as u64;
        if self.last_page > in_file.saturating_add(1 << 20) {
            return Err(file.damaged(&format!("its last page is {}, it has {in_file}", self.last_page)));
        }
        Ok(self)
    }
}
