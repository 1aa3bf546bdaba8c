//! Leaving a daemon in the background.
//!
//! The parent starts this program again (a fork of a process with threads would be unsound) and waits for a line on
//! the child's standard output: that the file system is there, or why not. Lines before it say how far it is. Secrets are not passed: the child reads the
//! same files and environment again.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::control::protocol::{PROGRESS_INTERVAL, Problem, Step};
use crate::cli::command::BACKGROUND_CHILD;
use crate::failure::{Context, Failure};

/// Longest report, bytes.
const MAX_REPORT: u64 = 1 << 20;

/// What the child tells its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// It goes on.
    Progress(Step),
    /// The file system is there.
    Ready(Ready),
    /// It will not be.
    Failed(Problem),
}

/// What there is to say about a new mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The volume was created first.
    pub created: bool,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// The parent's part: starts `args` (the first is the program's name) in the background and waits until it is ready; `step`
/// sees how far it is.
pub fn start(args: &[OsString], step: &mut dyn FnMut(Step)) -> Result<Ready, Failure> {
    let failed = || "cannot start the background process".to_owned();
    // A program that was replaced on disk meanwhile can still be started through /proc, if under another name.
    let program =
        std::env::current_exe().ok().filter(|p| p.exists()).unwrap_or_else(|| "/proc/self/exe".into());
    let mut command = Command::new(program);
    if let Some((name, rest)) = args.split_first() {
        command.arg0(name).arg(format!("--{BACKGROUND_CHILD}")).args(rest);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(failed)?;
    let mut stdout = child.stdout.take().map(BufReader::new);
    let last = loop {
        let mut line = Vec::new();
        if let Some(stdout) = &mut stdout {
            stdout.take(MAX_REPORT).read_until(b'\n', &mut line).context(failed)?;
        }
        match serde_json::from_slice(&line) {
            Ok(Report::Progress(progress)) => step(progress),
            last => break last,
        }
    };
    match last {
        Ok(Report::Ready(ready)) => Ok(ready),
        Ok(Report::Failed(problem)) => {
            reap(&mut child);
            Err(problem.into())
        }
        Ok(Report::Progress(_)) | Err(_) => {
            let status = child.wait().context(failed)?;
            Err(Failure::new(format!(
                "the background process ended before the file system was there: {}",
                ended(status)
            ))
            .advise("Run the same command with --foreground to see what happens."))
        }
    }
}

/// The child has said that it failed; how it ends does not matter, but it must not stay behind as a zombie.
fn reap(child: &mut Child) {
    let _ = child.wait();
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "reason unknown".to_owned(),
    }
}

/// The child's part: leaves the terminal's session, so that neither its end nor its Ctrl-C reaches the daemon.
pub fn leave_session() {
    if let Err(error) = rustix::process::setsid() {
        // Only if it leads a process group, which a child that was just started does not.
        tracing::warn!(%error, "cannot leave the session");
    }
}

/// The child's part: reports to the parent. Fails when the parent is gone: then nobody knows of this mount.
pub fn report(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The child's part: tells the parent how far it is, now and then. Whether anybody hears it does not matter here.
pub fn progress() -> impl Fn(Step) + Send + Sync {
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    move |step| {
        let now = Instant::now();
        let mut last = last.lock();
        if last.is_none_or(|last| now.duration_since(last) >= PROGRESS_INTERVAL) {
            *last = Some(now);
            let _ = report(&Report::Progress(step));
        }
    }
}

/// The child's part: lets go of everything that its parent's terminal and directory have lent it.
pub fn detach() {
    let _ = std::env::set_current_dir("/");
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    let redirected = null.and_then(|null| {
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        Ok(())
    });
    if let Err(error) = redirected {
        tracing::warn!(%error, "cannot redirect standard input and output to /dev/null");
    }
}
