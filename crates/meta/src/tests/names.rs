use headrace_layout::InodeNo;

use super::engine::MemoryEngine;
use super::fixture::*;
use crate::*;

#[test]
fn a_fresh_volume_has_an_empty_root() {
    each(|fx| {
        let root = fx.attr(ROOT);
        assert_eq!((root.kind, root.mode, root.nlink), (Kind::Directory, 0o755, 2));
        assert_eq!(fx.ns.lookup(ROOT, b".").unwrap().ino, ROOT);
        assert_eq!(fx.ns.lookup(ROOT, b"..").unwrap().ino, ROOT);
        assert_eq!(fx.names(ROOT), [""; 0]);
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 1, bytes: 0 });
    });
}

#[test]
fn a_volume_is_formatted_once_and_opened_only_after() {
    let engine = std::sync::Arc::new(MemoryEngine::default());
    refused!(Namespace::open(engine.clone()).map(drop), MetaError::NotFormatted);
    Namespace::format(&*engine, 0, 0, 0o755).unwrap();
    refused!(Namespace::format(&*engine, 0, 0, 0o755), MetaError::Exists);
    let future = headrace_kv::EngineExt::transact_with(&*engine, |txn| {
        txn.put(key::SCHEMA, &7u32.to_be_bytes());
        Ok::<(), MetaError>(())
    });
    future.unwrap();
    refused!(Namespace::open(engine).map(drop), MetaError::NewerSchema { found: 7, supported: 1 });
}

#[test]
fn every_kind_can_be_created_and_looked_up() {
    each(|fx| {
        let kinds = [
            Kind::File,
            Kind::Directory,
            Kind::Symlink,
            Kind::CharDevice,
            Kind::BlockDevice,
            Kind::Fifo,
            Kind::Socket,
        ];
        for (number, kind) in kinds.into_iter().enumerate() {
            let name = format!("{kind:?}");
            let target = (kind == Kind::Symlink).then_some(&b"../somewhere"[..]);
            let made = fx.ns.create(ROOT, name.as_bytes(), kind, 0o4751, 0x0801, target, &CALLER).unwrap();
            assert_eq!(fx.ns.lookup(ROOT, name.as_bytes()).unwrap(), made);
            assert_eq!(made.kind, kind);
            assert_eq!((made.uid, made.gid), (1000, 1000));
            assert_eq!(made.nlink, if kind == Kind::Directory { 2 } else { 1 });
            assert_eq!(made.mode, if kind == Kind::Symlink { 0o777 } else { 0o4751 }, "{kind:?}");
            let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
            assert_eq!(made.rdev, if device { 0x0801 } else { 0 });
            assert_eq!([made.atime, made.mtime, made.ctime], [made.btime; 3]);
            assert_eq!(fx.ns.statfs().unwrap().inodes, number as u64 + 2);
        }
        let link = fx.ns.lookup(ROOT, b"Symlink").unwrap();
        assert_eq!(link.size, 12);
        assert_eq!(fx.ns.readlink(link.ino).unwrap(), b"../somewhere");
        refused!(fx.ns.readlink(ROOT), MetaError::Invalid(_));
        assert_eq!(fx.attr(ROOT).nlink, 3);
    });
}

#[test]
fn names_follow_the_rules() {
    each(|fx| {
        let create =
            |name: &[u8]| fx.ns.create(ROOT, name, Kind::File, 0o644, 0, None, &CALLER).map(|attr| attr.ino);
        let longest = [b'x'; 255];
        for name in [&longest[..], b"new\nline", b"\xff\xfe", b" ", b"..."] {
            let ino = create(name).unwrap();
            assert_eq!(fx.ns.lookup(ROOT, name).unwrap().ino, ino);
            refused!(create(name), MetaError::Exists);
        }
        refused!(create(&[b'x'; 256]), MetaError::NameTooLong);
        refused!(fx.ns.lookup(ROOT, &[b'x'; 256]), MetaError::NameTooLong);
        refused!(create(b""), MetaError::NotFound);
        refused!(create(b"a/b"), MetaError::Invalid(_));
        refused!(create(b"a\0b"), MetaError::Invalid(_));
        refused!(create(b"."), MetaError::Exists);
        refused!(create(b".."), MetaError::Exists);
        refused!(fx.ns.lookup(ROOT, b"missing"), MetaError::NotFound);
        refused!(fx.ns.lookup(InodeNo(999), b"x"), MetaError::NotFound);
        let file = create(b"file").unwrap();
        refused!(fx.ns.lookup(file, b"x"), MetaError::NotDirectory);
        refused!(fx.ns.create(file, b"x", Kind::File, 0, 0, None, &CALLER), MetaError::NotDirectory);
    });
}

#[test]
fn symlink_targets_follow_the_rules() {
    each(|fx| {
        let link = |name: &[u8], target: Option<&[u8]>| {
            fx.ns.create(ROOT, name, Kind::Symlink, 0o777, 0, target, &CALLER).map(|attr| attr.size)
        };
        assert_eq!(link(b"long", Some(&[b't'; 4095])).unwrap(), 4095);
        refused!(link(b"longer", Some(&[b't'; 4096])), MetaError::NameTooLong);
        refused!(link(b"empty", Some(b"")), MetaError::NotFound);
        refused!(link(b"none", None), MetaError::Invalid(_));
    });
}

#[test]
fn creation_and_removal_change_the_times_of_the_directory_alone() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        let old = Time { secs: 1000, nanos: 0 };
        let reset = || {
            let change =
                SetAttr { mtime: Some(old), ctime: Some(old), atime: Some(old), ..SetAttr::default() };
            fx.ns.setattr(dir, &change).unwrap();
        };
        let assert_touched = |what: &str| {
            let attr = fx.attr(dir);
            assert!(attr.mtime > old && attr.ctime > old && attr.atime == old, "{what}");
            reset();
        };
        reset();
        let file = fx.file(dir, "file");
        assert_touched("create");
        fx.ns.link(file, dir, b"other").unwrap();
        assert_touched("link");
        let before = fx.attr(file).ctime;
        fx.ns.unlink(dir, b"other").unwrap();
        assert!(fx.attr(file).ctime > before, "unlink changes the inode");
        assert_touched("unlink");
        let sub = fx.dir(dir, "sub");
        assert_touched("mkdir");
        fx.ns.rmdir(dir, b"sub").unwrap();
        assert_touched("rmdir");
        refused!(fx.ns.create(dir, b"file", Kind::File, 0o644, 0, None, &CALLER), MetaError::Exists);
        assert_eq!(fx.attr(dir).mtime, old, "a failure changes nothing");
        fx.ns.reclaim(sub).unwrap();
    });
}

#[test]
fn hard_links_share_the_inode() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        let file = fx.file(ROOT, "a");
        assert_eq!(fx.ns.link(file, dir, b"b").unwrap().nlink, 2);
        assert_eq!(fx.ns.lookup(dir, b"b").unwrap().ino, file);
        refused!(fx.ns.link(file, dir, b"b"), MetaError::Exists);
        refused!(fx.ns.link(dir, ROOT, b"c"), MetaError::NotPermitted(_));
        refused!(fx.ns.link(InodeNo(999), ROOT, b"c"), MetaError::NotFound);
        assert_eq!(
            fx.ns.unlink(ROOT, b"a").unwrap(),
            Unlinked { ino: file, nlink: 1, kind: Kind::File, kept: None }
        );
        assert_eq!(fx.ns.lookup(dir, b"b").unwrap().nlink, 1);
        assert!(fx.ns.orphans().unwrap().is_empty());
    });
}

#[test]
fn a_file_has_at_most_65000_names() {
    let fx = Fixture::in_memory();
    let file = fx.file(ROOT, "0");
    for number in 1..MAX_LINKS {
        fx.ns.link(file, ROOT, number.to_string().as_bytes()).unwrap();
    }
    refused!(fx.ns.link(file, ROOT, b"more"), MetaError::TooManyLinks);
    fx.ns.unlink(ROOT, b"0").unwrap();
    fx.ns.link(file, ROOT, b"more").unwrap();
    fx.assert_consistent();
}

#[test]
fn only_empty_directories_can_be_removed() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        let file = fx.file(dir, "file");
        refused!(fx.ns.rmdir(ROOT, b"dir"), MetaError::NotEmpty);
        refused!(fx.ns.rmdir(dir, b"file"), MetaError::NotDirectory);
        refused!(fx.ns.unlink(ROOT, b"dir"), MetaError::IsDirectory);
        refused!(fx.ns.rmdir(ROOT, b"missing"), MetaError::NotFound);
        refused!(fx.ns.rmdir(dir, b"."), MetaError::Invalid(_));
        refused!(fx.ns.rmdir(dir, b".."), MetaError::NotEmpty);
        fx.ns.unlink(dir, b"file").unwrap();
        assert_eq!(fx.attr(ROOT).nlink, 3);
        assert_eq!(fx.ns.rmdir(ROOT, b"dir").unwrap().ino, dir);
        assert_eq!(fx.attr(ROOT).nlink, 2);
        assert_eq!(fx.attr(dir).nlink, 0);
        // Still open somewhere, but nothing can be made in it.
        refused!(fx.ns.create(dir, b"x", Kind::File, 0o644, 0, None, &CALLER), MetaError::NotFound);
        refused!(fx.ns.parent(dir), MetaError::NotFound);
        assert_eq!(fx.ns.orphans().unwrap(), [dir, file]);
        for ino in [dir, file] {
            fx.ns.reclaim(ino).unwrap();
            refused!(fx.ns.getattr(ino), MetaError::NotFound);
        }
        assert_eq!(fx.ns.statfs().unwrap().inodes, 1);
    });
}

#[test]
fn an_unlinked_file_lives_until_it_is_reclaimed() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        fx.write(file, 0, 100, 1);
        assert_eq!(fx.ns.unlink(ROOT, b"file").unwrap().nlink, 0);
        refused!(fx.ns.lookup(ROOT, b"file"), MetaError::NotFound);
        fx.write(file, 100, 50, 2);
        assert_eq!(fx.attr(file).size, 150);
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 2, bytes: 150 });
        refused!(fx.ns.link(file, ROOT, b"again"), MetaError::NotFound);
        assert_eq!(fx.ns.orphans().unwrap(), [file]);
        fx.ns.reclaim(file).unwrap();
        fx.ns.reclaim(file).unwrap();
        assert_eq!((fx.live(1), fx.live(2)), (Some(0), Some(0)));
        assert_eq!(fx.ns.statfs().unwrap(), Totals { inodes: 1, bytes: 0 });
    });
}

#[test]
fn a_file_made_without_a_name_can_be_given_one() {
    each(|fx| {
        let file = fx.ns.create_unnamed(ROOT, 0o666, &CALLER).unwrap();
        assert_eq!((file.nlink, file.mode), (0, 0o644));
        fx.write(file.ino, 0, 10, 1);
        assert_eq!(fx.ns.link(file.ino, ROOT, b"named").unwrap().nlink, 1);
        // Its handle is closed later: nothing must be lost.
        fx.ns.reclaim(file.ino).unwrap();
        assert_eq!(fx.attr(file.ino).size, 10);
        assert_eq!(fx.ns.directory_totals(ROOT).unwrap().bytes, 10);
        fx.ns.unlink(ROOT, b"named").unwrap();
        refused!(fx.ns.link(file.ino, ROOT, b"again"), MetaError::NotFound);
        let other = fx.ns.create_unnamed(ROOT, 0o600, &CALLER).unwrap().ino;
        fx.ns.reclaim(other).unwrap();
        refused!(fx.ns.getattr(other), MetaError::NotFound);
    });
}

#[test]
fn inode_numbers_are_never_reused() {
    let mut fx = Fixture::embedded();
    let mut last = ROOT;
    for _ in 0..3 {
        let ino = fx.file(ROOT, "file");
        assert!(ino > last);
        last = ino;
        fx.ns.unlink(ROOT, b"file").unwrap();
        fx.ns.reclaim(ino).unwrap();
        fx = fx.reopen();
    }
    fx.assert_consistent();
}

#[test]
fn a_create_touches_few_keys() {
    use std::sync::atomic::Ordering::Relaxed;
    let engine = std::sync::Arc::new(MemoryEngine::default());
    Namespace::format(&*engine, 0, 0, 0o755).unwrap();
    let ns = Namespace::open(engine.clone()).unwrap();
    let (reads, writes) = (engine.reads.load(Relaxed), engine.writes.load(Relaxed));
    ns.create(ROOT, b"file", Kind::File, 0o644, 0, None, &CALLER).unwrap();
    assert_eq!(engine.reads.load(Relaxed) - reads, 4);
    assert_eq!(engine.writes.load(Relaxed) - writes, 6);
}
