//! Totals of the direct children of a directory. No record stands for an empty directory.

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Fields, VERSION};
use crate::{DirTotals, Result, key};

impl DirTotals {
    pub(crate) fn load(read: &dyn Read, dir: InodeNo) -> Result<DirTotals> {
        match read.get(&key::usage(dir))? {
            Some(bytes) => DirTotals::decode(&bytes),
            None => Ok(DirTotals::default()),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<DirTotals> {
        let mut fields = Fields::new("directory totals", bytes)?;
        let totals = DirTotals {
            files: fields.u64()?,
            directories: fields.u64()?,
            bytes: fields.u64()?,
            allocated: fields.u64()?,
        };
        fields.end()?;
        Ok(totals)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for value in [self.files, self.directories, self.bytes, self.allocated] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Sum, modulo 2^64 so that adding and taking away again is exact even among absurdly long sparse files.
    pub(crate) fn plus(self, other: DirTotals) -> DirTotals {
        DirTotals {
            files: self.files.wrapping_add(other.files),
            directories: self.directories.wrapping_add(other.directories),
            bytes: self.bytes.wrapping_add(other.bytes),
            allocated: self.allocated.wrapping_add(other.allocated),
        }
    }

    /// Difference, modulo 2^64.
    pub(crate) fn minus(self, other: DirTotals) -> DirTotals {
        DirTotals {
            files: self.files.wrapping_sub(other.files),
            directories: self.directories.wrapping_sub(other.directories),
            bytes: self.bytes.wrapping_sub(other.bytes),
            allocated: self.allocated.wrapping_sub(other.allocated),
        }
    }
}
