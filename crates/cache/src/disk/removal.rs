//! Taking a directory away with all that is cached in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::directory::{DATA, INDEX, LOCK, OLD};

/// Why a directory is still there.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// Somebody uses it at this moment.
    #[error("a mount is using it")]
    InUse,
    /// There is something in it that no cache has put there; what was cached is gone.
    #[error("there are files of somebody else in it")]
    Foreign,
    /// The disk says no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Removes what is cached in a directory, and the directory. Answers the bytes that it took; `None` if there is no such directory, or it was
/// never one to cache in.
///
/// # Errors
/// When it is in use, belongs to somebody else too, or cannot be removed: then some of it may be gone.
pub fn remove_directory(path: &Path) -> Result<Option<u64>, RemovalError> {
    // Not created: who has no lock has no cache.
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(RemovalError::InUse),
        Err(fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let old =
            name.to_str().and_then(|name| name.strip_prefix(OLD)).is_some_and(|rest| rest.starts_with('-'));
        let is_dir = entry.file_type()?.is_dir();
        if is_dir && (old || name == DATA) {
            bytes += taken_by(&entry.path())?;
            fs::remove_dir_all(entry.path())?;
        } else if !is_dir && name == INDEX {
            bytes += blocks(&entry.metadata()?);
            fs::remove_file(entry.path())?;
        }
    }
    // Last: whoever comes meanwhile finds it taken.
    fs::remove_file(path.join(LOCK))?;
    match fs::remove_dir(path) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(RemovalError::Foreign),
        Err(error) => Err(error.into()),
    }
}

/// What is in a directory takes so many bytes of the disk. Symbolic links are not followed.
fn taken_by(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { taken_by(&entry.path())? } else { blocks(&metadata) };
    }
    Ok(bytes)
}

fn blocks(metadata: &fs::Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(path: &Path) {
        fs::create_dir_all(path.join("data/7f")).expect("data");
        fs::create_dir_all(path.join("old-0/00")).expect("old");
        fs::write(path.join("data/7f/entry"), vec![1; 100_000]).expect("entry");
        fs::write(path.join("old-0/00/entry"), vec![1; 50_000]).expect("entry");
        fs::write(path.join("index"), b"index").expect("index");
        fs::write(path.join("lock"), b"").expect("lock");
    }

    #[test]
    fn all_of_it_goes_and_is_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cache");
        assert!(remove_directory(&path).expect("nothing there").is_none());
        cache(&path);
        let bytes = remove_directory(&path).expect("removed").expect("was there");
        assert!((150_000..400_000).contains(&bytes), "{bytes}");
        assert!(!path.exists() && dir.path().exists());
    }

    #[test]
    fn what_is_not_the_caches_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, b"somebody's").expect("a file");
        let path = dir.path().join("cache");
        // Without a lock it is no cache, whatever it looks like.
        fs::create_dir_all(path.join("data")).expect("a directory");
        assert!(remove_directory(&path).expect("not one").is_none() && path.join("data").exists());
        cache(&path);
        fs::write(path.join("notes"), b"mine").expect("a file");
        std::os::unix::fs::symlink(&elsewhere, path.join("data/7f/link")).expect("a link");
        assert!(matches!(remove_directory(&path), Err(RemovalError::Foreign)));
        assert_eq!(fs::read(path.join("notes")).expect("there"), b"mine");
        assert!(elsewhere.exists() && !path.join("data").exists());
    }

    #[test]
    fn what_is_in_use_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cache");
        cache(&path);
        let used = File::open(path.join("lock")).expect("a lock");
        used.try_lock().expect("free");
        assert!(matches!(remove_directory(&path), Err(RemovalError::InUse)));
        assert!(path.join("data/7f/entry").exists());
    }
}
