//! The process that does the work of a case: the client. It is this program again (`headrace-compare worker`), with a
//! [`Job`] on its standard input and an [`Outcome`] on its standard output, so that its processor time is its own.
//!
//! Only the calls into the file system are timed. Making and checking content happens between them and is counted apart,
//! as `aside`: about 0.1 s for a GiB.

mod bare;
mod clock;
mod fio;
mod job;
mod mapping;
mod program;
mod read;
mod small;
mod write;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_testbed::process;

use crate::failure::{Context, Failure, Result};
pub use bare::{put, store};
pub use clock::monotonic;
pub use job::{Access, Fsync, Job, Moment, Objects, Order, Outcome, Section, SmallAction, Work};
pub use read::WRONG_DATA;

/// How much longer than its limit a worker may take before it is killed: one call may hang that long.
const GRACE: Duration = Duration::from_secs(60);

/// Does a job in a process of its own.
pub fn run(job: &Job) -> Result<Outcome> {
    let program = std::env::current_exe().context(|| "finding this program".into())?;
    let given = serde_json::to_vec(job).context(|| "describing a job".into())?;
    let mut input = tempfile::tempfile().context(|| "creating a file for a job".into())?;
    let mut output = tempfile::tempfile().context(|| "creating a file for a job's outcome".into())?;
    std::io::Write::write_all(&mut input, &given)
        .and_then(|()| std::io::Seek::rewind(&mut input))
        .context(|| "writing a job".into())?;
    let to = output.try_clone().context(|| "dup of a file".into())?;
    // It ends with this process, whatever becomes of it.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .arg("worker")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(to))
        .process_group(0)
        .spawn()
        .context(|| "starting a worker".into())?;
    let limit = job.limit + GRACE;
    let Some(status) = process::wait_for(&mut child, limit) else {
        process::kill_group(&mut child);
        return Err(Failure::new(format!("killed: it had not ended after {} s", limit.as_secs())));
    };
    let mut text = String::new();
    std::io::Seek::rewind(&mut output)
        .and_then(|()| output.read_to_string(&mut text))
        .context(|| "reading a job's outcome".into())?;
    if !status.success() {
        return Err(Failure::new(format!("the worker ended with {status}")));
    }
    let outcome: std::result::Result<Outcome, String> =
        serde_json::from_str(&text).context(|| "reading a job's outcome".into())?;
    outcome.map_err(Failure::new)
}

/// The worker's own part: one job from standard input, one outcome to standard output.
pub fn serve() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context(|| "reading a job".into())?;
    let job: Job = serde_json::from_str(&text).context(|| "reading a job".into())?;
    let outcome = perform(&job).map_err(|failure| failure.to_string());
    let text = serde_json::to_string(&outcome).context(|| "describing an outcome".into())?;
    println!("{text}");
    Ok(())
}

/// Does a job in this process.
pub fn perform(job: &Job) -> Result<Outcome> {
    let before = clock::cpu();
    let mut outcome = match &job.work {
        Work::Read { threads, order, block, access } => {
            read::read(threads, *order, *block, *access, job.limit)
        }
        Work::Watch { threads, block } => read::watch(threads, *block, job.limit),
        Work::Get { objects, into, connections, request } => {
            bare::get(objects, into, *connections, *request, job.limit)
        }
        Work::GetEach { objects, block, order } => bare::get_each(objects, *block, *order, job.limit),
        Work::Put { objects, connections } => bare::put_at_once(objects, *connections),
        Work::Overwrite { file, by, seed, operations, block } => {
            write::overwrite(file, *by, *seed, *operations, *block, job.limit)
        }
        Work::WriteEach { files, block, sync } => write::each(files, *block, *sync, job.limit),
        Work::Rewritten { file, by, seed, operations, block } => {
            read::rewritten(file, *by, *seed, *operations, *block)
        }
        Work::Write { file, order, block, sync } => write::write(file, *order, *block, *sync, job.limit),
        Work::Small { action, root, under, count, each } => {
            small::run(*action, root, under, *count, *each, job.limit)
        }
        Work::Fio { file, block, depth, operations } => {
            fio::run(file, *block, *depth, *operations, job.limit)
        }
        Work::Program { script, dir, prints } => program::run(script, dir, prints.as_deref(), job.limit),
    }?;
    outcome.cpu = clock::cpu().saturating_sub(before).saturating_sub(outcome.aside);
    Ok(outcome)
}
