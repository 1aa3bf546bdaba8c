//! Who keeps a mount busy. Looks at /proc only, never at the mount, so that it cannot hang.

use std::fs;
use std::path::Path;

/// Most processes looked at.
const MAX_PROCESSES: usize = 65_536;
/// Most descriptors looked at in one process.
const MAX_DESCRIPTORS: usize = 65_536;

/// Up to `limit` processes that use something below `mountpoint`, as `bash (process 12, working directory)`. Processes of
/// other users are seen by root only.
pub fn of(mountpoint: &Path, limit: usize) -> Vec<String> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().take(MAX_PROCESSES);
    processes
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let how = (pid != own).then(|| usage(&entry.path(), mountpoint))??;
            let name = fs::read(entry.path().join("comm")).unwrap_or_default();
            Some(format!("{} (process {pid}, {how})", crate::output::name(name.trim_ascii_end())))
        })
        .take(limit)
        .collect()
}

/// How a process uses the mount.
fn usage(process: &Path, mountpoint: &Path) -> Option<&'static str> {
    let below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(mountpoint));
    for (link, how) in [("cwd", "working directory"), ("root", "root directory"), ("exe", "running program")]
    {
        if below(&process.join(link)) {
            return Some(how);
        }
    }
    let mut descriptors =
        fs::read_dir(process.join("fd")).into_iter().flatten().flatten().take(MAX_DESCRIPTORS);
    if descriptors.any(|d| below(&d.path())) {
        return Some("open file");
    }
    let maps = fs::read_dir(process.join("map_files")).into_iter().flatten().flatten().take(MAX_DESCRIPTORS);
    let mut maps = maps;
    maps.any(|m| below(&m.path())).then_some("mapped file")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_works_below_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        assert_eq!(of(&dir, 5), Vec::<String>::new());
        let mut child = Command::new("cat")
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let found = of(&dir, 5);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found, [format!("cat (process {}, working directory)", child.id())]);
    }
}
