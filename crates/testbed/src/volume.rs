//! Volumes to test on: in a local directory, in an S3 bucket, or none at all (the native file system).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{MountOptions, Mounted, Run, S3Server};

/// What holds the volume's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A local directory.
    Local,
    /// A bucket of a real S3 server.
    S3,
    /// No volume: a plain directory of the machine's own file system. Checks the tests themselves.
    Native,
}

impl Backing {
    /// The backing to use where a test asks for `self`: `HEADRACE_TEST_TARGET=native` makes it [`Backing::Native`].
    pub fn from_env(self) -> Backing {
        match std::env::var("HEADRACE_TEST_TARGET").as_deref() {
            Ok("native") => Backing::Native,
            Ok(other) if !other.is_empty() => {
                panic!("HEADRACE_TEST_TARGET={other:?}: only `native` is known")
            }
            _ => self,
        }
    }
}

/// True when the tests run against the native file system: those about the program itself then have nothing to test,
/// and say so.
pub fn native_only() -> bool {
    let native = Backing::Local.from_env() == Backing::Native;
    if native {
        println!("not applicable to the native file system");
    }
    native
}

/// A formatted volume with its own temporary directories; removed on drop.
#[derive(Debug)]
pub struct TestVolume {
    backing: Backing,
    server: Option<S3Server>,
    dir: tempfile::TempDir,
    extra_env: Vec<(OsString, OsString)>,
}

impl TestVolume {
    /// A new volume with default choices.
    pub fn new(backing: Backing) -> TestVolume {
        TestVolume::with_format(backing, &[])
    }

    /// A new volume, formatted with extra arguments.
    pub fn with_format(backing: Backing, format_args: &[&str]) -> TestVolume {
        TestVolume::with_format_and_env(backing, format_args, &[])
    }

    /// A new volume, formatted with extra arguments; `env` is set for this and every later command on it.
    pub fn with_format_and_env(backing: Backing, format_args: &[&str], env: &[(&str, &str)]) -> TestVolume {
        let mut volume = TestVolume::unformatted(backing);
        volume.extra_env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if volume.backing != Backing::Native {
            volume.command(&["format"]).arg(volume.url()).args(format_args).ok();
        }
        volume
    }

    /// Directories and server only; nothing is formatted.
    pub fn unformatted(backing: Backing) -> TestVolume {
        let backing = backing.from_env();
        let dir = tempfile::Builder::new().prefix("headrace-test-").tempdir().expect("temporary directory");
        for name in ["store", "mnt", "scratch"] {
            std::fs::create_dir(dir.path().join(name)).expect("directory for a test");
        }
        // Tests with other users pass through here.
        for path in [dir.path().to_path_buf(), dir.path().join("mnt")] {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .expect("chmod");
        }
        let server = (backing == Backing::S3).then(S3Server::start);
        TestVolume { backing, server, dir, extra_env: Vec::new() }
    }

    /// What holds the data.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The URL given to the program.
    pub fn url(&self) -> String {
        match &self.server {
            Some(server) => format!("s3://{}/vol", server.bucket()),
            None => self.dir.path().join("store/vol").display().to_string(),
        }
    }

    /// The directory in which the volume's objects are files, whatever the backing.
    pub fn objects_dir(&self) -> PathBuf {
        match &self.server {
            Some(server) => server.bucket_dir().join("vol"),
            None => self.dir.path().join("store/vol"),
        }
    }

    /// The mount point (or, on the native file system, the plain directory).
    pub fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// A directory outside of the mount for a test's own files.
    pub fn scratch(&self) -> PathBuf {
        self.dir.path().join("scratch")
    }

    /// Where the daemon writes its log.
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("daemon.log")
    }

    /// The daemon's log so far.
    pub fn log(&self) -> String {
        std::fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The S3 server behind the volume, if there is one.
    pub fn server(&mut self) -> Option<&mut S3Server> {
        self.server.as_mut()
    }

    /// The same, for a volume that is mounted.
    pub fn s3(&self) -> Option<&S3Server> {
        self.server.as_ref()
    }

    /// The environment of every command on this volume: credentials, and state kept inside the test's directory.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let mut vars = self.server.as_ref().map(S3Server::client_env).unwrap_or_default();
        vars.push(("HEADRACE_STATE_DIR".into(), self.dir.path().join("state").into()));
        vars.push(("HEADRACE_RUNTIME_DIR".into(), self.dir.path().join("run").into()));
        if self.server.is_some() {
            // Only what is far away is cached without being asked for.
            vars.push(("HEADRACE_CACHE_DIR".into(), self.cache_dir().into()));
            // However full the machine is.
            vars.push(("HEADRACE_CACHE_FREE".into(), "64M".into()));
        }
        vars.extend(self.extra_env.iter().cloned());
        vars
    }

    fn cache_dir(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Forgets what is cached where nothing else is said: what is written is cached too, and tests are to read what is stored.
    pub(crate) fn empty_cache(&self) {
        match std::fs::remove_dir_all(self.cache_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("emptying the cache: {error}")
            }
            _ => {}
        }
    }

    /// A command of the program on this volume; `--state-dir` and credentials come through the environment.
    pub fn command(&self, args: &[&str]) -> Run {
        Run::new(crate::headrace()).args(args).envs(&self.env())
    }

    /// Mounts with default options.
    pub fn mount(&self) -> Mounted<'_> {
        self.mount_with(&MountOptions::default())
    }

    /// Mounts.
    ///
    /// # Panics
    /// When the mount fails; the daemon's log is part of the message.
    pub fn mount_with(&self, options: &MountOptions) -> Mounted<'_> {
        Mounted::new(self, options)
    }

    /// `fsck --data`, which must find nothing wrong. The volume must not be mounted.
    pub fn assert_clean(&self) {
        if self.backing != Backing::Native {
            self.command(&["fsck"]).arg(self.url()).arg("--data").ok();
        }
    }

    /// Every object of the volume as a file, with its path.
    pub fn object_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect_files(&self.objects_dir(), &mut files);
        files.sort();
        files
    }

    /// The segment objects only.
    pub fn segment_files(&self) -> Vec<PathBuf> {
        self.object_files()
            .into_iter()
            .filter(|path| path.components().any(|c| c.as_os_str() == "segments"))
            .collect()
    }
}

fn collect_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}
