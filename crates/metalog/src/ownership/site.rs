//! Who we are: the identity of a state directory, kept in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Claim, ClaimError};
use crate::object::Writer;

const FILE: &str = "site.json";
const TEMPORARY: &str = "site.json.new";
const MAX_BYTES: u64 = 256 << 10;

/// Claims that are remembered until one of them is settled.
const MAX_PENDING: usize = 1000;

/// Identity of a state directory on a machine. The process that has the directory's lock knows that any other that claimed the
/// volume from here is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Of the directory.
    pub id: Uuid,
    /// Of the machine: a directory that is copied to another machine is not the same site.
    pub machine: String,
}

/// What a state directory remembers about claims made from it. Guard it with the directory's lock.
#[derive(Debug)]
pub struct SiteRecord {
    dir: PathBuf,
    site: Site,
    stored: Stored,
    /// A simulated disk instead of `dir`.
    #[cfg(test)]
    disk: Option<std::sync::Arc<parking_lot::Mutex<Option<Stored>>>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    id: Uuid,
    /// The claim under which the local engine's state and the log's end went together.
    settled: Option<Uuid>,
    /// Claims made since, of which it is not known whether they reached the log.
    pending: Vec<Uuid>,
}

impl SiteRecord {
    /// The record in the state directory `dir`; made if there is none.
    pub fn open(dir: &Path) -> Result<SiteRecord, ClaimError> {
        let path = dir.join(FILE);
        let stored = read(&path).map_err(|error| failed(&path, &format!("cannot be read: {error}")))?;
        let (stored, fresh) = match stored {
            None => (Stored { id: Uuid::new_v4(), settled: None, pending: Vec::new() }, true),
            Some(bytes) => {
                let stored = serde_json::from_slice(&bytes).map_err(|error| {
                    let detail = format!(
                        "it is damaged ({error}); remove it to rebuild this machine's metadata from the store, \
                         without what was not yet sent there"
                    );
                    failed(&path, &detail)
                })?;
                (stored, false)
            }
        };
        let site = Site { id: stored.id, machine: machine() };
        let record = SiteRecord {
            dir: dir.to_owned(),
            site,
            stored,
            #[cfg(test)]
            disk: None,
        };
        if fresh {
            record.save()?;
        }
        Ok(record)
    }

    /// A record on a simulated disk of the machine `machine`.
    #[cfg(test)]
    pub(super) fn in_memory(
        disk: std::sync::Arc<parking_lot::Mutex<Option<Stored>>>,
        id: Uuid,
        machine: &str,
    ) -> SiteRecord {
        let fresh = Stored { id, settled: None, pending: Vec::new() };
        let stored = disk.lock().get_or_insert(fresh).clone();
        let site = Site { id: stored.id, machine: machine.into() };
        SiteRecord { dir: PathBuf::new(), site, stored, disk: Some(disk) }
    }

    /// Who we are.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Whether `writer` is the one that our local state belongs to.
    pub(super) fn is_settled(&self, writer: &Writer) -> bool {
        writer.site == self.site.id && self.stored.settled == Some(writer.claim)
    }

    /// Whether `writer` is a claim of ours under which nothing was written but that it began.
    pub(super) fn is_pending(&self, writer: &Writer) -> bool {
        writer.site == self.site.id && self.stored.pending.contains(&writer.claim)
    }

    /// Remembers a claim that is about to be made.
    pub(super) fn intend(&mut self, claim: Uuid) -> Result<(), ClaimError> {
        self.stored.pending.push(claim);
        let excess = self.stored.pending.len().saturating_sub(MAX_PENDING);
        self.stored.pending.drain(..excess);
        self.save()
    }

    /// Forgets a claim that certainly did not come about.
    pub(super) fn forget(&mut self, claim: Uuid) -> Result<(), ClaimError> {
        self.stored.pending.retain(|pending| *pending != claim);
        self.save()
    }

    /// Records, durably, that the local engine's state goes with this claim: it was continuous, or has been rebuilt from
    /// the bucket. To be called after that is durable, and before anything is shipped.
    pub fn settle(&mut self, claim: &Claim) -> Result<(), ClaimError> {
        self.settle_writer(claim.writer())
    }

    /// The writer of a new volume's first object, before there is any claim; the local engine's state goes with it.
    pub fn first_writer(&mut self) -> Result<Writer, ClaimError> {
        let writer = Writer { epoch: 0, site: self.site.id, claim: Uuid::new_v4() };
        self.settle_writer(writer)?;
        Ok(writer)
    }

    fn settle_writer(&mut self, writer: Writer) -> Result<(), ClaimError> {
        self.stored.settled = Some(writer.claim);
        self.stored.pending.clear();
        self.save()
    }

    fn save(&self) -> Result<(), ClaimError> {
        #[cfg(test)]
        if let Some(disk) = &self.disk {
            *disk.lock() = Some(self.stored.clone());
            return Ok(());
        }
        let path = self.dir.join(FILE);
        let failed = |error: io::Error| failed(&path, &format!("cannot be written: {error}"));
        let bytes = serde_json::to_vec_pretty(&self.stored).map_err(|error| failed(error.into()))?;
        replace(&self.dir, &bytes).map_err(failed)
    }
}

fn failed(path: &Path, detail: &str) -> ClaimError {
    ClaimError::Site { path: path.display().to_string(), detail: detail.into() }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes the file whole, durably, in place of what was there.
fn replace(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = dir.join(TEMPORARY);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// What tells this machine from others: systemd's machine id, else its name.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = id.trim();
    if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return id.to_owned();
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_keeps_its_identity_and_what_it_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = SiteRecord::open(dir.path()).unwrap();
        let id = record.site().id;
        let first = record.first_writer().unwrap();
        let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
        record.intend(a).unwrap();
        record.intend(b).unwrap();
        record.forget(b).unwrap();
        let record = SiteRecord::open(dir.path()).unwrap();
        assert_eq!(record.site().id, id);
        assert!(record.is_settled(&first) && !record.is_pending(&first));
        let writer = |claim| Writer { epoch: 3, site: id, claim };
        assert!(record.is_pending(&writer(a)) && !record.is_pending(&writer(b)));
        assert!(!record.is_pending(&Writer { site: Uuid::nil(), ..writer(a) }));
    }

    #[test]
    fn a_damaged_record_is_named_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), b"{").unwrap();
        let message = SiteRecord::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("site.json: it is damaged") && message.contains("remove it"), "{message}");
    }
}
