//! Mounting, unmounting, and what remains of a process that was killed.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use headrace_fuse::{MountError, Session, UnmountError, mount};
use headrace_testbed::process::install_program;

use crate::memory::MemFs;
use crate::support::{Mounted, Process, config, eventually, runtime};

#[test]
fn mounts_and_leaves_nothing() {
    let mounted = Mounted::new();
    let entry = mount::find(mounted.root()).unwrap();
    assert!(entry.is_headrace() && entry.source == "a test");
    assert_eq!(mount::containing(mounted.root()).unwrap().unwrap(), entry);
    mounted.session.unmount(false).unwrap();
    mounted.session.wait();
    assert!(mounted.session.ended());
    assert!(mount::find(mounted.root()).is_none());
    assert!(matches!(mounted.session.unmount(false), Err(UnmountError::NotMounted(_))));
}

#[test]
fn a_busy_mount_is_not_unmounted_but_can_be_detached() {
    let mounted = Mounted::new();
    fs::write(mounted.path("f"), b"still readable").unwrap();
    let mut file = File::open(mounted.path("f")).unwrap();
    assert!(matches!(mounted.session.unmount(false), Err(UnmountError::Busy(_))));
    mounted.session.unmount(true).unwrap();
    assert!(mount::find(mounted.root()).is_none() && !mounted.session.ended());
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still readable");
    drop(file);
    mounted.session.wait();
    assert!(mounted.session.ended());
}

#[test]
fn a_session_that_waits_is_ended_from_another_thread() {
    let mounted = Mounted::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| mounted.session.wait());
        assert!(!waiting.is_finished());
        mounted.session.unmount(false).unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn abort_frees_whoever_waits() {
    let mounted = Mounted::new();
    fs::write(mounted.path("hang.direct"), b"x").unwrap();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| fs::read(mounted.path("hang.direct")));
        eventually("the read arrives", || {
            mounted.fs.counts.reads.load(std::sync::atomic::Ordering::SeqCst) > 0
        });
        mounted.session.abort().unwrap();
        assert!(stuck.join().unwrap().is_err());
    });
    mounted.session.wait();
    // The mount point is freed all the same.
    mounted.session.unmount(true).unwrap();
    assert!(mount::find(mounted.root()).is_none());
}

#[test]
fn bad_mount_points_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let mount = |path: &Path| {
        Session::mount(MemFs::new(true), path, config(""), runtime.handle().clone()).map(drop).unwrap_err()
    };
    let missing = mount(&dir.path().join("missing"));
    assert!(matches!(missing, MountError::NotFound(_)) && missing.to_string().contains("missing"));
    fs::write(dir.path().join("file"), b"").unwrap();
    assert!(matches!(mount(&dir.path().join("file")), MountError::NotDirectory(_)));
    assert!(matches!(mount(&dir.path().join("file/below")), MountError::NotDirectory(_)));
}

#[test]
fn a_mount_point_in_use_names_what_is_there() {
    let mounted = Mounted::new();
    let error = Session::mount(MemFs::new(true), mounted.root(), config(""), runtime().handle().clone())
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, MountError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("a test") && error.to_string().contains("fuse.headrace"), "{error}");
    // By way of a symbolic link too.
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(mounted.root(), link.path().join("l")).unwrap();
    let error =
        Session::mount(MemFs::new(true), &link.path().join("l"), config(""), runtime().handle().clone());
    assert!(matches!(error.map(drop), Err(MountError::InUse { .. })));
}

#[test]
fn many_mounts_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime();
    for i in 0..20 {
        let session =
            Session::mount(MemFs::new(true), dir.path(), config(""), runtime.handle().clone()).unwrap();
        fs::write(dir.path().join("f"), [i]).unwrap();
        session.unmount(false).unwrap();
        session.wait();
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

const CHILD: &str = "HEADRACE_TEST_MOUNT_POINT";

/// Not a test of its own: the process that another test kills.
#[test]
#[ignore = "run by a_mount_whose_process_was_killed_is_replaced"]
fn serves_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let runtime = runtime();
    let fs = MemFs::new(true);
    let passing = std::sync::Arc::clone(&fs.passing);
    let session =
        Session::mount(fs, Path::new(&path), config("fsname=first"), runtime.handle().clone()).unwrap();
    eprintln!("passthrough: {:?}", passing.possible.lock().unwrap());
    eprintln!("mounted");
    // Closed standard input asks for an orderly end.
    if std::io::read_to_string(std::io::stdin()).is_ok() {
        session.unmount(false).unwrap();
    }
    session.wait();
}

/// This program again, serving a mount at `path`; and what it said.
fn serve(mut command: Command, path: &Path) -> (Process, Vec<String>) {
    let mut child = Process::spawn(
        command
            .args(["--ignored", "--exact", "--nocapture", "lifecycle::serves_until_killed"])
            .env(CHILD, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped()),
    );
    let mut said = Vec::new();
    for line in BufReader::new(child.0.stderr.take().unwrap()).lines() {
        said.push(line.unwrap());
        if said.last().is_some_and(|line| line == "mounted") {
            return (child, said);
        }
    }
    panic!("not mounted: {said:?}");
}

#[test]
fn an_ordinary_user_mounts_by_way_of_the_helper() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    // Where others may run it.
    let program = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let copy = program.path().join("kernel-tests");
    install_program(&std::env::current_exe().unwrap(), &copy);
    // Not every machine lets ordinary users open the device: in a mount namespace of its own, this one does.
    let script = r#"
        mount -t tmpfs -o dev none "$1" && mknod -m 666 "$1/fuse" c 10 229 && mount --bind "$1/fuse" /dev/fuse &&
        shift && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    "#;
    let devices = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(devices.path()).arg(&copy);
    let (mut child, said) = serve(command, dir.path());
    // Which takes a privilege that an ordinary user has not.
    let passthrough = said.iter().find(|line| line.starts_with("passthrough: "));
    assert!(
        passthrough.is_some_and(|line| line.contains("Err") && line.contains("CAP_SYS_ADMIN")),
        "{said:?}"
    );

    let process = Path::new("/proc").join(child.0.id().to_string());
    let table = fs::read_to_string(process.join("mountinfo")).unwrap();
    let line = table.lines().find(|line| line.contains(" - fuse.headrace first ")).unwrap();
    assert!(line.contains("nosuid") && line.contains("nodev") && line.contains("user_id=65534"), "{line}");
    // Not even root is let in without allow_other.
    let seen = process.join("root").join(dir.path().strip_prefix("/").unwrap());
    assert_eq!(fs::read_dir(seen).unwrap_err().raw_os_error(), Some(libc::EACCES));
    drop(child.0.stdin.take());
    assert!(child.finish().success());
}

#[test]
fn a_mount_whose_process_was_killed_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _) = serve(Command::new(std::env::current_exe().unwrap()), dir.path());
    fs::write(dir.path().join("f"), b"x").unwrap();
    child.signal(rustix::process::Signal::KILL);
    child.finish();
    // A ring is taken apart when its process is gone already.
    eventually("the mount is dead", || {
        let error = fs::read(dir.path().join("f")).unwrap_err().raw_os_error();
        assert!(matches!(error, Some(libc::ENOTCONN | libc::ECONNABORTED)), "{error:?}");
        error == Some(libc::ENOTCONN)
    });

    let runtime = runtime();
    let session =
        Session::mount(MemFs::new(true), dir.path(), config("fsname=second"), runtime.handle().clone())
            .unwrap();
    assert_eq!(mount::find(dir.path()).unwrap().source, "second");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    session.unmount(false).unwrap();
    session.wait();
    assert!(mount::find(dir.path()).is_none());
}

#[test]
fn one_worker_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let config = headrace_fuse::MountConfig { threads: Some(1), ..config("") };
    let session = Session::mount(MemFs::new(true), dir.path(), config, runtime.handle().clone()).unwrap();
    fs::write(dir.path().join("slow"), vec![5; 2 << 20]).unwrap();
    assert_eq!(fs::read(dir.path().join("slow")).unwrap().len(), 2 << 20);
    session.unmount(false).unwrap();
    session.wait();
}
