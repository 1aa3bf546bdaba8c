//! What an earlier mount has left to be stored.

use std::sync::atomic::Ordering;

use headrace_meta::{Kind, MetaError, Time};

use super::directory::{Directory, Name};
use super::file::Staged;
use super::life::Stamp;
use crate::error::Result;
use crate::vfs::Vfs;

/// By how much a file may seem to be newer than its local copy for the clocks being read differently, seconds.
const SLACK: i64 = 2;

/// What becomes of a local file that was found.
enum Found {
    /// It is what the file is.
    Ours { committed: bool },
    /// Its file is gone, or had nothing in it.
    Nobodys,
    /// Its file has been changed elsewhere since.
    Outdated,
}

impl Vfs {
    /// Takes up what is staged. To be called before anything is asked of this file system.
    ///
    /// # Errors
    /// What there is cannot be found out.
    pub(crate) fn replay_staged(&self) -> Result<()> {
        let Some(directory) = &self.staging.directory else { return Ok(()) };
        let names = directory.list().map_err(|error| super::serve::local(&error))?;
        let mut bytes = 0;
        for name in &names {
            let stamp = directory.stamp(*name).map_err(|error| super::serve::local(&error))?;
            match self.whose(*name, &stamp)? {
                Found::Ours { committed } => {
                    bytes += stamp.allocated;
                    let inode = self.pin(name.ino)?;
                    // One that is kept although it was deleted is stored as any other.
                    inode.unlinked.store(false, Ordering::Relaxed);
                    self.staging.add(&mut inode.state.lock(), Staged::found(*name, stamp, committed));
                    self.staging.enqueue(name.ino);
                }
                _ if self.options.read_only => {}
                Found::Nobodys => self.forget_staged(directory, *name),
                Found::Outdated => match directory.set_aside(*name) {
                    Ok(to) => {
                        let (path, kept) = (self.path_hint(name.ino), to.display().to_string());
                        tracing::warn!(ino = %name.ino, path, kept, "a file was changed elsewhere before what was written here was stored: that is kept");
                    }
                    Err(error) => {
                        tracing::error!(ino = %name.ino, %error, "cannot put a local copy aside that is outdated")
                    }
                },
            }
        }
        if !names.is_empty() {
            tracing::info!(
                files = names.len(),
                bytes,
                "found files to be written back that an earlier mount left"
            );
        }
        Ok(())
    }

    fn whose(&self, name: Name, stamp: &Stamp) -> Result<Found> {
        let attr = match self.meta().getattr(name.ino) {
            Ok(attr) => attr,
            Err(MetaError::NotFound | MetaError::Stale) => return Ok(Found::Nobodys),
            Err(error) => return Err(error.into()),
        };
        if attr.kind != Kind::File
            || Name::of(&attr) != name
            || (attr.nlink == 0 && !self.meta().is_kept(name.ino)?)
        {
            return Ok(Found::Nobodys);
        }
        let newest = Time { secs: stamp.mtime.secs.saturating_add(SLACK), ..stamp.mtime };
        Ok(match attr.size {
            0 if stamp.size == 0 => Found::Nobodys,
            0 => Found::Ours { committed: false },
            _ if attr.mtime > newest => Found::Outdated,
            _ => Found::Ours { committed: true },
        })
    }

    fn forget_staged(&self, directory: &Directory, name: Name) {
        if let Err(error) = directory.remove(name) {
            tracing::error!(ino = %name.ino, %error, "cannot remove a local copy of no use");
        }
    }
}
