//! One machine's side of a volume: a state directory, a mount point and a log of its own. Two sites of one volume are what
//! two machines are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::mount::{daemons_of, force_unmount, wait_for_exit};
use crate::process::wait_until;
use crate::{Finished, Run, TestVolume, mount_table_has};

/// Longer than any command of a test takes unless it hangs.
const COMMAND_LIMIT: Duration = Duration::from_secs(180);
/// Exit status of the program for a volume or mount point in use.
const EXIT_IN_USE: i32 = 4;
/// How long a killed process may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// A machine. What it has mounted is gone when it is dropped.
#[derive(Debug)]
pub struct Site {
    name: String,
    dir: PathBuf,
    url: String,
    env: Vec<(OsString, OsString)>,
    args: Vec<String>,
}

impl Site {
    /// A machine called `name` without any state, that knows of `volume`. Its files are in the volume's scratch directory.
    pub fn new(volume: &TestVolume, name: &str) -> Site {
        Site::at(volume.scratch().join(name), name, volume.url(), volume.env())
    }

    /// A machine called `name` with its files in `dir`, that knows of the volume at `url`, with `env` for every command.
    pub fn at(dir: PathBuf, name: &str, url: String, mut env: Vec<(OsString, OsString)>) -> Site {
        std::fs::create_dir_all(dir.join("mnt")).expect("directory for a site");
        env.push(("HEADRACE_STATE_DIR".into(), dir.join("state").into()));
        env.push(("HEADRACE_RUNTIME_DIR".into(), dir.join("run").into()));
        if url.contains("://") {
            env.push(("HEADRACE_CACHE_DIR".into(), dir.join("cache").into()));
            env.push(("HEADRACE_CACHE_FREE".into(), "64M".into()));
        }
        Site { name: name.into(), dir, url, env, args: Vec::new() }
    }

    /// Arguments for every mount.
    pub fn mounting_with(mut self, args: &[&str]) -> Site {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The volume's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it mounts the volume.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Where it keeps the metadata.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The daemon's log so far.
    pub fn log(&self) -> String {
        std::fs::read(self.dir.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// A command of the program on this machine.
    pub fn command(&self, args: &[&str]) -> Run {
        Run::new(crate::headrace()).args(args).envs(&self.env).limit(COMMAND_LIMIT)
    }

    /// Tries to mount, with further arguments.
    pub fn try_mount(&self, args: &[&str]) -> Finished {
        self.command(&["mount"])
            .arg(&self.url)
            .arg(self.mount_point())
            .arg("--log-file")
            .arg(self.dir.join("log"))
            .args(&self.args)
            .args(args)
            .finish()
    }

    /// Mounts.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn mount(&self, args: &[&str]) {
        let finished = self.try_mount(args);
        assert!(finished.status.success(), "{finished}\n--- log\n{}", self.log());
    }

    /// Unmounts.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn umount(&self) {
        let ask = || self.command(&["umount"]).arg(self.mount_point()).finish();
        // A process that another thread is just starting holds copies of open files until its exec.
        let asked = wait_until(Duration::from_secs(2), || {
            Some(ask()).filter(|f| f.status.code() != Some(EXIT_IN_USE))
        });
        let finished = asked.unwrap_or_else(ask);
        assert!(finished.status.success(), "{finished}\n--- log\n{}", self.log());
        // What is read next is to come from the store.
        let _ = std::fs::remove_dir_all(self.dir.join("cache"));
    }

    /// Whether the volume is mounted here, dead or alive.
    pub fn is_mounted(&self) -> bool {
        mount_table_has(&self.mount_point())
    }

    /// The processes that mount or serve the volume here.
    pub fn daemons(&self) -> Vec<Pid> {
        daemons_of(&self.mount_point())
    }

    /// Sends each of them a signal.
    pub fn signal(&self, signal: Signal) {
        for daemon in self.daemons() {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(daemon, signal);
        }
    }

    /// `kill -9`, and waits for the end of every process: until then they hold their locks. The mount stays behind, dead.
    pub fn kill_daemons(&self) {
        // Found before they are signalled: one that is ending cannot be told from others any more.
        let daemons = self.daemons();
        for daemon in &daemons {
            let _ = rustix::process::kill_process(*daemon, Signal::KILL);
        }
        for daemon in daemons {
            assert!(wait_for_exit(daemon, KILL_LIMIT), "process {daemon:?} does not end");
        }
    }

    /// As [`Site::kill_daemons`], and takes away what is left of the mount.
    pub fn kill(&self) {
        self.kill_daemons();
        force_unmount(&self.mount_point());
    }

    /// What `headrace status --json` says of the mount; `None` when it cannot be asked.
    pub fn status(&self) -> Option<Value> {
        let asked = self.command(&["status", "--json"]).arg(self.mount_point()).finish();
        asked.status.success().then(|| serde_json::from_str(&asked.stdout).expect("status as JSON"))
    }

    /// `fsck --data` of the volume, which must not be mounted and must be clean.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.command(&["fsck", "--data"]).arg(&self.url).ok();
    }

    /// Loses everything that this machine knows of the volume.
    pub fn lose_state(&self) {
        remove(&self.state_dir());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().rev().take(25).collect();
            eprintln!("--- end of the log of {}", self.name);
            lines.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        // Stopped ones as well: a signal that kills needs no consent.
        self.signal(Signal::KILL);
        force_unmount(&self.mount_point());
    }
}

fn remove(dir: &Path) {
    if let Err(error) = std::fs::remove_dir_all(dir) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "removing {}: {error}", dir.display());
    }
}
