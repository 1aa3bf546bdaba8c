//! Where threads run.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Shows where one thread at a time runs.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    open: Option<(u32, File)>,
}

impl Whereabouts {
    /// The processor that a thread runs on, or ran on when it fell asleep.
    pub fn of(&mut self, thread: u32) -> io::Result<usize> {
        let file = match &self.open {
            Some((of, file)) if *of == thread => file,
            // What /proc/ID/stat sums up over all threads of the process is not needed.
            _ => &self.open.insert((thread, File::open(format!("/proc/{thread}/task/{thread}/stat"))?)).1,
        };
        let mut space = [0; 1024];
        let len = file.read_at(&mut space, 0)?;
        processor(space.get(..len).unwrap_or_default()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Keeps nothing open.
    pub fn forget(&mut self) {
        self.open = None;
    }
}

/// The 39th field of a `stat`; see proc_pid_stat(5).
fn processor(stat: &[u8]) -> Option<usize> {
    // The second is a name in parentheses, which may hold anything.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// Where the calling thread may run.
pub(super) fn allowed() -> io::Result<CpuSet> {
    Ok(sched_getaffinity(None)?)
}

/// Keeps the calling thread on one processor.
pub(super) fn stay(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    roam(&only)
}

/// Lets the calling thread run on these.
pub(super) fn roam(processors: &CpuSet) -> io::Result<()> {
    Ok(sched_setaffinity(None, processors)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_seen_where_it_was_put() {
        let everywhere = allowed().unwrap();
        let me = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let mut whereabouts = Whereabouts::default();
        for one in (0..CpuSet::MAX_CPU).filter(|one| everywhere.is_set(*one)) {
            stay(one).unwrap();
            assert_eq!(whereabouts.of(me).unwrap(), one);
        }
        roam(&everywhere).unwrap();
        assert!(allowed().unwrap() == everywhere);
        assert!(whereabouts.of(u32::MAX).is_err(), "there is no such thread");
    }

    #[test]
    fn a_name_may_look_like_anything() {
        let fields: Vec<String> = (3..53).map(|field| field.to_string()).collect();
        let stat = format!("17 (a) 1 2) (b c) {}\n", fields.join(" "));
        assert_eq!(processor(stat.as_bytes()), Some(39));
        assert_eq!(processor(b"17 (cut sho"), None);
        assert_eq!(processor(b"17 (cut) S 1 2"), None);
    }
}
