//! The server for benchmarks: nginx sends objects by sendfile from the files that versitygw keeps, and versitygw does the
//! rest. It takes a fifth of the processor time that versitygw alone takes for a GET, so that what is measured is
//! the client.
//!
//! It is a real server, with shortcuts that a benchmark can live with: GETs are not authenticated, and their answers do
//! not carry the metadata that a client stored with an object (HEADs do).

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{S3Server, binary, process, s3};

/// Where distributions put nginx's modules.
const MODULES: [&str; 3] = ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"];

/// nginx in front of a versitygw; both end, and the data goes, on drop.
#[derive(Debug)]
pub struct HybridServer {
    nginx: Child,
    port: u16,
    /// Removed after nginx has ended and before versitygw does.
    _run: tempfile::TempDir,
    gateway: S3Server,
}

impl HybridServer {
    /// Starts both, with one bucket, and keeps the objects in a new directory below `dir`, whose file system must have user
    /// extended attributes. Both end with the thread that calls this.
    ///
    /// # Errors
    /// When nginx or its Lua module is not installed, or nginx does not come up: the error says what to do.
    ///
    /// # Panics
    /// When versitygw is not installed or does not come up.
    pub fn start(dir: &Path) -> io::Result<HybridServer> {
        let nginx = binary::find_tool("nginx").ok_or_else(|| missing("nginx"))?;
        let wanted = ["ndk_http_module.so", "ngx_http_lua_module.so"];
        let modules =
            MODULES.map(Path::new).into_iter().find(|dir| wanted.iter().all(|name| dir.join(name).is_file()));
        let modules = modules.ok_or_else(|| missing("nginx's Lua module"))?;
        let gateway = S3Server::start_in(dir);
        let run = tempfile::Builder::new().prefix("headrace-nginx-").tempdir()?;
        // Another process may take the port between here and nginx's bind: then the next try gets another one.
        for _ in 0..5 {
            let port = s3::free_port();
            let config = config(modules, run.path(), &gateway, port);
            std::fs::write(run.path().join("nginx.conf"), config)?;
            let mut child = spawn(&nginx, run.path())?;
            let up = process::wait_until(Duration::from_secs(20), || match child.try_wait() {
                Ok(None) => TcpStream::connect(("127.0.0.1", port)).ok().map(|_| true),
                _ => Some(false),
            });
            match up {
                Some(true) => return Ok(HybridServer { nginx: child, port, _run: run, gateway }),
                Some(false) => continue,
                None => process::kill_group(&mut child),
            }
        }
        let log = |name: &str| std::fs::read_to_string(run.path().join(name)).unwrap_or_default();
        Err(io::Error::other(format!("nginx did not start:\n{}{}", log("output"), log("nginx.log"))))
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The versitygw behind: its bucket, its directory, and the environment a client needs, except for the endpoint.
    pub fn gateway(&self) -> &S3Server {
        &self.gateway
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        self.gateway.bucket()
    }

    /// The directory in which the bucket's objects are files.
    pub fn bucket_dir(&self) -> PathBuf {
        self.gateway.bucket_dir()
    }

    /// The process ids of nginx and versitygw, for accounts of processor time.
    pub fn process_ids(&self) -> [u32; 2] {
        [self.nginx.id(), self.gateway.process_id()]
    }
}

impl Drop for HybridServer {
    fn drop(&mut self) {
        process::kill_group(&mut self.nginx);
    }
}

fn missing(what: &str) -> io::Error {
    let advice =
        "run scripts/install-test-tools bench, or install the packages nginx-light and libnginx-mod-http-lua";
    io::Error::new(io::ErrorKind::NotFound, format!("{what} is not installed: {advice}"))
}

fn config(modules: &Path, run: &Path, gateway: &S3Server, port: u16) -> String {
    let data = gateway.bucket_dir();
    let data = data.parent().unwrap_or(&data);
    include_str!("hybrid/nginx.conf")
        .replace("@MODULES@", &modules.display().to_string())
        .replace("@RUN@", &run.display().to_string())
        .replace("@DATA@", &data.display().to_string())
        .replace("@UPSTREAM@", &gateway.address().port().to_string())
        .replace("@PORT@", &port.to_string())
}

fn spawn(nginx: &Path, run: &Path) -> io::Result<Child> {
    let output = std::fs::File::create(run.join("output"))?;
    // As for versitygw: it dies with the thread that started it.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(nginx)
        .arg("-p")
        .arg(run)
        .arg("-e")
        .arg(run.join("nginx.log"))
        .arg("-c")
        .arg(run.join("nginx.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output))
        .process_group(0)
        .spawn()
}
