//! A file system must not lie below its own mount point: each of its reads would wait for itself.

use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// Refuses a mount point that would hide one of the places the daemon itself needs, or that lies within the volume's own
/// directory. `own` are these places with what to call them.
pub fn refuse(mountpoint: &Path, own: &[(&str, Option<PathBuf>)]) -> Result<(), Failure> {
    let at = resolve(mountpoint);
    for (what, path) in own {
        let Some(path) = path.as_deref().map(resolve) else { continue };
        let shown = crate::output::path(&path);
        if path.starts_with(&at) {
            return Err(Failure::usage(format!(
                "{what} ({shown}) lies below the mount point and would be hidden by it"
            ))
            .advise("Choose another mount point.")
            .exit(Exit::Usage));
        }
        if *what == "the volume" && at.starts_with(&path) {
            return Err(Failure::usage(format!(
                "the mount point lies within the volume's own directory ({shown})"
            ))
            .advise("Choose a mount point outside of it."));
        }
    }
    Ok(())
}

/// Without symbolic links, as far as the path exists.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in absolute.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // Joining an empty path would add a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(mountpoint: &str, volume: &str, log: &str) -> bool {
        let own =
            [("the volume", Some(volume.into())), ("the log file", Some(log.into())), ("nothing", None)];
        refuse(Path::new(mountpoint), &own).is_err()
    }

    #[test]
    fn overlaps_are_refused() {
        assert!(!refused("/no/mnt", "/no/vol", "/no/log"));
        assert!(!refused("/no/vol2", "/no/vol", "/no/log"));
        assert!(refused("/no/vol", "/no/vol", "/no/log"));
        assert!(refused("/no", "/no/vol", "/other/log"));
        assert!(refused("/no/vol/mnt", "/no/vol", "/no/log"));
        assert!(refused("/no/mnt", "/no/vol", "/no/mnt/log"));
        assert!(!refused("/no/log/mnt", "/no/vol", "/no/log"));
    }

    #[test]
    fn symbolic_links_do_not_hide_an_overlap() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("vol")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("vol"), dir.path().join("link")).unwrap();
        let own = [("the volume", Some(dir.path().join("vol")))];
        assert!(refuse(&dir.path().join("link/mnt"), &own).is_err());
    }
}
