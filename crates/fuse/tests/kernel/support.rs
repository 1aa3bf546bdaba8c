//! A mount that goes away with its guard.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use headrace_fuse::mount::ParsedOptions;
use headrace_fuse::{MountConfig, RequestPath, Session};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::memory::MemFs;

/// Nothing in these tests takes nearly this long unless it is stuck.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub fn config(options: &str) -> MountConfig {
    let parsed = ParsedOptions::parse(options).unwrap();
    assert!(parsed.others.is_empty(), "{:?}", parsed.others);
    MountConfig { options: parsed.mount, io_uring: by_io_uring(), ..MountConfig::default() }
}

/// Whether all of this is to go by io_uring: `scripts/run-tests` runs these tests both ways.
pub fn by_io_uring() -> bool {
    std::env::var_os("HEADRACE_TEST_IO_URING").is_some()
}

/// A mounted [`MemFs`].
pub struct Mounted {
    pub session: Session,
    pub fs: MemFs,
    dir: TempDir,
    _runtime: Runtime,
}

impl Mounted {
    pub fn new() -> Self {
        Self::with(MemFs::new(true), "fsname=a test,allow_other")
    }

    pub fn with(fs: MemFs, options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Others than root are to reach it.
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let runtime = runtime();
        let session =
            Session::mount(fs.clone(), dir.path(), config(options), runtime.handle().clone()).unwrap();
        let path = if by_io_uring() { RequestPath::IoUring } else { RequestPath::Device };
        assert_eq!(*session.request_path(), path);
        Mounted { session, fs, dir, _runtime: runtime }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.unmount(false).is_err() {
            let _ = self.session.abort();
            let _ = self.session.unmount(true);
        }
        self.session.wait();
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that does not outlive the test.
pub struct Process(pub Child);

impl Process {
    pub fn spawn(command: &mut Command) -> Self {
        Process(command.spawn().unwrap())
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.0)
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub fn finish(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "a process did not end within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
