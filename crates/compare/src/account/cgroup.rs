//! Control groups, version 2.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Context, Result};

/// What all groups of this run are below of.
#[derive(Debug)]
pub struct Root {
    name: String,
    directory: Option<PathBuf>,
}

impl Root {
    /// A root below the group that this process is in; without a directory where cgroup v2 is not there or not ours.
    pub fn new(name: &str) -> Root {
        let directory = ours().map(|parent| parent.join(name)).filter(|dir| std::fs::create_dir(dir).is_ok());
        Root { name: name.into(), directory }
    }

    /// Its name, which no other run has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    pub(super) fn create(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some(root) = &self.directory else { return Ok(None) };
        let dir = root.join(name);
        std::fs::create_dir(&dir).context(|| format!("creating the control group {}", dir.display()))?;
        Ok(Some(dir))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Some(dir) = &self.directory {
            end_all(dir);
        }
    }
}

/// The root of a run with this name.
pub fn find(name: &str) -> Option<PathBuf> {
    ours().map(|parent| parent.join(name)).filter(|dir| dir.is_dir())
}

/// Ends and removes a root and all groups below it.
pub fn end_all(root: &Path) {
    kill(root);
    for group in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if group.path().is_dir() {
            remove(&group.path());
        }
    }
    remove(root);
}

pub fn cpu(group: &Path) -> Duration {
    let stat = std::fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
    Duration::from_micros(usage(&stat).unwrap_or(0))
}

fn usage(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())
}

pub fn members(group: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

pub fn kill(group: &Path) {
    let _ = std::fs::write(group.join("cgroup.kill"), "1");
}

/// A group is busy until its last process is reaped: that may take a moment.
pub fn remove(group: &Path) {
    super::procfs::wait_gone(Duration::from_secs(10), || {
        std::fs::remove_dir(group).is_ok() || !group.exists()
    });
}

/// The group that this process is in.
fn ours() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount_point(&mounts)?.join(path))
}

fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let at = fields.next()?;
        (fields.next()? == "cgroup2").then(|| at.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_understood() {
        assert_eq!(usage("usage_usec 1234\nuser_usec 1000\n"), Some(1234));
        assert_eq!(usage(""), None);
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_point(mounts), Some("/sys/fs/cgroup/unified".into()));
    }
}
