//! Who has a file open, and how: files that the kernel may read by itself, by its rules or against them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use headrace_fuse::{Errno, FileId, OpenMode};
use rustix::thread::CapabilitySet;

use super::state::Node;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By way of the page cache.
    Cached,
    /// Reads and writes come here.
    Direct,
    /// The kernel reads and writes the backing file.
    Passed,
    /// Reads and writes come here; mappings are of the backing file.
    PassedDirect,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Cached, Way::Direct, Way::Passed, Way::PassedDirect];

    fn backed(self) -> bool {
        matches!(self, Way::Passed | Way::PassedDirect)
    }
}

/// What decides of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Direct if the name ends in ".direct", else cached. (And one made as ".passed" is always passed.)
    ByName,
    /// This, whatever the kernel makes of it.
    Always(Way),
    /// Passed, from a thread that has just lost the privilege to do so.
    Unprivileged,
    /// Any at random that the kernel allows with those that are open.
    Any {
        /// Never 0.
        random: u64,
    },
}

/// Open files of one inode.
#[derive(Debug)]
pub(super) struct Opens {
    pub choice: Choice,
    ways: HashMap<FileId, Way>,
}

impl Opens {
    pub fn new(name: &[u8]) -> Self {
        let passed = name.ends_with(b".passed");
        let choice = if passed { Choice::Always(Way::Passed) } else { Choice::ByName };
        Opens { choice, ways: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.ways.len()
    }

    fn any(&self, wanted: impl Fn(Way) -> bool) -> bool {
        self.ways.values().any(|way| wanted(*way))
    }

    fn choose(&mut self, direct: bool, writable: bool) -> Way {
        match &mut self.choice {
            Choice::ByName if direct => Way::Direct,
            Choice::ByName => Way::Cached,
            Choice::Always(way) => *way,
            Choice::Unprivileged => {
                lose_privilege();
                Way::Passed
            }
            Choice::Any { random } => {
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                let random = *random >> 16;
                // A writer is always to be heard.
                let passed = if writable || random & 64 == 0 { Way::PassedDirect } else { Way::Passed };
                if self.any(Way::backed) {
                    passed
                } else if !self.ways.is_empty() {
                    // Direct ones count as well: one may have been mapped, or the kernel may not have heard of it yet.
                    [Way::Cached, Way::Direct][random as usize % 2]
                } else {
                    [passed, passed, Way::Cached, Way::Direct][random as usize % 4]
                }
            }
        }
    }
}

/// For this thread, which is one of the mount's own.
fn lose_privilege() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_ADMIN);
    rustix::thread::set_capabilities(None, sets).unwrap();
}

/// What all files have in common.
#[derive(Debug, Default)]
pub struct Passing {
    /// Where backing files are; without it there are none.
    pub(super) dir: Option<PathBuf>,
    /// What the front end said of it.
    pub possible: Mutex<Option<std::result::Result<(), String>>>,
    /// Why the kernel took no backing file.
    pub refusals: Mutex<Vec<Errno>>,
    /// Every backing file there ever was.
    pub(super) made: Mutex<Vec<Weak<std::fs::File>>>,
    /// Opens answered in each way.
    pub ways: [AtomicUsize; Way::ALL.len()],
}

impl Passing {
    /// Backing files that somebody in this process still has open.
    pub fn alive(&self) -> usize {
        self.made.lock().unwrap().iter().filter(|file| file.strong_count() > 0).count()
    }
}

impl Node {
    pub fn open(&mut self, file: FileId, flags: i32, exclusive: bool, passing: &Passing) -> OpenMode {
        let read_only = flags & 3 == 0;
        let mut way = self.opens.choose(self.direct, !read_only);
        let mut backing = None;
        if way.backed() {
            match &passing.dir {
                None => way = Way::Cached,
                Some(dir) => {
                    let new = !self.data.on_disk();
                    let file = self.data.move_to_disk(&dir.join(self.attr.ino.0.to_string()));
                    if new {
                        let mut made = passing.made.lock().unwrap();
                        made.retain(|file| file.strong_count() > 0);
                        made.push(Arc::downgrade(&file.0));
                    }
                    backing = Some(file);
                }
            }
        }
        passing.ways[way as usize].fetch_add(1, Ordering::Relaxed);
        self.opens.ways.insert(file, way);
        OpenMode {
            // With a backing file the front end is to leave it out.
            keep_cache: exclusive,
            direct_io: matches!(way, Way::Direct | Way::PassedDirect),
            noflush: read_only,
            backing,
        }
    }

    /// The same open, which the kernel does not pass through.
    pub fn reopen(&mut self, file: FileId) -> OpenMode {
        self.opens.ways.insert(file, Way::Cached);
        self.settle();
        OpenMode::default()
    }

    pub fn close(&mut self, file: FileId) {
        self.opens.ways.remove(&file);
        self.settle();
    }

    /// Nobody will be heard of again.
    pub fn close_all(&mut self) {
        self.opens.ways.clear();
        self.settle();
    }

    fn settle(&mut self) {
        if self.data.on_disk() && !self.opens.any(Way::backed) {
            self.data.move_to_memory();
        }
    }
}
