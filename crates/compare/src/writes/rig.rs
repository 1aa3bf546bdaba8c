//! A server, and volumes that are made anew for each figure, so that none pays for what an earlier one has left.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headrace_netlab::{Conditions, Counters, Latency, Rate};
use serde_json::Value;

use super::Options;
use crate::account::drop_caches;
use crate::failure::{Context, Result};
use crate::figures::cost::{self, Cost, UNMEASURED};
use crate::server::{Profile, Server};
use crate::subjects::{Family, Mount, Site, Subject, headrace_info, headrace_with};
use crate::worker::{self, Job, Objects, Order, Outcome, Section, Work};
use crate::workspace::{Workspace, sweep};

/// Bytes of each plain object.
const OBJECT: u64 = 16 << 20;
/// What their content is a function of.
const OBJECTS_ID: u64 = 0x4000;
/// Their bucket.
const OBJECTS: &str = "objects";

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// Bytes that are written sequentially, by all streams together.
    pub written: u64,
    /// Bytes of the file in which blocks are overwritten.
    pub rewritten: u64,
    /// Blocks.
    pub blocks: u64,
    /// Files of 4 KiB.
    pub small: u64,
    /// Files of the tree.
    pub tree: u64,
    /// So many times fewer files for who takes long: JuiceFS at its defaults, and with its writes staged.
    pub fewer: [u64; 2],
    /// Longest time of a program that makes them.
    pub making: Duration,
    /// Reads of each kind while the queue is full.
    pub probes: u64,
    /// Longest time for all reads of one kind.
    pub probing: Duration,
    /// Bytes of the files that are read meanwhile.
    pub probed: u64,
}

impl Sizes {
    /// The same with no fewer files for anybody, and time for it.
    #[must_use]
    pub fn with_all_files(self) -> Sizes {
        Sizes { fewer: [1; 2], making: self.making * 6, ..self }
    }

    /// For figures that are published.
    pub fn full() -> Sizes {
        Sizes {
            written: 2 << 30,
            rewritten: 4 << 30,
            blocks: 100_000,
            small: 20_000,
            tree: 36_000,
            fewer: [36, 9],
            making: UNMEASURED,
            probes: 100,
            probing: Duration::from_secs(8),
            probed: 512 << 20,
        }
    }

    /// For a first look.
    pub fn quick() -> Sizes {
        Sizes {
            written: 512 << 20,
            rewritten: 1 << 30,
            blocks: 20_000,
            small: 5_000,
            tree: 6_000,
            fewer: [20, 5],
            making: UNMEASURED,
            probes: 50,
            probing: Duration::from_secs(4),
            probed: 256 << 20,
        }
    }

    /// For the tests of this program.
    pub fn tiny() -> Sizes {
        Sizes {
            written: 32 << 20,
            rewritten: 16 << 20,
            blocks: 200,
            small: 250,
            tree: 200,
            fewer: [4, 2],
            making: UNMEASURED,
            probes: 5,
            probing: Duration::from_millis(600),
            probed: 16 << 20,
        }
    }
}

/// What it takes until all is in the store, after the last call.
#[derive(Debug, Clone)]
pub struct Settled {
    /// Seconds.
    pub seconds: f64,
    /// Processor time of the daemon.
    pub cpu: Duration,
    /// What passed the network.
    pub passed: Counters,
}

/// All that measuring needs.
#[derive(Debug)]
pub struct Rig {
    site: Site,
    sizes: Sizes,
    number: Cell<u64>,
    formatted: RefCell<BTreeSet<Family>>,
}

impl Rig {
    /// Starts the server.
    pub fn start(options: &Options) -> Result<Rig> {
        let temporary = &options.pace.temporary;
        sweep(temporary);
        let workspace = Workspace::new(temporary)?;
        let server = Server::start_to_store(workspace.path())?;
        let site = Site::new(workspace, server);
        Ok(Rig { site, sizes: options.sizes, number: Cell::new(0), formatted: RefCell::default() })
    }

    /// How much.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The server and its network.
    pub fn server(&self) -> &Server {
        &self.site.server
    }

    /// What serves, for the report.
    pub fn describe(&self) -> String {
        self.site.server.describe()
    }

    /// What Headrace says its version is.
    pub fn version(&self) -> String {
        headrace_with(Vec::new()).version()
    }

    /// A directory outside of all that is measured.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        self.site.directory(name)
    }

    /// A name that was not used before.
    pub fn fresh_name(&self) -> String {
        self.number.set(self.number.get() + 1);
        format!("scratch-{}", self.number.get())
    }

    /// An empty volume of Headrace; of the others the one that is there. Nothing is mounted.
    pub fn fresh(&self, subject: &dyn Subject) -> Result<()> {
        let family = subject.family();
        self.site.server.set(Profile::Loopback)?;
        match family {
            Family::HeadraceS3 => {
                for dir in [self.site.server.bucket_dir("headrace"), self.site.states()?] {
                    empty(&dir)?;
                }
            }
            _ if !self.formatted.borrow_mut().insert(family) => return Ok(()),
            _ => {}
        }
        subject.format(&self.site)
    }

    /// Where a subject is mounted.
    pub fn root(&self, subject: &dyn Subject) -> Result<PathBuf> {
        subject.root(&self.site)
    }

    /// Mounts with no latency.
    pub fn mount(&self, subject: &dyn Subject) -> Result<Mount<'_>> {
        self.site.server.set(Profile::Loopback)?;
        subject.mount(&self.site)
    }

    /// What `headrace info` says of a file.
    pub fn info(&self, path: &Path) -> Result<Value> {
        headrace_info(&self.site, path)
    }

    /// Does a job over a network; see [`cost::measured`].
    pub fn measured(&self, mount: &Mount<'_>, network: Conditions, job: &Job) -> Result<(Outcome, Cost)> {
        let done = cost::measured(&self.site.server, mount, network, job, |_| Ok(()));
        done.map(|(outcome, cost, ())| (outcome, cost))
    }

    /// Unmounts over the network that is set: all is in the store then. What is native is synced.
    pub fn settle(&self, mount: Mount<'_>, subject: &dyn Subject) -> Result<Settled> {
        let server = &self.site.server;
        let (counters, started) = (server.counters(), Instant::now());
        if subject.family() == Family::Native {
            let root = File::open(mount.path()).context(|| "opening a directory".into())?;
            rustix::fs::syncfs(&root).context(|| "syncing the native file system".into())?;
        }
        let cpu = mount.unmount();
        let settled = Settled {
            seconds: started.elapsed().as_secs_f64(),
            cpu: cpu?,
            passed: server.counters().since(&counters),
        };
        server.set(Profile::Loopback)?;
        Ok(settled)
    }

    /// In a later mount, cold and over a network: what checks. Gives its seconds and cost.
    pub fn back(&self, subject: &dyn Subject, network: Conditions, work: Work) -> Result<(Outcome, Cost)> {
        let mount = self.mount(subject)?;
        drop_caches()?;
        let done = self.measured(&mount, network, &Job { work, limit: UNMEASURED });
        self.site.server.set(Profile::Loopback)?;
        let unmounted = mount.unmount();
        let done = done.context(|| "reading back".into())?;
        unmounted.map(|_| done)
    }

    /// Plain objects, as many as are written sequentially; none of them is there.
    pub fn objects(&self) -> Result<Objects> {
        empty(&self.site.server.bucket_dir(OBJECTS))?;
        Ok(self.plain(self.sizes.written, OBJECT))
    }

    /// Plain objects of these sizes.
    pub fn plain(&self, len: u64, each: u64) -> Objects {
        Objects {
            endpoint: self.site.server.endpoint(),
            bucket: OBJECTS.into(),
            prefix: "plain/".into(),
            id: OBJECTS_ID,
            len,
            each,
            by_library: false,
        }
    }

    /// Does something without a file system.
    pub fn bare(&self, network: Conditions, work: Work) -> Result<Outcome> {
        drop_caches()?;
        cost::bare(&self.site.server, network, work)
    }

    /// Gets the objects and compares every byte.
    pub fn check(&self, objects: Objects) -> Result<()> {
        let block = objects.each;
        let work = Work::GetEach { objects, block, order: Order::Sequential };
        worker::perform(&Job { work, limit: UNMEASURED }).map(drop)
    }
}

/// 20 ms to the first byte, over a link that lets so many bytes per second through in each direction, whoever sends them.
pub fn shared_link(total: u64) -> Conditions {
    let first_byte = Latency::constant(Duration::from_millis(20));
    Conditions { first_byte, total: Rate::per_second(total), ..Conditions::default() }
}

/// The work that reads whole files, each in a thread, and compares every byte.
pub fn compare(files: Vec<Section>) -> Work {
    Work::Watch { threads: files, block: 1 << 20 }
}

/// Requests that store something, and the bytes of their bodies.
pub fn stored(passed: &[&Counters]) -> (u64, u64) {
    let stores = |name: &str| {
        ["Put", "Upload", "Create", "Complete", "Copy"].iter().any(|begin| name.starts_with(begin))
    };
    let all = passed.iter().flat_map(|counters| counters.operations.iter());
    let wanted = all.filter(|(name, _)| stores(name)).map(|(_, traffic)| traffic);
    wanted.fold((0, 0), |sum, traffic| (sum.0 + traffic.requests, sum.1 + traffic.bytes_received))
}

/// Removes what is in a directory.
pub fn empty(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use headrace_netlab::Traffic;

    use super::*;

    #[test]
    fn what_stores_is_counted_in_all_of_its_forms() {
        let traffic = |requests, bytes_received| Traffic { requests, bytes_received, ..Traffic::default() };
        let with = |all: &[(&str, Traffic)]| {
            let operations = all.iter().map(|(name, traffic)| ((*name).to_owned(), *traffic)).collect();
            Counters { operations, ..Counters::default() }
        };
        let one = with(&[("PutObject", traffic(3, 100)), ("GetObject", traffic(50, 0))]);
        let other = with(&[("UploadPart", traffic(2, 30)), ("CreateMultipartUpload", traffic(1, 0))]);
        assert_eq!(stored(&[&one, &other]), (6, 130));
        assert_eq!(stored(&[]), (0, 0));
    }
}
