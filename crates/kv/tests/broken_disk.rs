//! A disk that refuses writes for another reason than being full: reported to everyone, for good, and reads go on. The
//! file size limit of a child process stands in for it.

use std::path::PathBuf;
use std::process::Command;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};

const CHILD_DIR: &str = "HEADRACE_BROKEN_DISK_DIR";

fn put(engine: &EmbeddedEngine, i: u32) -> Result<CommitSeq, KvError> {
    let put = engine.transact_with(|txn| {
        txn.put(&i.to_be_bytes(), &[i as u8; 3000]);
        Ok::<_, KvError>(())
    });
    put.map(|((), seq)| seq)
}

/// How many entries there are; fails if they are not the first ones.
fn count(engine: &EmbeddedEngine) -> u32 {
    let mut next = 0u32;
    engine
        .view_with(|read| {
            read.scan(&[0], &[0xff; 5], &mut |key, value| {
                assert_eq!((key, value), (&next.to_be_bytes()[..], &[next as u8; 3000][..]));
                next += 1;
                std::ops::ControlFlow::Continue(())
            })
        })
        .expect("view");
    next
}

#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else { return };
    let engine = EmbeddedEngine::open(&dir, EmbeddedOptions::default()).expect("open");
    let mut written = 0;
    let error = loop {
        let seq = put(&engine, written).expect("put");
        written += 1;
        if let Err(e) = block_on(engine.durable(seq)) {
            break e;
        }
        assert!(written < 10_000, "the limit does not bite");
    };
    assert!(matches!(error, KvError::Io { .. }), "{error:?}");
    assert_eq!(count(&engine), written, "what was visible stays visible");
    assert!(matches!(put(&engine, written), Err(KvError::Io { .. })));
    assert!(matches!(block_on(engine.durable(engine.position())), Err(KvError::Io { .. })));
    assert!(matches!(engine.close(), Err(KvError::Io { .. })));
    assert!(matches!(put(&engine, written), Err(KvError::Closed)));
    println!("\nDURABLE {}", written - 1);
}

#[test]
fn a_write_error_is_final_and_costs_only_what_was_never_durable() {
    let dir = tempfile::tempdir().expect("tempdir");
    // 2 MiB, in blocks of 512 bytes; the signal that would end the process is ignored, which `exec` keeps.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact child --ignored --nocapture"])
        .arg(std::env::current_exe().expect("own path"))
        .env(CHILD_DIR, dir.path())
        .output()
        .expect("run the child");
    let text = String::from_utf8_lossy(&output.stdout);
    let durable = text.lines().find_map(|l| l.strip_prefix("DURABLE ")?.parse::<u32>().ok());
    let Some(durable) = durable.filter(|_| output.status.success()) else {
        panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let engine = EmbeddedEngine::open(dir.path(), EmbeddedOptions::default()).expect("reopen");
    assert_eq!(count(&engine), durable);
    block_on(engine.durable(put(&engine, durable).expect("put"))).expect("a new process goes on");
}
