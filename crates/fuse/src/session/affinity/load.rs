//! Whether the machine has a processor to spare.
//!
//! Where it has none, the scheduler has no reason to move a caller, and whoever takes the standing of SCHED_IDLE there has others that run
//! in its place at once.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::session::processors::Processors;

/// What one look at a crowded machine counts against ...
const CROWDED: u32 = 2;
/// ... this much; one at another takes 1 off. Threads come and go.
const MOST: u32 = 6;

/// The threads that run, against the processors there are.
#[derive(Debug)]
pub(super) struct Load {
    loadavg: Option<File>,
    processors: usize,
    crowd: Crowd,
}

impl Load {
    /// A machine that cannot be seen counts as crowded.
    pub fn new() -> Load {
        let processors = Processors::here().map_or(0, |processors| processors.online.len());
        Load { loadavg: File::open("/proc/loadavg").ok(), processors, crowd: Crowd::default() }
    }

    #[cfg(test)]
    pub fn of(processors: usize) -> Load {
        Load { processors, ..Load::new() }
    }

    #[cfg(test)]
    pub fn none() -> Load {
        Load::of(usize::MAX)
    }

    /// Whether more threads run now, this one among them, than there are processors.
    pub fn busy(&self) -> bool {
        let mut space = [0; 128];
        let read = self.loadavg.as_ref().and_then(|file| file.read_at(&mut space, 0).ok());
        let running = read.and_then(|len| running(space.get(..len)?));
        running.is_none_or(|running| running > self.processors)
    }

    /// Whether that was so several times lately, now being one.
    pub fn crowded(&mut self) -> bool {
        let busy = self.busy();
        self.crowd.seen(busy)
    }
}

/// Threads that run or could; see proc_loadavg(5).
fn running(loadavg: &[u8]) -> Option<usize> {
    std::str::from_utf8(loadavg).ok()?.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

#[derive(Debug, Default)]
struct Crowd {
    counted: u32,
}

impl Crowd {
    fn seen(&mut self, busy: bool) -> bool {
        self.counted = if busy { self.counted + CROWDED } else { self.counted.saturating_sub(1) };
        let crowded = self.counted >= MOST;
        if crowded {
            self.counted = 0;
        }
        crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert_eq!(running(b"0.00 0.08 0.89 3/345 12345\n"), Some(3));
        assert_eq!(running(b"0.00 0.08"), None);
        let load = Load::new();
        assert!(load.processors > 0 && load.loadavg.is_some());
        assert!(!Load::none().busy());
        // The one who asks is running.
        assert!(Load::of(0).busy());
        assert!(Load { loadavg: None, ..Load::new() }.busy());
    }

    #[test]
    fn now_and_then_is_no_crowd() {
        let mut crowd = Crowd::default();
        assert!((0..1000).all(|at| !crowd.seen(at % 4 == 0)));
        let mut crowd = Crowd::default();
        assert_eq!((0..30).filter(|_| crowd.seen(true)).count(), 10);
        let mut crowd = Crowd::default();
        assert!((0..100).any(|at| crowd.seen(at % 2 == 0)));
    }
}
