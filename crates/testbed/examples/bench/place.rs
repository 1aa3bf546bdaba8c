//! Where the work is done: a directory of the native file system, a Headrace mount, a JuiceFS mount.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use headrace_testbed::binary::find_tool;
use headrace_testbed::{Backing, Mounted, Run, S3Server, TestVolume, s3, tool};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Native,
    HeadraceLocal,
    HeadraceS3,
    JuiceFs,
    JuiceFsS3,
}

const NAMES: [(Kind, &str); 5] = [
    (Kind::Native, "native"),
    (Kind::HeadraceLocal, "headrace-local"),
    (Kind::HeadraceS3, "headrace-s3"),
    (Kind::JuiceFs, "juicefs"),
    (Kind::JuiceFsS3, "juicefs-s3"),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(kind, _)| kind == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        NAMES
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(kind, _)| *kind)
            .ok_or(format!("unknown target {text:?}"))
    }
}

impl Kind {
    /// The tool it needs that is not installed.
    pub fn missing(self) -> Option<&'static str> {
        let needs: &[&str] = match self {
            Kind::Native | Kind::HeadraceLocal => &[],
            Kind::HeadraceS3 => &["versitygw"],
            Kind::JuiceFs => &["juicefs"],
            Kind::JuiceFsS3 => &["juicefs", "versitygw"],
        };
        needs.iter().find(|name| find_tool(name).is_none()).copied()
    }
}

/// A directory to work in.
pub trait Place {
    /// The directory.
    fn path(&self) -> PathBuf;
    /// Makes the next access cold: everything is written out, caches of the program and of the kernel are dropped.
    fn cold(&mut self);
}

/// Sets a fresh place up, works in it, and takes it down.
pub fn with(kind: Kind, body: &mut dyn FnMut(&mut dyn Place)) {
    match kind {
        Kind::Native => {
            let dir = tempfile::tempdir().expect("temporary directory");
            body(&mut Native(dir.path().to_path_buf()));
        }
        Kind::HeadraceLocal | Kind::HeadraceS3 => {
            let backing = if kind == Kind::HeadraceS3 { Backing::S3 } else { Backing::Local };
            let volume = TestVolume::new(backing);
            let mut place = Headrace(Some(volume.mount()));
            body(&mut place);
        }
        Kind::JuiceFs | Kind::JuiceFsS3 => body(&mut JuiceFs::start(kind == Kind::JuiceFsS3)),
    }
}

struct Native(PathBuf);

impl Place for Native {
    fn path(&self) -> PathBuf {
        self.0.clone()
    }

    fn cold(&mut self) {
        drop_caches();
    }
}

struct Headrace<'v>(Option<Mounted<'v>>);

impl Place for Headrace<'_> {
    fn path(&self) -> PathBuf {
        self.0.as_ref().expect("mounted between calls").path()
    }

    fn cold(&mut self) {
        self.0 = self.0.take().map(Mounted::remount);
        drop_caches();
    }
}

/// At its defaults, with sqlite for the metadata. What it caches and logs stays in a directory of its own.
struct JuiceFs {
    dir: tempfile::TempDir,
    // Keeps the server running.
    _server: Option<S3Server>,
}

impl JuiceFs {
    fn start(on_s3: bool) -> JuiceFs {
        let dir = tempfile::Builder::new().prefix("juicefs-").tempdir().expect("temporary directory");
        for name in ["mnt", "store", "cache"] {
            std::fs::create_dir(dir.path().join(name)).expect("directory");
        }
        let server = on_s3.then(S3Server::start);
        let mut format = Run::new(tool("juicefs")).arg("format").arg("--no-update");
        format = match &server {
            Some(server) => format
                .args([
                    "--storage",
                    "minio",
                    "--bucket",
                    &format!("{}/{}", server.endpoint(), server.bucket()),
                ])
                .args(["--access-key", s3::ACCESS_KEY, "--secret-key", s3::SECRET_KEY]),
            None => {
                format.args(["--storage", "file", "--bucket"]).arg(format!("{}/store/", dir.path().display()))
            }
        };
        let juice = JuiceFs { dir, _server: server };
        format.arg(juice.meta()).arg("bench").env_remove("AWS_CA_BUNDLE").ok();
        juice.mount();
        juice
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn meta(&self) -> String {
        format!("sqlite3://{}", self.at("meta.db").display())
    }

    fn mount(&self) {
        Run::new(tool("juicefs"))
            .args(["mount", "-d", "--no-usage-report", "--cache-dir"])
            .arg(self.at("cache"))
            .arg("--log")
            .arg(self.at("log"))
            .arg(self.meta())
            .arg(self.at("mnt"))
            .env_remove("AWS_CA_BUNDLE")
            .ok();
    }

    fn unmount(&self) {
        Run::new(tool("juicefs")).args(["umount", "--flush"]).arg(self.at("mnt")).ok();
    }
}

impl Place for JuiceFs {
    fn path(&self) -> PathBuf {
        self.at("mnt")
    }

    fn cold(&mut self) {
        self.unmount();
        let cache = self.at("cache");
        std::fs::remove_dir_all(&cache)
            .and_then(|()| std::fs::create_dir(&cache))
            .expect("emptying the cache");
        self.mount();
        drop_caches();
    }
}

impl Drop for JuiceFs {
    fn drop(&mut self) {
        let at = self.at("mnt");
        let finished = Run::new(tool("juicefs")).args(["umount", "--force"]).arg(&at).finish();
        if !finished.status.success() {
            eprintln!("{finished}");
        }
    }
}

fn drop_caches() {
    rustix::fs::sync();
    let control = Path::new("/proc/sys/vm/drop_caches");
    if let Err(error) = std::fs::write(control, "3") {
        panic!("{}: {error}: cold figures need root", control.display());
    }
}
