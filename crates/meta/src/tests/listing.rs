use super::fixture::*;
use crate::*;

#[test]
fn listing_is_in_order_of_creation_and_can_go_on_anywhere() {
    each(|fx| {
        for name in ["zebra", "apple", "mango"] {
            fx.file(ROOT, name);
        }
        let all = fx.list(ROOT, 0);
        assert_eq!(fx.names(ROOT), ["zebra", "apple", "mango"]);
        assert!(all[0].0 >= 3);
        for (at, (cookie, _)) in all.iter().enumerate() {
            assert_eq!(fx.list(ROOT, *cookie), all[at + 1..]);
        }
        assert_eq!(fx.list(ROOT, u64::MAX), []);
        // Removing what was listed does not move what is to come.
        fx.ns.unlink(ROOT, b"zebra").unwrap();
        assert_eq!(fx.list(ROOT, all[0].0), all[1..]);
        fx.file(ROOT, "zebra");
        assert!(fx.list(ROOT, all[2].0).iter().all(|(cookie, _)| *cookie > all[2].0));
        assert_eq!(fx.names(ROOT), ["apple", "mango", "zebra"]);
    });
}

#[test]
fn a_renamed_name_keeps_its_position_in_the_directory() {
    each(|fx| {
        for name in ["a", "b", "c"] {
            fx.file(ROOT, name);
        }
        let before = fx.list(ROOT, 0);
        fx.ns.rename(ROOT, b"b", ROOT, b"renamed", RenameMode::Replace).unwrap();
        let after = fx.list(ROOT, 0);
        assert_eq!(fx.names(ROOT), ["a", "renamed", "c"]);
        assert_eq!(before[1].0, after[1].0);
    });
}

#[test]
fn listing_stops_when_told_and_brings_attributes() {
    each(|fx| {
        let ino = fx.file(ROOT, "file");
        fx.dir(ROOT, "dir");
        let mut seen = Vec::new();
        fx.ns
            .readdir(ROOT, 0, true, &mut |entry| {
                seen.push((entry.kind, entry.attr.expect("attributes")));
                false
            })
            .unwrap();
        assert_eq!(seen, [(Kind::File, fx.attr(ino))]);
        refused!(fx.ns.readdir(ino, 0, false, &mut |_| true), MetaError::NotDirectory);
        refused!(fx.ns.readdir(headrace_layout::InodeNo(999), 0, false, &mut |_| true), MetaError::NotFound);
    });
}

/// Creates, lists in pages, seeks and empties a directory of `count` names.
fn large_directory(fx: &Fixture, count: usize) {
    let dir = fx.dir(ROOT, "large");
    for number in 0..count {
        fx.file(dir, &format!("file-{number:07}"));
    }
    let (mut listed, mut after) = (0, 0);
    loop {
        let mut page = 0;
        fx.ns
            .readdir(dir, after, false, &mut |entry| {
                assert_eq!(entry.name, format!("file-{listed:07}").as_bytes());
                (listed, page, after) = (listed + 1, page + 1, entry.cookie);
                page < 1000
            })
            .unwrap();
        if page == 0 {
            break;
        }
    }
    assert_eq!(listed, count);
    assert_eq!(fx.ns.directory_totals(dir).unwrap().files, count as u64);
    for number in (0..count).step_by((count / 1000).max(1)) {
        assert!(fx.ns.lookup(dir, format!("file-{number:07}").as_bytes()).is_ok());
    }
    assert_eq!(fx.ns.unlink(dir, b"file-0000000").unwrap().nlink, 0);
}

#[test]
fn a_directory_of_100_000_names_works() {
    let fx = Fixture::in_memory();
    large_directory(&fx, 100_000);
    fx.assert_consistent();
}

#[test]
#[ignore = "takes a minute; cargo test --release -- --ignored"]
fn a_directory_of_a_million_names_works_on_the_embedded_engine() {
    let fx = Fixture::embedded();
    let start = std::time::Instant::now();
    large_directory(&fx, 1_000_000);
    let fx = fx.reopen();
    fx.assert_consistent();
    println!("a million names created, listed and checked in {:?}", start.elapsed());
}
