//! What it is measured on.

use std::path::Path;

use crate::dataset::Scale;
use crate::failure::{Context, Failure, Result};
use crate::report::results::Machine;
use crate::subjects::Subject;

/// This machine, and the file system at `dir`.
pub fn describe(dir: &Path) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    };
    let kilobytes = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Machine {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory: kilobytes.unwrap_or(0).saturating_mul(1024),
        file_system: file_system(dir),
    }
}

fn file_system(dir: &Path) -> String {
    let output = std::process::Command::new("findmnt").args(["-n", "-o", "FSTYPE", "-T"]).arg(dir).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
}

/// The data of each family, and as much again for what is written and not yet given back.
pub fn check_space(dir: &Path, scale: &Scale, chosen: &[Box<dyn Subject>]) -> Result<()> {
    let families: std::collections::BTreeSet<_> = chosen.iter().map(|subject| subject.family()).collect();
    let data: u64 = scale.all().iter().map(|file| file.len).sum();
    let needed = (data * 2).saturating_mul(families.len() as u64);
    let space = rustix::fs::statvfs(dir).context(|| format!("space in {}", dir.display()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: {} MiB are free, {} MiB may be needed; name another directory with --temporary, or fewer --subjects",
        dir.display(),
        free >> 20,
        needed >> 20
    )))
}
