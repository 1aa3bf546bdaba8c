//! `.trash`: what was deleted, as a directory.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Run, TestVolume, pattern, shell, tree_digest};
use rustix::io::Errno;

use super::{MIB, digest, fill, keeping, listed, trash};

/// Names in a directory; fails if one is there twice.
fn names(dir: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.insert(name.clone()), "{name} is listed twice");
    }
    names
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

fn errno(result: std::io::Result<impl Sized>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn what_was_deleted_lies_there_under_its_path_and_comes_back_by_being_moved() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mut mounted = volume.mount_with(&keeping("1h"));
    fill(&mounted.join("home/tree"));
    let before = digest(&mounted);
    for step in ["at once", "from another mount", "after a crash"] {
        shell(&mounted.path(), "rm -rf home/tree").ok();
        match step {
            "from another mount" => mounted = mounted.remount(),
            "after a crash" => {
                File::open(mounted.path()).unwrap().sync_all().unwrap();
                mounted.kill();
                mounted.abandon();
                mounted = volume.mount_with(&keeping("1h"));
            }
            _ => {}
        }
        assert!(
            !names(&mounted.path()).contains(".trash"),
            "{step}: programs that walk the tree do not find it"
        );
        let gone = mounted.join(".trash/home/tree");
        assert_eq!(
            names(&gone.join("below")),
            set(["empty", "file-1", "file-65537", "file-20971520", "hole"])
        );
        assert!(fs::read(gone.join("file-3145728")).unwrap() == pattern(4, 3 * MIB), "{step}");
        assert!(fs::read(gone.join("below/file-65537")).unwrap() == pattern(3, 65_537), "{step}");
        assert!(fs::read(gone.join("below/file-20971520")).unwrap() == pattern(5, 20 * MIB), "{step}");
        assert_eq!(fs::read_link(gone.join("link")).unwrap(), Path::new("below/file-1"));
        let colour = shell(&gone, "getfattr --only-values -n user.colour below/file-1").ok();
        assert_eq!(colour, "blue", "{step}");
        let meta = fs::metadata(gone.join("file-4096")).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.nlink(), meta.len()), (0o4751, 1, 4096), "{step}");
        shell(&mounted.path(), "mv .trash/home/tree home/tree").ok();
        before.assert_same(&digest(&mounted));
        assert_eq!(names(&mounted.join(".trash/home")), set(["tree"]), "the directory that is there");
        assert_eq!(trash(&mounted).0, 0, "{step}");
    }
    // Under another name, and a copy of something else.
    shell(
        &mounted.path(),
        "rm -rf home/tree; cp -a .trash/home/tree/below copy; mv .trash/home/tree/below moved",
    )
    .ok();
    // Times of directories are those of seconds.
    shell(&mounted.path(), "find copy moved -type d -exec touch -d @1000000000 {} +").ok();
    tree_digest(&mounted.join("copy")).assert_same(&tree_digest(&mounted.join("moved")));
    let mounted = mounted.remount();
    tree_digest(&mounted.join("copy")).assert_same(&tree_digest(&mounted.join("moved")));
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn all_versions_of_a_name_are_there_the_newest_under_it() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("1h"));
    let (file, gone) = (mounted.join("dir/file"), mounted.join(".trash/dir"));
    fs::create_dir(mounted.join("dir")).unwrap();
    for version in 0..4_u8 {
        fs::write(&file, [version]).unwrap();
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(fs::read(gone.join("file")).unwrap(), [3]);
    let others: BTreeSet<Vec<u8>> =
        names(&gone).into_iter().map(|name| fs::read(gone.join(name)).unwrap()).collect();
    assert_eq!(others, (0..4_u8).map(|version| vec![version]).collect());
    for (_, version) in listed(&mounted, "dir/file") {
        let by_version = gone.join(format!("file~{version}"));
        assert_eq!(fs::read(&by_version).unwrap().len(), 1, "{}", by_version.display());
    }
    // A directory that is there has the name.
    fs::create_dir(&file).unwrap();
    assert!(fs::metadata(gone.join("file")).unwrap().is_dir());
    assert_eq!(names(&gone).len(), 5);
    fs::remove_dir(&file).unwrap();
    // The newest of the name is the directory now: once it is gone for good, the file is again.
    fs::remove_dir(gone.join("file")).unwrap();
    assert_eq!(fs::read(gone.join("file")).unwrap(), [3]);
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn what_is_removed_there_is_gone_and_large_directories_are_listed_whole() {
    if native_only() {
        return;
    }
    const FILES: usize = 3_000;
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("1h"));
    let dir = mounted.join("many");
    fs::create_dir_all(dir.join("there")).unwrap();
    let name = |n: usize| format!("a-name-that-is-somewhat-longer-{n:04}");
    for round in 0..2 {
        // The first third twice.
        for n in 0..if round == 0 { FILES / 3 } else { FILES } {
            fs::write(dir.join(name(n)), n.to_string()).unwrap();
        }
        shell(&dir, "rm a-name-*").ok();
    }
    let gone = mounted.join(".trash/many");
    let found = names(&gone);
    assert_eq!(found.len(), FILES + FILES / 3 + 1);
    assert!((0..FILES).all(|n| found.contains(&name(n))));
    assert_eq!(fs::read(gone.join(name(1234))).unwrap(), b"1234");
    assert_eq!(errno(fs::remove_dir(gone.join("there"))), Some(Errno::ROFS), "it is there");
    // It lists and removes in turns.
    shell(&gone, "find . -type f -name '*7' -delete; rm -rf a-name-*").ok();
    assert_eq!(names(&gone), set(["there"]));
    assert_eq!((trash(&mounted).0, listed(&mounted, "").len()), (0, 0));
    shell(&mounted.path(), "rm -rf many").ok();
    assert_eq!(errno(fs::remove_dir(mounted.join(".trash/many"))), Some(Errno::NOTEMPTY));
    shell(&mounted.path(), "rm -rf .trash/many").ok();
    assert_eq!(names(&mounted.join(".trash")), set([]));
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn nothing_else_can_be_done_to_it_and_others_do_not_look_into_it() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("1h"));
    let at = |name: &str| mounted.join(name);
    fs::create_dir(at("dir")).unwrap();
    fs::set_permissions(mounted.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(at("dir/file"), b"secret").unwrap();
    fs::write(at("other"), b"other").unwrap();
    fs::remove_file(at("dir/file")).unwrap();
    let (ro, file) = (Some(Errno::ROFS), at(".trash/dir/file"));
    assert_eq!(errno(File::create(at(".trash/new"))), ro);
    assert_eq!(errno(OpenOptions::new().write(true).open(&file)), ro);
    assert_eq!(errno(fs::create_dir(at(".trash/dir/new"))), ro);
    assert_eq!(errno(fs::rename(at("other"), at(".trash/other"))), ro);
    assert_eq!(errno(fs::rename(at(".trash/dir"), at("taken"))), ro, "a directory that is there");
    assert_eq!(errno(fs::rename(at(".trash"), at("taken"))), ro);
    assert_eq!(errno(fs::rename(at("dir"), at(".trash"))), ro);
    assert_eq!(errno(fs::remove_dir(at(".trash"))), ro);
    assert_eq!(errno(fs::create_dir(at(".trash"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::hard_link(&file, at("link"))), ro);
    assert_eq!(errno(fs::set_permissions(&file, fs::Permissions::from_mode(0o777))), ro);
    assert_eq!(errno(fs::rename(&file, at("other"))), Some(Errno::EXIST), "nothing is overwritten");
    assert_eq!(fs::read(at("other")).unwrap(), b"other");
    for path in [at(".trash"), at(".trash/dir"), file.clone()] {
        let refused = Run::new("ls").arg(&path).as_user(65534, 65534).fails();
        assert!(refused.to_string().contains("Permission denied"), "{refused}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"secret");

    // Who stands in a directory that is removed sees it empty, as ever.
    let inside = File::open(at("dir")).unwrap();
    fs::remove_dir(at("dir")).unwrap();
    assert_eq!(
        names(Path::new(&format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&inside)))),
        set([])
    );
    assert_eq!(names(&at(".trash/dir")), set(["file"]));
    drop(inside);
    // A file that is written on after it was deleted is what it has become.
    let mut open = OpenOptions::new().read(true).write(true).create_new(true).open(at("open")).unwrap();
    open.write_all(b"before").unwrap();
    fs::remove_file(at("open")).unwrap();
    let mut shown = File::open(at(".trash/open")).unwrap();
    open.write_all_at(b"behind", 0).unwrap();
    let mut found = String::new();
    shown.read_to_string(&mut found).unwrap();
    assert_eq!(found, "behind");
    drop((open, shown));
    mounted.unmount();

    // Without a trash there is none, and a directory of somebody's own is left alone.
    let mounted = volume.mount();
    assert!(fs::metadata(mounted.join(".trash")).is_err());
    fs::create_dir_all(mounted.join(".trash/mine")).unwrap();
    mounted.unmount();
    let mounted = volume.mount_with(&keeping("1h"));
    assert_eq!(names(&mounted.join(".trash")), set(["mine"]));
    mounted.unmount();
    volume.assert_clean();
}
