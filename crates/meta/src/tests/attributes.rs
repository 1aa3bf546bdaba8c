use super::fixture::*;
use crate::*;

#[test]
fn what_is_not_named_stays() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let before = fx.attr(file);
        let after = fx.ns.setattr(file, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        assert!(after.ctime > before.ctime);
        assert_eq!(after, Attr { mode: 0o600, ctime: after.ctime, ..before });
        let time = Time { secs: -5, nanos: 7 };
        let after = fx.ns.setattr(file, &SetAttr { atime: Some(time), ..SetAttr::default() }).unwrap();
        assert_eq!((after.atime, after.mtime), (time, before.mtime));
        let bad = Time { secs: 0, nanos: 1_000_000_000 };
        refused!(
            fx.ns.setattr(file, &SetAttr { mtime: Some(bad), ..SetAttr::default() }),
            MetaError::Invalid(_)
        );
        fx.ns.touch_atime(file, Time { secs: 8, nanos: 8 }, || false).unwrap();
        assert_eq!(fx.attr(file), after);
        fx.ns.touch_atime(file, Time { secs: 9, nanos: 9 }, || true).unwrap();
        assert_eq!(fx.attr(file), Attr { atime: Time { secs: 9, nanos: 9 }, ..after });
        refused!(fx.ns.setattr(headrace_layout::InodeNo(99), &SetAttr::default()), MetaError::NotFound);
    });
}

#[test]
fn a_change_of_owner_takes_privileges_away() {
    each(|fx| {
        let chown = SetAttr { uid: Some(0), ..SetAttr::default() };
        let mode_after = |name: &str, kind, mode| {
            let ino = fx.make(ROOT, name, kind);
            fx.ns.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
            fx.ns.setattr(ino, &chown).unwrap().mode
        };
        assert_eq!(mode_after("both", Kind::File, 0o6755), 0o755);
        assert_eq!(mode_after("locking", Kind::File, 0o6745), 0o2745);
        assert_eq!(mode_after("dir", Kind::Directory, 0o6755), 0o6755);
        let file = fx.file(ROOT, "capable");
        fx.ns.setxattr(file, b"security.capability", b"caps", XattrMode::Set, false).unwrap();
        fx.ns.setattr(file, &SetAttr { gid: Some(5), ..SetAttr::default() }).unwrap();
        refused!(fx.ns.getxattr(file, b"security.capability"), MetaError::NoData);
    });
}

#[test]
fn writing_takes_privileges_away_when_told() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let reset = || {
            fx.ns.setattr(file, &SetAttr { mode: Some(0o6755), ..SetAttr::default() }).unwrap();
            fx.ns.setxattr(file, b"security.capability", b"caps", XattrMode::Set, false).unwrap();
        };
        let capable = || fx.ns.getxattr(file, b"security.capability").is_ok();
        reset();
        assert_eq!(fx.write(file, 0, 10, 1).mode, 0o6755);
        assert!(capable(), "set again since the write");
        reset();
        let kill = DataCommit { kill_suid: true, ..DataCommit::default() };
        assert_eq!(fx.ns.commit_write(file, &kill).unwrap().mode, 0o755);
        assert!(!capable());
        reset();
        assert_eq!(fx.ns.truncate(file, 5, false).unwrap().mode, 0o6755);
        assert!(!capable());
        assert_eq!(fx.ns.truncate(file, 5, true).unwrap().mode, 0o755);
        reset();
        let kill = SetAttr { kill_suid: true, ..SetAttr::default() };
        assert_eq!(fx.ns.setattr(file, &kill).unwrap().mode, 0o755);
    });
}

#[test]
fn a_setgid_directory_passes_its_group_on() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        let change = SetAttr { mode: Some(0o2775), gid: Some(77), ..SetAttr::default() };
        fx.ns.setattr(dir, &change).unwrap();
        let file = fx.attr(fx.file(dir, "file"));
        assert_eq!((file.gid, file.mode), (77, 0o644));
        let sub = fx.attr(fx.dir(dir, "sub"));
        assert_eq!((sub.gid, sub.mode), (77, 0o2755));
        assert_eq!(fx.attr(fx.file(ROOT, "plain")).gid, 1000);
    });
}

#[test]
fn errors_have_the_numbers_of_posix() {
    assert_eq!(MetaError::NotFound.errno(), libc::ENOENT);
    assert_eq!(MetaError::NoSuchOffset.errno(), libc::ENXIO);
    assert_eq!(MetaError::NoData.errno(), libc::ENODATA);
    assert_eq!(MetaError::Kv(headrace_kv::KvError::Closed).errno(), libc::EIO);
    let full = headrace_kv::KvError::Full { path: "/x".into(), detail: "y".into() };
    assert_eq!(MetaError::from(full).errno(), libc::ENOSPC);
}
