//! Small disks: soon full, or broken when a test wants it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Run;

/// A small disk, unmounted with this value.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// One in memory, of so many MiB, mounted at `path`, which is made.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn mount(path: PathBuf, mib: u64) -> SmallDisk {
        std::fs::create_dir_all(&path).expect("a directory for the disk");
        Run::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(&path).ok();
        SmallDisk { path }
    }

    /// One with ext4 in the file `image`, of so many MiB, mounted at `path`; both are made.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn ext4(path: PathBuf, image: &Path, mib: u64) -> SmallDisk {
        SmallDisk::formatted(path, image, mib, "mkfs.ext4", &["-q", "-F"])
    }

    /// One with btrfs, which answers a read of what does not match its checksum with EIO; else as [`Self::ext4`].
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn btrfs(path: PathBuf, image: &Path, mib: u64) -> SmallDisk {
        SmallDisk::formatted(path, image, mib, "mkfs.btrfs", &["-q", "-f", "-d", "single", "-m", "single"])
    }

    fn formatted(path: PathBuf, image: &Path, mib: u64, program: &str, args: &[&str]) -> SmallDisk {
        std::fs::create_dir_all(&path).expect("a directory for the disk");
        let file = File::create(image).and_then(|file| file.set_len(mib << 20));
        file.expect("a file for the disk's image");
        Run::new(program).args(args).arg(image).ok();
        let disk = SmallDisk { path };
        disk.mount_image(image);
        disk
    }

    /// Makes the block that begins with `content` unreadable, wherever it is on the image of a [`Self::btrfs`]: when it is not in memory any more.
    ///
    /// # Panics
    /// When it is not there.
    pub fn spoil(&self, image: &Path, content: &[u8]) {
        const BLOCK: usize = 4096;
        Run::new("sync").arg("-f").arg(&self.path).ok();
        let stored = std::fs::read(image).expect("the image");
        let found = stored.chunks(BLOCK).position(|block| block.starts_with(content));
        let at = found.expect("the block is on the disk") * BLOCK;
        let file = File::options().write(true).open(image).expect("the image");
        file.write_all_at(&[!stored[at]], at as u64).expect("spoilt");
        file.sync_all().expect("spoilt");
    }

    /// Mounts an image at its place, once more.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn mount_image(&self, image: &Path) {
        Run::new("mount").args(["-o", "loop"]).arg(image).arg(&self.path).ok();
    }

    /// As after an error of its device: from now on nothing can be written, open files or not.
    ///
    /// # Panics
    /// When its file system cannot do that; ext4 can.
    pub fn abort(&self) {
        Run::new("mount").args(["-o", "remount,abort"]).arg(&self.path).ok();
    }

    /// Makes who writes wait until the answer is dropped.
    ///
    /// # Panics
    /// When its file system cannot do that; ext4 can.
    pub fn freeze(&self) -> Frozen<'_> {
        Run::new("fsfreeze").arg("--freeze").arg(&self.path).ok();
        Frozen { disk: self }
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

/// A disk that takes nothing until this is dropped.
#[derive(Debug)]
pub struct Frozen<'a> {
    disk: &'a SmallDisk,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Run::new("fsfreeze").arg("--unfreeze").arg(&self.disk.path).finish();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Run::new("umount").arg("-l").arg(&self.path).finish();
    }
}
