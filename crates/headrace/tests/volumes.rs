//! Volumes of other formats: compressed, encrypted, with small segments. What goes in comes out; what must not be
//! readable in the store is not.

use std::path::Path;

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, TestVolume, pattern, shell, tree_digest};

/// Occurs in file contents; must not occur in the store of an encrypted volume.
const MARKER: &[u8] = b"the plain text that nobody else may read";
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Files of every interesting size, random and compressible, overwritten and punched here and there.
fn fill(dir: &Path) {
    for (n, size) in
        [0, 1, 100, 4_095, 32_768, 65_536, 65_537, 1 << 20, 5_000_000, 20 << 20].into_iter().enumerate()
    {
        std::fs::write(dir.join(format!("random-{size}")), pattern(n as u64, size)).unwrap();
        let text: Vec<u8> = MARKER.iter().copied().cycle().take(size).collect();
        std::fs::write(dir.join(format!("text-{size}")), text).unwrap();
    }
    let script = "dd if=/dev/urandom of=text-5000000 bs=1000 seek=2000 count=50 conv=notrunc status=none
        fallocate --punch-hole --offset 1234567 --length 2345678 random-20971520
        truncate -s 3333333 random-5000000\ntruncate -s 6000000 random-5000000";
    shell(dir, script).ok();
}

fn round_trip(backing: Backing, format: &[&str], env: &[(&str, &str)]) -> TestVolume {
    let volume = TestVolume::with_format_and_env(backing, format, env);
    let mounted = volume.mount();
    fill(&mounted.path());
    let before = tree_digest(&mounted.path());
    let mounted = mounted.remount();
    before.assert_same(&tree_digest(&mounted.path()));
    mounted.unmount();
    volume.assert_clean();
    volume
}

fn stored_bytes(volume: &TestVolume) -> u64 {
    volume.segment_files().iter().map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn plain_volumes_keep_their_content() {
    round_trip(Backing::Local, &[], &[]);
    round_trip(Backing::Local, &["--segment-size", "1M", "--inline-max", "0", "--frame-size", "4K"], &[]);
}

#[test]
fn compressed_volumes_keep_their_content_in_less_space() {
    let plain = stored_bytes(&round_trip(Backing::Local, &[], &[]));
    for method in ["lz4", "zstd", "zstd:9"] {
        let compressed = stored_bytes(&round_trip(Backing::Local, &["--compression", method], &[]));
        if !native_only() {
            println!("{method}: {compressed} bytes stored, {plain} without");
            // About half of it is text that shrinks to almost nothing.
            assert!(compressed < plain * 6 / 10, "{method}: {compressed} bytes stored, {plain} without");
        }
    }
}

#[test]
fn encrypted_volumes_keep_their_content_and_show_none_of_it() {
    for (backing, compression) in [(Backing::Local, "none"), (Backing::Local, "lz4"), (Backing::S3, "none")] {
        let volume =
            round_trip(backing, &["--encrypt", "--compression", compression], &[("HEADRACE_KEY", KEY)]);
        if native_only() {
            continue;
        }
        let files = volume.object_files();
        assert!(files.len() > 2, "{files:?}");
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(16).any(|window| window == &MARKER[..16]);
            assert!(!found, "{} holds plain text", file.display());
            assert!(
                !bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()),
                "{} holds the key",
                file.display()
            );
        }
    }
}

#[test]
fn an_encrypted_volume_opens_with_its_key_only() {
    if native_only() {
        return;
    }
    let volume = TestVolume::with_format_and_env(Backing::Local, &["--encrypt"], &[("HEADRACE_KEY", KEY)]);
    let mount = || volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
    let wrong = KEY.replace("00", "ff");
    let finished = mount().env("HEADRACE_KEY", &wrong).fails();
    assert!(finished.stderr.contains("key"), "{finished}");
    for secret in [KEY, &wrong] {
        assert!(
            !format!("{finished}").replace(&finished.what, "").contains(secret),
            "the key is shown: {finished}"
        );
    }
    let finished = mount().env_remove("HEADRACE_KEY").fails();
    assert!(finished.stderr.contains("HEADRACE_KEY") || finished.stderr.contains("--key-file"), "{finished}");
    volume.mount().unmount();
}

/// Space comes back when files go: after a collection without grace, hardly anything is left in the store.
#[test]
fn garbage_is_collected() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    for n in 0..4 {
        std::fs::write(mounted.join(format!("file-{n}")), pattern(n, 20 << 20)).unwrap();
    }
    let mounted = mounted.remount();
    assert!(stored_bytes(&volume) >= 80 << 20);
    for n in 0..3 {
        std::fs::remove_file(mounted.join(format!("file-{n}"))).unwrap();
    }
    mounted.unmount();
    // What a restore to an earlier time may need is kept, whatever the grace.
    volume.command(&["gc", "--grace", "0s"]).arg(volume.url()).ok();
    assert!(stored_bytes(&volume) >= 80 << 20, "the retention does not count");
    let told =
        volume.command(&["gc", "--dry-run", "--grace", "0s", "--retention", "0"]).arg(volume.url()).ok();
    assert!(told.contains("segments/") && told.contains("no file uses it since"), "{told}");
    assert!(stored_bytes(&volume) >= 80 << 20, "a dry run deleted something");
    volume.command(&["gc", "--grace", "0s", "--retention", "0"]).arg(volume.url()).ok();
    // Segments that are shared with the file that stays may stay with it.
    assert!(stored_bytes(&volume) < 60 << 20, "{} bytes are still stored", stored_bytes(&volume));
    volume.assert_clean();
    let mounted = volume.mount();
    assert!(std::fs::read(mounted.join("file-3")).unwrap() == pattern(3, 20 << 20));
    mounted.unmount();
}

/// The options by which a test's volume is opened as if on the machine called `name`.
fn machine(volume: &TestVolume, name: &str) -> Vec<String> {
    let dir = volume.scratch().join(name).display().to_string();
    vec!["--state-dir".into(), dir, "--lease".into(), "2s".into()]
}

fn on_machine(volume: &TestVolume, name: &str) -> MountOptions {
    machine(volume, name).iter().fold(MountOptions::default(), |options, arg| options.arg(arg))
}

/// Mounted on one machine after the other, the volume is the same everywhere, and nothing but the bucket goes along.
#[test]
fn a_volume_moves_from_machine_to_machine() {
    if native_only() {
        return;
    }
    for backing in [Backing::Local, Backing::S3] {
        let volume = TestVolume::new(backing);
        let mounted = volume.mount_with(&on_machine(&volume, "a"));
        fill(&mounted.path());
        let before = tree_digest(&mounted.path());
        let elsewhere = volume.command(&["fsck"]).arg(volume.url()).args(machine(&volume, "b")).fails();
        assert_eq!(elsewhere.status.code(), Some(4), "{elsewhere}");
        for part in [&mounted.path().display().to_string(), "is alive", "headrace umount"] {
            assert!(elsewhere.stderr.contains(part), "{part:?} is missing: {elsewhere}");
        }
        mounted.unmount();
        for name in ["b", "a", "c"] {
            let mounted = volume.mount_with(&on_machine(&volume, name));
            before.assert_same(&tree_digest(&mounted.path()));
            mounted.unmount();
            std::fs::remove_dir_all(volume.scratch().join(name)).unwrap();
        }
        volume.assert_clean();
    }
}

/// A killed machine: nobody takes its volume by accident; asked to, another one goes on with what was in the bucket.
#[test]
fn a_lost_machine_is_taken_over() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&on_machine(&volume, "a").arg("--durable").arg("bucket"));
    std::fs::write(mounted.join("kept"), b"acknowledged").unwrap();
    std::fs::File::open(mounted.join("kept")).unwrap().sync_all().unwrap();
    let status = volume.command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["log"]["durability"], "bucket", "{status}");
    assert_eq!(status["log"]["lag_transactions"], 0, "{status}");
    mounted.kill();
    mounted.abandon();
    std::fs::remove_dir_all(volume.scratch().join("a")).unwrap();
    let at = volume.mount_point();
    let mount = volume.command(&["mount"]).arg(volume.url()).arg(&at).args(machine(&volume, "b"));
    let refused = mount.fails();
    assert_eq!(refused.status.code(), Some(4), "{refused}");
    assert!(refused.stderr.contains("--takeover") && refused.stderr.contains("lost"), "{refused}");
    let mounted = volume.mount_with(&on_machine(&volume, "b").arg("--takeover"));
    assert_eq!(std::fs::read(mounted.join("kept")).unwrap(), b"acknowledged");
    mounted.unmount();
    volume.assert_clean();
}

/// Back to a moment: what came later is undone, for everybody; the rest goes on.
#[test]
fn the_past_comes_back() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    fill(&mounted.path());
    let before = tree_digest(&mounted.path());
    volume.command(&["flush"]).arg(mounted.path()).ok();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let at = humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string();
    std::thread::sleep(std::time::Duration::from_millis(100));
    shell(&mounted.path(), "rm text-5000000; echo spoiled > random-100; mkdir new").ok();
    let busy = volume.command(&["restore", "--yes", "--at", &at]).arg(volume.url()).fails();
    assert_eq!(busy.status.code(), Some(4), "{busy}");
    mounted.unmount();

    let asks = volume.command(&["restore", "--at", &at]).arg(volume.url()).fails();
    assert!(asks.stderr.contains("--yes"), "{asks}");
    let told = volume.command(&["restore", "--yes", "--json", "--at", &at]).arg(volume.url()).ok();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["undone"].as_u64().unwrap() > 0, "{told}");
    for name in ["elsewhere", "there"] {
        let mounted = volume.mount_with(&on_machine(&volume, name));
        before.assert_same(&tree_digest(&mounted.path()));
        mounted.unmount();
    }
    volume.assert_clean();
    let early =
        volume.command(&["restore", "--yes", "--at", "2001-01-01T00:00:00Z"]).arg(volume.url()).fails();
    assert!(early.stderr.contains("oldest"), "{early}");
}
