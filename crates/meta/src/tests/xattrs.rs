use headrace_layout::InodeNo;

use super::fixture::*;
use crate::*;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// An ACL from (tag, permissions, id).
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0];
    for (tag, perm, id) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&perm.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

const NONE: u32 = u32::MAX;

fn minimal(user: u16, group: u16, other: u16) -> Vec<u8> {
    acl(&[(1, user, NONE), (4, group, NONE), (32, other, NONE)])
}

fn named(user: u16, mask: u16, other: u16) -> Vec<u8> {
    acl(&[(1, user, NONE), (2, 7, 1234), (4, 5, NONE), (16, mask, NONE), (32, other, NONE)])
}

fn set(fx: &Fixture, ino: InodeNo, name: &[u8], value: &[u8]) -> Result<()> {
    fx.ns.setxattr(ino, name, value, XattrMode::Set, false)
}

fn chmod(fx: &Fixture, ino: InodeNo, mode: u16) {
    fx.ns.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
}

#[test]
fn attributes_can_be_set_listed_and_removed() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        refused!(fx.ns.getxattr(file, b"user.a"), MetaError::NoData);
        assert!(fx.ns.listxattr(file).unwrap().is_empty());
        let before = fx.attr(file).ctime;
        set(fx, file, b"user.a", b"1").unwrap();
        assert!(fx.attr(file).ctime > before);
        set(fx, file, b"trusted.b", b"").unwrap();
        set(fx, file, b"security.c", &[7; 65536]).unwrap();
        assert_eq!(fx.ns.getxattr(file, b"user.a").unwrap(), b"1");
        assert_eq!(fx.ns.getxattr(file, b"trusted.b").unwrap(), b"");
        let mut names = fx.ns.listxattr(file).unwrap();
        names.sort();
        assert_eq!(names, [&b"security.c"[..], b"trusted.b", b"user.a"]);
        refused!(fx.ns.setxattr(file, b"user.a", b"", XattrMode::CreateOnly, false), MetaError::Exists);
        refused!(fx.ns.setxattr(file, b"user.x", b"", XattrMode::ReplaceOnly, false), MetaError::NoData);
        fx.ns.setxattr(file, b"user.a", b"2", XattrMode::ReplaceOnly, false).unwrap();
        assert_eq!(fx.ns.getxattr(file, b"user.a").unwrap(), b"2");
        for name in names {
            fx.ns.removexattr(file, &name).unwrap();
        }
        refused!(fx.ns.removexattr(file, b"user.a"), MetaError::NoData);
        assert!(fx.ns.listxattr(file).unwrap().is_empty());
    });
}

#[test]
fn limits_are_those_of_linux() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        refused!(set(fx, file, b"user.big", &[0; 65537]), MetaError::TooBig);
        let mut name = b"user.".to_vec();
        name.resize(255, b'x');
        set(fx, file, &name, b"v").unwrap();
        name.push(b'x');
        refused!(set(fx, file, &name, b"v"), MetaError::Range);
        refused!(set(fx, file, b"", b"v"), MetaError::Range);
        refused!(set(fx, file, b"user.", b"v"), MetaError::Invalid(_));
        refused!(set(fx, file, b"other.x", b"v"), MetaError::Unsupported(_));
        let fifo = fx.make(ROOT, "fifo", Kind::Fifo);
        refused!(set(fx, fifo, b"user.x", b"v"), MetaError::NotPermitted(_));
        set(fx, fifo, b"trusted.x", b"v").unwrap();
        let mut count = 0;
        let full = loop {
            let mut name = format!("user.{count}.").into_bytes();
            name.resize(255, b'y');
            match set(fx, file, &name, b"") {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, MetaError::NoSpace(_)), "{full}");
        assert_eq!(count, 255);
    });
}

#[test]
fn attributes_go_with_their_inode() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        set(fx, file, b"user.a", b"1").unwrap();
        fx.ns.unlink(ROOT, b"file").unwrap();
        assert_eq!(fx.ns.getxattr(file, b"user.a").unwrap(), b"1");
        fx.ns.reclaim(file).unwrap();
        refused!(fx.ns.getxattr(file, b"user.a"), MetaError::NotFound);
    });
}

#[test]
fn an_access_acl_and_the_mode_are_one() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        chmod(fx, file, 0o4600);
        set(fx, file, ACCESS, &named(6, 4, 1)).unwrap();
        assert_eq!(fx.attr(file).mode, 0o4641);
        assert_eq!(fx.ns.getxattr(file, ACCESS).unwrap(), named(6, 4, 1));
        assert_eq!(fx.ns.listxattr(file).unwrap(), [ACCESS]);
        // chmod reaches the mask, not the group's own entry.
        chmod(fx, file, 0o720);
        assert_eq!(fx.ns.getxattr(file, ACCESS).unwrap(), named(7, 2, 0));
        // What the mode can say is not kept besides.
        set(fx, file, ACCESS, &minimal(6, 4, 0)).unwrap();
        assert_eq!(fx.attr(file).mode, 0o640);
        refused!(fx.ns.getxattr(file, ACCESS), MetaError::NoData);
        chmod(fx, file, 0o600);
        assert_eq!(fx.attr(file).mode, 0o600);
    });
}

#[test]
fn removing_an_acl_leaves_the_mode() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        set(fx, file, ACCESS, &named(7, 6, 4)).unwrap();
        fx.ns.removexattr(file, ACCESS).unwrap();
        assert_eq!(fx.attr(file).mode, 0o764);
        refused!(fx.ns.getxattr(file, ACCESS), MetaError::NoData);
        fx.ns.removexattr(file, ACCESS).unwrap();
        set(fx, file, ACCESS, &named(7, 6, 4)).unwrap();
        set(fx, file, ACCESS, &[2, 0, 0, 0]).unwrap();
        refused!(fx.ns.getxattr(file, ACCESS), MetaError::NoData);
    });
}

#[test]
fn setting_an_acl_may_take_setgid_away() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        chmod(fx, file, 0o2770);
        fx.ns.setxattr(file, ACCESS, &named(7, 7, 0), XattrMode::Set, true).unwrap();
        assert_eq!(fx.attr(file).mode, 0o770);
    });
}

#[test]
fn invalid_acls_are_refused() {
    each(|fx| {
        let file = fx.file(ROOT, "file");
        let link = fx.make(ROOT, "link", Kind::Symlink);
        refused!(set(fx, file, ACCESS, b"nonsense"), MetaError::Unsupported(_));
        refused!(set(fx, file, ACCESS, &acl(&[(1, 7, NONE)])), MetaError::Invalid(_));
        refused!(
            set(fx, file, ACCESS, &acl(&[(1, 9, NONE), (4, 0, NONE), (32, 0, NONE)])),
            MetaError::Invalid(_)
        );
        refused!(set(fx, file, DEFAULT, &minimal(7, 5, 0)), MetaError::Access(_));
        refused!(set(fx, link, ACCESS, &minimal(7, 5, 0)), MetaError::Unsupported(_));
        assert!(fx.ns.listxattr(file).unwrap().is_empty());
    });
}

#[test]
fn a_default_acl_is_inherited_instead_of_the_umask() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        set(fx, dir, DEFAULT, &named(7, 7, 5)).unwrap();
        assert_eq!(fx.attr(dir).mode, 0o755, "a default ACL says nothing of the directory itself");

        let file = fx.file(dir, "file");
        assert_eq!(fx.attr(file).mode, 0o664);
        assert_eq!(fx.ns.getxattr(file, ACCESS).unwrap(), named(6, 6, 4));
        refused!(fx.ns.getxattr(file, DEFAULT), MetaError::NoData);

        let sub = fx.dir(dir, "sub");
        assert_eq!(fx.attr(sub).mode, 0o775);
        assert_eq!(fx.ns.getxattr(sub, ACCESS).unwrap(), named(7, 7, 5));
        assert_eq!(fx.ns.getxattr(sub, DEFAULT).unwrap(), named(7, 7, 5));

        let link = fx.make(dir, "link", Kind::Symlink);
        assert_eq!(fx.attr(link).mode, 0o777);
        assert!(fx.ns.listxattr(link).unwrap().is_empty());
        let unnamed = fx.ns.create_unnamed(dir, 0o600, &CALLER).unwrap();
        assert_eq!(unnamed.mode, 0o600);
        assert_eq!(fx.ns.getxattr(unnamed.ino, ACCESS).unwrap(), named(6, 0, 0));
    });
}

#[test]
fn a_minimal_default_acl_is_inherited_as_a_mode() {
    each(|fx| {
        let dir = fx.dir(ROOT, "dir");
        set(fx, dir, DEFAULT, &minimal(7, 7, 0)).unwrap();
        let file = fx.file(dir, "file");
        assert_eq!(fx.attr(file).mode, 0o660);
        assert!(fx.ns.listxattr(file).unwrap().is_empty());
        let sub = fx.dir(dir, "sub");
        assert_eq!(fx.ns.listxattr(sub).unwrap(), [DEFAULT]);
        fx.ns.removexattr(dir, DEFAULT).unwrap();
        assert_eq!(fx.attr(fx.file(dir, "plain")).mode, 0o644);
    });
}
