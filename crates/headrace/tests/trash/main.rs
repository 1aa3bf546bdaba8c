//! What is deleted on a volume mounted with `--trash` is kept, comes back as it was, and goes when its time is over; and what is
//! deleted without it is collected at once, however much it is.

mod directory;
mod into;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use headrace_testbed::mount::wait_for_exit;
use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{
    Backing, MountOptions, Mounted, TestVolume, TreeDigest, env_number, pattern, shell, tree_digest,
};
use serde_json::Value;

const MIB: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn keeping(time: &str) -> MountOptions {
    MountOptions::default().option(&format!("trash={time}"))
}

fn restore(mounted: &Mounted<'_>, name: impl AsRef<Path>) -> Value {
    let text = mounted.volume().command(&["restore-file", "--json"]).arg(mounted.join(name)).ok();
    serde_json::from_str(&text).unwrap()
}

/// What the trash has at or below a path: paths relative to the mount, with versions, in order.
fn listed(mounted: &Mounted<'_>, below: &str) -> Vec<(String, u64)> {
    let text = mounted.volume().command(&["trash", "list", "--json"]).arg(mounted.join(below)).ok();
    let mut found: Vec<_> = text
        .lines()
        .map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            let path =
                Path::new(entry["path"].as_str().unwrap()).strip_prefix(mounted.path()).unwrap().to_owned();
            (path.to_str().unwrap().to_owned(), entry["version"].as_u64().unwrap())
        })
        .collect();
    found.sort();
    found
}

fn figures(mounted: &Mounted<'_>) -> Value {
    let text = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: Value = serde_json::from_str(&text).unwrap();
    let of = |status: &Value| status["figures"].clone();
    status.as_array().map_or_else(|| of(&status), |all| of(&all[0]))
}

/// Files and bytes in the trash.
fn trash(mounted: &Mounted<'_>) -> (u64, u64) {
    let trash = &figures(mounted)["trash"];
    (trash["files"].as_u64().unwrap(), trash["bytes"].as_u64().unwrap())
}

/// Files small and large, a link, a hole, attributes of all kinds, in directories.
fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("below/empty")).unwrap();
    for (n, size) in [0, 1, 4096, 65_537, 3 * MIB, 20 * MIB].into_iter().enumerate() {
        let at = if n % 2 == 0 { dir.to_owned() } else { dir.join("below") };
        fs::write(at.join(format!("file-{size}")), pattern(n as u64, size)).unwrap();
    }
    fs::write(dir.join(OsStr::from_bytes(b"new\nline \xff")), b"odd").unwrap();
    let script = "ln -s below/file-1 link
        truncate -s 10M below/hole\nprintf x | dd of=below/hole bs=1 seek=5000000 conv=notrunc status=none
        setfattr -n user.colour -v blue below/file-1\nsetfacl -m u:1234:r below/file-65537
        chmod 4751 file-4096\nchown 1000:1001 below/file-1\ntouch -d '2001-02-03 04:05:06.789' below/hole file-4096
        touch -h -d 2002-01-01 link";
    shell(dir, script).ok();
}

/// A digest, without the times of directories: removing what is in them changes those.
fn digest(mounted: &Mounted<'_>) -> TreeDigest {
    shell(&mounted.path(), "find . -type d -exec touch -d @1000000000 {} +").ok();
    tree_digest(&mounted.path())
}

fn round_trip(backing: Backing, format: &[&str], env: &[(&str, &str)], options: &MountOptions) {
    let volume = TestVolume::with_format_and_env(backing, format, env);
    let mut mounted = volume.mount_with(options);
    fill(&mounted.join("tree"));
    let before = digest(&mounted);
    for step in ["at once", "after a flush", "from another mount", "after a crash"] {
        // The kernel knows for a day what is there and what is not.
        assert!(mounted.join("tree/below/file-1").exists(), "{step}");
        shell(&mounted.path(), "rm -rf tree").ok();
        assert!(!mounted.join("tree").exists() && !mounted.join("tree/below/file-1").exists(), "{step}");
        match step {
            "after a flush" => {
                volume.command(&["flush"]).arg(mounted.path()).ok();
            }
            "from another mount" => {
                mounted.unmount();
                volume.assert_clean();
                mounted = volume.mount_with(options);
            }
            "after a crash" => {
                File::open(mounted.path()).unwrap().sync_all().unwrap();
                mounted.kill();
                mounted.abandon();
                mounted = volume.mount_with(options);
            }
            _ => {}
        }
        assert_eq!(listed(&mounted, "tree/below/file-1").len(), 1, "{step}");
        let back = restore(&mounted, "tree");
        assert_eq!((&back["kind"], &back["directories"]), (&"directory".into(), &3.into()), "{step}");
        before.assert_same(&digest(&mounted));
    }
    assert_eq!(listed(&mounted, ""), []);
    let mounted = mounted.remount();
    before.assert_same(&digest(&mounted));
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn a_removed_tree_comes_back_as_it_was() {
    if native_only() {
        return;
    }
    let plain = keeping("1h");
    round_trip(Backing::Local, &[], &[], &plain);
    round_trip(Backing::S3, &[], &[], &plain);
    // Deleted before it is stored.
    round_trip(Backing::S3, &[], &[], &keeping("1h").option("writeback=true").option("upload_rate=1M"));
    round_trip(Backing::Local, &["--encrypt", "--compression", "zstd"], &[("HEADRACE_KEY", KEY)], &plain);
}

#[test]
fn a_file_comes_back_alone_and_the_newest_unless_another_is_asked_for() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("1h"));
    let file = mounted.join("a/b/file");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Replaced by a rename, as editors do, twice; then removed.
    for version in 0..3 {
        fs::write(mounted.join("new"), pattern(version, 70_000)).unwrap();
        fs::rename(mounted.join("new"), &file).unwrap();
    }
    fs::write(mounted.join("a/b/other"), b"other").unwrap();
    fs::remove_file(&file).unwrap();
    let versions: Vec<u64> = listed(&mounted, "a/b/file").into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions.len(), 3);
    shell(&mounted.path(), "rm -rf a").ok();

    assert_eq!(restore(&mounted, "a/b/file")["others"], 2);
    assert!(fs::read(&file).unwrap() == pattern(2, 70_000));
    assert_eq!(fs::read_dir(mounted.join("a/b")).unwrap().count(), 1, "nothing else comes back with it");
    // What there is stays, and the way out is said.
    let refused = volume.command(&["restore-file"]).arg(&file).fails();
    assert!(refused.stderr.contains("exists") && refused.stderr.contains("--to"), "{refused}");
    let oldest = versions[0].to_string();
    let to = mounted.join("oldest");
    volume.command(&["restore-file", "--version", &oldest, "--to"]).args([&to, &file]).ok();
    assert!(fs::read(&to).unwrap() == pattern(0, 70_000));
    assert!(fs::read(&file).unwrap() == pattern(2, 70_000));

    for (args, part) in [
        (vec!["never-there"], "nothing that was deleted as"),
        (vec!["a/b/other", "--version", "7777"], "no version 7777"),
        (vec!["a/b/other", "--to", "no/such/place"], "no directory"),
    ] {
        let refused = volume.command(&["restore-file"]).dir(&mounted.path()).args(&args).fails();
        assert!(refused.stderr.contains(part), "{refused}");
        assert_eq!(refused.status.code(), Some(5), "{refused}");
    }
    // Only the last of several names counts.
    fs::write(mounted.join("one"), b"linked").unwrap();
    fs::hard_link(mounted.join("one"), mounted.join("two")).unwrap();
    fs::remove_file(mounted.join("one")).unwrap();
    assert_eq!(listed(&mounted, "one"), []);
    fs::remove_file(mounted.join("two")).unwrap();
    restore(&mounted, "two");
    assert_eq!(fs::read(mounted.join("two")).unwrap(), b"linked");
    // Only the owner of the mount and root may do so.
    let refused =
        volume.command(&["restore-file"]).arg(mounted.join("a/b/other")).as_user(1234, 1234).fails();
    assert!(!mounted.join("a/b/other").exists(), "{refused}");
    mounted.unmount();
    volume.assert_clean();
}

/// A shell that stands in a directory keeps the kernel from forgetting that it was removed.
#[test]
fn a_directory_that_somebody_stands_in_is_whole_when_it_comes_back() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("1h"));
    fs::create_dir_all(mounted.join("dir/below")).unwrap();
    for round in 0..3 {
        fs::write(mounted.join("dir/below/file"), pattern(round, 1000)).unwrap();
        let open = (File::open(mounted.join("dir")).unwrap(), File::open(mounted.join("dir/below")).unwrap());
        shell(&mounted.path(), "rm -rf dir").ok();
        assert!(!mounted.join("dir/below/file").exists());
        restore(&mounted, "dir");
        assert!(fs::read(mounted.join("dir/below/file")).unwrap() == pattern(round, 1000));
        // As good as new, whoever holds what it was.
        fs::write(mounted.join(format!("dir/below/new-{round}")), b"new").unwrap();
        fs::create_dir(mounted.join(format!("dir/sub-{round}"))).unwrap();
        drop(open);
        fs::rename(mounted.join(format!("dir/below/new-{round}")), mounted.join("dir/moved")).unwrap();
        assert_eq!(fs::read(mounted.join("dir/moved")).unwrap(), b"new");
    }
    let before = digest(&mounted);
    let mounted = mounted.remount();
    before.assert_same(&digest(&mounted));
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn an_open_file_goes_on_working_and_is_kept_with_what_was_written_last() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&keeping("1h"));
    let mut file = File::create(mounted.join("open")).unwrap();
    file.write_all(b"before ").unwrap();
    file.sync_all().unwrap();
    fs::remove_file(mounted.join("open")).unwrap();
    file.write_all(b"and after").unwrap();
    file.write_all_at(&pattern(1, 5 * MIB), 1 << 20).unwrap();
    drop(file);
    // Programs make temporary files so; nobody wants them back.
    let mut temporary = File::create(mounted.join("temporary")).unwrap();
    fs::remove_file(mounted.join("temporary")).unwrap();
    temporary.write_all(&pattern(2, MIB)).unwrap();
    drop(temporary);
    assert_eq!(listed(&mounted, "").len(), 1);
    let mounted = mounted.remount();
    restore(&mounted, "open");
    let back = fs::read(mounted.join("open")).unwrap();
    assert!(back.starts_with(b"before and after") && back[1 << 20..] == pattern(1, 5 * MIB));
    // Restored while it is open, it is the same file.
    let file = File::options().read(true).write(true).open(mounted.join("open")).unwrap();
    fs::remove_file(mounted.join("open")).unwrap();
    file.write_all_at(b"BEFORE", 0).unwrap();
    restore(&mounted, "open");
    file.write_all_at(b"AND", 7).unwrap();
    assert!(fs::read(mounted.join("open")).unwrap().starts_with(b"BEFORE AND after"));
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    drop(file);
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn what_is_kept_goes_with_its_objects_when_its_time_is_over() {
    if native_only() {
        return;
    }
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        // Kept, as it was deleted under that rule, by a mount that keeps nothing now.
        let mounted = volume.mount_with(&keeping("3s"));
        fs::create_dir(mounted.join("dir")).unwrap();
        for n in 0..20 {
            fs::write(mounted.join(format!("dir/{n}")), pattern(n, MIB)).unwrap();
        }
        volume.command(&["flush"]).arg(mounted.path()).ok();
        assert!(!volume.segment_files().is_empty());
        // Not in the directory: that would be in use too.
        fs::rename(mounted.join("dir/7"), mounted.join("held")).unwrap();
        let held = File::open(mounted.join("held")).unwrap();
        shell(&mounted.path(), "rm -rf dir held").ok();
        let (files, bytes) = trash(&mounted);
        assert_eq!((files, bytes), (21, 20 << 20));
        // Used as before until then.
        assert_eq!(figures(&mounted)["bytes"], 20 << 20);
        wait_until(SOON, || (figures(&mounted)["inodes"] == 2).then_some(()))
            .expect("only what is open is left");
        let mut byte = [0];
        assert_eq!(
            held.read_at(&mut byte, 1_000_000).unwrap(),
            1,
            "an open file can be read until it is closed"
        );
        drop(held);
        wait_until(SOON, || (figures(&mounted)["inodes"] == 1).then_some(())).expect("all of it goes");
        wait_until(SOON, || (trash(&mounted) == (0, 0)).then_some(())).expect("none of it is counted");
        assert_eq!((listed(&mounted, ""), &figures(&mounted)["bytes"]), (vec![], &0.into()));
        let refused = volume.command(&["restore-file"]).arg(mounted.join("dir/1")).fails();
        assert!(refused.stderr.contains("nothing that was deleted"), "{refused}");

        fs::write(mounted.join("last"), pattern(50, MIB)).unwrap();
        fs::remove_file(mounted.join("last")).unwrap();
        mounted.unmount();
        let mounted = volume.mount();
        wait_until(SOON, || (figures(&mounted)["inodes"] == 1).then_some(()))
            .expect("it expires with trash=off too");
        mounted.unmount();
        volume.command(&["gc", "--grace", "0s", "--retention", "0"]).arg(volume.url()).ok();
        assert_eq!(volume.segment_files(), Vec::<std::path::PathBuf>::new());
        volume.assert_clean();
    }
}

#[test]
fn the_trash_is_emptied_at_once_and_garbage_collection_spares_it_before() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount_with(&keeping("7days"));
    fs::write(mounted.join("file"), pattern(1, 20 * MIB)).unwrap();
    fs::write(mounted.join("small"), pattern(2, 1000)).unwrap();
    volume.command(&["flush"]).arg(mounted.path()).ok();
    shell(&mounted.path(), "rm file small").ok();
    let status = volume.command(&["status"]).arg(mounted.path()).ok();
    assert!(status.contains("kept for 7days"), "{status}");
    mounted.unmount();
    let gc = || volume.command(&["gc", "--grace", "0s", "--retention", "0"]).arg(volume.url()).ok();
    gc();
    // Nothing to repair, and nothing that a repair takes for garbage.
    volume.command(&["fsck", "--repair", "--data"]).arg(volume.url()).ok();
    let mounted = volume.mount_with(&keeping("7days"));
    assert_eq!(trash(&mounted).0, 2);
    restore(&mounted, "file");
    assert!(fs::read(mounted.join("file")).unwrap() == pattern(1, 20 * MIB));
    fs::remove_file(mounted.join("file")).unwrap();

    let refused = volume.command(&["trash", "empty"]).arg(mounted.path()).fails();
    assert!(refused.stderr.contains("--yes"), "{refused}");
    assert_eq!(trash(&mounted).0, 2);
    let gone = volume.command(&["trash", "empty", "--yes", "--json"]).arg(mounted.path()).ok();
    let gone: Value = serde_json::from_str(&gone).unwrap();
    assert_eq!((&gone["files"], &gone["bytes"]), (&2.into(), &(20 * MIB as u64 + 1000).into()));
    assert_eq!((trash(&mounted), listed(&mounted, "")), ((0, 0), vec![]));
    assert_eq!(figures(&mounted)["inodes"], 1);
    mounted.unmount();
    gc();
    assert_eq!(volume.segment_files(), Vec::<std::path::PathBuf>::new());
    volume.assert_clean();
}

/// More than the queue of files to reclaim holds, so that the rest has to be found again; the daemon is killed in the middle, and the
/// next mount is there at once and goes on.
#[test]
fn a_large_tree_is_collected_as_fast_as_it_is_removed_and_after_a_crash_too() {
    if native_only() {
        return;
    }
    let files = env_number("HEADRACE_TRASH_FILES", 40_000);
    let volume = TestVolume::new(Backing::Local);
    let make = |mounted: &Mounted<'_>| {
        for n in 0..files {
            let dir = mounted.join(format!("tree/{:04}", n / 1000));
            if n % 1000 == 0 {
                fs::create_dir_all(&dir).unwrap();
            }
            fs::write(dir.join(n.to_string()), b"x").unwrap();
        }
    };
    // Kept first, so that all of it is there to be reclaimed at one time.
    let mounted = volume.mount_with(&keeping("1h"));
    make(&mounted);
    shell(&mounted.path(), "rm -rf tree").limit(Duration::from_secs(600)).ok();
    File::open(mounted.path()).unwrap().sync_all().unwrap();
    let all = files + files.div_ceil(1000) + 1;
    assert_eq!(trash(&mounted).0, all);
    let daemon = mounted.daemon();
    let emptying = std::thread::spawn({
        let run = volume.command(&["trash", "empty", "--yes"]).arg(mounted.path());
        move || run.finish()
    });
    wait_until(SOON, || (figures(&mounted)["inodes"].as_u64().unwrap() < all).then_some(())).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
    emptying.join().unwrap();
    assert!(wait_for_exit(daemon, SOON));
    mounted.abandon();
    let began = Instant::now();
    let mounted = volume.mount_with(&keeping("1h"));
    println!("mounted after {:?}", began.elapsed());
    volume.command(&["trash", "empty", "--yes"]).arg(mounted.path()).ok();
    wait_until(SOON, || (figures(&mounted)["inodes"] == 1).then_some(())).expect("all is reclaimed");
    mounted.unmount();
    volume.assert_clean();

    let mounted = volume.mount();
    make(&mounted);
    let began = Instant::now();
    shell(&mounted.path(), "rm -rf tree").limit(Duration::from_secs(600)).ok();
    let removed = began.elapsed();
    wait_until(SOON, || (figures(&mounted)["inodes"] == 1).then_some(())).expect("all is reclaimed");
    println!("{files} files removed in {removed:?}, reclaimed {:?} later", began.elapsed() - removed);
    assert_eq!(figures(&mounted)["orphans"], 0);
    mounted.unmount();
    volume.assert_clean();
}
