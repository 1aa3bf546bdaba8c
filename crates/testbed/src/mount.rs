//! A mount that is gone, with its daemon, when the guard is dropped.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::process::wait_until;
use crate::{Backing, Finished, Run, TestVolume};

/// Unmounting waits until everything is flushed: on a slow disk that takes a while.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(180);
/// Exit status of the program for a volume or mount point in use.
const EXIT_IN_USE: i32 = 4;
/// From the end of the unmount to the end of the daemon.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Set, all mounts are to have their requests by io_uring: any suite can be run so. The switch is the caller's to set.
pub const BY_IO_URING: &str = "HEADRACE_TEST_IO_URING";

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Values for `-o`; `allow_other` by default, for the tests that act as other users.
    pub options: Vec<String>,
    /// Further arguments.
    pub args: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        let mut options = vec!["allow_other".to_owned()];
        options.extend(std::env::var_os(BY_IO_URING).map(|_| "io-uring".to_owned()));
        MountOptions { options, args: Vec::new() }
    }
}

impl MountOptions {
    /// Adds one value for `-o`.
    pub fn option(mut self, option: &str) -> MountOptions {
        self.options.push(option.into());
        self
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: &str) -> MountOptions {
        self.args.push(arg.into());
        self
    }
}

/// A mounted volume (or the plain directory that stands for it on the native file system).
#[derive(Debug)]
pub struct Mounted<'v> {
    volume: &'v TestVolume,
    options: MountOptions,
    live: bool,
}

impl<'v> Mounted<'v> {
    pub(crate) fn new(volume: &'v TestVolume, options: &MountOptions) -> Mounted<'v> {
        let mut mounted = Mounted { volume, options: options.clone(), live: false };
        if volume.backing() != Backing::Native {
            let finished = mounted.try_mount();
            mounted.live = true;
            assert!(finished.status.success(), "{finished}\n--- log\n{}", volume.log());
            assert!(
                mount_table_has(&volume.mount_point()),
                "mount returned before the mount was there: {finished}"
            );
        }
        mounted
    }

    fn try_mount(&self) -> Finished {
        let volume = self.volume;
        let mut run = volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
        run = run.arg("--log-file").arg(volume.log_file());
        if !self.options.options.is_empty() {
            run = run.arg("-o").arg(self.options.options.join(","));
        }
        run.args(&self.options.args).limit(Duration::from_secs(120)).finish()
    }

    /// The mount point.
    pub fn path(&self) -> PathBuf {
        self.volume.mount_point()
    }

    /// A path below the mount point.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// The volume.
    pub fn volume(&self) -> &'v TestVolume {
        self.volume
    }

    /// Unmounts with the program's own command; everything is in the store afterwards.
    ///
    /// # Panics
    /// When it fails, or leaves the mount or the daemon behind.
    pub fn unmount(mut self) {
        self.unmount_now();
    }

    /// Unmounts and mounts again with the same options: what a test sees then comes from the store.
    pub fn remount(mut self) -> Mounted<'v> {
        self.unmount_now();
        Mounted::new(self.volume, &self.options)
    }

    fn unmount_now(&mut self) {
        if self.live {
            let finished = self.ask_to_unmount();
            assert!(finished.status.success(), "{finished}\n--- log\n{}", self.volume.log());
            self.live = false;
            self.assert_gone();
            self.volume.empty_cache();
        }
    }

    /// `headrace umount`, again for a moment while the mount is in use: a process that another test of this program is
    /// just starting holds copies of this test's open files until its exec.
    fn ask_to_unmount(&self) -> Finished {
        let ask = || self.volume.command(&["umount"]).arg(self.path()).limit(UNMOUNT_LIMIT).finish();
        let again = wait_until(Duration::from_secs(2), || {
            Some(ask()).filter(|f| f.status.code() != Some(EXIT_IN_USE))
        });
        again.unwrap_or_else(ask)
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// When there is none, or on the native file system.
    pub fn daemon(&self) -> Pid {
        let found = daemons_of(&self.path());
        assert_eq!(found.len(), 1, "one daemon should serve {}: {found:?}", self.path().display());
        found[0]
    }

    /// Sends the daemon a signal and waits until it has ended.
    pub fn signal_and_wait(&self, signal: Signal) {
        let daemon = self.daemon();
        rustix::process::kill_process(daemon, signal).expect("signalling the daemon");
        assert!(
            wait_for_exit(daemon, UNMOUNT_LIMIT),
            "the daemon did not end after {signal:?}\n{}",
            self.volume.log()
        );
    }

    /// `kill -9`: the mount point stays behind, dead. Drop or the next mount deals with it.
    pub fn kill(&self) {
        self.signal_and_wait(Signal::KILL);
    }

    /// Tells the guard that the test itself has ended the mount. Checks that nothing is left.
    pub fn ended(mut self) {
        self.live = false;
        self.assert_gone();
    }

    /// Tells the guard that the mount was taken over, as after a crash: a new guard will look after it.
    pub fn abandon(mut self) {
        self.live = false;
    }

    fn assert_gone(&self) {
        let path = self.path();
        assert!(!mount_table_has(&path), "{} is still mounted", path.display());
        let gone = wait_until(EXIT_LIMIT, || daemons_of(&path).is_empty().then_some(())).is_some();
        assert!(gone, "a daemon still runs for {}: {:?}", path.display(), daemons_of(&path));
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if !self.live {
            return;
        }
        if std::thread::panicking() {
            eprintln!("--- end of the daemon's log\n{}", tail(&self.volume.log(), 20));
        } else {
            let finished = self.ask_to_unmount();
            if finished.status.success() {
                self.assert_gone();
                return;
            }
            eprintln!("{finished}");
        }
        force_unmount(&self.path());
        assert!(std::thread::panicking(), "{} had to be unmounted by force", self.path().display());
    }
}

/// The last resort: ends the daemon and detaches whatever is mounted at `path`.
pub fn force_unmount(path: &Path) {
    for daemon in daemons_of(path) {
        let _ = rustix::process::kill_process(daemon, Signal::KILL);
        wait_for_exit(daemon, EXIT_LIMIT);
    }
    // One attempt per stacked mount.
    for _ in 0..8 {
        if !mount_table_has(path) {
            return;
        }
        let _ = Run::new("umount").arg("-l").arg(path).finish();
    }
}

/// The `headrace` processes whose command line names `path`.
pub fn daemons_of(path: &Path) -> Vec<Pid> {
    let wanted = path.as_os_str().as_bytes();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let exe = std::fs::read_link(entry.path().join("exe")).ok()?;
            // A binary that was rebuilt meanwhile shows as "headrace (deleted)".
            if !exe.file_name()?.as_bytes().starts_with(b"headrace") {
                return None;
            }
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let mut args = command.split(|byte| *byte == 0);
            if zombie(pid) || !args.any(|arg| arg == wanted) {
                return None;
            }
            Pid::from_raw(pid)
        })
        .collect()
}

/// Waits until a process that is not a child has ended.
pub fn wait_for_exit(pid: Pid, limit: Duration) -> bool {
    wait_until(limit, || {
        let gone = rustix::process::test_kill_process(pid).is_err() || zombie(pid.as_raw_nonzero().get());
        gone.then_some(())
    })
    .is_some()
}

/// Ended, but not yet reaped by its parent. Not while other threads of it are still ending: they hold its files and locks.
fn zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let leader_ended = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    leader_ended && std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1
}

/// True when something is mounted exactly at `path`. Looks at the mount table only, so that a dead mount cannot hang it.
pub fn mount_table_has(path: &Path) -> bool {
    mount_options(path).is_some()
}

/// The type and options of what is mounted at `path`: `fuse.headrace rw,nosuid,...`.
pub fn mount_options(path: &Path) -> Option<String> {
    let table = std::fs::read("/proc/self/mounts").expect("/proc/self/mounts");
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').skip(1);
            (unescape(fields.next()?) == path.as_os_str().as_bytes()).then_some(())?;
            let rest: Vec<_> = fields.take(2).map(String::from_utf8_lossy).collect();
            Some(rest.join(" "))
        })
        .next_back()
}

/// The mount table writes space, tab, newline and backslash as octal escapes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_table_escapes_are_read() {
        assert_eq!(unescape(b"/a\\040b\\134c"), b"/a b\\c");
        assert_eq!(unescape(b"/plain\\x"), b"/plain\\x");
        assert!(mount_table_has(Path::new("/proc")));
        assert!(!mount_table_has(Path::new("/proc/self")));
    }
}
