//! What the system says of this process, under the names that every Prometheus client uses.

use std::fs;

use headrace_metrics::{Collection, Unit};
use rustix::process::{Resource, getrlimit};

/// Adds it. What cannot be found out is left out.
pub fn collect(into: &mut Collection) {
    let ticks_a_second = rustix::param::clock_ticks_per_second().max(1);
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
        let help = "Processor time of this process, user and system";
        let nanoseconds = u128::from(stat.cpu_ticks) * 1_000_000_000 / u128::from(ticks_a_second);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        into.counter("process_cpu_seconds_total", help, Unit::Seconds, nanoseconds);
        let help = "Memory of this process that is in RAM";
        let resident = stat.resident_pages.saturating_mul(rustix::param::page_size() as u64);
        into.gauge("process_resident_memory_bytes", help, Unit::Bytes, resident as f64);
        let help = "Address space of this process";
        into.gauge("process_virtual_memory_bytes", help, Unit::Bytes, stat.virtual_bytes as f64);
        let help = "Threads of this process";
        into.gauge("process_threads", help, Unit::None, stat.threads as f64);
        if let Some(boot) = boot_time() {
            let help = "When this process began, in seconds since 1970";
            let start = boot as f64 + stat.start_ticks as f64 / ticks_a_second as f64;
            into.gauge("process_start_time_seconds", help, Unit::Seconds, start);
        }
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        let help = "File descriptors of this process that are open";
        // One of them is the directory that is being read.
        let open = descriptors.count().saturating_sub(1);
        into.gauge("process_open_fds", help, Unit::None, open as f64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        let help = "File descriptors that this process may have open";
        into.gauge("process_max_fds", help, Unit::None, most as f64);
    }
}

/// What of `/proc/self/stat` is of interest.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// Fields are numbered from 1 in proc_pid_stat(5); the second, the name, may hold anything and ends with the last bracket.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// When the machine was started, in seconds since 1970.
fn boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use headrace_metrics::Snapshot;

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_obstacle() {
        let text = "1 (a) b) S 0 1 1 0 -1 4 5 6 7 8 90 10 11 12 20 0 33 0 44 55 66 77 88";
        let stat =
            Stat { cpu_ticks: 100, threads: 33, start_ticks: 44, virtual_bytes: 55, resident_pages: 66 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("1 (a"), None);
        assert_eq!(Stat::parse("1 (a) S"), None);
    }

    #[test]
    fn this_process_runs_since_a_while_and_has_memory_and_descriptors() {
        let mut into = Collection::new();
        collect(&mut into);
        let told = Snapshot::new(into);
        let gauge = |name| told.gauge(name, &[]).unwrap();
        assert!(gauge("process_resident_memory_bytes") > 1e5);
        assert!(gauge("process_open_fds") >= 3.0);
        let age = told.at - gauge("process_start_time_seconds");
        assert!((-60.0..86_400.0).contains(&age), "{age}");
    }
}
