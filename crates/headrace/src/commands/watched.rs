//! Mounts that a command watches, which may end while it does.

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::daemon::find;
use crate::daemon::registry::Record;
use crate::failure::{Exit, Failure};
use crate::output;

/// The daemon of a mount point or of the URL of a mounted volume.
pub fn find(target: &str, runtime_dir: Option<&Path>) -> Result<Record, Failure> {
    find::by_target(target, runtime_dir)?.ok_or_else(|| {
        Failure::new(format!("{} is neither mounted nor a mount point", output::name(target.as_bytes())))
            .advise("\"headrace status\" lists what is mounted.")
            .exit(Exit::NotFound)
    })
}

/// Says that there is nothing more to watch.
pub fn ended(daemon: &Record) -> Result<(), Failure> {
    output::say(&format!(
        "headrace: {} was unmounted: nothing is left to watch",
        output::path(&daemon.mountpoint)
    ));
    Ok(())
}

/// What to say when the daemon no longer answers: `failure` is why it seems so.
pub fn lost(daemon: &Record, failure: Failure) -> Failure {
    let at = output::path(&daemon.mountpoint);
    let device = |entry: &headrace_fuse::MountEntry| find::device(entry.major, entry.minor);
    match find::entry(&daemon.mountpoint) {
        Ok(entry) if device(&entry) == daemon.dev => {
            if UnixStream::connect(&daemon.socket).is_ok() {
                return failure;
            }
            let died = format!("the daemon of {at} (process {}) died while it was watched", daemon.pid);
            Failure::new(died).advise("Its log may say why. Mount the volume again on the same directory.")
        }
        _ => Failure::new(format!("{at} was unmounted while it was watched")).exit(Exit::NotFound),
    }
}
