//! Names, links, directories, nodes and extended attributes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags};

use crate::support::{Mounted, eventually};

#[test]
fn files_directories_and_links() {
    let mounted = Mounted::new();
    fs::create_dir(mounted.path("d")).unwrap();
    fs::write(mounted.path("d/f"), b"hello").unwrap();
    fs::hard_link(mounted.path("d/f"), mounted.path("g")).unwrap();
    std::os::unix::fs::symlink("d/f", mounted.path("s")).unwrap();

    assert_eq!(fs::read(mounted.path("s")).unwrap(), b"hello");
    assert_eq!(fs::read_link(mounted.path("s")).unwrap().as_os_str(), "d/f");
    let (f, g) = (fs::metadata(mounted.path("d/f")).unwrap(), fs::metadata(mounted.path("g")).unwrap());
    assert_eq!((f.ino(), f.nlink()), (g.ino(), 2));
    assert_eq!(fs::remove_dir(mounted.path("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_file(mounted.path("d/f")).unwrap();
    assert_eq!(fs::metadata(mounted.path("g")).unwrap().nlink(), 1);
    fs::remove_dir(mounted.path("d")).unwrap();
    assert_eq!(fs::metadata(mounted.path("d")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn odd_names_come_through_unchanged() {
    let mounted = Mounted::new();
    let names: [&[u8]; 5] = [b"new\nline", b"\xff\xfe not utf-8", b" ", b"-rf", &[b'x'; 255]];
    for name in names {
        fs::write(mounted.root().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let seen: BTreeSet<Vec<u8>> = fs::read_dir(mounted.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    assert_eq!(seen, names.iter().map(|name| name.to_vec()).collect());
}

#[test]
fn rename_replaces_refuses_and_exchanges() {
    let mounted = Mounted::new();
    let (a, b) = (mounted.path("a"), mounted.path("b"));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    let renameat = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(renameat(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    renameat(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
    assert_eq!(renameat(RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
    renameat(RenameFlags::empty()).unwrap();
    assert!(!a.exists());
    assert_eq!(fs::read(&b).unwrap(), b"b");
}

#[test]
fn unnamed_file_gets_a_name() {
    let mounted = Mounted::new();
    let fd = rustix::fs::open(
        mounted.root(),
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o640),
    )
    .unwrap();
    let mut file = File::from(fd);
    file.write_all(b"unnamed").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 0);
    rustix::fs::linkat(&file, "", CWD, mounted.path("named"), AtFlags::EMPTY_PATH).unwrap();
    drop(file);
    let metadata = fs::metadata(mounted.path("named")).unwrap();
    assert_eq!((metadata.nlink(), metadata.permissions().mode() & 0o7777), (1, 0o640));
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"unnamed");
}

#[test]
fn an_open_file_outlives_its_name_and_is_then_forgotten() {
    let mounted = Mounted::new();
    let path = mounted.path("gone");
    fs::write(&path, b"still here").unwrap();
    let mut file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("still here", 0));
    drop(file);
    eventually("the inode is forgotten", || mounted.fs.inodes() == 1 && mounted.fs.references() == 0);
}

#[test]
fn nodes_of_every_kind() {
    use rustix::fs::FileType;
    let mounted = Mounted::new();
    let mode = Mode::from_raw_mode(0o644);
    let device = rustix::fs::makedev(0xabc, 0xdef12);
    for (name, kind, dev) in [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("char", FileType::CharacterDevice, device),
        ("block", FileType::BlockDevice, device),
        ("file", FileType::RegularFile, 0),
    ] {
        rustix::fs::mknodat(CWD, mounted.path(name), kind, mode, dev).unwrap();
        let metadata = fs::metadata(mounted.path(name)).unwrap();
        assert_eq!(metadata.rdev(), dev, "{name}");
        let stx = rustix::fs::statx(
            CWD,
            mounted.path(name),
            AtFlags::STATX_FORCE_SYNC,
            rustix::fs::StatxFlags::ALL,
        )
        .unwrap();
        assert_eq!(rustix::fs::makedev(stx.stx_rdev_major, stx.stx_rdev_minor), dev, "{name}");
    }
    assert!(fs::metadata(mounted.path("fifo")).unwrap().file_type().is_fifo());
    assert!(fs::metadata(mounted.path("socket")).unwrap().file_type().is_socket());
}

#[test]
fn ten_thousand_entries_are_listed_once_each_and_stably() {
    let mounted = Mounted::new();
    for i in 0..10_000 {
        rustix::fs::mknodat(
            CWD,
            mounted.path(&format!("entry-{i:05}")),
            rustix::fs::FileType::RegularFile,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    for _ in 0..3 {
        let names: Vec<_> =
            fs::read_dir(mounted.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!((names.len(), unique.len()), (10_000, 10_000));
    }
    // Removing while listing skips nothing.
    for entry in fs::read_dir(mounted.root()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 0);
}

#[test]
fn references_are_given_back_to_the_last_one() {
    let mounted = Mounted::new();
    for i in 0..200 {
        fs::create_dir(mounted.path(&format!("d{i}"))).unwrap();
        fs::write(mounted.path(&format!("d{i}/f")), b"x").unwrap();
    }
    for i in 0..200 {
        // Through READDIRPLUS and through LOOKUP.
        for entry in fs::read_dir(mounted.path(&format!("d{i}"))).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
        fs::metadata(mounted.path(&format!("d{i}/f"))).unwrap();
    }
    assert!(mounted.fs.references() >= 400);
    fs::remove_dir_all(mounted.path("d0")).unwrap();
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    eventually("all references are given back", || mounted.fs.references() == 0);
    assert_eq!(mounted.fs.counts.forgotten_too_often.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn extended_attributes() {
    let mounted = Mounted::new();
    let path = mounted.path("f");
    fs::write(&path, b"").unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    set("user.a", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"1", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    assert_eq!(set("user.b", b"1", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
    let large = vec![7; 60_000];
    set("user.large", &large, XattrFlags::empty()).unwrap();

    let mut space = vec![0; 65_536];
    let len = rustix::fs::getxattr(&path, "user.large", space.as_mut_slice()).unwrap();
    assert_eq!(&space[..len], large.as_slice());
    assert_eq!(rustix::fs::getxattr(&path, "user.large", &mut space[..10]), Err(rustix::io::Errno::RANGE));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.large"), Ok(60_000));
    let len = rustix::fs::listxattr(&path, space.as_mut_slice()).unwrap();
    assert_eq!(&space[..len], b"user.a\0user.large\0");
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(rustix::fs::removexattr(&path, "user.a"), Err(rustix::io::Errno::NODATA));
}

#[test]
fn the_file_system_describes_itself() {
    let mounted = Mounted::new();
    let stat = rustix::fs::statvfs(mounted.root()).unwrap();
    assert_eq!((stat.f_blocks, stat.f_bfree, stat.f_bavail, stat.f_bsize), (1000, 600, 500, 4096));
    assert_eq!((stat.f_files, stat.f_ffree, stat.f_namemax), (100, 90, 255));
}
