//! What others take of the machine while something is measured: a figure that was taken beside a build is none.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// From one moment on.
#[derive(Debug)]
pub struct Others {
    since: Instant,
    busy: u64,
    ours: u64,
}

impl Others {
    /// From now on.
    pub fn watch() -> Others {
        Others { since: Instant::now(), busy: busy(), ours: ours() }
    }

    /// Processors that others had on average, time that the machine itself had to wait included; 0 if that is not known.
    ///
    /// "We" are this process and all that came of it. Threads of the kernel are nobody's and count as others.
    pub fn cores(&self) -> f64 {
        let ticks = busy().saturating_sub(self.busy).saturating_sub(ours().saturating_sub(self.ours));
        let seconds = self.since.elapsed().max(Duration::from_millis(10)).as_secs_f64();
        ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64 / seconds
    }
}

/// Waits until others take less than `most` processors, at most for `limit`.
pub fn wait_quiet(most: f64, limit: Duration) {
    let until = Instant::now() + limit;
    loop {
        let watch = Others::watch();
        std::thread::sleep(Duration::from_millis(200));
        if watch.cores() < most || Instant::now() >= until {
            return;
        }
    }
}

/// Ticks in which any processor did anything.
fn busy() -> u64 {
    std::fs::read_to_string("/proc/stat").ok().and_then(|stat| of_all(&stat)).unwrap_or(0)
}

/// Of the first line of /proc/stat: user, nice, system, irq, softirq and steal.
fn of_all(stat: &str) -> Option<u64> {
    let fields: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().flat_map(str::parse).collect();
    [0, 1, 2, 5, 6, 7].iter().map(|n| fields.get(*n).copied()).sum()
}

/// Ticks of this process and of all below it, those that have ended included.
fn ours() -> u64 {
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            processes.insert(pid, (parent, super::procfs::ticks(&stat).unwrap_or(0)));
        }
    }
    below(&processes, std::process::id().cast_signed())
}

/// Field 4 of proc(5).
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The sum over a process and all that have it as an ancestor; of `pid -> (parent, ticks)`.
fn below(processes: &BTreeMap<i32, (i32, u64)>, root: i32) -> u64 {
    let is_below = |mut pid: i32| {
        // As deep as there are processes, at most.
        for _ in 0..=processes.len() {
            if pid == root {
                return true;
            }
            let Some((parent, _)) = processes.get(&pid) else { return false };
            pid = *parent;
        }
        false
    };
    processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, (_, ticks))| ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_what_came_of_us() {
        let processes =
            BTreeMap::from([(1, (0, 1)), (5, (1, 10)), (6, (5, 100)), (7, (6, 1_000)), (8, (1, 10_000))]);
        assert_eq!(below(&processes, 5), 1_110);
        assert_eq!(below(&processes, 1), 11_111);
        assert_eq!(below(&processes, 99), 0);
    }

    #[test]
    fn kernel_files_are_understood() {
        assert_eq!(of_all("cpu  1 2 4 8 16 32 64 128 0 0\ncpu0 1"), Some(1 + 2 + 4 + 32 + 64 + 128));
        assert_eq!(parent("42 (a) b) S 17 42 42 0"), Some(17));
        assert!(busy() > 0);
    }
}
