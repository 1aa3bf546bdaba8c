//! What is known of a deleted inode that is kept: the value of its orphan record. That of one that is not is empty.

use headrace_kv::Read;
use headrace_layout::InodeNo;

use super::{Fields, VERSION, put_time};
use crate::namespace::name;
use crate::{Result, Time, key};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptRecord {
    /// When it lost its last name.
    pub deleted: Time,
    /// Until when it is kept.
    pub until: Time,
    /// The directory that the name was in, which may be deleted as well.
    pub parent: InodeNo,
    /// The name.
    pub name: Vec<u8>,
}

impl KeptRecord {
    /// `None` for an inode that is not kept: no orphan, or one to be reclaimed.
    pub(crate) fn load(read: &dyn Read, ino: InodeNo) -> Result<Option<KeptRecord>> {
        read.get(&key::orphan(ino))?.map_or(Ok(None), |bytes| KeptRecord::decode(&bytes))
    }

    /// `None` of an empty value.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<KeptRecord>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields::new("orphan", bytes)?;
        let (deleted, until, parent) = (fields.time()?, fields.time()?, fields.ino()?);
        let name = fields.rest().to_vec();
        if name::check_new(&name).is_err() {
            return Err(fields.error("the name is none that a file can have"));
        }
        Ok(Some(KeptRecord { deleted, until, parent, name }))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_time(&mut out, self.deleted);
        put_time(&mut out, self.until);
        out.extend_from_slice(&self.parent.0.to_be_bytes());
        out.extend_from_slice(&self.name);
        out
    }
}
