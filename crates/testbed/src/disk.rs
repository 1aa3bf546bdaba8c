//! A disk that is soon full.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::Run;

/// A small disk in memory, gone with this value.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// One of so many MiB, mounted at `path`, which is made.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn mount(path: PathBuf, mib: u64) -> SmallDisk {
        std::fs::create_dir_all(&path).expect("a directory for the disk");
        Run::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(&path).ok();
        SmallDisk { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it but for `leave` bytes; the file that does it.
    ///
    /// # Panics
    /// When that does not work.
    pub fn fill(&self, leave: u64) -> PathBuf {
        let stat = rustix::fs::statvfs(&self.path).expect("statvfs");
        let free = stat.f_bavail * stat.f_frsize;
        let ballast = self.path.join("ballast");
        let file = File::create(&ballast).expect("a file that fills the disk");
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            free.saturating_sub(leave).max(1),
        )
        .expect("filling the disk");
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Run::new("umount").arg("-l").arg(&self.path).finish();
    }
}
