//! A volume to test on.

use std::sync::Arc;

use headrace_kv::Engine;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_layout::{InodeNo, SegmentId, SegmentSlice};

use super::engine::MemoryEngine;
use crate::*;

pub const ROOT: InodeNo = InodeNo::ROOT;
pub const CALLER: Caller = Caller { uid: 1000, gid: 1000, umask: 0o022 };

pub struct Fixture {
    pub ns: Namespace,
    /// Where the embedded engine is; `None` for the one in memory.
    dir: Option<tempfile::TempDir>,
}

/// Small enough that many of them are cheap.
fn options() -> EmbeddedOptions {
    EmbeddedOptions { map_size: 64 << 20, ..EmbeddedOptions::default() }
}

/// Runs a test over both engines, and a check after it.
pub fn each(test: impl Fn(&Fixture)) {
    for fixture in [Fixture::in_memory(), Fixture::embedded()] {
        test(&fixture);
        fixture.assert_consistent();
    }
}

impl Fixture {
    pub fn in_memory() -> Fixture {
        Fixture::format(Arc::new(MemoryEngine::default()), None)
    }

    pub fn embedded() -> Fixture {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let engine = EmbeddedEngine::open(&dir.path().join("meta"), options()).expect("an engine");
        Fixture::format(Arc::new(engine), Some(dir))
    }

    fn format(engine: Arc<dyn Engine>, dir: Option<tempfile::TempDir>) -> Fixture {
        Namespace::format(&*engine, 0, 0, 0o755).expect("format");
        Fixture { ns: Namespace::open(engine).expect("open"), dir }
    }

    /// Closes the engine and opens it again.
    pub fn reopen(self) -> Fixture {
        let Fixture { ns, dir } = self;
        let engine = ns.engine().clone();
        drop(ns);
        engine.close().expect("close");
        let engine: Arc<dyn Engine> = match &dir {
            Some(dir) => {
                drop(engine);
                Arc::new(EmbeddedEngine::open(&dir.path().join("meta"), options()).expect("an engine"))
            }
            None => engine,
        };
        Fixture { ns: Namespace::open(engine).expect("open"), dir }
    }

    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.ns.check(&mut |problem| problems.push(problem)).expect("check");
        problems
    }

    pub fn assert_consistent(&self) {
        assert_eq!(self.problems(), []);
    }

    pub fn make(&self, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
        let mode = if kind == Kind::Directory { 0o777 } else { 0o666 };
        let target = (kind == Kind::Symlink).then_some(&b"target"[..]);
        self.ns.create(parent, name.as_bytes(), kind, mode, 0, target, &CALLER).expect("create").ino
    }

    pub fn file(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.make(parent, name, Kind::File)
    }

    pub fn dir(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.make(parent, name, Kind::Directory)
    }

    pub fn attr(&self, ino: InodeNo) -> Attr {
        self.ns.getattr(ino).expect("getattr")
    }

    pub fn names(&self, dir: InodeNo) -> Vec<String> {
        self.list(dir, 0).into_iter().map(|(_, name)| name).collect()
    }

    pub fn list(&self, dir: InodeNo, after: u64) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        self.ns
            .readdir(dir, after, false, &mut |entry| {
                names.push((entry.cookie, String::from_utf8_lossy(entry.name).into_owned()));
                true
            })
            .expect("readdir");
        names
    }

    /// Writes `len` bytes of a new segment of that length.
    pub fn write(&self, ino: InodeNo, offset: u64, len: u32, segment: u128) -> Attr {
        let commit = DataCommit {
            pieces: vec![piece(offset, len, slice(segment, len, 0))],
            new_size: Some(offset + u64::from(len)),
            mtime: Some(Time::now()),
            new_segments: vec![(SegmentId(segment), u64::from(len))],
            kill_suid: false,
        };
        self.ns.commit_write(ino, &commit).expect("commit")
    }

    /// Writes `len` bytes inline; the sealed bytes are made of `fill`.
    pub fn write_inline(&self, ino: InodeNo, offset: u64, len: u32, fill: u8) -> Attr {
        let commit = DataCommit {
            pieces: vec![NewExtent { offset, len, data: NewData::Inline(vec![fill; len as usize + 4]) }],
            new_size: Some(offset + u64::from(len)),
            ..DataCommit::default()
        };
        self.ns.commit_write(ino, &commit).expect("commit")
    }

    pub fn live(&self, segment: u128) -> Option<u64> {
        self.ns.segment(SegmentId(segment)).expect("segment").map(|segment| segment.live)
    }
}

/// A run that is a whole segment, from byte `skip`.
pub fn slice(segment: u128, run_len: u32, skip: u32) -> SegmentSlice {
    SegmentSlice { segment: SegmentId(segment), run_offset: 0, run_len, skip, frames: None }
}

pub fn piece(offset: u64, len: u32, slice: SegmentSlice) -> NewExtent {
    NewExtent { offset, len, data: NewData::Segment(slice) }
}

/// Asserts that a call failed in a certain way.
#[macro_export]
macro_rules! refused {
    ($call:expr, $pattern:pat) => {
        match $call {
            Err($pattern) => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    };
}
