//! `headrace umount`

use std::time::Duration;

use headrace_fuse::mount;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Call, progress};
use crate::cli::command::UmountCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::daemon::handler::Unmounted;
use crate::failure::{Exit, Failure};
use crate::output::{self, progress::Progress};

/// How long the daemon's process may take to go after it has said that all is written out.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(call: &Call, command: &UmountCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let runtime_dir = settings.process.runtime_dir.as_deref();
    // A daemon whose mount is gone already may still be writing out.
    let (record, at) = match find::entry(&command.mountpoint) {
        Ok(entry) => {
            let at = output::path(&entry.mount_point);
            match find::by_entry(&entry, runtime_dir) {
                Some(record) => (record, at),
                None => return without_daemon(&entry, &at),
            }
        }
        Err(failure) => match find::ending(&command.mountpoint, runtime_dir) {
            Some(record) => (record, output::path(&command.mountpoint)),
            None => return Err(failure),
        },
    };
    // Before the request: afterwards the number could already be another process's.
    let daemon = process(record.pid);
    let bar = Progress::new(&format!("unmounting {at}"));
    let request = Request::Shutdown { lazy: command.lazy, leave: command.leave };
    let result: Unmounted = Client::connect(&record)?.call(&request, &mut progress::of_daemon(&bar))?;
    drop(bar);
    if !result.ended {
        output::say(&format!(
            "{at} is detached and everything written so far is in the store. Process {} goes on serving what is still \
             open there and ends with the last user.",
            record.pid
        ));
        return Ok(());
    }
    match daemon {
        Some(daemon) if !wait(&daemon, EXIT_LIMIT) => Err(Failure::new(format!(
            "{at} is unmounted and everything is written out, but its process {} does not end",
            record.pid
        ))),
        _ => Ok(()),
    }
}

/// The daemon does not answer: a dead mount, somebody else's, or not ours at all.
fn without_daemon(entry: &mount::MountEntry, at: &str) -> Result<(), Failure> {
    if !entry.is_headrace() {
        let kind = output::name(entry.fs_type.as_bytes());
        return Err(Failure::new(format!("what is mounted on {at} is no headrace volume but {kind}"))
            .advise(format!("Use umount {at}."))
            .exit(Exit::NotFound));
    }
    if !is_dead(&entry.mount_point) {
        return Err(Failure::new(format!("the process that serves {at} cannot be reached"))
            .advise("Run this as the user who mounted it, with the same --runtime-dir, or use umount(8).")
            .exit(Exit::Denied));
    }
    mount::unmount(&entry.mount_point, true).map_err(|e| Failure::new("").because(&e))?;
    output::say(&format!("{at} was left behind by a process that is gone; it is removed."));
    Ok(())
}

/// Whether nobody serves the mount any more. Asks for the directory itself, since attributes may be cached.
fn is_dead(mountpoint: &std::path::Path) -> bool {
    std::fs::read_dir(mountpoint).is_err_and(|e| {
        matches!(e.kind(), std::io::ErrorKind::NotConnected | std::io::ErrorKind::ConnectionAborted)
    })
}

fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits for a process to end; false if it did not within `limit`.
fn wait(process: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(ready) => return ready > 0,
            Err(_) => return false,
        }
    }
}
