//! Which directory a file goes into, and under which name.

use std::collections::HashSet;

use headrace_layout::{DirectoryRecord, FileRecord, InodeNo};
use headrace_meta::{Kind, MetaError, Namespace};

use super::staging::Staging;
use crate::error::{Result, VolumeError};

/// For what has no name.
pub(super) const LOST_FOUND: &[u8] = b"lost+found";
/// Directories remembered.
const REMEMBERED: usize = 1 << 20;
/// Names tried for one thing in `lost+found`.
const TRIES: u32 = 100;
/// Deepest path followed.
const MAX_DEPTH: usize = 4096;

pub(super) struct Places<'a> {
    staging: &'a Staging,
    namespace: &'a Namespace,
    /// Who gets what nobody is known to own.
    owner: (u32, u32),
    lost_found: Option<InodeNo>,
    /// Directories that are there, of those met lately.
    ready: HashSet<InodeNo>,
}

impl<'a> Places<'a> {
    pub fn new(staging: &'a Staging, namespace: &'a Namespace) -> Places<'a> {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Places { staging, namespace, owner, lost_found: None, ready: HashSet::new() }
    }

    /// Creates a file under the name it had, else in `lost+found`; whether it has its name.
    pub fn file(&mut self, ino: InodeNo) -> Result<bool> {
        if let Some((_, record)) = self.staging.file(ino)? {
            self.directory(record.parent)?;
            if self.staging.has_name(record.parent, &record.name, ino)? {
                match self.namespace.rebuild_file(&record) {
                    Ok(()) => return Ok(true),
                    // Another file had the name later.
                    Err(MetaError::Exists) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.lost_file(record)?;
            return Ok(false);
        }
        let (uid, gid) = self.owner;
        self.lost_file(FileRecord {
            ino,
            parent: InodeNo::ROOT,
            name: Vec::new(),
            mode: 0o600,
            uid,
            gid,
            size: 0,
            mtime_secs: 0,
            mtime_nanos: 0,
        })?;
        Ok(false)
    }

    fn lost_file(&mut self, record: FileRecord) -> Result<()> {
        let parent = self.lost_found()?;
        for name in lost_names(record.ino) {
            match self.namespace.rebuild_file(&FileRecord { parent, name, ..record.clone() }) {
                Err(MetaError::Exists) => {}
                other => return Ok(other?),
            }
        }
        Err(clash(record.ino))
    }

    /// Makes sure that a directory is there, with those above it.
    pub fn directory(&mut self, ino: InodeNo) -> Result<()> {
        let mut missing: Vec<DirectoryRecord> = Vec::new();
        let mut met = HashSet::new();
        let mut at = ino;
        while at != InodeNo::ROOT && !self.ready.contains(&at) {
            let known =
                if met.insert(at) && missing.len() < MAX_DEPTH { self.staging.directory(at)? } else { None };
            // Nothing leads further up from one that is unknown, or that is below itself.
            let Some((_, record)) = known else { break };
            at = record.parent;
            missing.push(record);
        }
        let reaches_root = at == InodeNo::ROOT || self.ready.contains(&at);
        if !reaches_root {
            self.lost_directory(at)?;
        }
        while let Some(record) = missing.pop() {
            if record.ino != at {
                self.named_directory(record)?;
            }
        }
        Ok(())
    }

    fn named_directory(&mut self, record: DirectoryRecord) -> Result<()> {
        let ino = record.ino;
        if !self.staging.has_name(record.parent, &record.name, ino)? {
            return self.lost_directory(ino);
        }
        match self.namespace.rebuild_directory(&record) {
            Ok(()) => self.remember(ino),
            Err(MetaError::Exists) => return self.lost_directory(ino),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A directory that is known by its number only, or whose name is taken.
    fn lost_directory(&mut self, ino: InodeNo) -> Result<()> {
        let parent = self.lost_found()?;
        let (uid, gid) = self.owner;
        let record = match self.staging.directory(ino)? {
            Some((_, record)) => record,
            None => DirectoryRecord { ino, parent, name: Vec::new(), mode: 0o700, uid, gid },
        };
        for name in lost_names(ino) {
            match self.namespace.rebuild_directory(&DirectoryRecord { parent, name, ..record.clone() }) {
                Err(MetaError::Exists) => {}
                other => {
                    other?;
                    self.remember(ino);
                    return Ok(());
                }
            }
        }
        Err(clash(ino))
    }

    fn remember(&mut self, ino: InodeNo) {
        if self.ready.len() >= REMEMBERED {
            self.ready.clear();
        }
        self.ready.insert(ino);
    }

    fn lost_found(&mut self) -> Result<InodeNo> {
        if let Some(dir) = self.lost_found {
            return Ok(dir);
        }
        let (uid, gid) = self.owner;
        let caller = headrace_meta::Caller { uid, gid, umask: 0o077 };
        for number in 0..TRIES {
            let name =
                if number == 0 { LOST_FOUND.to_vec() } else { format!("lost+found.{number}").into_bytes() };
            let dir =
                match self.namespace.create(InodeNo::ROOT, &name, Kind::Directory, 0o700, 0, None, &caller) {
                    Ok(attr) => attr,
                    Err(MetaError::Exists) => self.namespace.lookup(InodeNo::ROOT, &name)?,
                    Err(error) => return Err(error.into()),
                };
            if dir.kind == Kind::Directory {
                self.lost_found = Some(dir.ino);
                return Ok(dir.ino);
            }
        }
        Err(clash(InodeNo::ROOT))
    }
}

/// Names tried for what has none.
fn lost_names(ino: InodeNo) -> impl Iterator<Item = Vec<u8>> {
    let numbered = (1..TRIES).map(move |number| format!("{ino}.{number}").into_bytes());
    std::iter::once(ino.0.to_string().into_bytes()).chain(numbered)
}

fn clash(ino: InodeNo) -> VolumeError {
    VolumeError::System {
        operation: "rebuilding",
        detail: format!("no name is left for inode {ino} in lost+found, or its number is used twice"),
    }
}
