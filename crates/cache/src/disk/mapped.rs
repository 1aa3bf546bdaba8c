//! Whether anybody but us has a file open or mapped.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Once;

/// Whether somebody else has it open, for reading or writing, or has a mapping of it; yes if that cannot be found out. `file` is
/// open for writing, and the only one of this process.
///
/// A write lease is given only to who is alone with a file, whoever opened it and how. (Linux, fs/locks.c: `check_conflicting_open`.)
pub fn is_open_elsewhere(file: &File) -> bool {
    static IGNORED: Once = Once::new();
    IGNORED.call_once(|| {
        // Whoever opens the file while the lease is held has us sent this signal, which would end the process.
        // SAFETY: ignoring a signal that nothing here handles.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
        }
    });
    let fd = file.as_raw_fd();
    // SAFETY: F_SETLEASE takes an integer; the descriptor is open.
    #[allow(unsafe_code)]
    let alone = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } == 0;
    if alone {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        unsafe {
            libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
        }
    }
    !alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, b"some bytes").expect("written");
        let ours = File::options().read(true).write(true).open(&path).expect("open");
        assert!(!is_open_elsewhere(&ours));
        let reader = File::open(&path).expect("open");
        assert!(is_open_elsewhere(&ours));
        drop(reader);
        assert!(!is_open_elsewhere(&ours));
        let writer = File::options().append(true).open(&path).expect("open");
        assert!(is_open_elsewhere(&ours));
        drop(writer);
        assert!(!is_open_elsewhere(&ours));
    }
}
