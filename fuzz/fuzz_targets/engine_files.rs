//! The embedded engine's data file, changed anywhere: an error, or exactly the right contents.
#![no_main]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{Engine, EngineExt as _, KvError};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[derive(Arbitrary, Debug)]
struct Input {
    /// Page, place in it, what is xored there.
    changes: Vec<(u8, u16, u8)>,
    cut_pages: u8,
}

struct Fixture {
    files: Vec<(String, Vec<u8>)>,
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions { map_size: 64 << 20, log: true, ..EmbeddedOptions::default() }
}

/// In memory: a fuzzer opens thousands.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in memory")
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let dir = scratch();
    let path = dir.path().join("engine");
    let engine = EmbeddedEngine::open(&path, options()).expect("open");
    let mut contents = BTreeMap::new();
    for round in 0..4u32 {
        for index in 0..80u32 {
            let key = format!("key-{:05}", index * 7 + round).into_bytes();
            // Some values take pages of their own.
            let value = vec![index as u8; if index % 20 == 3 { 9000 } else { 40 + index as usize }];
            let done: Result<_, KvError> = engine.transact_with(|txn| {
                txn.put(&key, &value);
                Ok(())
            });
            done.expect("a transaction");
            contents.insert(key, value);
        }
        futures::executor::block_on(engine.durable(engine.position())).expect("durable");
    }
    engine.close().expect("close");
    let files = std::fs::read_dir(&path).expect("the engine's directory");
    let files = files.map(|file| {
        let file = file.expect("a file");
        (
            file.file_name().into_string().expect("a plain name"),
            std::fs::read(file.path()).expect("its bytes"),
        )
    });
    Fixture { files: files.collect(), contents }
});

fn read_all(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, KvError> {
    let engine = EmbeddedEngine::open(path, options())?;
    let mut found = BTreeMap::new();
    engine.view_with(|view| {
        view.scan(&[0], &[0xff; 8], &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
    })?;
    for key in FIXTURE.contents.keys() {
        let value: Option<Vec<u8>> =
            engine.view_with(|view| Ok::<_, KvError>(view.get(key)?.map(|v| v.into_owned())))?;
        assert_eq!(value.as_ref(), found.get(key), "get and scan agree");
    }
    Ok(found)
}

fuzz_target!(|input: Input| {
    let dir = scratch();
    let path = dir.path().join("engine");
    std::fs::create_dir(&path).expect("a directory");
    std::os::unix::fs::chown(&path, None, None).expect("its owner");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("its mode");
    let mut touched = false;
    for (name, bytes) in &FIXTURE.files {
        let mut bytes = bytes.clone();
        if name == "data.mdb" {
            let pages = bytes.len() / 4096;
            for (page, place, xor) in &input.changes {
                let at = usize::from(*page) % pages * 4096 + usize::from(*place) % 4096;
                bytes[at] ^= xor;
                touched |= *xor != 0;
            }
            let cut = usize::from(input.cut_pages).saturating_sub(240);
            touched |= cut > 0;
            bytes.truncate(pages.saturating_sub(cut) * 4096);
        }
        std::fs::write(path.join(name), bytes).expect("a file");
    }
    match read_all(&path) {
        Ok(found) => assert_eq!(found, FIXTURE.contents),
        Err(error) => assert!(touched, "{error}"),
    }
});
