//! What the kernel may remember, and that it never remembers what is no longer so.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::memory::MemFs;
use crate::support::{Mounted, eventually};

fn listing(path: &Path) -> BTreeSet<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_owner_is_asked_once() {
    let mounted = Mounted::new();
    let counts = &mounted.fs.counts;
    fs::create_dir(mounted.path("d")).unwrap();
    fs::write(mounted.path("d/f"), b"data").unwrap();
    assert_eq!(fs::read(mounted.path("d/f")).unwrap(), b"data");
    fs::metadata(mounted.path("d/f")).unwrap();
    assert_eq!(fs::metadata(mounted.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(listing(&mounted.path("d")).len(), 1);
    assert_eq!(listing(&mounted.path("d")).len(), 1);

    let load = || {
        [&counts.lookups, &counts.getattrs, &counts.readdirs, &counts.reads]
            .map(|count| count.load(Ordering::Relaxed))
    };
    let before = load();
    for _ in 0..10 {
        assert_eq!(fs::metadata(mounted.path("d/f")).unwrap().len(), 4);
        assert_eq!(fs::metadata(mounted.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(listing(&mounted.path("d")).len(), 1);
        assert_eq!(fs::read(mounted.path("d/f")).unwrap(), b"data");
    }
    assert_eq!(load(), before);
}

#[test]
fn a_cached_listing_follows_every_change() {
    let mounted = Mounted::new();
    let dir = mounted.path("d");
    fs::create_dir(&dir).unwrap();
    let mut expected = BTreeSet::new();
    let check = |expected: &BTreeSet<String>| {
        for _ in 0..3 {
            assert_eq!(&listing(&dir), expected);
        }
    };
    check(&expected);
    for i in 0..50 {
        let name = format!("f{i}");
        fs::write(dir.join(&name), b"").unwrap();
        expected.insert(name);
        check(&expected);
    }
    for i in 0..25 {
        fs::rename(dir.join(format!("f{i}")), dir.join(format!("g{i}"))).unwrap();
        expected.remove(&format!("f{i}"));
        expected.insert(format!("g{i}"));
        check(&expected);
        fs::remove_file(dir.join(format!("f{}", i + 25))).unwrap();
        expected.remove(&format!("f{}", i + 25));
        check(&expected);
    }
    fs::create_dir(dir.join("sub")).unwrap();
    std::os::unix::fs::symlink("x", dir.join("link")).unwrap();
    fs::hard_link(dir.join("g1"), dir.join("hard")).unwrap();
    fs::rename(dir.join("g2"), mounted.path("elsewhere")).unwrap();
    expected.extend(["sub", "link", "hard"].map(str::to_owned));
    expected.remove("g2");
    check(&expected);
    fs::remove_dir(dir.join("sub")).unwrap();
    fs::rename(mounted.path("elsewhere"), dir.join("back")).unwrap();
    expected.remove("sub");
    expected.insert("back".to_owned());
    check(&expected);
}

#[test]
fn a_remembered_absence_ends_with_creation_in_every_way() {
    let mounted = Mounted::new();
    let absent = |name: &str| {
        assert_eq!(fs::metadata(mounted.path(name)).unwrap_err().kind(), ErrorKind::NotFound);
    };
    for name in ["a", "b", "c", "d", "e"] {
        absent(name);
    }
    fs::write(mounted.path("a"), b"").unwrap();
    fs::create_dir(mounted.path("b")).unwrap();
    fs::hard_link(mounted.path("a"), mounted.path("c")).unwrap();
    std::os::unix::fs::symlink("a", mounted.path("d")).unwrap();
    fs::rename(mounted.path("a"), mounted.path("e")).unwrap();
    for name in ["b", "c", "e"] {
        fs::metadata(mounted.path(name)).unwrap();
    }
    fs::symlink_metadata(mounted.path("d")).unwrap();
    absent("a");
    absent("d");
}

#[test]
fn changes_made_elsewhere_to_a_shared_volume_are_seen_soon() {
    let mounted = Mounted::with(MemFs::new(false), "");
    fs::write(mounted.path("f"), b"old").unwrap();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"old");
    mounted.fs.poke(b"f", b"newer");
    eventually("the change is seen", || fs::read(mounted.path("f")).unwrap() == b"newer");
    // A name that did not exist is found as soon as it does.
    assert!(File::open(mounted.path("later")).is_err());
    fs::write(mounted.path("later"), b"").unwrap();
    assert!(File::open(mounted.path("later")).is_ok());
}
