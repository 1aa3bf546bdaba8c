//! What goes wrong in practice: every message names what failed and on what, nothing hangs, panics, or leaks a secret.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Finished, MountOptions, Run, TestVolume, pattern, s3};

const LIMIT: Duration = Duration::from_secs(60);

/// Demands a failure that names all of `words`, from a program that neither panicked nor showed a secret.
#[track_caller]
fn refused(run: Run, words: &[&str]) -> Finished {
    let finished = run.limit(LIMIT).fails();
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for word in words {
        assert!(
            said.to_lowercase().contains(&word.to_lowercase()),
            "the message does not name {word:?}: {finished}"
        );
    }
    assert!(!said.contains("panicked"), "{finished}");
    assert!(!said.contains(s3::SECRET_KEY), "a secret is shown: {finished}");
    finished
}

#[test]
fn the_object_store_refuses() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mount = || volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
    let wrong = "wrong-secret-5b1e";
    let finished = refused(mount().env("AWS_SECRET_ACCESS_KEY", wrong), &["volumes"]);
    assert!(!finished.stderr.contains(wrong), "a secret is shown: {finished}");
    let said = finished.stderr.to_lowercase();
    assert!(
        ["denied", "credential", "signature", "permission", "refused"].iter().any(|word| said.contains(word)),
        "{finished}"
    );

    let missing = volume.command(&["format", "s3://no-such-bucket/vol"]);
    refused(missing, &["no-such-bucket"]);
    let missing = volume.command(&["mount", "s3://no-such-bucket/vol"]).arg(volume.mount_point());
    refused(missing, &["no-such-bucket"]);
}

#[test]
fn an_unreachable_endpoint_is_named_and_given_up() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let endpoint = format!("127.0.0.1:{}", s3::free_port());
    let started = Instant::now();
    let mount = volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
    refused(
        mount.env("AWS_ENDPOINT_URL", format!("http://{endpoint}")).env("HEADRACE_DEADLINE", "3s"),
        &[&endpoint],
    );
    assert!(started.elapsed() < Duration::from_secs(30), "it took {:?}", started.elapsed());
}

#[test]
fn mount_points_that_do_not_do() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mount = |at: &std::path::Path| volume.command(&["mount"]).arg(volume.url()).arg(at);
    let missing = volume.scratch().join("missing");
    refused(mount(&missing), &["missing"]);
    let file = volume.scratch().join("a-file");
    std::fs::write(&file, b"").unwrap();
    refused(mount(&file), &["a-file", "directory"]);

    let mounted = volume.mount();
    let other = TestVolume::new(Backing::Local);
    let taken = mounted.path();
    let second = other.command(&["mount"]).arg(other.url()).arg(&taken);
    refused(second, &[&taken.display().to_string()]);
    mounted.unmount();
    let gone = volume.command(&["umount"]).arg(volume.mount_point());
    refused(gone, &[&volume.mount_point().display().to_string()]);
}

#[test]
fn places_that_hold_no_volume_or_a_strange_one() {
    if native_only() {
        return;
    }
    let volume = TestVolume::unformatted(Backing::Local);
    let mount = || volume.command(&["mount"]).arg(volume.url()).arg(volume.mount_point());
    let objects = volume.objects_dir();
    let url = volume.url();
    refused(mount(), &[&url, "format"]);
    std::fs::create_dir_all(&objects).unwrap();
    std::fs::write(objects.join("something"), b"else").unwrap();
    refused(mount(), &[&url]);
    refused(volume.command(&["format"]).arg(&url), &[&url, "empty"]);
    std::fs::remove_file(objects.join("something")).unwrap();

    volume.command(&["format"]).arg(&url).ok();
    let superblock = objects.join("headrace.json");
    let good = std::fs::read_to_string(&superblock).unwrap();
    let json: serde_json::Value = serde_json::from_str(&good).unwrap();
    let version = json["version"].as_u64().expect("a version number");
    let newer = good.replacen(&format!("\"version\": {version}"), "\"version\": 999", 1);
    assert_ne!(newer, good);
    for (content, words) in [
        (newer.as_bytes(), &["999", "newer"][..]),
        (&b"{ \"hello\": 1 }"[..], &[&*url]),
        (&good.as_bytes()[..good.len() / 2], &[&*url]),
        (&b"\x00\xff\xfe"[..], &[&*url]),
        (&b""[..], &[&*url]),
        (good.replacen("\"name\": \"", "\"name\": \"X", 1).as_bytes(), &["corrupt"][..]),
    ] {
        std::fs::write(&superblock, content).unwrap();
        refused(mount(), words);
        refused(volume.command(&["fsck"]).arg(&url), words);
    }
    std::fs::write(&superblock, &good).unwrap();
    volume.mount().unmount();
}

#[test]
fn wrong_words_on_the_command_line() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let at = volume.mount_point();
    let mount = |options: &str| volume.command(&["mount", "-o", options]).arg(volume.url()).arg(&at);
    refused(mount("no_such_option"), &["no_such_option"]);
    refused(mount("memory=lots"), &["lots"]);
    refused(volume.command(&["format", "ftp://host/x"]), &["ftp"]);
    refused(volume.command(&["format", "/tmp/never", "--compression", "rar"]), &["rar"]);
    refused(volume.command(&["format", "/tmp/never", "--segment-size", "1G"]), &["segment"]);
    refused(volume.command(&["frobnicate"]), &["frobnicate"]);
    refused(volume.command(&["info", "/proc/self/status"]), &["/proc/self/status"]);
    assert!(!std::path::Path::new("/tmp/never").exists());
}

#[test]
fn hostile_names_are_names_like_any_other() {
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    let longest = vec![b'n'; 255];
    let names: [&[u8]; 10] = [
        b"new\nline",
        b"tab\tquote\"'",
        b"\xff\xfe\x80",
        b"-rf",
        b"  ",
        b"back\\slash",
        b"\x01\x7f\x1b[31m",
        "é☃😀".as_bytes(),
        b"...",
        &longest,
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        std::fs::write(mounted.join(name), name.as_bytes()).unwrap();
        let dir = [b"d-", &name.as_bytes()[..name.len().min(250)]].concat();
        std::fs::create_dir(mounted.join(OsStr::from_bytes(&dir))).unwrap();
    }
    let too_long = std::fs::write(mounted.join("n".repeat(256)), b"").unwrap_err();
    assert_eq!(too_long.raw_os_error(), Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()));
    let mounted = mounted.remount();
    let listed: HashSet<_> =
        std::fs::read_dir(mounted.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| listed.contains(OsStr::from_bytes(name))), "{listed:?}");
    for name in names {
        assert_eq!(std::fs::read(mounted.join(OsStr::from_bytes(name))).unwrap(), name);
        if !native_only() {
            let shown = volume.command(&["info"]).arg(mounted.join(OsStr::from_bytes(name))).ok();
            assert!(!shown.contains('\x1b'), "an escape sequence reaches the terminal: {shown:?}");
        }
    }
    mounted.unmount();
    volume.assert_clean();
}

#[test]
fn a_flipped_bit_in_the_store_is_an_error_never_data() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = volume.mount();
    std::fs::write(mounted.join("damaged"), pattern(1, 1 << 20)).unwrap();
    mounted.unmount();
    volume.assert_clean();
    let segments = volume.segment_files();
    assert!(!segments.is_empty());
    for segment in &segments {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(segment).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 300_000).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], 300_000).unwrap();
    }
    let mounted = volume.mount();
    let error = std::fs::read(mounted.join("damaged")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
    // What is not damaged can still be read.
    let file = std::fs::File::open(mounted.join("damaged")).unwrap();
    let mut first = vec![0; 4096];
    file.read_exact_at(&mut first, 0).unwrap();
    assert!(first == pattern(1, 1 << 20)[..4096]);
    drop(file);
    let log = volume.log();
    let id = segments[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(log.contains(&id), "the log does not name segment {id}:\n{log}");
    mounted.unmount();

    let finished = volume.command(&["fsck", "--data"]).arg(volume.url()).fails();
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(format!("{}{}", finished.stdout, finished.stderr).contains(&id), "{finished}");
    let finished = volume.command(&["fsck", "--data", "--json"]).arg(volume.url()).fails();
    serde_json::from_str::<serde_json::Value>(&finished.stdout)
        .unwrap_or_else(|error| panic!("{error}: {finished}"));

    // A segment that is gone altogether is found even without reading data.
    std::fs::remove_file(&segments[0]).unwrap();
    let finished = volume.command(&["fsck"]).arg(volume.url()).fails();
    assert_eq!(finished.status.code(), Some(3), "{finished}");
}

#[test]
fn secrets_are_shown_nowhere() {
    if native_only() {
        return;
    }
    let volume = TestVolume::with_format_and_env(Backing::S3, &[], &[("HEADRACE_LOG", "trace")]);
    let mounted = volume.mount_with(&MountOptions::default());
    std::fs::write(mounted.join("file"), pattern(1, 1 << 20)).unwrap();
    let pid = mounted.daemon().as_raw_nonzero();
    let mut shown = vec![("the command line", std::fs::read(format!("/proc/{pid}/cmdline")).unwrap())];
    for (what, args) in
        [("status", &["status"][..]), ("status --json", &["status", "--json"]), ("info", &["info", "--json"])]
    {
        let path = if what == "info" { mounted.join("file") } else { mounted.path() };
        shown.push((what, volume.command(args).arg(path).ok().into_bytes()));
    }
    let mounted = mounted.remount();
    assert!(std::fs::read(mounted.join("file")).unwrap() == pattern(1, 1 << 20));
    mounted.unmount();
    let log = volume.log();
    assert!(!log.is_empty(), "nothing was logged");
    shown.push(("the log", log.into_bytes()));
    for file in volume.object_files() {
        shown.push(("an object", std::fs::read(file).unwrap()));
    }
    for (what, bytes) in shown {
        let text = String::from_utf8_lossy(&bytes);
        let found = text.lines().find(|line| line.contains(s3::SECRET_KEY));
        assert_eq!(found, None, "the secret key is in {what}");
    }
}
