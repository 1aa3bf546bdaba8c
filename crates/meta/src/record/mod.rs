//! Records: the values under the keys. Each begins with a version byte; integers are big endian.

mod counters;
mod entry;
mod inline;
mod inode;
mod kept;
mod segment;
mod usage;

use headrace_layout::InodeNo;

pub(crate) use counters::Counters;
pub(crate) use entry::Entry;
pub(crate) use inline::InlineRecord;
pub(crate) use inode::{Flags, Inode, NOWHERE};
pub(crate) use kept::KeptRecord;
pub(crate) use segment::SegmentRecord;

use crate::{Kind, MetaError, Result, Time};

/// The version that every record begins with so far.
const VERSION: u8 = 1;

/// Reads a record field by field; every shortage is an error.
struct Fields<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Checks and skips the version byte.
    fn new(what: &'static str, bytes: &'a [u8]) -> Result<Fields<'a>> {
        let mut fields = Fields { what, rest: bytes };
        let version = fields.u8()?;
        if version != VERSION {
            return Err(fields.error(&format!("record version {version} is unknown")));
        }
        Ok(fields)
    }

    fn error(&self, detail: &str) -> MetaError {
        MetaError::Corrupt(format!("{} record: {detail}", self.what))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error("too short"));
        };
        self.rest = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn ino(&mut self) -> Result<InodeNo> {
        self.u64().map(InodeNo)
    }

    fn kind(&mut self) -> Result<Kind> {
        let byte = self.u8()?;
        Kind::from_byte(byte).ok_or_else(|| self.error(&format!("kind {byte} is unknown")))
    }

    fn time(&mut self) -> Result<Time> {
        let secs = self.array().map(i64::from_be_bytes)?;
        let nanos = self.u32()?;
        if nanos >= 1_000_000_000 {
            return Err(self.error("a time has more than a second of nanoseconds"));
        }
        Ok(Time { secs, nanos })
    }

    /// Whatever is left.
    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("too long")) }
    }
}

/// Appends a time as [`Fields::time`] reads it.
fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend_from_slice(&time.secs.to_be_bytes());
    out.extend_from_slice(&time.nanos.to_be_bytes());
}

#[cfg(test)]
mod tests;
