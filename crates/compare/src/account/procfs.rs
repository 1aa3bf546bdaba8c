//! What `/proc` says of single processes.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::failure::{Context, Result};

/// Writes dirty data out and drops the kernel's caches. Needs root.
pub fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    let control = "/proc/sys/vm/drop_caches";
    std::fs::write(control, "3").context(|| format!("{control}: dropping caches needs root"))
}

/// Whether the process is there and has not ended.
pub fn alive(pid: i32) -> bool {
    read(pid, "stat").is_some_and(|stat| state(&stat).is_some_and(|state| state != 'Z'))
}

fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

pub fn cpu(pid: i32) -> Duration {
    let ticks = read(pid, "stat").and_then(|stat| ticks(&stat)).unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

/// Processor time of this process's children that were waited for, in the kernel's ticks (10 ms).
pub fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks: u64 = [13, 14].iter().filter_map(|n| fields.get(*n)?.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

/// Own time and that of children that were waited for: fields 14 to 17 of proc(5).
pub(super) fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    (11..15).map(|n| fields.get(n)?.parse::<u64>().ok()).sum()
}

pub fn peak_memory(pid: i32) -> u64 {
    read(pid, "status").and_then(|status| high_water_mark(&status)).unwrap_or(0)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

pub fn reset_peak(pid: i32) {
    let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// The processes whose environment has `name=value`.
pub fn tagged(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}").into_bytes();
    by_environment(|variable| variable == wanted)
}

/// The processes whose environment has `name=` and something that starts with `value`.
pub fn tagged_below(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}").into_bytes();
    by_environment(|variable| variable.starts_with(&wanted))
}

fn by_environment(matches: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let found = |pid: &i32| {
        let environment =
            std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(&matches)
    };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(found).collect()
}

pub fn kill(pids: &[i32]) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Asks until `gone`, at most for `limit`.
pub fn wait_gone(limit: Duration, mut gone: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !gone() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read(pid: i32, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_understood() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 200 0 0 7 5 3 1 20 0 1 0 100";
        assert_eq!(ticks(stat), Some(16));
        assert_eq!(state(stat), Some('S'));
        assert_eq!(high_water_mark("VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
    }

    #[test]
    fn this_process_has_a_peak() {
        let own = std::process::id().cast_signed();
        assert!(alive(own));
        assert!(peak_memory(own) > 1 << 20);
    }
}
