//! The directory of a run, and that nothing of it is left when the run is over, however it ends.
//!
//! A run holds a lock on its directory. A second process, the guard, waits for the end of the run and then ends its
//! processes, unmounts what it has mounted and removes its directory. Should the guard be killed as well, the next run finds
//! a directory that nobody holds and does the same.

mod guard;
mod sweep;

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::account::Root;
use crate::failure::{Context, Result};
pub use guard::Guard;
pub use sweep::{clean, sweep};

/// How the directories of runs are named.
pub const PREFIX: &str = "headrace-compare-";
const LOCK: &str = "lock";

/// The directory of this run.
#[derive(Debug)]
pub struct Workspace {
    dir: PathBuf,
    root: Option<Root>,
    // Held for as long as the run.
    _lock: File,
    guard: Option<Guard>,
}

impl Workspace {
    /// A fresh directory below `parent`, watched by a guard.
    pub fn new(parent: &Path) -> Result<Workspace> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
        let dir = made.context(|| format!("creating a directory in {}", parent.display()))?.keep();
        let lock = lock(&dir)?;
        let guard = Guard::start(&dir)?;
        // Temporary files of libraries (a server's data) go where they are found again.
        let inner = dir.join("tmp");
        std::fs::create_dir(&inner).context(|| format!("creating {}", inner.display()))?;
        let _ = tempfile::env::override_temp_dir(&inner);
        let root = Root::new(&name_of(&dir));
        Ok(Workspace { dir, root: Some(root), _lock: lock, guard: Some(guard) })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// What groups of processes are made below.
    pub fn groups(&self) -> Result<&Root> {
        self.root.as_ref().context_none("the run is over")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.root = None;
        clean(&self.dir);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

trait ContextNone<T> {
    fn context_none(self, why: &str) -> Result<T>;
}

impl<T> ContextNone<T> for Option<T> {
    fn context_none(self, why: &str) -> Result<T> {
        self.ok_or_else(|| crate::failure::Failure::new(why))
    }
}

/// The name of a run's processes: that of its directory.
fn name_of(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::create(&path).context(|| format!("creating {}", path.display()))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// The guard's own part: `headrace-compare guard DIR`.
pub fn watch(dir: &Path) {
    guard::watch(dir);
}
