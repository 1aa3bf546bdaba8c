//! Opening, refusing to open, closing.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use futures::executor::block_on;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError, Stop};

fn open(dir: &Path) -> Result<EmbeddedEngine, KvError> {
    EmbeddedEngine::open(dir, EmbeddedOptions::default())
}

fn refusal(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => panic!("{} was opened", dir.display()),
        Err(e) => e.to_string(),
    }
}

fn put(engine: &EmbeddedEngine, key: &[u8], value: &[u8]) -> Result<CommitSeq, KvError> {
    let put = engine.transact_with(|txn| {
        txn.put(key, value);
        Ok::<_, KvError>(())
    });
    put.map(|((), seq)| seq)
}

fn get(engine: &EmbeddedEngine, key: &[u8]) -> Option<Vec<u8>> {
    engine.view_with(|read| Ok::<_, KvError>(read.get(key)?.map(|v| v.to_vec()))).expect("view")
}

#[test]
fn a_new_directory_is_private_and_survives_reopening() {
    let parent = tempfile::tempdir().expect("tempdir");
    let dir = parent.path().join("a/b");
    let engine = open(&dir).expect("open");
    assert_eq!(fs::metadata(&dir).expect("stat").mode() & 0o777, 0o700);
    for file in ["data.mdb", "lock.mdb"] {
        assert_eq!(fs::metadata(dir.join(file)).expect("stat").mode() & 0o077, 0, "{file}");
    }
    assert!(engine.exclusive());
    put(&engine, b"k", b"v").expect("put");
    drop(engine);
    let engine = open(&dir).expect("reopen");
    assert_eq!(get(&engine, b"k").as_deref(), Some(&b"v"[..]));
    assert_eq!(engine.position(), CommitSeq(1));
}

#[test]
fn a_second_open_is_refused_until_the_first_is_closed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = open(dir.path()).expect("open");
    put(&first, b"k", b"v").expect("put");
    assert!(refusal(dir.path()).contains("already open"));
    // The refused attempt did no harm.
    assert_eq!(get(&first, b"k").as_deref(), Some(&b"v"[..]));
    first.close().expect("close");
    // The closed engine still exists; what counts is that it let go of the database.
    let second = open(dir.path()).expect("open after close");
    assert_eq!(get(&second, b"k").as_deref(), Some(&b"v"[..]));
    drop(first);
    assert!(refusal(dir.path()).contains("already open"));
}

#[test]
fn a_closed_engine_says_so() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = open(dir.path()).expect("open");
    let seq = put(&engine, b"k", b"v").expect("put");
    engine.close().expect("close");
    engine.close().expect("close again");
    assert!(matches!(put(&engine, b"k", b"w"), Err(KvError::Closed)));
    assert!(matches!(engine.view(&mut |_| Ok(())), Err(Stop::Kv(KvError::Closed))));
    // What was durable stays durable.
    block_on(engine.durable(seq)).expect("durable");
}

#[test]
fn a_symbolic_link_and_a_file_are_refused() {
    let parent = tempfile::tempdir().expect("tempdir");
    let real = parent.path().join("real");
    fs::create_dir(&real).expect("mkdir");
    let link = parent.path().join("link");
    symlink(&real, &link).expect("symlink");
    assert!(refusal(&link).contains("symbolic link"));
    let file = parent.path().join("file");
    fs::write(&file, "x").expect("write");
    assert!(refusal(&file).contains("not a directory"));
}

#[test]
fn anothers_directory_is_refused() {
    let dir = tempfile::tempdir().expect("tempdir");
    if std::os::unix::fs::chown(dir.path(), Some(12345), None).is_err() {
        eprintln!("skipped: needs root to give a directory away");
        return;
    }
    assert!(refusal(dir.path()).contains("belongs to user 12345"));
}

#[test]
fn a_readable_directory_is_made_private() {
    let dir = tempfile::tempdir().expect("tempdir");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let _engine = open(dir.path()).expect("open");
    assert_eq!(fs::metadata(dir.path()).expect("stat").mode() & 0o777, 0o700);
}

#[test]
fn unknown_formats_are_left_alone() {
    let dir = tempfile::tempdir().expect("tempdir");
    drop(open(dir.path()).expect("open"));
    fs::write(dir.path().join("FORMAT"), "headrace-kv lmdb 3\n").expect("write");
    let message = refusal(dir.path());
    assert!(message.contains("headrace-kv lmdb 3") && message.contains("headrace-kv lmdb 2"), "{message}");

    let foreign = tempfile::tempdir().expect("tempdir");
    fs::write(foreign.path().join("data.mdb"), "someone's data").expect("write");
    assert!(refusal(foreign.path()).contains("another program"));
    assert_eq!(fs::read_to_string(foreign.path().join("data.mdb")).expect("read"), "someone's data");
}

#[test]
fn an_unfinished_creation_starts_anew() {
    // Blank: power was lost while the marker was written. There is no data file yet then.
    for (marker, data) in [("", false), ("\0\0\0\0", false), ("headrace-kv lmdb 2 creating\n", true)] {
        let dir = tempfile::tempdir().expect("tempdir");
        fs::write(dir.path().join("FORMAT"), marker).expect("write");
        if data {
            fs::write(dir.path().join("data.mdb"), [0; 100]).expect("write");
        }
        let engine = open(dir.path()).expect("open");
        put(&engine, b"k", b"v").expect("put");
        engine.close().expect("close");
    }
}

#[test]
fn a_marker_that_was_lost_does_not_cost_the_data() {
    let dir = tempfile::tempdir().expect("tempdir");
    drop(open(dir.path()).expect("open"));
    let data = fs::read(dir.path().join("data.mdb")).expect("read");
    fs::write(dir.path().join("FORMAT"), "").expect("write");
    assert!(matches!(open(dir.path()).map(drop), Err(KvError::Corrupt(_))));
    assert!(fs::read(dir.path().join("data.mdb")).expect("read") == data);
}

#[test]
fn damage_is_an_error_not_a_crash() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = open(dir.path()).expect("open");
    for i in 0..2000u32 {
        put(&engine, &i.to_be_bytes(), &[7; 100]).expect("put");
    }
    engine.close().expect("close");
    drop(engine);
    let data = dir.path().join("data.mdb");
    let whole = fs::read(&data).expect("read");

    // The tail is missing: the pages there read as zeros.
    fs::write(&data, &whole[..3 * 4096]).expect("truncate");
    let outcome = open(dir.path()).and_then(|engine| {
        engine.view_with(|read| {
            let mut entries = 0;
            read.scan(&[], &[0xff; 8], &mut |_, _| {
                entries += 1;
                std::ops::ControlFlow::Continue(())
            })?;
            Ok::<_, KvError>(entries)
        })
    });
    assert!(matches!(outcome, Err(KvError::Corrupt(_))), "{outcome:?}");

    // Not a database at all.
    fs::write(&data, vec![0x5a; 64 << 10]).expect("overwrite");
    assert!(matches!(open(dir.path()).map(drop), Err(KvError::Corrupt(_))));
}

#[test]
fn programs_that_are_started_do_not_inherit_the_files() {
    let dir = tempfile::tempdir().expect("tempdir");
    let engine = open(dir.path()).expect("open");
    put(&engine, b"k", b"v").expect("put");
    let files = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().expect("ls");
    let files = String::from_utf8_lossy(&files.stdout).into_owned();
    let path = dir.path().canonicalize().expect("path").display().to_string();
    assert!(files.contains("->") && !files.contains(&path), "{files}");
}
