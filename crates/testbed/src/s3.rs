//! A real S3 server: versitygw on its posix backend.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::process;

/// Access key that the server accepts.
pub const ACCESS_KEY: &str = "headrace-test-access";
/// Secret key that the server accepts. Distinctive, so that tests can look for it where it must not be.
pub const SECRET_KEY: &str = "headrace-test-secret-8c1f2e";

/// A running server with one bucket; stopped, and its data removed, on drop.
#[derive(Debug)]
pub struct S3Server {
    child: Mutex<Child>,
    dir: tempfile::TempDir,
    port: u16,
    bucket: String,
}

impl S3Server {
    /// Starts a server on a free port of the loopback interface, with the bucket `volumes`.
    ///
    /// # Panics
    /// When versitygw is not installed or does not come up.
    pub fn start() -> S3Server {
        S3Server::start_in(&std::env::temp_dir())
    }

    /// As [`Self::start`], with the data in a new directory below `parent`.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_in(parent: &Path) -> S3Server {
        let dir =
            tempfile::Builder::new().prefix("headrace-s3-").tempdir_in(parent).expect("temporary directory");
        let bucket = String::from("volumes");
        std::fs::create_dir_all(dir.path().join("data").join(&bucket)).expect("bucket directory");
        // Another process may take the port between here and the server's bind: then the next try gets another one.
        for _ in 0..5 {
            let port = free_port();
            let mut child = spawn(dir.path(), port);
            let up = process::wait_until(Duration::from_secs(20), || {
                match child.try_wait().expect("waiting for versitygw") {
                    Some(_) => Some(false),
                    None => TcpStream::connect(("127.0.0.1", port)).ok().map(|_| true),
                }
            });
            match up {
                Some(true) => return S3Server { child: Mutex::new(child), dir, port, bucket },
                Some(false) => continue,
                None => process::kill_group(&mut child),
            }
        }
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        panic!("versitygw did not start:\n{log}");
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The directory in which the bucket's objects are files.
    pub fn bucket_dir(&self) -> PathBuf {
        self.dir.path().join("data").join(&self.bucket)
    }

    /// The environment a client needs.
    pub fn client_env(&self) -> Vec<(OsString, OsString)> {
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_string()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_string()),
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_REGION", "us-east-1".to_string()),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
    }

    /// The server's process id, until it is killed.
    pub fn process_id(&self) -> u32 {
        self.child().id()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Kills the server as a crash would; the data stays until drop.
    pub fn kill(&self) {
        process::kill_group(&mut self.child());
    }

    /// Starts a killed server again, at the same address and on the same data. It ends with the thread that calls this.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart(&self) {
        let mut child = self.child();
        process::kill_group(&mut child);
        // The old process's connections may keep the port busy for a moment.
        let up = process::wait_until(Duration::from_secs(60), || {
            *child = spawn(self.dir.path(), self.port);
            let up = process::wait_until(Duration::from_secs(30), || match child.try_wait() {
                Ok(None) => TcpStream::connect(self.address()).ok().map(|_| true),
                _ => Some(false),
            });
            if up != Some(true) {
                process::kill_group(&mut child);
            }
            up.filter(|up| *up)
        });
        let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        assert!(up.is_some(), "versitygw did not start again ({:?}):\n{}", child.try_wait(), log());
    }

    /// Makes the server stand still, with all its connections.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Makes it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let server = Pid::from_raw(self.child().id().cast_signed()).expect("a process id");
        rustix::process::kill_process_group(server, signal).expect("signalling the server");
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        process::kill_group(&mut self.child());
    }
}

fn spawn(dir: &Path, port: u16) -> Child {
    let log = std::fs::File::create(dir.join("log")).expect("log file");
    // setpriv makes the server die with the thread that started it: a test that is killed leaves none behind.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(crate::tool("versitygw"))
        .args(["--port", &format!("127.0.0.1:{port}"), "--region", "us-east-1", "posix"])
        .arg(dir.join("data"))
        .env("ROOT_ACCESS_KEY", ACCESS_KEY)
        .env("ROOT_SECRET_KEY", SECRET_KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone().expect("dup of a file")))
        .stderr(Stdio::from(log))
        .process_group(0)
        .spawn()
        .expect("starting versitygw through setpriv")
}

/// A port of the loopback interface on which nothing listens just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("binding a port of the loopback interface");
    listener.local_addr().expect("address of a bound socket").port()
}
