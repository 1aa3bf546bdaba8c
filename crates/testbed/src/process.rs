//! Running other programs: with a time limit, captured output, and as another user.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a program may run unless told otherwise.
const DEFAULT_LIMIT: Duration = Duration::from_secs(600);

/// A program to run to its end.
#[derive(Debug)]
pub struct Run {
    command: Command,
    limit: Duration,
}

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Finished {
    /// The command, for messages.
    pub what: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
}

impl Run {
    /// Prepares `program`, with standard input empty.
    pub fn new(program: impl AsRef<OsStr>) -> Run {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).process_group(0);
        Run { command, limit: DEFAULT_LIMIT }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Run {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Sets several environment variables.
    pub fn envs(mut self, vars: &[(OsString, OsString)]) -> Run {
        self.command.envs(vars.iter().map(|(name, value)| (name, value)));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: &str) -> Run {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: &Path) -> Run {
        self.command.current_dir(dir);
        self
    }

    /// Runs it as another user, with no supplementary groups.
    pub fn as_user(mut self, uid: u32, gid: u32) -> Run {
        self.command.uid(uid).gid(gid);
        self
    }

    /// Kills it, and everything it started, after this long.
    pub fn limit(mut self, limit: Duration) -> Run {
        self.limit = limit;
        self
    }

    /// Runs it to its end.
    ///
    /// Output goes through files, not pipes: a daemon that the program leaves behind may keep them open.
    ///
    /// # Panics
    /// When it cannot be started or runs out of time.
    pub fn finish(mut self) -> Finished {
        let what = format!("{:?}", self.command);
        let mut stdout = tempfile::tempfile().expect("temporary file for output");
        let mut stderr = tempfile::tempfile().expect("temporary file for output");
        self.command.stdout(Stdio::from(stdout.try_clone().expect("dup of a file")));
        self.command.stderr(Stdio::from(stderr.try_clone().expect("dup of a file")));
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let status = wait_for(&mut child, self.limit);
        if status.is_none() {
            kill_group(&mut child);
        }
        let (stdout, stderr) = (contents(&mut stdout), contents(&mut stderr));
        let Some(status) = status else {
            panic!("{what} did not end within {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", self.limit);
        };
        Finished { what, status, stdout, stderr }
    }

    /// Runs it and demands success; gives what it wrote to standard output.
    ///
    /// # Panics
    /// When it fails, with everything it printed.
    pub fn ok(self) -> String {
        self.finish().ok()
    }

    /// Runs it and demands failure; gives what it wrote to standard error.
    ///
    /// # Panics
    /// When it succeeds, or dies of a signal.
    pub fn fails(self) -> Finished {
        let finished = self.finish();
        assert!(finished.status.code().is_some_and(|code| code != 0), "this should have failed: {finished}");
        finished
    }
}

impl Finished {
    /// Demands success; gives standard output.
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\n--- stdout\n{}\n--- stderr\n{}", self.what, self.status, self.stdout, self.stderr)
    }
}

/// A bash script, run with `set -euo pipefail` in `dir`.
pub fn shell(dir: &Path, script: &str) -> Run {
    Run::new("bash").args(["-c", &format!("set -euo pipefail\n{script}")]).dir(dir)
}

/// Copies a program, or a script, to where it is to be run, executable by everybody.
///
/// Another process does it: were the copy open for writing here, a child started by another thread of the test
/// meanwhile would hold it open until its `exec`, and the copy could not be run until then ("Text file busy").
///
/// # Panics
/// When it cannot be copied.
pub fn install_program(from: &Path, to: &Path) {
    Run::new("cp").arg(from).arg(to).ok();
    // `install` would set an access control list, which not every file system that is tested knows.
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).expect("permissions of a copy");
}

/// Waits for `child` at most `limit`; `None` when it still runs then.
pub fn wait_for(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    wait_until(limit, || child.try_wait().expect("waiting for a child"))
}

/// Asks `ready` again and again until it gives something, at most for `limit`.
///
/// For events that nothing announces (a process that ends, a port that opens); the pause grows from 1 to 20 ms.
pub fn wait_until<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Kills a child that was started as the leader of its own process group, with the whole group, and reaps it.
pub fn kill_group(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn contents(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .expect("reading captured output");
    String::from_utf8_lossy(&bytes).into_owned()
}
