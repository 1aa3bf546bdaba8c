//! Headrace: on a local directory and on the server.

use std::path::Path;
use std::process::Command;

use headrace_testbed::{headrace, process};
use serde_json::Value;

use super::{Daemon, Family, Mount, Site, Subject};
use crate::account::Group;
use crate::cases::Case;
use crate::failure::{Context, Failure, Result};

struct Headrace {
    name: &'static str,
    family: Family,
    options: Vec<String>,
    durability: &'static str,
}

pub fn all() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(Headrace {
            name: "headrace-local",
            family: Family::HeadraceLocal,
            options: Vec::new(),
            durability: "soon after; fsync: this machine's disk",
        }),
        with(Vec::new()),
        Box::new(Headrace {
            name: "headrace-bucket",
            family: Family::HeadraceS3,
            options: vec!["-o".into(), "durable=bucket".into()],
            durability: "soon after; fsync: the object store",
        }),
    ]
}

/// The one on the server, mounted with these arguments.
pub fn with(options: Vec<String>) -> Box<dyn Subject> {
    Box::new(Headrace {
        name: "headrace",
        family: Family::HeadraceS3,
        options,
        durability: "soon after; fsync: this machine's disk",
    })
}

/// The same with new files on this machine's disk first.
pub fn writeback() -> Box<dyn Subject> {
    Box::new(Headrace {
        name: "headrace-writeback",
        family: Family::HeadraceS3,
        options: vec!["--writeback".into()],
        durability: "soon after; fsync: this machine's disk, for data too",
    })
}

/// The same with requests that come by io_uring; `None` where that is not switched on.
pub fn by_io_uring() -> Option<Box<dyn Subject>> {
    let switch = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").unwrap_or_default();
    (switch.trim() == "Y").then(|| -> Box<dyn Subject> {
        Box::new(Headrace {
            name: "headrace-uring",
            family: Family::HeadraceS3,
            options: vec!["-o".into(), "io-uring".into()],
            durability: "soon after; fsync: this machine's disk",
        })
    })
}

/// What `headrace info` says of a file on a mount, as JSON.
pub fn info(site: &Site, path: &Path) -> Result<Value> {
    let mut command = Command::new(headrace());
    command.args(["info", "--json"]).arg(path);
    Headrace::environment(&mut command, site)?;
    let done = command.output().context(|| "starting headrace info".into())?;
    let all: Value = serde_json::from_slice(&done.stdout)
        .context(|| format!("headrace info: {}", String::from_utf8_lossy(&done.stderr).trim()))?;
    all.get(0).cloned().ok_or_else(|| Failure::new("headrace info printed nothing"))
}

impl Headrace {
    fn url(&self, site: &Site) -> Result<String> {
        Ok(match self.family {
            Family::HeadraceLocal => site.directory("headrace-store")?.join("vol").display().to_string(),
            _ => "s3://headrace/vol".into(),
        })
    }

    fn environment(command: &mut Command, site: &Site) -> Result<()> {
        let (key, secret) = site.server.credentials();
        command
            .env("AWS_ACCESS_KEY_ID", key)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_ENDPOINT_URL", site.server.endpoint())
            .env("AWS_REGION", "us-east-1")
            .env("HEADRACE_STATE_DIR", site.states()?)
            .env("HEADRACE_RUNTIME_DIR", site.directory("headrace-run")?)
            .env("HEADRACE_CONFIG", "/dev/null")
            // However full the machine is.
            .env("HEADRACE_CACHE_FREE", "1G");
        Ok(())
    }
}

impl Subject for Headrace {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        self.family
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn settings(&self) -> String {
        if self.options.is_empty() { "defaults".into() } else { self.options.join(" ") }
    }

    fn durability(&self) -> &'static str {
        self.durability
    }

    fn takes(&self, case: &Case) -> bool {
        // What fsync waits for matters to these only.
        self.options.is_empty() || case.group() == "write" || case.id == "small/create"
    }

    fn format(&self, site: &Site) -> Result<()> {
        let mut command = Command::new(headrace());
        command.arg("format").arg(self.url(site)?);
        Headrace::environment(&mut command, site)?;
        let done = command.output().context(|| "starting headrace format".into())?;
        if done.status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("headrace format: {}", String::from_utf8_lossy(&done.stderr).trim())))
    }

    fn mount<'s>(&self, site: &'s Site) -> Result<Mount<'s>> {
        let at = self.root(site)?;
        let log = site.directory("log")?.join(self.name);
        let group = Group::new(site.workspace.groups()?, self.name)?;
        let mut command = group.command(headrace());
        command.arg("mount").arg("--foreground").args(&self.options).arg(self.url(site)?).arg(&at);
        Headrace::environment(&mut command, site)?;
        // Empty with each mount, as all caches are.
        let cache = site.directory(&format!("cache/{}", self.name))?;
        if !matches!(self.family, Family::HeadraceLocal) {
            command.env("HEADRACE_CACHE_DIR", &cache);
        }
        // Its own command waits until all is in the store, and needs to find the mount.
        let program = headrace().display().to_string();
        let runtime = format!("HEADRACE_RUNTIME_DIR={}", site.directory("headrace-run")?.display());
        let unmount = ["env", &runtime, &program, "umount"];
        let told = log.clone();
        let mut mount = Mount::served(at.clone(), Daemon::start(group, command, &at, log, &unmount)?);
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        if let Some(line) = told.lines().find(|line| line.contains("and not by io_uring")) {
            return Err(Failure::new(line));
        }
        mount.cache = Some(cache);
        Ok(mount)
    }

    fn version(&self) -> String {
        let run = process::Run::new(headrace()).arg("--version").finish();
        run.stdout.lines().next().unwrap_or("?").trim().to_owned()
    }
}
