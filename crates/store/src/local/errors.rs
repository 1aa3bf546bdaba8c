//! What the kernel's error numbers mean for a store.

use rustix::io::Errno;

use crate::error::{ErrorKind, StoreError};

/// An operation on an object failed.
pub(super) fn of_object(operation: &'static str, url: &str, key: &str, errno: Errno) -> StoreError {
    let (kind, detail) = match errno {
        Errno::NOENT => (ErrorKind::NotFound, "no such object".to_owned()),
        // Looked for as an object, a directory is nothing; written to, it is in the way.
        Errno::NOTDIR | Errno::ISDIR | Errno::LOOP if operation != "put" => {
            (ErrorKind::NotFound, "no such object".to_owned())
        }
        Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => (
            ErrorKind::Unsupported,
            "in a local directory one key cannot be an object and the beginning of other keys at the same time".to_owned(),
        ),
        Errno::NAMETOOLONG => (ErrorKind::Unsupported, "the path is too long for this file system".to_owned()),
        other => of_system(other),
    };
    StoreError::new(kind, operation, format!("{url}/{key}"), detail)
}

/// An operation on the root failed.
pub(super) fn of_root(operation: &'static str, url: &str, errno: Errno) -> StoreError {
    let (kind, detail) = match errno {
        Errno::NOENT => {
            (ErrorKind::NotFound, "no such directory; check the path, or create a volume there".to_owned())
        }
        Errno::NOTDIR => (ErrorKind::Unsupported, "this is not a directory".to_owned()),
        other => of_system(other),
    };
    StoreError::new(kind, operation, url, detail)
}

fn of_system(errno: Errno) -> (ErrorKind, String) {
    let why = std::io::Error::from(errno);
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            (ErrorKind::Full, format!("{why}; free some space or raise the quota"))
        }
        Errno::ACCESS | Errno::PERM => {
            (ErrorKind::Denied, format!("{why}; check owner and mode of the directory"))
        }
        Errno::ROFS => (ErrorKind::Denied, format!("{why}; mount it for writing")),
        Errno::MFILE | Errno::NFILE => {
            (ErrorKind::Throttled, format!("{why}; raise the limit of open files"))
        }
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::FBIG | Errno::SPIPE => {
            (ErrorKind::Unsupported, format!("{why}; this file system cannot hold a store"))
        }
        _ => (ErrorKind::Transient, why.to_string()),
    }
}
