//! What is compared: file systems that can be mounted again and again over the same data.

mod daemon;
mod headrace;
mod juicefs;
mod native;
mod objects;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headrace_testbed::binary::find_tool;

use crate::cases::Case;
use crate::dataset::Scale;
use crate::failure::{Context, Result};
use crate::server::Server;
use crate::workspace::Workspace;
pub use daemon::Daemon;
pub use headrace::by_io_uring as headrace_by_io_uring;
pub use headrace::writeback as headrace_writeback;
pub use headrace::{info as headrace_info, with as headrace_with};
pub use juicefs::writeback as juicefs_writeback;
pub use native::Native;

/// What all subjects share.
#[derive(Debug)]
pub struct Site {
    // Ended in this order: what uses the server, the server, the directory.
    juicefs: juicefs::Volume,
    /// The object store.
    pub server: Server,
    /// Directories and groups of processes.
    pub workspace: Workspace,
}

impl Site {
    /// A site whose server runs.
    pub fn new(workspace: Workspace, server: Server) -> Site {
        Site { juicefs: juicefs::Volume::default(), server, workspace }
    }

    /// A directory of this run, created if need be; for nobody else to enter, as some insist on.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let dir = self.workspace.path().join(name);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }

    /// Where Headrace keeps what it knows of volumes.
    pub fn states(&self) -> Result<PathBuf> {
        self.directory("headrace-state")
    }
}

/// Subjects of one family mount the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A directory of the machine's own file system.
    Native,
    /// A Headrace volume in a local directory.
    HeadraceLocal,
    /// A Headrace volume in a bucket.
    HeadraceS3,
    /// A JuiceFS volume in a bucket.
    JuiceFs,
    /// Objects in a bucket, each of them a file.
    Objects,
}

impl Family {
    /// Whether requests pass the network.
    pub fn remote(self) -> bool {
        !matches!(self, Family::Native | Family::HeadraceLocal)
    }
}

/// A file system with settings.
pub trait Subject {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// Whose data it mounts.
    fn family(&self) -> Family;

    /// The program that it needs.
    fn program(&self) -> Option<&'static str>;

    /// What is set, as its own command line says it.
    fn settings(&self) -> String;

    /// When what is written is in the object store, and what fsync promises: one phrase.
    fn durability(&self) -> &'static str;

    /// Whether it takes part in a case: variants that differ in some only are not measured twice.
    fn takes(&self, _case: &Case) -> bool {
        true
    }

    /// Where it is mounted.
    fn root(&self, site: &Site) -> Result<PathBuf> {
        site.directory(&format!("mnt/{}", self.name()))
    }

    /// Makes the place for its family's data; once for each family.
    fn format(&self, site: &Site) -> Result<()>;

    /// Puts the family's data there in another way than through a mount. `false`: it is to be written through one.
    fn fill(&self, _site: &Site, _scale: &Scale) -> Result<bool> {
        Ok(false)
    }

    /// Mounts it, with nothing cached.
    fn mount<'s>(&self, site: &'s Site) -> Result<Mount<'s>>;

    /// What its program says its version is.
    fn version(&self) -> String;
}

/// All that are known: the first is what others are compared with.
pub fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = vec![Box::new(native::Native)];
    all.extend(headrace::all());
    all.extend(juicefs::all());
    all.extend(objects::all());
    all
}

/// Why a subject cannot take part.
pub fn missing(subject: &dyn Subject) -> Option<String> {
    let program = subject.program()?;
    find_tool(program).is_none().then(|| format!("{program} is not on PATH"))
}

/// A mounted subject.
pub struct Mount<'s> {
    root: PathBuf,
    daemon: Option<Daemon>,
    /// Waits until what is written is in the store, where unmounting does not.
    settle: Option<Box<dyn Fn() -> Result<()> + 's>>,
    /// Removes what was cached.
    cache: Option<PathBuf>,
    /// Processes that serve besides the daemon.
    also: Option<&'s crate::account::Group>,
}

impl<'s> Mount<'s> {
    /// A directory that needs no mounting.
    pub fn plain(root: PathBuf) -> Mount<'s> {
        Mount { root, daemon: None, settle: None, cache: None, also: None }
    }

    /// What a daemon serves.
    pub fn served(root: PathBuf, daemon: Daemon) -> Mount<'s> {
        let mut mount = Mount::plain(root);
        mount.daemon = Some(daemon);
        mount
    }

    /// Its root directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Processor time of all that serve it, so far.
    pub fn cpu(&self) -> Duration {
        let daemon = self.daemon.as_ref().map_or(Duration::ZERO, |daemon| daemon.group().cpu());
        daemon + self.also.map_or(Duration::ZERO, |also| also.cpu())
    }

    /// Their peak of resident memory since [`Self::reset_peak`].
    pub fn peak_memory(&self) -> u64 {
        let daemon = self.daemon.as_ref().map_or(0, |daemon| daemon.group().peak_memory());
        daemon + self.also.map_or(0, |also| also.peak_memory())
    }

    /// Starts a new measurement of the peak.
    pub fn reset_peak(&self) {
        self.daemon.iter().for_each(|daemon| daemon.group().reset_peak());
        self.also.iter().for_each(|also| also.reset_peak());
    }

    /// Unmounts; all that was written is in the store afterwards. Gives the processor time that this took.
    pub fn unmount(mut self) -> Result<Duration> {
        let before = self.cpu();
        if let Some(settle) = self.settle.take() {
            settle()?;
        }
        let also = self.also.map_or(Duration::ZERO, |also| also.cpu());
        let total = match self.daemon.take() {
            Some(daemon) => daemon.unmount(&self.root)?,
            None => Duration::ZERO,
        };
        Ok((total + also).saturating_sub(before))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.abandon(&self.root);
        }
        if let Some(cache) = &self.cache {
            let _ = std::fs::remove_dir_all(cache);
        }
    }
}

/// The first line that a program prints when asked for its version.
fn first_line(program: &str, args: &[&str]) -> String {
    let Some(path) = find_tool(program) else { return "?".into() };
    let output = std::process::Command::new(path).args(args).stdin(std::process::Stdio::null()).output();
    // geesefs tells it on standard error.
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("?").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let all = super::all();
        let names: BTreeSet<_> = all.iter().map(|subject| subject.name()).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(all.first().map(|subject| subject.name()), Some("native"));
    }
}
