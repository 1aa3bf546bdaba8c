//! Where staged files are: one local file for each, named by the inode it is of.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use std::sync::atomic::{AtomicU64, Ordering};

use headrace_layout::InodeNo;
use headrace_meta::{Attr, Time};
use parking_lot::Mutex;

use super::life::Stamp;

/// A file of no content, whose room is for metadata when files to be written back have filled the disk.
const RESERVE: &str = "reserve";

/// Which file it is a copy of: an inode's number and the time of its creation, as numbers are used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub ino: InodeNo,
    pub created: Time,
}

impl Name {
    pub fn of(attr: &Attr) -> Name {
        Name { ino: attr.ino, created: attr.btime }
    }

    fn text(self) -> String {
        format!("{}-{}-{:09}", self.ino.0, self.created.secs, self.created.nanos)
    }

    fn parse(text: &str) -> Option<Name> {
        // Seconds before 1970 have a sign, which looks like what separates.
        let (rest, nanos) = text.rsplit_once('-')?;
        let (ino, secs) = rest.split_once('-')?;
        let created = Time { secs: secs.parse().ok()?, nanos: nanos.parse().ok()? };
        let name = Name { ino: InodeNo(ino.parse().ok()?), created };
        (name.text() == text).then_some(name)
    }
}

/// Files that are kept to be used again. ext4 looks for an inode that was not deleted of late, one by one, which takes longer than all
/// else that is done for a small file.
const SPARE: usize = 1 << 14;
const SPARE_PREFIX: &str = "spare-";

/// The directory.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Empty files that nobody has open, by number.
    spare: Mutex<Vec<u64>>,
    spares: AtomicU64,
    /// To sync names in it.
    handle: File,
}

impl Directory {
    /// That at `path`; with `create` it is made if it is not there.
    pub fn open(path: PathBuf, create: bool) -> io::Result<Option<Directory>> {
        if create {
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) => File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?,
                Err(_) => {}
            }
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(handle) => {
                Ok(Some(Directory { path, spare: Mutex::default(), spares: AtomicU64::new(0), handle }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file is.
    pub fn path_of(&self, name: Name) -> PathBuf {
        self.at(name)
    }

    fn at(&self, name: Name) -> PathBuf {
        self.path.join(name.text())
    }

    fn spare(&self, number: u64) -> PathBuf {
        self.path.join(format!("{SPARE_PREFIX}{number}"))
    }

    /// A new, empty file.
    pub fn create(&self, name: Name) -> io::Result<File> {
        let spare = self.spare.lock().pop();
        if let Some(number) = spare {
            fs::rename(self.spare(number), self.at(name))?;
            return self.open_file(name);
        }
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(self.at(name))
    }

    pub fn open_file(&self, name: Name) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(self.at(name))
    }

    /// What a file that is not open looks like.
    pub fn stamp(&self, name: Name) -> io::Result<Stamp> {
        fs::symlink_metadata(self.at(name)).map(|meta| stamp_of(&meta))
    }

    pub fn remove(&self, name: Name) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    /// Removes a file that nobody else has open, or keeps it for another.
    pub fn recycle(&self, name: Name, file: &File) -> io::Result<()> {
        if self.spare.lock().len() >= SPARE {
            return self.remove(name);
        }
        let number = self.spares.fetch_add(1, Ordering::Relaxed);
        // In this order: under its name it has all bytes, whenever this process is killed.
        fs::rename(self.at(name), self.spare(number))?;
        file.set_len(0)?;
        self.spare.lock().push(number);
        Ok(())
    }

    /// Removes what is of no use when nothing new is to come, or was left by a process that ended.
    pub fn tidy(&self) -> io::Result<()> {
        self.spare.lock().clear();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let of_no_use = |name: &str| name == RESERVE || name.starts_with(SPARE_PREFIX);
            if entry.file_name().to_str().is_some_and(of_no_use) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Puts a file where it is never looked for again, but by people.
    pub fn set_aside(&self, name: Name) -> io::Result<PathBuf> {
        let aside = self.path.join("set-aside");
        match DirBuilder::new().mode(0o700).create(&aside) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let to = aside.join(name.text());
        fs::rename(self.at(name), &to)?;
        Ok(to)
    }

    /// Makes names durable.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Every staged file there is.
    pub fn list(&self) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Some(name) = entry.file_name().to_str().and_then(Name::parse)
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Keeps `bytes` of the disk for later.
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join(RESERVE))?;
        if file.metadata()?.blocks().saturating_mul(512) < bytes {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        }
        Ok(())
    }

    /// Gives that back to the disk; whether there was any.
    pub fn release_reserve(&self) -> bool {
        fs::remove_file(self.path.join(RESERVE)).is_ok()
    }

    /// Size of its disk and what of it is free, bytes.
    pub fn space(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstatvfs(&self.handle)?;
        Ok((stat.f_blocks.saturating_mul(stat.f_frsize), stat.f_bavail.saturating_mul(stat.f_frsize)))
    }
}

/// What an open file looks like.
pub(super) fn stamp(file: &File) -> io::Result<Stamp> {
    file.metadata().map(|meta| stamp_of(&meta))
}

fn stamp_of(meta: &fs::Metadata) -> Stamp {
    let time = |secs, nanos: i64| Time { secs, nanos: u32::try_from(nanos).unwrap_or(0) };
    Stamp {
        size: meta.size(),
        allocated: meta.blocks().saturating_mul(512),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
        ctime: time(meta.ctime(), meta.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_nobodys() {
        for secs in [0, 1, -5, i64::MAX, i64::MIN] {
            let name = Name { ino: InodeNo(77), created: Time { secs, nanos: 12 } };
            assert_eq!(Name::parse(&name.text()), Some(name));
        }
        for other in
            ["", "7", "7-8", "7-8-9", "x-1-000000001", "7-1-000000001.new", "set-aside", "07-1-000000001"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
