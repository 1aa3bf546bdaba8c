//! Volumes of other formats: compressed, encrypted, with small segments. What goes in comes out; what must not be
//! readable in the store is not.

use std::path::Path;

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, TestVolume, pattern, shell, tree_digest};

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
    volume.command(&["gc", "--dry-run", "--grace", "0s"]).arg(volume.url()).ok();
    assert!(stored_bytes(&volume) >= 80 << 20, "a dry run deleted something");
    volume.command(&["gc", "--grace", "0s"]).arg(volume.url()).ok();
    // Segments that are shared with the file that stays may stay with it.
    assert!(stored_bytes(&volume) < 60 << 20, "{} bytes are still stored", stored_bytes(&volume));
    volume.assert_clean();
    let mounted = volume.mount();
    assert!(std::fs::read(mounted.join("file-3")).unwrap() == pattern(3, 20 << 20));
    mounted.unmount();
}
