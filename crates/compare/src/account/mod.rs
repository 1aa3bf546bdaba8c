//! What a group of processes costs: processor time, memory; and how to end it with all that it started.
//!
//! With cgroup v2 the kernel adds up the processor time of all members, also of those that have ended. Without, members are
//! found by a variable in their environment, and the time of a process that was not waited for by another member is lost.

mod cgroup;
mod others;
mod procfs;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::failure::Result;
pub use cgroup::Root;
pub use others::{Others, wait_quiet};
pub use procfs::{alive, children, drop_caches};

/// Names the group of a process in its environment.
pub const TAG: &str = "HEADRACE_COMPARE_GROUP";

/// Processes that are accounted for together.
#[derive(Debug)]
pub struct Group {
    tag: String,
    /// The group's directory, where cgroup v2 is usable.
    cgroup: Option<PathBuf>,
}

impl Group {
    /// An empty group; `name` is part of a file name. It ends, with all its processes, when it is dropped.
    pub fn new(root: &Root, name: &str) -> Result<Group> {
        Ok(Group { tag: format!("{}/{name}", root.name()), cgroup: root.create(name)? })
    }

    /// A command that starts `program` in this group. It, though not what it starts, ends with the thread that starts it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(cgroup) = &self.cgroup {
            // The shell moves itself before it becomes the program, so that no instruction of it is missed.
            command.args(["sh", "-c", r#"echo $$ > "$0" && exec "$@""#]).arg(cgroup.join("cgroup.procs"));
        }
        command.arg(program).env(TAG, &self.tag).stdin(Stdio::null());
        // Those would send a client somewhere else than to the server under test.
        for name in [
            "AWS_CA_BUNDLE",
            "AWS_PROFILE",
            "AWS_SESSION_TOKEN",
            "http_proxy",
            "HTTP_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Processor time so far, user and system.
    pub fn cpu(&self) -> Duration {
        match &self.cgroup {
            Some(cgroup) => cgroup::cpu(cgroup),
            None => self.members().into_iter().map(procfs::cpu).sum(),
        }
    }

    /// The processes.
    pub fn members(&self) -> Vec<i32> {
        match &self.cgroup {
            Some(cgroup) => cgroup::members(cgroup),
            None => procfs::tagged(TAG, &self.tag),
        }
    }

    /// Most memory the processes had resident since [`Self::reset_peak`], each process's own peak, added up. Mapped files
    /// count.
    pub fn peak_memory(&self) -> u64 {
        self.members().into_iter().map(procfs::peak_memory).sum()
    }

    /// Starts a new measurement of the peak.
    pub fn reset_peak(&self) {
        self.members().into_iter().for_each(procfs::reset_peak);
    }

    /// Ends all processes at once, and waits until they are gone, for ten seconds at most.
    pub fn kill(&self) {
        match &self.cgroup {
            Some(cgroup) => cgroup::kill(cgroup),
            None => procfs::kill(&self.members()),
        }
        procfs::wait_gone(Duration::from_secs(10), || self.members().is_empty());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if let Some(cgroup) = &self.cgroup {
            cgroup::remove(cgroup);
        }
    }
}

/// Ends everything that a run with this name has left: see [`Root::name`].
pub fn end_all(name: &str) {
    if let Some(root) = cgroup::find(name) {
        cgroup::end_all(&root);
    }
    let left = procfs::tagged_below(TAG, &format!("{name}/"));
    procfs::kill(&left);
    procfs::wait_gone(Duration::from_secs(10), || left.iter().all(|pid| !alive(*pid)));
}

/// Whether processor time is exact: cgroup v2 is usable.
pub fn exact(root: &Root) -> bool {
    root.directory().is_some_and(Path::is_dir)
}
