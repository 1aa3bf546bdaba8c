//! A real S3 server for tests.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headrace_store::{Environment, ObjectStore, StoreError, StoreOptions, open_with_environment};

pub const KEY_ID: &str = "test";
pub const SECRET: &str = "testtesttest";

/// A running versitygw; it ends with this value.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Server {
    /// Starts a server with one bucket, `bucket`.
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    /// The same with further arguments.
    pub fn start_with(arguments: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("bucket")).expect("a bucket");
        // The port may be taken between finding it and using it.
        for _ in 0..5 {
            let address = free_address();
            let mut process = Command::new(binary())
                .args(["--port", &address.to_string(), "--quiet"])
                .args(arguments)
                .arg("posix")
                .arg(directory.path())
                .env_clear()
                .env("ROOT_ACCESS_KEY", KEY_ID)
                .env("ROOT_SECRET_KEY", SECRET)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("versitygw starts");
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(20) {
                if TcpStream::connect(address).is_ok() {
                    return Server { process, address, directory };
                }
                if process.try_wait().expect("a child can be asked").is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!(
            "versitygw does not answer; does the file system of {} have extended attributes?",
            directory.path().display()
        );
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where the server keeps the objects of the bucket.
    pub fn bucket(&self) -> PathBuf {
        self.directory.path().join("bucket")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(home) = std::env::var_os("HOME") {
        places.push(Path::new(&home).join("go/bin"));
    }
    let found = places.into_iter().map(|place| place.join("versitygw")).find(|file| file.is_file());
    found.expect("versitygw is not installed: `make test` installs it (or put its binary on PATH)")
}

/// A loopback address on which nobody listens.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address")
}

/// Options with the right keys and short limits.
pub fn options(endpoint: &str) -> StoreOptions {
    StoreOptions {
        endpoint: Some(endpoint.to_owned()),
        access_key_id: Some(KEY_ID.to_owned()),
        secret_access_key: Some(SECRET.into()),
        ..StoreOptions::default()
    }
}

/// Opens `url` with nothing from the environment of the test.
pub fn open_plain(url: &str, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>, StoreError> {
    open_with_environment(&url.parse()?, options, &Environment::default())
}
