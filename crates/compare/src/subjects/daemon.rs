//! A process that serves a mount.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headrace_testbed::mount_table_has;
use headrace_testbed::process::{wait_for, wait_until};

use crate::account::Group;
use crate::failure::{Context, Failure, Result};

/// Longest time until a mount is there.
const MOUNT_LIMIT: Duration = Duration::from_secs(60);
/// Longest time until all that was written is in the store.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(180);
/// Characters of a log in an error.
const LOG_TAIL: usize = 400;

/// A daemon in the foreground, in a group of its own.
#[derive(Debug)]
pub struct Daemon {
    group: Group,
    child: Child,
    log: PathBuf,
    unmount: Vec<String>,
}

impl Daemon {
    /// Starts what `command` says in `group` and waits until `at` is a mount point.
    ///
    /// `unmount` is the command that ends it, without the mount point: `umount` for most.
    pub fn start(
        group: Group,
        mut command: Command,
        at: &Path,
        log: PathBuf,
        unmount: &[&str],
    ) -> Result<Daemon> {
        let out = File::create(&log).context(|| format!("creating {}", log.display()))?;
        let err = out.try_clone().context(|| "dup of a file".into())?;
        let started = command.stdout(Stdio::from(out)).stderr(Stdio::from(err)).spawn();
        let child = started.context(|| format!("starting {:?}", command.get_program()))?;
        let unmount = unmount.iter().map(|part| (*part).to_owned()).collect();
        let mut daemon = Daemon { group, child, log, unmount };
        let up = wait_until(MOUNT_LIMIT, || match daemon.child.try_wait() {
            Ok(None) => mount_table_has(at).then_some(true),
            _ => Some(false),
        });
        // The first answer may take longer than the mount itself.
        if up == Some(true) && std::fs::read_dir(at).is_ok() {
            return Ok(daemon);
        }
        let why = daemon.tail();
        daemon.abandon(at);
        Err(Failure::new(format!("mounting failed: {why}")))
    }

    /// Its processes.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Unmounts and waits for the end of the daemon. Gives its processor time, all of it.
    pub fn unmount(mut self, at: &Path) -> Result<Duration> {
        let Some((program, args)) = self.unmount.split_first() else {
            return Err(Failure::new("no way to unmount"));
        };
        let ask = || {
            let mut child = Command::new(program)
                .args(args)
                .arg(at)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let status = wait_for(&mut child, UNMOUNT_LIMIT);
            if status.is_none() {
                headrace_testbed::process::kill_group(&mut child);
            }
            status.filter(|status| status.success())
        };
        // Busy for a moment, should another process just look at it.
        let asked = wait_until(Duration::from_secs(5), ask).is_some();
        let ended = asked && wait_for(&mut self.child, UNMOUNT_LIMIT).is_some();
        let helpers =
            ended && wait_until(UNMOUNT_LIMIT, || self.group.members().is_empty().then_some(())).is_some();
        if helpers && !mount_table_has(at) {
            return Ok(self.group.cpu());
        }
        let why = self.tail();
        self.abandon(at);
        Err(Failure::new(format!("unmounting failed: {why}")))
    }

    /// Ends it by force.
    pub fn abandon(mut self, at: &Path) {
        self.group.kill();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for _ in 0..4 {
            if !mount_table_has(at) {
                return;
            }
            let _ =
                Command::new("umount").arg("-l").arg(at).stdin(Stdio::null()).stderr(Stdio::null()).status();
        }
    }

    fn tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).trim().replace('\n', " / ");
        let skip = text.chars().count().saturating_sub(LOG_TAIL);
        text.chars().skip(skip).collect()
    }
}
