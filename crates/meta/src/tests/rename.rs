use super::fixture::*;
use crate::*;

use RenameMode::{Exchange, NoReplace, Replace};

#[test]
fn a_name_moves_within_and_between_directories() {
    each(|fx| {
        let (a, b) = (fx.dir(ROOT, "a"), fx.dir(ROOT, "b"));
        let file = fx.file(a, "old");
        let before = fx.attr(file).ctime;
        let renamed = fx.ns.rename(a, b"old", a, b"new", Replace).unwrap();
        assert_eq!(renamed, Renamed { moved: file, replaced: None });
        assert!(fx.attr(file).ctime > before);
        fx.ns.rename(a, b"new", b, b"newer", Replace).unwrap();
        assert_eq!(fx.names(a), [""; 0]);
        assert_eq!(fx.names(b), ["newer"]);
        refused!(fx.ns.rename(a, b"new", b, b"x", Replace), MetaError::NotFound);
        for name in [&b"."[..], b".."] {
            refused!(fx.ns.rename(ROOT, name, b, b"x", Replace), MetaError::Invalid(_));
        }
    });
}

#[test]
fn both_directories_change() {
    each(|fx| {
        let (a, b) = (fx.dir(ROOT, "a"), fx.dir(ROOT, "b"));
        fx.file(a, "file");
        let (before_a, before_b) = (fx.attr(a), fx.attr(b));
        fx.ns.rename(a, b"file", b, b"file", Replace).unwrap();
        for (dir, before) in [(a, before_a), (b, before_b)] {
            let attr = fx.attr(dir);
            assert!(attr.mtime > before.mtime && attr.ctime > before.ctime && attr.nlink == before.nlink);
        }
    });
}

#[test]
fn replacing_unlinks_the_target_and_keeps_its_position() {
    each(|fx| {
        let first = fx.file(ROOT, "first");
        let target = fx.file(ROOT, "target");
        fx.file(ROOT, "last");
        fx.ns.link(target, ROOT, b"also").unwrap();
        let cookie = fx.list(ROOT, 0)[1].0;
        refused!(fx.ns.rename(ROOT, b"first", ROOT, b"target", NoReplace), MetaError::Exists);
        let renamed = fx.ns.rename(ROOT, b"first", ROOT, b"target", Replace).unwrap();
        assert_eq!(renamed.replaced, Some(Unlinked { ino: target, nlink: 1, kind: Kind::File, kept: None }));
        assert_eq!(fx.names(ROOT), ["target", "last", "also"]);
        assert_eq!(fx.list(ROOT, 0)[0].0, cookie);
        assert_eq!(fx.ns.lookup(ROOT, b"target").unwrap().ino, first);
        let renamed = fx.ns.rename(ROOT, b"target", ROOT, b"also", Replace).unwrap();
        assert_eq!(renamed.replaced, Some(Unlinked { ino: target, nlink: 0, kind: Kind::File, kept: None }));
        assert_eq!(fx.ns.orphans().unwrap(), [target]);
    });
}

#[test]
fn kinds_must_match() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        fx.file(ROOT, "file");
        let full = fx.dir(ROOT, "full");
        fx.file(full, "x");
        refused!(fx.ns.rename(ROOT, b"file", ROOT, b"dir", Replace), MetaError::IsDirectory);
        refused!(fx.ns.rename(ROOT, b"dir", ROOT, b"file", Replace), MetaError::NotDirectory);
        refused!(fx.ns.rename(ROOT, b"dir", ROOT, b"full", Replace), MetaError::NotEmpty);
        let renamed = fx.ns.rename(ROOT, b"full", ROOT, b"dir", Replace).unwrap();
        assert_eq!(
            renamed.replaced,
            Some(Unlinked { ino: dir, nlink: 0, kind: Kind::Directory, kept: None })
        );
        assert_eq!(fx.attr(ROOT).nlink, 3);
        assert_eq!(fx.names(full), ["x"]);
    });
}

#[test]
fn a_moved_directory_changes_its_parent() {
    each(|fx| {
        let (a, b) = (fx.dir(ROOT, "a"), fx.dir(ROOT, "b"));
        let sub = fx.dir(a, "sub");
        let old = fx.dir(b, "sub");
        fx.ns.rename(a, b"sub", b, b"sub", Replace).unwrap();
        assert_eq!(fx.ns.parent(sub).unwrap(), b);
        assert_eq!(fx.ns.lookup(sub, b"..").unwrap().ino, b);
        assert_eq!((fx.attr(a).nlink, fx.attr(b).nlink), (2, 3));
        assert_eq!(fx.ns.orphans().unwrap(), [old]);
    });
}

#[test]
fn a_directory_cannot_move_into_itself() {
    each(|fx| {
        let a = fx.dir(ROOT, "a");
        let b = fx.dir(a, "b");
        let c = fx.dir(b, "c");
        refused!(fx.ns.rename(ROOT, b"a", a, b"x", Replace), MetaError::Invalid(_));
        refused!(fx.ns.rename(ROOT, b"a", c, b"x", Replace), MetaError::Invalid(_));
        refused!(fx.ns.rename(ROOT, b"a", c, b"x", NoReplace), MetaError::Invalid(_));
        // An ancestor is never empty.
        refused!(fx.ns.rename(b, b"c", ROOT, b"a", Replace), MetaError::NotEmpty);
        refused!(fx.ns.rename(b, b"c", ROOT, b"a", Exchange), MetaError::Invalid(_));
        refused!(fx.ns.rename(ROOT, b"a", b, b"c", Exchange), MetaError::Invalid(_));
    });
}

#[test]
fn names_of_one_inode_stay() {
    each(|fx| {
        let file = fx.file(ROOT, "a");
        fx.ns.link(file, ROOT, b"b").unwrap();
        let before = fx.attr(file);
        for mode in [Replace, Exchange] {
            let renamed = fx.ns.rename(ROOT, b"a", ROOT, b"b", mode).unwrap();
            assert_eq!(renamed, Renamed { moved: file, replaced: None });
            fx.ns.rename(ROOT, b"a", ROOT, b"a", mode).unwrap();
        }
        refused!(fx.ns.rename(ROOT, b"a", ROOT, b"a", NoReplace), MetaError::Exists);
        assert_eq!(fx.names(ROOT), ["a", "b"]);
        assert_eq!(fx.attr(file), before);
    });
}

#[test]
fn exchange_swaps_anything() {
    each(|fx| {
        let (a, b) = (fx.dir(ROOT, "a"), fx.dir(ROOT, "b"));
        let file = fx.file(a, "x");
        let dir = fx.dir(b, "y");
        fx.file(dir, "inside");
        let positions = (fx.list(a, 0)[0].0, fx.list(b, 0)[0].0);
        refused!(fx.ns.rename(a, b"x", b, b"missing", Exchange), MetaError::NotFound);
        let renamed = fx.ns.rename(a, b"x", b, b"y", Exchange).unwrap();
        assert_eq!(renamed, Renamed { moved: file, replaced: None });
        assert_eq!(fx.ns.lookup(a, b"x").unwrap().ino, dir);
        assert_eq!(fx.ns.lookup(b, b"y").unwrap().ino, file);
        assert_eq!(fx.ns.parent(dir).unwrap(), a);
        assert_eq!((fx.attr(a).nlink, fx.attr(b).nlink), (3, 2));
        assert_eq!((fx.list(a, 0)[0].0, fx.list(b, 0)[0].0), positions);
        fx.dir(b, "z");
        fx.ns.rename(a, b"x", b, b"z", Exchange).unwrap();
        assert_eq!((fx.attr(a).nlink, fx.attr(b).nlink), (3, 3));
        assert_eq!(fx.ns.parent(dir).unwrap(), b);
    });
}

#[test]
fn totals_follow_the_home_name() {
    each(|fx| {
        let (a, b, c) = (fx.dir(ROOT, "a"), fx.dir(ROOT, "b"), fx.dir(ROOT, "c"));
        let file = fx.file(a, "1");
        fx.write(file, 0, 100, 1);
        fx.ns.link(file, b, b"2").unwrap();
        let bytes = |dir| fx.ns.directory_totals(dir).unwrap().bytes;
        assert_eq!((bytes(a), bytes(b), bytes(c)), (100, 0, 0));
        // A further name moves: nothing changes. The home name moves: the totals do.
        fx.ns.rename(b, b"2", c, b"2", Replace).unwrap();
        assert_eq!((bytes(a), bytes(b), bytes(c)), (100, 0, 0));
        fx.ns.rename(a, b"1", b, b"1", Replace).unwrap();
        assert_eq!((bytes(a), bytes(b), bytes(c)), (0, 100, 0));
        // The home name goes: another becomes it.
        fx.ns.unlink(b, b"1").unwrap();
        assert_eq!((bytes(a), bytes(b), bytes(c)), (0, 0, 100));
        fx.write(file, 100, 50, 2);
        assert_eq!(bytes(c), 150);
    });
}
