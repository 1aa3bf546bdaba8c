//! What is deleted and kept: found by its path, given back, let go of; and many reclaimed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headrace_kv::EngineExt;
use headrace_layout::InodeNo;
use proptest::prelude::*;

use super::fixture::*;
use crate::key;
use crate::record::KeptRecord;
use crate::*;

const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn later() -> Time {
    Time::now().after(WEEK * 2)
}

fn path(path: &str) -> Vec<&[u8]> {
    path.split('/').map(str::as_bytes).collect()
}

fn deleted(fx: &Fixture, at: &str) -> Vec<Trashed> {
    fx.ns.deleted_as(&path(at)).unwrap()
}

/// Brings back the newest, as a file system does.
fn restore(fx: &Fixture, at: &str) -> Result<Restored> {
    let Some(Trashed { kept, mut above, into, .. }) = deleted(fx, at).into_iter().next() else {
        return Err(MetaError::NotFound);
    };
    above.push(Revival { ino: kept.ino, parent: into, name: kept.name });
    let attrs = fx.ns.revive(&above)?;
    let mut sum = Restored::default();
    attrs.iter().for_each(|attr| sum.add(attr));
    if fx.attr(kept.ino).kind == Kind::Directory {
        let mut seen = 0;
        let below = fx.ns.revive_into(kept.ino, Vec::new(), &mut |_, _| seen += 1)?;
        assert_eq!(seen, below.files + below.directories);
        sum = sum.plus(&below);
    }
    Ok(sum)
}

fn find(fx: &Fixture, at: &str) -> InodeNo {
    path(at).into_iter().fold(ROOT, |dir, name| fx.ns.lookup(dir, name).unwrap().ino)
}

#[test]
fn a_deleted_file_is_kept_and_comes_back_as_it_was() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 100, 1);
        fx.write_inline(file, 100, 50, 1);
        fx.ns.setxattr(file, b"user.a", b"1", XattrMode::Set, false).unwrap();
        let before = fx.attr(file);
        let unlinked = fx.ns.unlink(ROOT, b"file").unwrap();
        assert_eq!(unlinked, Unlinked { ino: file, nlink: 0, kind: Kind::File, kept: Some(150) });
        fx.assert_consistent();
        // Neither a mount nor anybody else reclaims it before its time.
        fx.ns.reclaim_all(&[file], Time::now()).unwrap();
        assert_eq!(fx.live(1), Some(100));
        let found = deleted(fx, "file");
        assert_eq!((found.len(), found[0].kept.ino, found[0].into), (1, file, ROOT));
        assert_eq!(found[0].kept.until, found[0].kept.deleted.after(WEEK));
        assert_eq!(fx.ns.path_of(file).unwrap().unwrap(), b"/file");

        restore(fx, "file").unwrap();
        let after = fx.ns.lookup(ROOT, b"file").unwrap();
        assert_eq!(Attr { ctime: before.ctime, ..after }, before);
        assert_eq!(fx.ns.getxattr(file, b"user.a").unwrap(), b"1");
        assert!(deleted(fx, "file").is_empty() && fx.ns.orphans().unwrap().is_empty());
        refused!(restore(fx, "file"), MetaError::NotFound);
    });
}

#[test]
fn what_is_kept_goes_when_its_time_is_over() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let (file, link) = (fx.file(ROOT, "file"), fx.make(ROOT, "link", Kind::Symlink));
        let dir = fx.dir(ROOT, "dir");
        fx.write(file, 0, 100, 1);
        fx.ns.unlink(ROOT, b"file").unwrap();
        fx.ns.unlink(ROOT, b"link").unwrap();
        fx.ns.rmdir(ROOT, b"dir").unwrap();
        let (all, next) = fx.ns.nameless(InodeNo(0), 2).unwrap();
        assert_eq!((all.len(), next), (2, Some(all[1].ino)));
        assert_eq!(fx.ns.nameless(all[1].ino, 2).unwrap().1, None);
        fx.ns.reclaim_all(&[file, link, dir], later()).unwrap();
        assert_eq!(fx.live(1), Some(0));
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 1, bytes: 0 });
        assert!(deleted(fx, "file").is_empty());
    });
}

#[test]
fn what_never_had_a_name_or_was_let_go_is_not_kept() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let unnamed = fx.ns.create_unnamed(ROOT, 0o600, &CALLER).unwrap().ino;
        let pipe = fx.make(ROOT, "pipe", Kind::Fifo);
        assert_eq!(fx.ns.unlink(ROOT, b"pipe").unwrap().kept, None);
        let file = fx.file(ROOT, "file");
        fx.ns.unlink(ROOT, b"file").unwrap();
        assert!(fx.ns.let_go(file).unwrap() && !fx.ns.let_go(file).unwrap());
        refused!(
            fx.ns.revive(&[Revival { ino: file, parent: ROOT, name: b"file".to_vec() }]),
            MetaError::NotFound
        );
        refused!(fx.ns.link(file, ROOT, b"file"), MetaError::NotFound);
        fx.ns.reclaim_all(&[unnamed, pipe, file], Time::now()).unwrap();
        assert_eq!(fx.ns.statfs().unwrap().inodes, 1);
    });
}

#[test]
fn only_the_last_name_counts_and_the_newest_version_is_first() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let file = fx.file(ROOT, "a");
        fx.ns.link(file, ROOT, b"b").unwrap();
        assert_eq!(fx.ns.unlink(ROOT, b"a").unwrap().kept, None);
        assert!(deleted(fx, "a").is_empty());
        fx.ns.unlink(ROOT, b"b").unwrap();
        assert_eq!(deleted(fx, "b")[0].kept.ino, file);

        // Each that is replaced is a version.
        let old = fx.file(ROOT, "b");
        let new = fx.file(ROOT, "new");
        fx.ns.rename(ROOT, b"new", ROOT, b"b", RenameMode::Replace).unwrap();
        let versions: Vec<_> = deleted(fx, "b").iter().map(|found| found.kept.ino).collect();
        assert_eq!(versions, [old, file]);
        refused!(restore(fx, "b"), MetaError::Exists);
        assert_eq!(find(fx, "b"), new);
        fx.ns.unlink(ROOT, b"b").unwrap();
        restore(fx, "b").unwrap();
        assert_eq!(find(fx, "b"), new);
        // A name that begins with another, and one with bytes of all kinds.
        let odd = fx.ns.create(ROOT, b"b\x01\xff", Kind::File, 0o600, 0, None, &CALLER).unwrap().ino;
        fx.ns.unlink(ROOT, b"b\x01\xff").unwrap();
        assert_eq!(fx.ns.deleted_as(&[b"b\x01\xff"]).unwrap()[0].kept.ino, odd);
        assert_eq!(deleted(fx, "b").len(), 2);
    });
}

#[test]
fn a_removed_tree_comes_back_as_a_whole_and_a_part_with_what_is_above() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let remove = || {
            for name in ["f", "g"] {
                fx.ns.unlink(find(fx, "a/b"), name.as_bytes()).unwrap();
            }
            fx.ns.rmdir(find(fx, "a"), b"b").unwrap();
            fx.ns.unlink(find(fx, "a"), b"h").unwrap();
            fx.ns.rmdir(ROOT, b"a").unwrap();
        };
        let a = fx.dir(ROOT, "a");
        let b = fx.dir(a, "b");
        let (f, g, h) = (fx.file(b, "f"), fx.file(b, "g"), fx.file(a, "h"));
        fx.write(f, 0, 10, 1);
        // An older one of the same name stays behind.
        let old = fx.file(b, "older");
        fx.ns.rename(b, b"older", b, b"f", RenameMode::Exchange).unwrap();
        fx.ns.unlink(b, b"f").unwrap();
        fx.ns.rename(b, b"older", b, b"f", RenameMode::Replace).unwrap();
        remove();
        fx.assert_consistent();
        assert_eq!(fx.ns.path_of(f).unwrap().unwrap(), b"/a/b/f");
        let sum = restore(fx, "a").unwrap();
        assert_eq!(sum, Restored { files: 3, directories: 2, bytes: 10, older: 1, taken: 0 });
        assert_eq!((find(fx, "a/b/f"), find(fx, "a/b/g"), find(fx, "a/h")), (f, g, h));
        assert_eq!(deleted(fx, "a/b/f")[0].kept.ino, old);
        fx.assert_consistent();

        remove();
        let sum = restore(fx, "a/b/f").unwrap();
        assert_eq!(sum, Restored { files: 1, directories: 2, bytes: 10, older: 0, taken: 0 });
        assert_eq!(
            (fx.names(find(fx, "a")), fx.names(find(fx, "a/b"))),
            (vec!["b".into()], vec!["f".into()])
        );
        // What is there again takes in what was deleted in its predecessor of the same path.
        fx.ns.unlink(b, b"f").unwrap();
        fx.ns.rmdir(a, b"b").unwrap();
        let new = fx.dir(a, "b");
        restore(fx, "a/b/g").unwrap();
        assert_eq!((find(fx, "a/b"), find(fx, "a/b/g")), (new, g));
        // A file is in the way of a directory.
        fx.ns.unlink(new, b"g").unwrap();
        fx.ns.rmdir(a, b"b").unwrap();
        fx.file(a, "b");
        refused!(restore(fx, "a/b/g"), MetaError::Exists);
    });
}

/// Brings back what was deleted in a directory that is there, as a file system does.
fn restore_into(fx: &Fixture, at: &str) -> Restored {
    let before = deleted(fx, at).into_iter().filter(|found| found.attr.kind == Kind::Directory);
    let mut seen = 0;
    let before = before.map(|found| found.kept.ino).collect();
    let restored = fx.ns.revive_into(find(fx, at), before, &mut |_, _| seen += 1).unwrap();
    assert_eq!(seen, restored.files + restored.directories);
    fx.assert_consistent();
    restored
}

#[test]
fn what_was_deleted_in_a_directory_that_is_there_comes_back_into_it() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let a = fx.dir(ROOT, "a");
        let (b, c) = (fx.dir(a, "b"), fx.dir(a, "c"));
        let (f, g, h) = (fx.file(a, "f"), fx.file(b, "g"), fx.file(c, "h"));
        // All that is in it, but one directory that stays.
        fx.ns.unlink(a, b"f").unwrap();
        fx.ns.unlink(b, b"g").unwrap();
        fx.ns.unlink(c, b"h").unwrap();
        fx.ns.rmdir(a, b"b").unwrap();
        assert_eq!(restore_into(fx, "a"), Restored { files: 3, directories: 1, ..Restored::default() });
        assert_eq!((find(fx, "a/f"), find(fx, "a/b/g"), find(fx, "a/c/h")), (f, g, h));
        assert_eq!(restore_into(fx, "a"), Restored::default());

        // Directories of the same path that are there instead take in what was in those; what has a name keeps it.
        let remove = |names: [&str; 2]| {
            for (dir, name) in [("a/b", names[0]), ("a/c", names[1])] {
                fx.ns.unlink(find(fx, dir), name.as_bytes()).unwrap();
            }
            fx.ns.rmdir(a, b"b").unwrap();
            fx.ns.rmdir(a, b"c").unwrap();
        };
        remove(["g", "h"]);
        fx.ns.unlink(a, b"f").unwrap();
        fx.ns.rmdir(ROOT, b"a").unwrap();
        let new = fx.dir(ROOT, "a");
        let (other, file) = (fx.dir(new, "b"), fx.file(new, "c"));
        let sum = restore_into(fx, "a");
        assert_eq!(sum, Restored { files: 2, directories: 0, bytes: 0, older: 0, taken: 1 });
        assert_eq!((find(fx, "a"), find(fx, "a/b"), find(fx, "a/c")), (new, other, file));
        assert_eq!((find(fx, "a/f"), find(fx, "a/b/g")), (f, g));
        // What stays is found by its path as before.
        assert_eq!(deleted(fx, "a/c")[0].kept.ino, c);
        fx.ns.unlink(new, b"c").unwrap();
        let sum = restore_into(fx, "a");
        // The newest of the name is the file; the directory comes with what is in it when that is gone for good.
        assert_eq!((sum.files, find(fx, "a/c")), (1, file));
        fx.ns.unlink(new, b"c").unwrap();
        assert!(fx.ns.let_go(file).unwrap());
        restore_into(fx, "a");
        assert_eq!((find(fx, "a/c"), find(fx, "a/c/h")), (c, h));
    });
}

#[test]
fn of_two_that_were_there_one_after_the_other_the_later_goes_first() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let mut files = Vec::new();
        for both in [true, false] {
            let dir = fx.dir(ROOT, "dir");
            files.push(fx.file(dir, "same"));
            if both {
                files.push(fx.file(dir, "first"));
                fx.ns.unlink(dir, b"first").unwrap();
            }
            fx.ns.unlink(dir, b"same").unwrap();
            fx.ns.rmdir(ROOT, b"dir").unwrap();
        }
        // More entries than are looked at in one go, of which the last is a directory in which something was deleted.
        let dir = fx.dir(ROOT, "dir");
        for n in 0..300 {
            fx.file(dir, &n.to_string());
        }
        let last = fx.dir(dir, "last");
        let below = fx.file(last, "below");
        fx.ns.unlink(last, b"below").unwrap();
        let sum = restore_into(fx, "dir");
        assert_eq!(sum, Restored { files: 3, directories: 0, bytes: 0, older: 0, taken: 1 });
        assert_eq!((find(fx, "dir/same"), find(fx, "dir/first")), (files[2], files[1]));
        assert_eq!(find(fx, "dir/last/below"), below);
    });
}

#[test]
fn a_large_directory_comes_back_in_steps() {
    each(|fx| {
        fx.ns.keep_deleted(WEEK);
        let dir = fx.dir(ROOT, "dir");
        // More than a step, with more versions of one name than that.
        // Each begins with the one before, and so is in its way between two steps.
        let name = |n: usize| ["a", "b", "c"][n % 3].repeat(1 + n / 3);
        for n in 0..600 {
            fx.file(dir, &name(n));
        }
        for _ in 0..1100 {
            fx.file(dir, "many");
            fx.ns.unlink(dir, b"many").unwrap();
        }
        let newest = deleted(fx, "dir/many")[0].kept.ino;
        for n in 0..600 {
            fx.ns.unlink(dir, name(n).as_bytes()).unwrap();
        }
        fx.ns.rmdir(ROOT, b"dir").unwrap();
        let sum = restore(fx, "dir").unwrap();
        assert_eq!(sum, Restored { files: 601, directories: 1, bytes: 0, older: 1023, taken: 0 });
        assert_eq!((fx.names(dir).len(), find(fx, "dir/many")), (601, newest));
    });
}

#[test]
fn many_are_reclaimed_in_few_transactions() {
    each(|fx| {
        let count = 1000;
        let files: Vec<_> = (0..count).map(|n| fx.file(ROOT, &n.to_string())).collect();
        for (n, &file) in (0u64..).zip(&files) {
            fx.write(file, 0, 10, 7);
            fx.write_inline(file, 20, 5, 1);
            if n % 3 == 0 {
                fx.ns.setxattr(file, b"user.a", b"1", XattrMode::Set, false).unwrap();
            }
            fx.ns.unlink(ROOT, n.to_string().as_bytes()).unwrap();
        }
        let before = fx.ns.engine().stats().transactions;
        fx.ns.reclaim_all(&files, Time::now()).unwrap();
        let taken = fx.ns.engine().stats().transactions - before;
        assert!(taken <= 4, "{taken} transactions for {count} files");
        assert_eq!((fx.live(7), fx.ns.inline_bytes()), (Some(0), 0));
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 1, bytes: 0 });
    });
}

#[test]
fn damage_is_found_and_repaired_and_nothing_kept_is_dropped() {
    let damages: [fn(&Fixture, InodeNo); 4] = [
        |fx, ino| plant(fx, |txn| txn.delete(&key::trashed(ROOT, b"file", ino))),
        |fx, ino| plant(fx, |txn| txn.put(&key::trashed(ROOT, b"other", ino), &[])),
        |fx, ino| plant(fx, |txn| txn.put(&key::orphan(ino), b"\x01broken")),
        |fx, ino| plant(fx, |txn| txn.delete(&key::orphan(ino))),
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let fx = Fixture::in_memory();
        fx.ns.keep_deleted(WEEK);
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 100, 1);
        fx.ns.unlink(ROOT, b"file").unwrap();
        fx.assert_consistent();
        damage(&fx, file);
        assert!(!fx.problems().is_empty(), "{n}");
        // What cannot be read is left alone.
        for nameless in fx.ns.nameless(InodeNo(0), 10).unwrap().0 {
            assert!(nameless.kept.is_some());
        }
        let stored = [(headrace_layout::SegmentId(1), 100)].into();
        let options = RepairOptions { stored: &stored, dry_run: false };
        fx.ns.repair(&options, &mut |_| ()).unwrap();
        fx.assert_consistent();
        assert_eq!(fx.live(1), Some(100), "{n}");
        if n < 2 {
            restore(&fx, "file").unwrap();
            assert_eq!(find(&fx, "file"), file);
        } else {
            // Where it was is not known any more.
            let found = find(&fx, "lost+found");
            assert_eq!(fx.names(found).len(), 1);
        }
    }
}

fn plant(fx: &Fixture, change: impl Fn(&mut dyn headrace_kv::Txn)) {
    fx.ns
        .engine()
        .transact_with(|txn| {
            change(txn);
            Ok::<(), MetaError>(())
        })
        .unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Make(u8, u8),
    MakeDirectory(u8, u8),
    Remove(u8, u8),
    Replace(u8, u8, u8),
    Restore(u8, u8),
    Expire(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (dir, name) = (0u8..4, 0u8..3);
    prop_oneof![
        3 => (dir.clone(), name.clone()).prop_map(|(d, n)| Step::Make(d, n)),
        2 => (dir.clone(), name.clone()).prop_map(|(d, n)| Step::MakeDirectory(d, n)),
        5 => (dir.clone(), name.clone()).prop_map(|(d, n)| Step::Remove(d, n)),
        1 => (dir.clone(), name.clone(), name.clone()).prop_map(|(d, n, m)| Step::Replace(d, n, m)),
        4 => (dir, name).prop_map(|(d, n)| Step::Restore(d, n)),
        1 => any::<u8>().prop_map(Step::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is made, removed, replaced, restored and expires: everything that holds data is there by a name or in the trash, each
    /// exactly once, and the metadata agrees with itself.
    #[test]
    fn nothing_is_lost_or_there_twice(steps in prop::collection::vec(step(), 1..60)) {
        let fx = Fixture::in_memory();
        fx.ns.keep_deleted(WEEK);
        // Directories that ever were, and the inodes that must still exist.
        let mut dirs = vec![ROOT];
        let mut alive: BTreeSet<InodeNo> = BTreeSet::from([ROOT]);
        let name = |n: u8| format!("n{n}");
        for step in steps {
            let dir = |d: u8| dirs[d as usize % dirs.len()];
            match step {
                Step::Make(d, n) => {
                    let made = fx.ns.create(dir(d), name(n).as_bytes(), Kind::File, 0o600, 0, None, &CALLER);
                    if let Ok(attr) = made {
                        fx.write(attr.ino, 0, 10, u128::from(attr.ino.0));
                        alive.insert(attr.ino);
                    }
                }
                Step::MakeDirectory(d, n) => {
                    let made = fx.ns.create(dir(d), name(n).as_bytes(), Kind::Directory, 0o700, 0, None, &CALLER);
                    if let Ok(attr) = made {
                        alive.insert(attr.ino);
                        dirs.push(attr.ino);
                    }
                }
                Step::Remove(d, n) => {
                    if fx.ns.unlink(dir(d), name(n).as_bytes()).is_err() {
                        let _ = fx.ns.rmdir(dir(d), name(n).as_bytes());
                    }
                }
                Step::Replace(d, n, m) => {
                    let mode = RenameMode::Replace;
                    let _ = fx.ns.rename(dir(d), name(n).as_bytes(), dir(d), name(m).as_bytes(), mode);
                }
                Step::Restore(d, n) => {
                    // By the path that its directory has or had.
                    if let Ok(Some(above)) = fx.ns.path_of(dir(d)) {
                        let above = String::from_utf8(above).unwrap();
                        let at = format!("{}/{}", above.trim_end_matches('/'), name(n));
                        let known = !deleted(&fx, &at[1..]).is_empty();
                        match restore(&fx, &at[1..]) {
                            Ok(sum) => prop_assert!(known && sum.files + sum.directories > 0),
                            Err(MetaError::NotFound) => prop_assert!(!known),
                            Err(MetaError::Exists) => {}
                            Err(error) => return Err(TestCaseError::fail(error.to_string())),
                        }
                    }
                }
                Step::Expire(choice) => {
                    let all = fx.ns.nameless(InodeNo(0), 1000).unwrap().0;
                    if !all.is_empty() {
                        let ino = all[choice as usize % all.len()].ino;
                        fx.ns.reclaim_all(&[ino], later()).unwrap();
                        alive.remove(&ino);
                        prop_assert!(fx.ns.getattr(ino).is_err());
                    }
                }
            }
            prop_assert_eq!(fx.problems(), vec![]);
            let mut seen: BTreeMap<InodeNo, u32> = BTreeMap::from([(ROOT, 1)]);
            let mut left = vec![ROOT];
            while let Some(at) = left.pop() {
                fx.ns.readdir(at, 0, false, &mut |entry| {
                    *seen.entry(entry.ino).or_default() += 1;
                    if entry.kind == Kind::Directory {
                        left.push(entry.ino);
                    }
                    true
                }).unwrap();
            }
            for nameless in fx.ns.nameless(InodeNo(0), 1000).unwrap().0 {
                prop_assert!(nameless.kept.is_some());
                *seen.entry(nameless.ino).or_default() += 1;
            }
            prop_assert!(seen.values().all(|count| *count == 1), "{seen:?}");
            prop_assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), alive.clone());
        }
    }

    #[test]
    fn records_of_what_is_kept_survive(secs: i64, nanos in 0u32..1_000_000_000, parent: u64,
                                       name in prop::collection::vec(1u8..=46, 1..256)) {
        let time = Time { secs, nanos };
        let record = KeptRecord { deleted: time, until: time.after(WEEK), parent: InodeNo(parent), name };
        let encoded = record.encode();
        if record.name != b"." && record.name != b".." {
            prop_assert_eq!(KeptRecord::decode(&encoded).unwrap(), Some(record));
        }
        prop_assert!(KeptRecord::decode(&encoded[..20]).is_err());
    }

    #[test]
    fn no_record_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = KeptRecord::decode(&bytes);
    }
}
