//! Who may do what, and what becomes of setuid bits. `nobody` writes through `setpriv`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use headrace_testbed::process::install_program;

use crate::memory::MemFs;
use crate::support::Mounted;

const NOBODY: &str = "65534";

fn run_as_nobody(script: &str, path: &Path) -> Output {
    Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "sh", "-c", script, "sh"])
        .arg(path)
        .output()
        .unwrap()
}

fn as_nobody(script: &str, path: &Path) -> bool {
    run_as_nobody(script, path).status.success()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn file(mounted: &Mounted, name: &str, bits: u32) -> std::path::PathBuf {
    let path = mounted.path(name);
    fs::write(&path, b"#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
    path
}

#[test]
fn a_writer_without_privilege_clears_setuid_and_setgid() {
    let mounted = Mounted::new();
    for (script, name) in [
        ("echo x >> \"$1\"", "append"),
        ("echo x > \"$1\"", "truncate"),
        ("truncate -s 3 \"$1\"", "shorten"),
        ("dd if=/dev/zero of=\"$1\" bs=1M count=2 conv=notrunc", "large"),
        ("fallocate -l 100000 \"$1\"", "allocate"),
    ] {
        for (before, after) in [(0o6777, 0o777), (0o2767, 0o2767)] {
            let path = file(&mounted, &format!("{name}-{before:o}"), before);
            assert_eq!(mode(&path), before);
            assert!(as_nobody(script, &path), "{name}");
            // Without group execution the setgid bit means something else and stays.
            assert_eq!(mode(&path), after, "{name} {before:o}");
        }
    }
    assert!(mounted.fs.counts.killing_writes.load(Ordering::Relaxed) > 0);
}

#[test]
fn an_executable_that_was_written_to_runs_without_its_former_privilege() {
    let mounted = Mounted::new();
    let path = mounted.path("id");
    install_program("/usr/bin/id".as_ref(), &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4777)).unwrap();
    // The mode is cached for a day; nothing asks for attributes between the write and the execution.
    assert_eq!(mode(&path), 0o4777);
    let id = |script| {
        let output = run_as_nobody(script, &path);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(id("\"$1\" -u"), "0");
    // The first byte of an ELF file, written over itself.
    assert_eq!(id("printf '\\177' | dd of=\"$1\" bs=1 conv=notrunc 2>/dev/null; \"$1\" -u"), NOBODY);
    assert_eq!(mode(&path), 0o777);
}

#[test]
fn root_keeps_setuid_and_a_new_owner_does_not() {
    let mounted = Mounted::new();
    let path = file(&mounted, "f", 0o6755);
    let file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &file, b"x").unwrap();
    file.set_len(1).unwrap();
    assert_eq!(mode(&path), 0o6755);
    std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    assert_eq!(mode(&path), 0o755);
    assert_eq!(fs::metadata(&path).unwrap().uid(), 1);
}

#[test]
fn the_kernel_checks_permissions() {
    let mounted = Mounted::new();
    let secret = file(&mounted, "secret", 0o600);
    let open = file(&mounted, "open", 0o644);
    assert!(!as_nobody("cat \"$1\"", &secret));
    assert!(as_nobody("cat \"$1\" && ! echo x >> \"$1\"", &open));
    assert!(!as_nobody("mkdir \"$1\"/d", mounted.root()));
    fs::set_permissions(mounted.root(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(as_nobody("umask 027; mkdir \"$1\"/d && echo x > \"$1\"/d/f", mounted.root()));
    let made = fs::metadata(mounted.path("d/f")).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (65534, 65534, 0o640));
    assert_eq!(mode(&mounted.path("d")), 0o750);
}

#[test]
fn others_are_kept_out_unless_allowed() {
    let mounted = Mounted::with(MemFs::new(true), "");
    fs::write(mounted.path("f"), b"x").unwrap();
    assert!(!as_nobody("cat \"$1\"", &mounted.path("f")));
}

#[test]
fn options_of_the_mount_hold() {
    let mounted = Mounted::with(MemFs::new(true), "ro,noexec,nosuid,nodev,allow_other,fsname=x y");
    assert_eq!(fs::write(mounted.path("f"), b"").unwrap_err().raw_os_error(), Some(libc::EROFS));
    let entry = headrace_fuse::mount::find(mounted.root()).unwrap();
    assert_eq!((entry.source.to_str(), entry.fs_type.as_str()), (Some("x y"), "fuse.headrace"));
    for option in ["ro", "noexec", "nosuid", "nodev"] {
        assert!(entry.options.split(',').any(|one| one == option), "{}", entry.options);
    }
}
