//! JuiceFS on the server, with its metadata in Redis where that is installed (as its documentation recommends for speed), else in
//! SQLite. Redis runs on this machine, stays warm between mounts, and its processor time and memory count as the daemon's.

use std::cell::OnceCell;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headrace_testbed::binary::find_tool;
use headrace_testbed::{process, tool};

use super::{Daemon, Family, Mount, Site, Subject, first_line};
use crate::account::Group;
use crate::failure::{Context, Failure, Result};

/// The metadata of the one volume.
#[derive(Debug, Default)]
pub struct Volume {
    redis: OnceCell<Redis>,
}

#[derive(Debug)]
struct Redis {
    group: Group,
    child: std::cell::RefCell<Child>,
    socket: PathBuf,
}

impl Redis {
    fn start(site: &Site) -> Result<Redis> {
        let dir = site.directory("redis")?;
        let socket = dir.join("socket");
        let group = Group::new(site.workspace.groups()?, "redis")?;
        let log = File::create(dir.join("log")).context(|| "creating a log for redis-server".into())?;
        // The append-only file is what the documentation of JuiceFS asks for, so that a crash loses a second at most.
        let child = group
            .command(tool("redis-server"))
            .args(["--port", "0", "--appendonly", "yes", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(&dir)
            .stdout(Stdio::from(log))
            .spawn()
            .context(|| "starting redis-server".into())?;
        let redis = Redis { group, child: child.into(), socket };
        let up = process::wait_until(Duration::from_secs(20), || {
            std::os::unix::net::UnixStream::connect(&redis.socket).is_ok().then_some(())
        });
        up.ok_or_else(|| {
            Failure::new(format!("redis-server did not start: see {}", dir.join("log").display()))
        })?;
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.group.kill();
        let _ = self.child.borrow_mut().wait();
    }
}

impl Volume {
    fn redis<'s>(&'s self, site: &'s Site) -> Result<Option<&'s Redis>> {
        if find_tool("redis-server").is_none() {
            return Ok(None);
        }
        if self.redis.get().is_none() {
            let _ = self.redis.set(Redis::start(site)?);
        }
        Ok(self.redis.get())
    }

    fn metadata(&self, site: &Site) -> Result<String> {
        Ok(match self.redis(site)? {
            Some(redis) => format!("unix://{}?db=0", redis.socket.display()),
            None => format!("sqlite3://{}", site.directory("juicefs")?.join("meta.db").display()),
        })
    }
}

struct JuiceFs {
    name: &'static str,
    options: &'static [&'static str],
    durability: &'static str,
}

/// From `juicefs mount --help` and issues of its users: large buffer and read-ahead, large requests from the kernel, attributes
/// and entries cached for an hour, writes staged on the local disk.
const TUNED: [&str; 18] = [
    "--buffer-size",
    "2048",
    "--max-readahead",
    "512",
    "--max-fuse-io",
    "1M",
    "--attr-cache",
    "3600s",
    "--entry-cache",
    "3600s",
    "--dir-entry-cache",
    "3600s",
    "--open-cache",
    "3600s",
    "--readdir-cache",
    "--writeback",
    "--max-uploads",
    "50",
];

pub fn all() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(JuiceFs {
            name: "juicefs",
            options: &[],
            durability: "at fsync and close; fsync: the object store",
        }),
        Box::new(JuiceFs {
            name: "juicefs-tuned",
            options: &TUNED,
            durability: "soon after; fsync: this machine's disk (not synced)",
        }),
    ]
}

/// The one whose writes are staged on the local disk, and nothing else changed.
pub fn writeback() -> Box<dyn Subject> {
    Box::new(JuiceFs {
        name: "juicefs-writeback",
        options: &["--writeback"],
        durability: "soon after; fsync: this machine's disk (not synced)",
    })
}

impl Subject for JuiceFs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::JuiceFs
    }

    fn program(&self) -> Option<&'static str> {
        Some("juicefs")
    }

    fn settings(&self) -> String {
        let engine =
            if find_tool("redis-server").is_some() { "metadata in Redis" } else { "metadata in SQLite" };
        if self.options.is_empty() {
            format!("defaults; {engine}")
        } else {
            format!("{}; {engine}", self.options.join(" "))
        }
    }

    fn durability(&self) -> &'static str {
        self.durability
    }

    fn format(&self, site: &Site) -> Result<()> {
        let (key, secret) = site.server.credentials();
        let done = Command::new(tool("juicefs"))
            .args(["format", "--no-update", "--storage", "minio"])
            .args(["--bucket", &format!("{}/juicefs", site.server.endpoint())])
            .env("ACCESS_KEY", key)
            .env("SECRET_KEY", secret)
            .env_remove("AWS_CA_BUNDLE")
            .arg(site.juicefs.metadata(site)?)
            .arg("compare")
            .output()
            .context(|| "starting juicefs format".into())?;
        if done.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&done.stderr);
        Err(Failure::new(format!("juicefs format: {}", why.lines().next_back().unwrap_or("no message"))))
    }

    fn mount<'s>(&self, site: &'s Site) -> Result<Mount<'s>> {
        let at = self.root(site)?;
        let cache = site.directory(&format!("cache/{}", self.name))?;
        let log = site.directory("log")?.join(self.name);
        let group = Group::new(site.workspace.groups()?, self.name)?;
        let mut command = group.command(tool("juicefs"));
        command.args([
            "--no-agent",
            "mount",
            "--no-usage-report",
            "--no-syslog",
            "--backup-meta",
            "0",
            "--metrics",
            "127.0.0.1:0",
        ]);
        command.arg("--cache-dir").arg(&cache).args(self.options);
        command.arg(site.juicefs.metadata(site)?).arg(&at);
        // With --flush it waits until what is staged is in the store.
        let program = tool("juicefs").display().to_string();
        let daemon = Daemon::start(group, command, &at, log, &[&program, "umount", "--flush"])?;
        let mut mount = Mount::served(at, daemon);
        mount.cache = Some(cache);
        mount.also = site.juicefs.redis(site)?.map(|redis| &redis.group);
        Ok(mount)
    }

    fn version(&self) -> String {
        let redis = find_tool("redis-server").map(|_| first_line("redis-server", &["--version"]));
        let redis = redis
            .as_deref()
            .and_then(|line| line.split_whitespace().find_map(|word| word.strip_prefix("v=")));
        let own = first_line("juicefs", &["version"]);
        redis.map_or(own.clone(), |redis| format!("{own}, Redis {redis}"))
    }
}
