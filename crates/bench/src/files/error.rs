//! Why a benchmark of a directory ended early.

use std::io;
use std::path::PathBuf;

/// Why a benchmark of a directory ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked to stop.
    #[error("stopped before the end")]
    Stopped,
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// The file system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, as it follows "cannot".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is not room enough for what was asked.
    #[error(
        "{} has room for {available} bytes, but the files need {needed}: ask for fewer or smaller files",
        directory.display()
    )]
    Space {
        /// Where.
        directory: PathBuf,
        /// Bytes there are.
        available: u64,
        /// Bytes there should be.
        needed: u64,
    },
    /// A file does not hold what was written to it.
    #[error("{} does not hold what was written: the byte at {offset} is wrong", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The first wrong byte.
        offset: u64,
    },
    /// A file has another length than it was given.
    #[error("{} should be {expected} bytes long, but is {found}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes written.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A directory does not list what is in it.
    #[error("{} should list {expected} files, but lists {found}", path.display())]
    Listing {
        /// The directory.
        path: PathBuf,
        /// Files created.
        expected: u64,
        /// Files listed, those with names of their own only.
        found: u64,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// What was made could not be deleted again.
    #[error("{} is left behind, delete it: {source}{}", path.display(), earlier(.after))]
    Left {
        /// The directory that is left.
        path: PathBuf,
        /// Why it could not be deleted.
        source: io::Error,
        /// What had gone wrong before.
        after: Option<Box<Error>>,
    },
}

fn earlier(error: &Option<Box<Error>>) -> String {
    error.as_ref().map_or_else(String::new, |error| format!(" (after: {error})"))
}

impl Error {
    /// Whether it was only asked to stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Error::Stopped)
    }

    /// The cause the operating system named, if one did.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Io { source, .. } | Error::Left { source, .. } | Error::Thread(source) => Some(source),
            _ => None,
        }
    }
}

/// Says on what an action failed.
pub(super) trait On<T> {
    /// `action` follows "cannot".
    fn on(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> On<T> for Result<T, E> {
    fn on(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|e| Error::Io { action, path: path.into(), source: e.into() })
    }
}
