//! What was deleted in a directory that is there comes back into it.

use std::fs::{self, File};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, TestVolume, pattern, shell};
use serde_json::Value;

use super::{digest, fill, keeping, listed, restore};

#[test]
fn a_directory_that_was_emptied_or_made_anew_gets_back_what_was_in_it() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mut mounted = volume.mount_with(&keeping("1h"));
    fill(&mounted.join("tree"));
    fs::write(mounted.join("beside"), pattern(9, 1000)).unwrap();
    let before = digest(&mounted);
    for (place, script) in [
        ("tree", "rm -rf tree/*"),
        // What is in a directory that stays.
        ("tree", "find tree -type f -delete"),
        ("tree", "rm -rf tree && mkdir tree"),
        ("tree", "rm -rf tree && mkdir -p tree/below/empty"),
        ("", "rm -rf tree/below beside && rm tree/link"),
        ("", "rm -rf ./*"),
    ] {
        // The kernel knows for a day what is there and what is not, and somebody holds what is removed.
        let held = File::open(mounted.join("tree/below")).unwrap();
        shell(&mounted.path(), script).ok();
        assert!(!mounted.join("tree/below/file-1").exists(), "{script}");
        let back = restore(&mounted, place);
        assert_eq!((&back["deleted"], &back["taken"]), (&Value::Null, &0.into()), "{script}: {back}");
        before.assert_same(&digest(&mounted));
        drop(held);
        mounted = mounted.remount();
        before.assert_same(&digest(&mounted));
    }
    let all = mounted.path();
    let refused = volume.command(&["restore-file"]).arg(mounted.join("beside")).fails();
    assert!(refused.stderr.contains("nothing that was deleted"), "{refused}");
    let refused = volume.command(&["restore-file", "--version", "7"]).arg(&all).fails();
    assert!(refused.stderr.contains("is a mount point"), "{refused}");
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn what_has_a_name_keeps_it_when_others_come_back_around_it() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&keeping("1h"));
    fs::create_dir_all(mounted.join("dir/sub")).unwrap();
    for (n, name) in ["one", "two", "sub/three"].into_iter().enumerate() {
        fs::write(mounted.join("dir").join(name), pattern(n as u64, 100_000)).unwrap();
    }
    shell(&mounted.path(), "rm -rf dir && mkdir dir").ok();
    fs::write(mounted.join("dir/one"), b"newer").unwrap();
    fs::write(mounted.join("dir/sub"), b"no directory").unwrap();
    let said = volume.command(&["restore-file"]).arg(mounted.join("dir")).ok();
    assert!(said.contains("1 file and") && said.contains("2 names are taken"), "{said}");
    let read = |name: &str| fs::read(mounted.join(name)).unwrap();
    assert_eq!((&read("dir/one")[..], &read("dir/sub")[..]), (&b"newer"[..], &b"no directory"[..]));
    assert!(read("dir/two") == pattern(1, 100_000));
    // Nothing else can come back, and it is still there to be had.
    let refused = volume.command(&["restore-file"]).arg(mounted.join("dir")).fails();
    assert!(refused.stderr.contains("exists") && refused.stderr.contains("--to"), "{refused}");
    let old = listed(&mounted, "dir/one")[0].1.to_string();
    let to = mounted.join("old");
    volume.command(&["restore-file", "--version", &old, "--to"]).args([&to, &mounted.join("dir/one")]).ok();
    assert!(read("old") == pattern(0, 100_000));
    fs::remove_file(mounted.join("dir/sub")).unwrap();
    volume.command(&["restore-file", "--to"]).args([mounted.join("sub"), mounted.join("dir/sub/three")]).ok();
    assert!(read("sub") == pattern(2, 100_000));
    mounted.unmount();
    volume.assert_clean();
}
