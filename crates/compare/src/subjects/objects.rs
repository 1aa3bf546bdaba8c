//! Those that show the objects of a bucket as files: mount-s3, rclone, geesefs and s3fs, all on the same objects.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_store::{Location, ObjectStore, Secret, StoreOptions};
use headrace_testbed::{process, tool};

use super::{Daemon, Family, Mount, Site, Subject, first_line};
use crate::account::Group;
use crate::content::Content;
use crate::dataset::{DataFile, Scale};
use crate::failure::{Context, Failure, Result};

/// The bucket.
const BUCKET: &str = "objects";
/// Small objects that are stored at once.
const AT_ONCE: usize = 16;
/// Longest time for uploads that go on after the last close.
const SETTLE: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    MountS3,
    Rclone,
    Geesefs,
    S3fs,
}

struct Objects {
    name: &'static str,
    peer: Peer,
    options: &'static [&'static str],
    cached: bool,
    durability: &'static str,
}

const AT_CLOSE: &str = "at close; fsync: the object store, where it is supported";
const AFTER_CLOSE: &str = "after close, in the background; fsync: nothing";
const AT_FLUSH: &str = "at fsync and close; fsync: the object store";

pub fn all() -> Vec<Box<dyn Subject>> {
    let subject = |name, peer, options, cached, durability| -> Box<dyn Subject> {
        Box::new(Objects { name, peer, options, cached, durability })
    };
    vec![
        subject("mount-s3", Peer::MountS3, &[], false, AT_CLOSE),
        subject("mount-s3-tuned", Peer::MountS3, &MOUNT_S3_TUNED, true, AT_CLOSE),
        subject("rclone", Peer::Rclone, &[], false, AT_CLOSE),
        subject("rclone-tuned", Peer::Rclone, &RCLONE_TUNED, true, AFTER_CLOSE),
        subject("geesefs", Peer::Geesefs, &[], false, AT_FLUSH),
        subject("geesefs-tuned", Peer::Geesefs, &GEESEFS_TUNED, false, AT_FLUSH),
        subject("s3fs", Peer::S3fs, &[], false, AT_FLUSH),
        subject("s3fs-tuned", Peer::S3fs, &S3FS_TUNED, true, AT_FLUSH),
    ]
}

/// From its configuration guide: metadata kept, a high throughput target (parts in parallel follow from it), more threads, a
/// local cache.
const MOUNT_S3_TUNED: [&str; 6] =
    ["--metadata-ttl", "indefinite", "--maximum-throughput-gbps", "100", "--max-threads", "64"];
/// From its documentation of VFS file caching: whole cache, chunks read in parallel, no requests for modification times.
const RCLONE_TUNED: [&str; 22] = [
    "--vfs-cache-mode",
    "full",
    "--vfs-read-chunk-size",
    "8M",
    "--vfs-read-chunk-streams",
    "16",
    "--vfs-read-ahead",
    "128M",
    "--buffer-size",
    "64M",
    "--vfs-write-back",
    "1s",
    "--transfers",
    "32",
    "--dir-cache-time",
    "1h",
    "--attr-timeout",
    "1h",
    "--max-read-ahead",
    "1M",
    "--vfs-fast-fingerprint",
    "--use-server-modtime",
];
/// The settings of its own published comparison; files that may be executed, since it keeps no permissions.
const GEESEFS_TUNED: [&str; 11] = [
    "--file-mode",
    "0755",
    "--no-checksum",
    "--memory-limit",
    "4000",
    "--max-flushers",
    "32",
    "--max-parallel-parts",
    "32",
    "--part-sizes",
    "25",
];
/// From its manual page: requests in parallel, larger parts, entries that are missing remembered, a local cache.
const S3FS_TUNED: [&str; 12] = [
    "-o",
    "parallel_count=16",
    "-o",
    "multireq_max=64",
    "-o",
    "multipart_size=16",
    "-o",
    "enable_noobj_cache",
    "-o",
    "kernel_cache",
    "-o",
    "max_stat_cache_size=100000",
];

impl Objects {
    fn command(&self, site: &Site, group: &Group, at: &Path, cache: &Path) -> Result<Command> {
        let endpoint = site.server.endpoint();
        let (key, secret) = site.server.credentials();
        let mut command = group.command(tool(self.program().unwrap_or_default()));
        command
            .env("AWS_ACCESS_KEY_ID", key)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_REGION", "us-east-1");
        match self.peer {
            Peer::MountS3 => {
                command.args(["--foreground", "--force-path-style", "--allow-delete", "--allow-overwrite"]);
                command.args(["--region", "us-east-1", "--endpoint-url", &endpoint]).args(self.options);
                if self.cached {
                    command.arg("--cache").arg(cache);
                }
                command.arg(BUCKET).arg(at);
            }
            Peer::Rclone => {
                command.env("RCLONE_CONFIG", "/dev/null").env("RCLONE_S3_PROVIDER", "Other");
                command.env("RCLONE_S3_ENV_AUTH", "true").env("RCLONE_S3_ENDPOINT", &endpoint);
                command.env("RCLONE_S3_NO_CHECK_BUCKET", "true").env("RCLONE_S3_REGION", "us-east-1");
                command.args(["mount", &format!(":s3:{BUCKET}")]).arg(at).args(self.options);
                command.arg("--cache-dir").arg(cache);
                command.args(["--rc", "--rc-no-auth", "--rc-addr"]).arg(control(cache));
            }
            Peer::Geesefs => {
                command.args(["-f", "--endpoint", &endpoint]).args(self.options).arg(BUCKET).arg(at);
            }
            Peer::S3fs => {
                command.env("AWSACCESSKEYID", key).env("AWSSECRETACCESSKEY", secret);
                command.arg(BUCKET).arg(at).args(["-f", "-o", &format!("url={endpoint}")]);
                command.args(["-o", "use_path_request_style"]).args(self.options);
                command.args(["-o", &format!("tmpdir={}", cache.display())]);
                if self.cached {
                    command.args(["-o", &format!("use_cache={}", cache.join("data").display())]);
                }
            }
        }
        Ok(command)
    }
}

impl Subject for Objects {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Objects
    }

    fn program(&self) -> Option<&'static str> {
        Some(match self.peer {
            Peer::MountS3 => "mount-s3",
            Peer::Rclone => "rclone",
            Peer::Geesefs => "geesefs",
            Peer::S3fs => "s3fs",
        })
    }

    fn settings(&self) -> String {
        let mut settings =
            if self.options.is_empty() { "defaults".to_owned() } else { self.options.join(" ") };
        if self.cached && self.peer != Peer::Rclone {
            settings.push_str("; with a local cache");
        }
        settings
    }

    fn durability(&self) -> &'static str {
        self.durability
    }

    fn format(&self, _site: &Site) -> Result<()> {
        Ok(())
    }

    fn fill(&self, site: &Site, scale: &Scale) -> Result<bool> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context(|| "starting a runtime".into())?;
        let store = store(site)?;
        runtime.block_on(put_all(store, scale.all()))?;
        Ok(true)
    }

    fn mount<'s>(&self, site: &'s Site) -> Result<Mount<'s>> {
        let at = self.root(site)?;
        let cache = site.directory(&format!("cache/{}", self.name))?;
        let log = site.directory("log")?.join(self.name);
        let group = Group::new(site.workspace.groups()?, self.name)?;
        let command = self.command(site, &group, &at, &cache)?;
        let mut mount = Mount::served(at.clone(), Daemon::start(group, command, &at, log, &["umount"])?);
        if self.peer == Peer::Rclone && self.cached {
            let control = control(&cache);
            mount.settle = Some(Box::new(move || settle(&control)));
        }
        mount.cache = Some(cache);
        Ok(mount)
    }

    fn version(&self) -> String {
        first_line(
            self.program().unwrap_or_default(),
            &[if self.peer == Peer::Rclone { "version" } else { "--version" }],
        )
    }
}

/// Where rclone listens for questions.
fn control(cache: &Path) -> String {
    format!("unix://{}", cache.with_extension("rc").display())
}

/// Waits until rclone has uploaded what it has cached: it does not wait itself when it is unmounted.
fn settle(control: &str) -> Result<()> {
    let socket = control.trim_start_matches("unix://").to_owned();
    let idle = || {
        let output =
            Command::new(tool("rclone")).args(["rc", "--unix-socket", &socket, "vfs/stats"]).output().ok()?;
        let stats: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let cache = stats.get("diskCache")?;
        let none = |what: &str| cache.get(what).and_then(serde_json::Value::as_u64) == Some(0);
        (none("uploadsInProgress") && none("uploadsQueued")).then_some(())
    };
    process::wait_until(SETTLE, idle).ok_or_else(|| Failure::new("rclone did not finish its uploads"))
}

fn store(site: &Site) -> Result<Arc<dyn ObjectStore>> {
    let (key, secret) = site.server.credentials();
    let url = format!("s3://{BUCKET}/data");
    let location: Location = url.parse().context(|| format!("the URL {url}"))?;
    let options = StoreOptions {
        endpoint: Some(site.server.endpoint()),
        region: Some("us-east-1".into()),
        access_key_id: Some(key.into()),
        secret_access_key: Some(Secret::from(secret.to_owned())),
        ..StoreOptions::default()
    };
    headrace_store::open(&location, &options).context(|| format!("opening {url}"))
}

async fn put_all(store: Arc<dyn ObjectStore>, files: Vec<DataFile>) -> Result<()> {
    let content = Arc::new(Content::default());
    let mut running = tokio::task::JoinSet::new();
    for file in files {
        // A large one takes all the memory that is meant for them.
        let most = if file.len > 1 << 20 { 1 } else { AT_ONCE };
        while running.len() >= most {
            finish(running.join_next().await)?;
        }
        let (store, content) = (store.clone(), content.clone());
        running.spawn(async move {
            let mut body = vec![0; file.len as usize];
            content.fill(file.id, 0, &mut body);
            store.put(&file.name, Bytes::from(body)).await.context(|| format!("storing {}", file.name))
        });
    }
    while let Some(done) = running.join_next().await {
        finish(Some(done))?;
    }
    Ok(())
}

fn finish(done: Option<std::result::Result<Result<()>, tokio::task::JoinError>>) -> Result<()> {
    done.map_or(Ok(()), |done| done.context(|| "storing an object".into())?)
}
