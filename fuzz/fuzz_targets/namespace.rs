//! Metadata with arbitrary records in it: every call gives an answer or an error, `check` says what is wrong, nothing panics.
#![no_main]

#[path = "../../crates/meta/src/tests/engine.rs"]
#[allow(dead_code)]
mod engine;

use std::ops::ControlFlow;
use std::sync::Arc;

use arbitrary::Arbitrary;
use engine::MemoryEngine;
use headrace_kv::{Engine, EngineExt as _, KvError};
use headrace_layout::InodeNo;
use headrace_meta::{Caller, DataCommit, Kind, Namespace, NewData, NewExtent, SetAttr};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Change<'a> {
    Xor { record: u8, place: u8, with: u8 },
    Cut { record: u8, len: u8 },
    Remove { record: u8 },
    Swap { one: u8, other: u8 },
    Put { key: &'a [u8], value: &'a [u8] },
}

fn records(engine: &MemoryEngine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let found: Result<(), KvError> = engine.view_with(|view| {
        view.scan(&[0], &[0xff; 8], &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
    });
    found.expect("an engine in memory");
    all
}

fn put(engine: &MemoryEngine, key: &[u8], value: Option<&[u8]>) {
    let done: Result<_, KvError> = engine.transact_with(|txn| {
        match value {
            Some(value) => txn.put(key, value),
            None => txn.delete(key),
        }
        Ok(())
    });
    done.expect("an engine in memory");
}

fuzz_target!(|changes: Vec<Change<'_>>| {
    let engine = Arc::new(MemoryEngine::default());
    let root = InodeNo(1);
    Namespace::format(&*engine, 0, 0, 0o755).expect("format");
    let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
    {
        let meta = Namespace::open(Arc::clone(&engine) as Arc<dyn Engine>).expect("open");
        let make = |parent, name: &[u8], kind, target: Option<&[u8]>| {
            meta.create(parent, name, kind, 0o755, 0, target, &caller).expect("create").ino
        };
        let dir = make(root, b"dir", Kind::Directory, None);
        let file = make(dir, b"file", Kind::File, None);
        make(root, b"symlink", Kind::Symlink, Some(b"dir/file"));
        meta.link(file, root, b"link").expect("link");
        let piece = NewExtent { offset: 10, len: 5, data: NewData::Inline(b"sealed".to_vec()) };
        let commit = DataCommit {
            pieces: vec![piece],
            new_size: Some(15),
            mtime: None,
            new_segments: Vec::new(),
            kill_suid: false,
        };
        meta.commit_write(file, &commit).expect("write");
    }
    for change in &changes {
        let all = records(&engine);
        let pick = |index: u8| all.get(usize::from(index) % all.len().max(1));
        match change {
            Change::Xor { record, place, with } => {
                let Some((key, value)) = pick(*record) else { continue };
                let mut value = value.clone();
                if let Some(len) = value.len().checked_sub(1) {
                    value[usize::from(*place).min(len)] ^= with;
                }
                put(&engine, key, Some(&value));
            }
            Change::Cut { record, len } => {
                let Some((key, value)) = pick(*record) else { continue };
                put(&engine, key, Some(&value[..usize::from(*len).min(value.len())]));
            }
            Change::Remove { record } => {
                let Some((key, _)) = pick(*record) else { continue };
                put(&engine, key, None);
            }
            Change::Swap { one, other } => {
                let (Some((key, _)), Some((_, value))) = (pick(*one), pick(*other)) else { continue };
                put(&engine, key, Some(value));
            }
            Change::Put { key, value } => {
                if !key.is_empty() && key.len() <= headrace_kv::MAX_KEY_BYTES && key[0] < 0xff {
                    put(&engine, key, Some(value));
                }
            }
        }
    }
    let Ok(meta) = Namespace::open(Arc::clone(&engine) as Arc<dyn Engine>) else { return };
    for ino in (1..6).map(InodeNo) {
        let _ = meta.getattr(ino);
        let _ = meta.lookup(ino, b"file");
        let _ = meta.readlink(ino);
        let _ = meta.readdir(ino, 0, true, &mut |_| true);
        let _ = meta.listxattr(ino);
        let _ = meta.extents(ino, 0);
        let _ = meta.setattr(ino, &SetAttr { mode: Some(0o700), ..SetAttr::default() });
        let _ = meta.truncate(ino, 12, false);
    }
    let _ = meta.unlink(root, b"link");
    let _ = meta.create(root, b"new", Kind::File, 0o600, 0, None, &caller);
    let _ = meta.orphans();
    let _ = meta.check(&mut |_| ());
});
