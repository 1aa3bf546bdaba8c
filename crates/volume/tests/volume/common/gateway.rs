//! A real S3 server for one test.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headrace_store::StoreOptions;

const ACCESS: &str = "test";
const SECRET: &str = "testtesttest";

/// versitygw over a directory; killed when dropped.
pub struct Gateway {
    process: Child,
    address: SocketAddr,
}

impl Gateway {
    /// Starts the server over `dir`, with one empty bucket named `bucket`.
    pub fn start(dir: &Path) -> Gateway {
        std::fs::create_dir_all(dir.join("bucket")).unwrap();
        let binary = binary();
        // Another process may take the port between the choice and the start.
        for _ in 0..5 {
            let address = free_address();
            let process = Command::new(&binary)
                .args(["--quiet", "--port", &address.to_string(), "posix"])
                .arg(dir)
                .env("ROOT_ACCESS_KEY", ACCESS)
                .env("ROOT_SECRET_KEY", SECRET)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|e| panic!("cannot start {}: {e}", binary.display()));
            let mut gateway = Gateway { process, address };
            if gateway.is_up() {
                return gateway;
            }
        }
        panic!("versitygw does not answer");
    }

    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            endpoint: Some(format!("http://{}", self.address)),
            region: Some("us-east-1".into()),
            access_key_id: Some(ACCESS.into()),
            secret_access_key: Some(SECRET.into()),
            ..StoreOptions::default()
        }
    }

    fn is_up(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address that nobody listens on.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The server's binary: on PATH, or where `go install` puts it.
fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    let go = std::env::var_os("GOPATH").map(|go| PathBuf::from(go).join("bin"));
    std::env::split_paths(&path)
        .chain(home)
        .chain(go)
        .map(|dir| dir.join("versitygw"))
        .find(|file| file.is_file())
        .expect(
            "versitygw, the S3 server of the tests, is not installed: \
             run `go install github.com/versity/versitygw/cmd/versitygw@latest`",
        )
}
