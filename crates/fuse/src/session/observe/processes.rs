//! Which process a thread belongs to, and what it is called.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::operation::ProcessName;

/// Threads remembered; all are forgotten when there are more.
const KNOWN_MAX: usize = 8192;
/// How long a name is believed at first. A process that was just started has its parent's name until it runs its
/// program, so a name is looked up again soon; then after twice as long each time.
const BELIEVE: Duration = Duration::from_millis(10);
/// Doublings of that: names are believed for ten seconds at the longest.
const DOUBLINGS: u32 = 10;

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// Its id; 0 for the kernel.
    pub pid: u32,
    pub name: ProcessName,
}

/// The processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: Mutex<HashMap<u32, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    process: Process,
    looked: Instant,
    looks: u32,
}

impl Processes {
    /// The process of thread `tid`. One that is gone, or in another PID namespace, is known by that number alone.
    pub fn of(&self, tid: u32) -> Process {
        if tid == 0 {
            return Process::default();
        }
        let before = self.known.lock().get(&tid).copied();
        if let Some(known) = before
            && known.looked.elapsed() < BELIEVE * (1 << known.looks.min(DOUBLINGS))
        {
            return known.process;
        }
        let process = look_up(tid);
        let looks = match before {
            // Another program, or another thread with this number.
            Some(known) if known.process == process => known.looks.saturating_add(1),
            _ => 0,
        };
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(&tid) {
            known.clear();
        }
        known.insert(tid, Known { process, looked: Instant::now(), looks });
        process
    }
}

fn look_up(tid: u32) -> Process {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let pid = group.unwrap_or(tid);
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Process { pid, name: ProcessName::new(comm.strip_suffix(b"\n").unwrap_or(&comm)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_process() {
        let processes = Processes::default();
        let of_thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let tid = of_thread.join().unwrap().cast_unsigned();
        // That thread is gone.
        assert_eq!(processes.of(tid).pid, tid);
        let own = processes.of(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        assert_eq!(own.pid, std::process::id());
        assert_eq!(
            own.name.as_bytes(),
            std::fs::read("/proc/self/comm").unwrap().trim_ascii_end(),
            "the name of the process, not of the thread"
        );
        assert_eq!(processes.of(0), Process::default());
    }

    #[test]
    fn a_process_that_runs_another_program_gets_its_name() {
        let processes = Processes::default();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; exec sleep 1000"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let name = || processes.of(pid).name;
        let until = Instant::now() + Duration::from_secs(20);
        while name().as_bytes() != b"sh" && Instant::now() < until {
            std::thread::yield_now();
        }
        let first = name();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        while name().as_bytes() != b"sleep" && Instant::now() < until {
            std::thread::yield_now();
        }
        let then = name();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((first.as_bytes(), then.as_bytes()), (&b"sh"[..], &b"sleep"[..]));
    }

    #[test]
    fn memory_for_them_is_bounded() {
        let processes = Processes::default();
        // Beyond the largest thread number there can be, so that nothing is found.
        for tid in 0..KNOWN_MAX as u32 + 10 {
            processes.of(tid + (1 << 30));
        }
        assert!(processes.known.lock().len() <= KNOWN_MAX);
    }
}
