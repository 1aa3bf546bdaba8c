//! A log file: bounded in size, reopened on demand, private.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::OFlags;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::{Context, Failure};

/// At this size the file is renamed to `<file>.1`, replacing the one before, and a new one begun.
const MAX_BYTES: u64 = 64 << 20;

/// A handle on the file; clones write to the same one.
#[derive(Clone, Debug)]
pub struct LogFile {
    shared: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl LogFile {
    /// Opens `path` for appending, creating it (mode 0600) and its directory (mode 0700) where they are missing.
    pub fn open(path: &Path) -> Result<LogFile, Failure> {
        Self::with_limit(path, MAX_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> Result<LogFile, Failure> {
        let what = || format!("cannot open the log file {}", crate::output::path(path));
        let path = std::path::absolute(path).context(what)?;
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).context(what)?;
        }
        let (file, written) = open(&path)
            .map_err(|e| Failure::new(what()).because(&e).advise("Give another one with --log-file."))?;
        Ok(LogFile { shared: Arc::new(Mutex::new(Open { path, file, written, limit })) })
    }

    /// Closes the file and opens it anew by its name, for log rotation. On failure the old one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        self.shared.lock().reopen()
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.shared.lock().path.clone()
    }
}

impl Open {
    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.written) = open(&self.path)?;
        Ok(())
    }

    fn rotate(&mut self) {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        // Where that fails, logging goes on in the file at hand, and is tried again one limit later.
        if std::fs::rename(&self.path, old).and_then(|()| self.reopen()).is_err() {
            self.written = 0;
        }
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// One log line on its way to the file.
pub struct LineWriter(Arc<Mutex<Open>>);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut open = self.0.lock();
        if open.written >= open.limit {
            open.rotate();
        }
        open.file.write_all(line)?;
        open.written = open.written.saturating_add(line.len() as u64);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter(Arc::clone(&self.shared))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(log: &LogFile, line: &str) {
        log.make_writer().write_all(line.as_bytes()).unwrap();
    }

    #[test]
    fn directory_and_file_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headrace/v.log");
        let log = LogFile::open(&path).unwrap();
        write(&log, "hello\n");
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "hello\n");
    }

    #[test]
    fn reopening_follows_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.log");
        let log = LogFile::open(&path).unwrap();
        write(&log, "old\n");
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        log.reopen().unwrap();
        write(&log, "new\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "new\n");
        assert_eq!(std::fs::read_to_string(dir.path().join("moved")).unwrap(), "old\n");
    }

    #[test]
    fn size_is_bounded_and_the_newest_lines_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.log");
        let log = LogFile::with_limit(&path, 100).unwrap();
        for i in 0..100 {
            write(&log, &format!("line {i:03}\n"));
        }
        let sizes: Vec<u64> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|s| *s < 120), "{sizes:?}");
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("line 099\n"));
    }

    #[test]
    fn a_symbolic_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.log");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(LogFile::open(&path).is_err());
    }
}
