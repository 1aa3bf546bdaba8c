use std::fs;

use futures::TryStreamExt;
use rustix::fs::{CWD, Mode};

use super::*;

fn fixture() -> (tempfile::TempDir, LocalStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    (directory, store)
}

/// The result of a future that must be there at the first poll.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the local store must answer at the first poll")
}

fn put(store: &LocalStore, key: &str, body: &'static str) -> Result<(), StoreError> {
    now(store.put(key, Bytes::from_static(body.as_bytes())))
}

#[test]
fn every_answer_is_there_at_the_first_poll() {
    let (_directory, store) = fixture();
    now(store.put("a/b", Bytes::from_static(b"hello"))).unwrap();
    now(store.put_if_absent("a/c", Bytes::from_static(b"x"))).unwrap();
    assert_eq!(now(store.get("a/b")).unwrap(), "hello");
    assert_eq!(now(store.get_range("a/b", 1..4)).unwrap(), "ell");
    assert_eq!(now(store.head("a/b")).unwrap().size, 5);
    assert_eq!(now(store.list("").try_collect::<Vec<_>>()).unwrap().len(), 2);
    now(store.delete("a/b")).unwrap();
}

#[test]
fn a_replaced_or_deleted_object_is_not_read_from_an_old_descriptor() {
    let (_directory, store) = fixture();
    put(&store, "k", "old").unwrap();
    assert_eq!(now(store.get("k")).unwrap(), "old");
    put(&store, "k", "newer").unwrap();
    assert_eq!(now(store.get("k")).unwrap(), "newer");
    now(store.delete("k")).unwrap();
    assert_eq!(now(store.get_range("k", 0..1)).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn what_another_process_replaced_is_read_anew() {
    let (directory, store) = fixture();
    let other = LocalStore::open(directory.path()).unwrap();
    for body in ["first", "other", "third"] {
        put(&other, "k", body).unwrap();
        assert_eq!(now(store.get("k")).unwrap(), body);
    }
}

#[test]
fn a_file_cut_short_behind_our_back_is_corrupt() {
    let (directory, store) = fixture();
    put(&store, "segments/k", "0123456789").unwrap();
    assert_eq!(now(store.get_range("segments/k", 5..10)).unwrap(), "56789");
    fs::OpenOptions::new().write(true).open(directory.path().join("segments/k")).unwrap().set_len(7).unwrap();
    let error = now(store.get_range("segments/k", 5..10)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.to_string().contains("has 7 bytes"), "{error}");
}

#[test]
fn a_crash_leaves_nothing_that_looks_like_an_object() {
    let (directory, store) = fixture();
    put(&store, "k", "x").unwrap();
    drop(store);
    let old = directory.path().join(".headrace-tmp/00000000deadbeef");
    let young = directory.path().join(".headrace-tmp/00000000deadbee0");
    fs::write(&old, "half").unwrap();
    fs::write(&young, "half").unwrap();
    let before = SystemTime::now() - Duration::from_secs(3700);
    fs::File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
    let store = LocalStore::open(directory.path()).unwrap();
    assert!(!old.exists(), "left for more than an hour");
    assert!(young.exists(), "may belong to a writer");
    let keys: Vec<_> = now(store.list("").map_ok(|object| object.key).try_collect()).unwrap();
    assert_eq!(keys, ["k"]);
    assert_eq!(now(store.get(".headrace-tmp/00000000deadbee0")).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_failed_put_leaves_no_temporary_file() {
    let (directory, store) = fixture();
    put(&store, "a", "x").unwrap();
    now(store.put_if_absent("a", Bytes::from_static(b"y"))).unwrap_err();
    put(&store, "d/e", "x").unwrap();
    put(&store, "d", "in the way").unwrap_err();
    assert_eq!(fs::read_dir(directory.path().join(".headrace-tmp")).unwrap().count(), 0);
}

#[test]
fn a_key_cannot_be_an_object_and_a_directory() {
    let (_directory, store) = fixture();
    put(&store, "a", "x").unwrap();
    put(&store, "d/e", "x").unwrap();
    for result in
        [put(&store, "a/b", "y"), put(&store, "d", "y"), now(store.put_if_absent("d", Bytes::new()))]
    {
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("beginning of other keys"), "{error}");
    }
    for key in ["a/b", "d"] {
        assert_eq!(now(store.get(key)).unwrap_err().kind, ErrorKind::NotFound, "{key}");
        assert_eq!(now(store.head(key)).unwrap_err().kind, ErrorKind::NotFound, "{key}");
        now(store.delete(key)).unwrap();
    }
    assert_eq!(now(store.get("d/e")).unwrap(), "x");
}

#[test]
fn what_others_left_in_the_directory_is_not_an_object() {
    use std::os::unix::ffi::OsStrExt;
    let (directory, store) = fixture();
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", directory.path().join("directory-link")).unwrap();
    rustix::fs::mknodat(CWD, directory.path().join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(directory.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
    assert_eq!(now(store.list("").try_collect::<Vec<_>>()).unwrap(), []);
    for key in ["link", "fifo"] {
        assert_eq!(now(store.head(key)).unwrap_err().kind, ErrorKind::NotFound, "{key}");
        now(store.get_range(key, 0..1)).unwrap_err();
        now(store.get(key)).unwrap_err();
    }
}

#[test]
fn empty_directories_go_and_come_back() {
    let (directory, store) = fixture();
    put(&store, "a/b/c/1", "x").unwrap();
    put(&store, "a/2", "x").unwrap();
    now(store.delete("a/b/c/1")).unwrap();
    assert!(!directory.path().join("a/b").exists());
    assert!(directory.path().join("a/2").exists());
    put(&store, "a/b/c/1", "y").unwrap();
    assert_eq!(now(store.get("a/b/c/1")).unwrap(), "y");
    // Even if somebody else removes them.
    fs::remove_dir_all(directory.path().join("a")).unwrap();
    put(&store, "a/b/c/3", "z").unwrap();
    assert_eq!(now(store.get("a/b/c/3")).unwrap(), "z");
}

#[test]
fn of_many_deleters_the_last_one_removes_the_directory() {
    const DELETERS: usize = 8;
    let (directory, store) = fixture();
    for round in 0..200 {
        (0..DELETERS).for_each(|number| put(&store, &format!("a/b/{number}"), "x").unwrap());
        let together = std::sync::Barrier::new(DELETERS);
        std::thread::scope(|scope| {
            for number in 0..DELETERS {
                let (store, together) = (&store, &together);
                scope.spawn(move || {
                    together.wait();
                    now(store.delete(&format!("a/b/{number}"))).unwrap();
                });
            }
        });
        assert!(!directory.path().join("a").exists(), "round {round}");
    }
}

#[test]
fn writers_and_deleters_of_one_directory_do_not_disturb_each_other() {
    let (_directory, store) = fixture();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..50 {
                    let key = format!("shared/directory/{writer}");
                    put(store, &key, "body").unwrap();
                    assert_eq!(now(store.get(&key)).unwrap(), "body");
                    now(store.delete(&key)).unwrap();
                    assert_eq!(now(store.get(&key)).unwrap_err().kind, ErrorKind::NotFound);
                }
            });
        }
    });
}

#[test]
fn roots_are_made_with_their_parents() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/b/c");
    let error = LocalStore::open(&root).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.to_string().contains("no such directory"), "{error}");
    LocalStore::create_root(&root).unwrap();
    LocalStore::create_root(&root).unwrap();
    LocalStore::open(&root).unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("x")] {
        LocalStore::create_root(&path).unwrap_err();
        assert_eq!(LocalStore::open(&path).unwrap_err().kind, ErrorKind::Unsupported, "{}", path.display());
    }
}

#[test]
fn it_knows_its_space() {
    let (_directory, store) = fixture();
    let space = store.space().unwrap();
    assert!(space.total > 0 && space.free <= space.total);
}

#[test]
fn absurd_requests_are_refused_before_memory_is_taken() {
    let (_directory, store) = fixture();
    put(&store, "k", "x").unwrap();
    assert_eq!(now(store.get_range("k", 0..u64::MAX)).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(now(store.get_range("k", u64::MAX - 1..u64::MAX)).unwrap_err().kind, ErrorKind::Unsupported);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 3..1;
    assert_eq!(now(store.get_range("k", backwards)).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(now(store.get_range("k", 7..7)).unwrap(), "");
}
