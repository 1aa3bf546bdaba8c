//! Whatever is broken, a repair puts it in order, says what it did, and leaves alone what was whole.

use std::collections::HashMap;

use headrace_kv::{EngineExt, Read, Txn};
use headrace_layout::{ExtentData, InodeNo, SegmentId};
use proptest::prelude::*;

use super::fixture::*;
use crate::record::{Entry, Flags, Inode};
use crate::*;

fn repair(fx: &Fixture, dry_run: bool) -> (RepairSummary, Vec<Repair>) {
    let mut repairs = Vec::new();
    let stored = HashMap::new();
    let options = RepairOptions { dry_run, stored: &stored };
    let summary = fx.ns.repair(&options, &mut |repair| repairs.push(repair)).expect("repair");
    assert_eq!(summary.repairs, repairs.len() as u64);
    (summary, repairs)
}

/// Everything there is, by key.
fn contents(fx: &Fixture) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = fx.ns.engine().view_with(|read: &dyn Read| {
        let mut all = Vec::new();
        read.scan(&[0], &[0xff; 8], &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        })?;
        Ok::<_, MetaError>(all)
    });
    all.unwrap()
}

fn plant(fx: &Fixture, change: impl Fn(&mut dyn Txn)) {
    fx.ns
        .engine()
        .transact_with(|txn| {
            change(txn);
            Ok::<(), MetaError>(())
        })
        .unwrap();
}

/// Repairs, and checks that nothing is left to repair.
fn repaired(fx: &Fixture) -> Vec<Repair> {
    let (foreseen, planned) = repair(fx, true);
    let (summary, repairs) = repair(fx, false);
    assert_eq!((foreseen, planned), (summary, repairs.clone()));
    let left = fx.problems();
    assert_eq!(left, [], "after {repairs:#?}");
    assert_eq!(repair(fx, false), (RepairSummary::default(), vec![]));
    repairs
}

struct Sample {
    fx: Fixture,
    dir: InodeNo,
    inner: InodeNo,
    /// Two names, data in segment 1 and inline.
    file: InodeNo,
    /// One inline value.
    small: InodeNo,
    orphan: InodeNo,
}

fn sample() -> Sample {
    let fx = Fixture::in_memory();
    let dir = fx.dir(ROOT, "dir");
    let inner = fx.dir(dir, "inner");
    let file = fx.file(dir, "file");
    fx.ns.link(file, ROOT, b"link").unwrap();
    fx.ns.link(file, inner, b"third").unwrap();
    fx.write(file, 0, 100, 1);
    fx.write_inline(file, 100, 50, 1);
    fx.ns.setxattr(file, b"user.a", b"1", XattrMode::Set, false).unwrap();
    let small = fx.file(inner, "small");
    fx.write_inline(small, 0, 70, 2);
    fx.make(inner, "symlink", Kind::Symlink);
    fx.make(ROOT, "pipe", Kind::Fifo);
    let orphan = fx.file(ROOT, "orphan");
    fx.write(orphan, 0, 10, 2);
    fx.ns.unlink(ROOT, b"orphan").unwrap();
    let empty = fx.file(ROOT, "empty");
    fx.write(empty, 0, 10, 3);
    fx.ns.truncate(empty, 0, false).unwrap();
    fx.assert_consistent();
    Sample { fx, dir, inner, file, small, orphan }
}

#[test]
fn what_is_in_order_stays_as_it_is() {
    let s = sample();
    let before = contents(&s.fx);
    assert_eq!(repair(&s.fx, false), (RepairSummary::default(), vec![]));
    assert_eq!(contents(&s.fx), before);
}

#[test]
fn a_dry_run_changes_nothing() {
    let s = sample();
    plant(&s.fx, |txn| txn.delete(&key::inode(s.file)));
    let before = contents(&s.fx);
    assert!(repair(&s.fx, true).0.records > 0);
    assert_eq!(contents(&s.fx), before);
}

#[test]
fn a_nameless_file_is_found_in_lost_and_found() {
    let s = sample();
    plant(&s.fx, |txn| {
        txn.delete(&key::entry(s.inner, b"small"));
        for cookie in 3..9 {
            let named = txn.get(&key::position(s.inner, cookie)).unwrap();
            if named.is_some_and(|value| value.ends_with(b"small")) {
                txn.delete(&key::position(s.inner, cookie));
            }
        }
    });
    repaired(&s.fx);
    let lost = s.fx.ns.lookup(ROOT, b"lost+found").unwrap().ino;
    let found = s.fx.ns.lookup(lost, s.small.0.to_string().as_bytes()).unwrap();
    assert_eq!((found.ino, found.size, found.nlink), (s.small, 70, 1));
}

/// Names that a repair gives get positions that the next repair does not take for damage.
#[test]
fn a_position_beyond_all_bounds_is_not_handed_out() {
    let s = sample();
    plant(&s.fx, |txn| {
        let root = txn.get(&key::inode(ROOT)).unwrap().unwrap();
        let mut root = Inode::decode(&root).unwrap();
        root.next_cookie = (1 << 62) + 9;
        txn.put(&key::inode(ROOT), &root.encode());
        txn.delete(&key::entry(s.inner, b"small"));
    });
    let listed: Vec<_> = contents(&s.fx).into_iter().filter(|(key, _)| key[0] == key::POSITION).collect();
    plant(&s.fx, |txn| listed.iter().for_each(|(key, _)| txn.delete(key)));
    repaired(&s.fx);
    assert!(s.fx.ns.lookup(ROOT, b"lost+found").is_ok());
    s.fx.assert_consistent();
}

#[test]
fn a_name_comes_back_from_the_listing() {
    let s = sample();
    plant(&s.fx, |txn| txn.delete(&key::entry(s.dir, b"file")));
    let repairs = repaired(&s.fx);
    assert!(repairs.iter().all(|repair| !repair.loses), "{repairs:#?}");
    assert_eq!(s.fx.ns.lookup(s.dir, b"file").unwrap().ino, s.file);
    assert_eq!(s.fx.attr(s.file).nlink, 3);
}

#[test]
fn a_small_file_whose_extents_are_lost_gets_its_bytes_back() {
    for whole in [false, true] {
        let s = sample();
        let before = s.fx.ns.extents(s.small, 0).unwrap();
        let key = key::chunk(s.small, 0);
        plant(&s.fx, |txn| if whole { txn.delete(&key) } else { txn.put(&key, b"rubbish") });
        repaired(&s.fx);
        assert_eq!(s.fx.ns.extents(s.small, 0).unwrap(), before);
    }
}

#[test]
fn lost_data_never_reads_as_zeros() {
    let s = sample();
    plant(&s.fx, |txn| txn.put(&key::chunk(s.file, 0), b"rubbish"));
    let repairs = repaired(&s.fx);
    assert!(repairs.iter().any(|repair| repair.loses && repair.what == "data"), "{repairs:#?}");
    let map = s.fx.ns.extents(s.file, 0).unwrap();
    assert_eq!(map.covered(), 150);
    let lost: u32 = map
        .extents()
        .iter()
        .filter(|extent| matches!(&extent.data, ExtentData::Segment(slice) if slice.segment == LOST_SEGMENT))
        .map(|extent| extent.len)
        .sum();
    assert_eq!(lost, 100);
    // Writing over it heals the file.
    s.fx.write(s.file, 0, 100, 9);
    assert_eq!(s.fx.live(LOST_SEGMENT.0), Some(0));
    s.fx.assert_consistent();
}

#[test]
fn a_missing_inline_value_is_an_error_to_read() {
    let s = sample();
    let id = s.fx.ns.inline_backlog(None, u64::MAX).unwrap().iter().find(|r| r.ino == s.small).unwrap().id;
    plant(&s.fx, |txn| txn.delete(&key::inline(s.small, id)));
    assert!(repaired(&s.fx).iter().any(|repair| repair.loses));
    assert_eq!(s.fx.live(LOST_SEGMENT.0), Some(70));
}

#[test]
fn a_file_whose_record_is_lost_keeps_names_and_data() {
    let s = sample();
    plant(&s.fx, |txn| txn.put(&key::inode(s.file), b"?"));
    repaired(&s.fx);
    let attr = s.fx.attr(s.file);
    assert_eq!((attr.kind, attr.size, attr.nlink, attr.mode, attr.uid), (Kind::File, 150, 3, 0o600, 0));
    assert_eq!(s.fx.ns.getxattr(s.file, b"user.a").unwrap(), b"1");
}

#[test]
fn a_directory_whose_record_is_lost_keeps_its_place_and_names() {
    let s = sample();
    plant(&s.fx, |txn| txn.delete(&key::inode(s.dir)));
    repaired(&s.fx);
    assert_eq!(s.fx.ns.lookup(ROOT, b"dir").unwrap().ino, s.dir);
    assert_eq!(s.fx.ns.lookup(s.dir, b"inner").unwrap().ino, s.inner);
    assert_eq!(s.fx.attr(s.dir).nlink, 3);
}

#[test]
fn a_ring_of_directories_is_broken() {
    let s = sample();
    plant(&s.fx, |txn| {
        let mut entry = Entry::load(txn, ROOT, b"dir").unwrap().unwrap();
        txn.delete(&key::entry(ROOT, b"dir"));
        txn.delete(&key::position(ROOT, entry.cookie));
        entry.cookie = 40;
        txn.put(&key::entry(s.inner, b"dir"), &entry.encode());
        txn.put(&key::position(s.inner, entry.cookie), &entry.encode_position(b"dir"));
        let mut inode = Inode::load(txn, s.dir).unwrap().unwrap();
        inode.home = s.inner;
        txn.put(&key::inode(s.dir), &inode.encode());
    });
    repaired(&s.fx);
    let lost = s.fx.ns.lookup(ROOT, b"lost+found").unwrap().ino;
    assert_eq!(s.fx.ns.lookup(lost, s.dir.0.to_string().as_bytes()).unwrap().ino, s.dir);
    assert_eq!(s.fx.ns.parent(s.inner).unwrap(), s.dir);
}

#[test]
fn lengths_of_unknown_segments_come_from_the_store() {
    let s = sample();
    plant(&s.fx, |txn| txn.delete(&key::segment(SegmentId(1))));
    let stored = HashMap::from([(SegmentId(1), 4711)]);
    s.fx.ns.repair(&RepairOptions { dry_run: false, stored: &stored }, &mut |_| ()).unwrap();
    let segment = s.fx.ns.segment(SegmentId(1)).unwrap().unwrap();
    assert_eq!((segment.stored, segment.live), (4711, 100));
    s.fx.assert_consistent();
}

#[derive(Clone, Debug)]
enum Damage {
    Delete,
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    /// The value of another record.
    Swap(prop::sample::Index),
    /// The record under another key of its family.
    Misplace(prop::sample::Index),
    /// A well-formed inode with wrong figures.
    Inode([u64; 4], u16, u8),
    /// A well-formed name for something else.
    Entry(u64, u64, u8),
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, Damage)> {
    let at = any::<prop::sample::Index>;
    let damage = prop_oneof![
        3 => Just(Damage::Delete),
        2 => (at(), 1u8..).prop_map(|(at, flip)| Damage::Flip(at, flip)),
        1 => at().prop_map(Damage::Cut),
        2 => at().prop_map(Damage::Swap),
        2 => at().prop_map(Damage::Misplace),
        2 => (prop::array::uniform4(0u64..16), 0u16..64, 1u8..=7).prop_map(|(n, f, k)| Damage::Inode(n, f, k)),
        2 => (0u64..16, 0u64..12, 1u8..=7).prop_map(|(ino, cookie, kind)| Damage::Entry(ino, cookie, kind)),
    ];
    (at(), damage)
}

fn inflict(fx: &Fixture, at: &prop::sample::Index, damage: &Damage) {
    let all: Vec<_> = contents(fx).into_iter().filter(|(key, _)| key != key::SCHEMA).collect();
    let (key, value) = at.get(&all);
    plant(fx, |txn| match damage {
        Damage::Delete => txn.delete(key),
        Damage::Flip(at, flip) if !value.is_empty() => {
            let mut value = value.clone();
            let at = at.index(value.len());
            value[at] ^= flip;
            txn.put(key, &value);
        }
        Damage::Cut(at) if !value.is_empty() => txn.put(key, &value[..at.index(value.len())]),
        Damage::Swap(other) => txn.put(key, &other.get(&all).1),
        Damage::Misplace(other) => {
            txn.delete(key);
            let mut moved = other.get(&all).0.clone();
            moved[0] = key[0];
            txn.put(&moved, value);
        }
        Damage::Inode([nlink, size, home, cookie], flags, kind) => {
            let mut inodes = all.iter().filter(|(key, _)| key[0] == key::INODE).collect::<Vec<_>>();
            let first = at.index(inodes.len().max(1));
            inodes.rotate_left(first);
            let Some((key, value)) = inodes.first() else { return };
            let Ok(mut inode) = Inode::decode(value) else { return };
            inode.kind = Kind::from_byte(*kind).unwrap();
            inode.nlink = *nlink as u32;
            inode.size = size * 10;
            inode.home = InodeNo(*home);
            inode.next_cookie = if inode.kind == Kind::Directory { *cookie } else { 0 };
            if inode.kind != Kind::Symlink {
                inode.target.clear();
            }
            inode.flags = Flags::default();
            inode.flags.set(*flags, true);
            txn.put(key, &inode.encode());
        }
        Damage::Entry(ino, cookie, kind) => {
            let entry = Entry { ino: InodeNo(*ino), kind: Kind::from_byte(*kind).unwrap(), cookie: *cookie };
            let dir = InodeNo(cookie % 5 + 1);
            txn.put(&key::entry(dir, b"planted"), &entry.encode());
            if cookie % 2 == 0 {
                txn.put(&key::position(dir, *cookie), &entry.encode_position(b"planted"));
            }
        }
        _ => {}
    });
}

/// Reads the whole tree, and everything about what is in it.
fn walk(fx: &Fixture) {
    let mut left = vec![ROOT];
    let mut seen = std::collections::HashSet::new();
    while let Some(dir) = left.pop() {
        assert!(seen.insert(dir), "directory {dir} is there twice");
        let mut found = Vec::new();
        fx.ns
            .readdir(dir, 0, true, &mut |entry| {
                found.push((entry.ino, entry.kind, entry.attr.is_some()));
                true
            })
            .unwrap();
        for (ino, kind, has_attr) in found {
            assert!(has_attr && fx.attr(ino).kind == kind);
            match kind {
                Kind::Directory => left.push(ino),
                Kind::File => drop(fx.ns.extents(ino, 0).unwrap()),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// After a repair, a check finds nothing, a second repair does nothing, and the tree can be read and used.
    #[test]
    fn any_damage_can_be_repaired(damages in prop::collection::vec(damage(), 1..12)) {
        let s = sample();
        for (at, damage) in &damages {
            inflict(&s.fx, at, damage);
        }
        repaired(&s.fx);
        walk(&s.fx);
        for ino in s.fx.ns.orphans().unwrap() {
            s.fx.ns.reclaim(ino).unwrap();
        }
        let new = s.fx.file(ROOT, "something new");
        s.fx.write(new, 0, 5, 77);
        s.fx.assert_consistent();
    }

    /// Damage to what is derived only loses nothing.
    #[test]
    fn derived_records_come_back(choice in prop::collection::vec(any::<prop::sample::Index>(), 1..20), flip in 1u8..) {
        let s = sample();
        let before = contents(&s.fx);
        let derived: Vec<_> = before
            .iter()
            .filter(|(key, _)| matches!(key[0], key::POSITION | key::USAGE | key::PACKING) || key == key::COUNTERS)
            .collect();
        for at in &choice {
            let (key, value) = at.get(&derived);
            let mut value = value.clone();
            value[0] ^= flip;
            plant(&s.fx, |txn| if flip % 2 == 0 { txn.put(key, &value) } else { txn.delete(key) });
        }
        let repairs = repaired(&s.fx);
        prop_assert!(repairs.iter().all(|repair| !repair.loses), "{:#?}", repairs);
        prop_assert_eq!(contents(&s.fx), before);
        prop_assert!(s.fx.ns.orphans().unwrap().contains(&s.orphan));
    }
}
