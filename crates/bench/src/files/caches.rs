//! Emptying the kernel's caches, as far as this process may.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{Advice, fadvise, syncfs};
use serde::{Deserialize, Serialize};

use super::space::Space;

/// What the caches held when a phase began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// Nothing in the kernel's. What a daemon behind a mount, a server or a disk keeps is theirs.
    Dropped,
    /// The contents of this benchmark's large files were dropped from the kernel's; names and attributes were not.
    ContentsDropped,
    /// Whatever the phases before left there: dropping was asked for, but refused.
    Refused,
    /// Whatever the phases before left there, as asked for.
    Kept,
}

const DROP: &str = "/proc/sys/vm/drop_caches";

/// Writes out what the file systems of `spaces` still hold back, so that it is not done in the time of what follows. File systems
/// that cannot are left alone.
pub fn settle(spaces: &[&Space]) {
    for space in spaces {
        let _ = File::open(space.root()).map(|directory| syncfs(&directory));
    }
}

/// Empties the caches before a phase on `space`, as well as it can; `big` says that the phase is about the large files.
pub fn drop_all(space: &Space, threads: u32, big: bool) -> Caches {
    if fs::write(DROP, "3\n").is_ok() {
        return Caches::Dropped;
    }
    let dropped = big && (0..threads).all(|thread| drop_contents(&space.big(thread)).is_ok());
    if dropped { Caches::ContentsDropped } else { Caches::Refused }
}

/// Anyone may do this. Pages that are not yet written out stay; the file was synced.
fn drop_contents(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}
