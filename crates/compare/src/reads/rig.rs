//! A server, a volume with files of known content, and the same as plain objects.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use headrace_netlab::Conditions;

use super::Options;
use crate::dataset::DataFile;
use crate::failure::{Context, Result};
use crate::figures::cost::{self, Cost, UNMEASURED};
use crate::server::{Profile, Server};
use crate::subjects::{Site, headrace_with};
use crate::worker::{self, Fsync, Job, Objects, Order, Outcome, Section, Work};
use crate::workspace::{Workspace, sweep};

/// Bytes of each plain object.
const OBJECT: u64 = 64 << 20;
/// What their content is a function of.
const OBJECTS_ID: u64 = 0x4000;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// Bytes of the one large file; 4 streams have files of a quarter each, 32 streams a thirty-second each.
    pub big: u64,
    /// Bytes of the plain objects together.
    pub objects: u64,
    /// When reading is stopped: what was done until then counts.
    pub limit: Duration,
    /// Random reads: so few that having the file whole is not worth it yet.
    pub random: u64,
    /// Before a fault, while it lasts, and after it. The large file outlasts all three ([`super::faults::TOTAL`]).
    pub fault: [Duration; 3],
}

impl Sizes {
    /// For figures that are published.
    pub fn full() -> Sizes {
        Sizes {
            big: 1280 << 20,
            objects: 512 << 20,
            limit: Duration::from_millis(2_500),
            random: 100,
            fault: [3_000, 3_000, 4_000].map(Duration::from_millis),
        }
    }

    /// For a first look.
    pub fn quick() -> Sizes {
        Sizes {
            big: 640 << 20,
            objects: 256 << 20,
            limit: Duration::from_millis(1_200),
            random: 50,
            fault: [1_500, 1_000, 2_000].map(Duration::from_millis),
        }
    }

    /// The same for reading that is stopped after so many seconds. The large file does not become smaller.
    pub fn lasting(self, seconds: f64) -> Sizes {
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(self.limit);
        let longer = (limit.as_secs_f64() / self.limit.as_secs_f64().max(1e-3)).max(1.0);
        // Of whole blocks for each of 32 streams.
        Sizes { big: ((self.big as f64 * longer) as u64).next_multiple_of(32 << 20), limit, ..self }
    }

    /// For the tests of this program.
    pub fn tiny() -> Sizes {
        Sizes {
            big: 64 << 20,
            objects: 8 << 20,
            limit: Duration::from_millis(500),
            random: 10,
            fault: [200, 100, 200].map(Duration::from_millis),
        }
    }
}

/// All that measuring needs.
#[derive(Debug)]
pub struct Rig {
    site: Site,
    sizes: Sizes,
}

impl Rig {
    /// Starts the server, and makes the volume and the objects.
    pub fn start(options: &Options) -> Result<Rig> {
        let temporary = &options.pace.temporary;
        sweep(temporary);
        let workspace = Workspace::new(temporary)?;
        let server = Server::start(workspace.path())?;
        let rig = Rig { site: Site::new(workspace, server), sizes: options.sizes };
        let subject = headrace_with(Vec::new());
        subject.format(&rig.site)?;
        let mount = subject.mount(&rig.site)?;
        for file in [1, 4, 32].into_iter().flat_map(|streams| rig.files(streams)) {
            let file = Section { path: file.at(mount.path()), id: file.id, from: 0, len: file.len };
            let work = Work::Write { file, order: Order::Sequential, block: 1 << 20, sync: Fsync::Never };
            worker::perform(&Job { work, limit: UNMEASURED })?;
        }
        mount.unmount()?;
        worker::put(&rig.objects())?;
        Ok(rig)
    }

    /// How much.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// What serves, for the report.
    pub fn describe(&self) -> String {
        format!("{}; reading is stopped after {:?}", self.site.server.describe(), self.sizes.limit)
    }

    /// What Headrace says its version is.
    pub fn version(&self) -> String {
        headrace_with(Vec::new()).version()
    }

    /// The files for so many streams.
    fn files(&self, streams: u64) -> Vec<DataFile> {
        let len = self.sizes.big / streams;
        let file = |n| DataFile { name: format!("of-{streams}-{n:02}"), id: (streams << 8) + n, len };
        (0..streams).map(file).collect()
    }

    /// The same, to be read: `streams` is 1, 4 or 32.
    pub fn sections(&self, streams: u64) -> Result<Vec<Section>> {
        let root = headrace_with(Vec::new()).root(&self.site)?;
        let section = |file: DataFile| Section { path: file.at(&root), id: file.id, from: 0, len: file.len };
        Ok(self.files(streams).into_iter().map(section).collect())
    }

    /// The plain objects.
    pub fn objects(&self) -> Objects {
        Objects {
            endpoint: self.site.server.endpoint(),
            bucket: "objects".into(),
            prefix: "plain/".into(),
            id: OBJECTS_ID,
            len: self.sizes.objects,
            each: OBJECT,
            by_library: false,
        }
    }

    /// A file outside of all that is measured.
    pub fn scratch(&self) -> Result<PathBuf> {
        Ok(self.site.directory("scratch")?.join("file"))
    }

    /// Has Headrace forget what it has learned of the server and of those who read.
    pub fn forget(&self) -> Result<()> {
        let states = self.site.states()?;
        let of_volumes = fs::read_dir(&states).context(|| format!("{}", states.display()))?;
        for state in of_volumes.flatten() {
            match fs::remove_file(state.path().join("reading.json")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).context(|| format!("{}", state.path().display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Nothing of what was written before is left to be written while something is measured. What the store holds stays in memory, where that is large
    /// enough: who reads over a network is measured, and no disk, which just after the data was made took up to 0.4 s for a read of 4 KiB.
    fn settle() {
        rustix::fs::sync();
    }

    /// Mounts Headrace afresh with these `-o` options, with its caches empty, and reads.
    pub fn cold(&self, options: &[String], network: Conditions, job: &Job) -> Result<(Outcome, Cost)> {
        self.cold_while(options, network, job, |_| Ok(())).map(|(outcome, cost, ())| (outcome, cost))
    }

    /// The same, and does something to the network meanwhile.
    pub fn cold_while<T: Send>(
        &self,
        options: &[String],
        network: Conditions,
        job: &Job,
        meanwhile: impl FnOnce(&Server) -> Result<T>,
    ) -> Result<(Outcome, Cost, T)> {
        let args = options.iter().flat_map(|option| ["-o".to_owned(), option.clone()]).collect();
        self.site.server.set(Profile::Loopback)?;
        let mount = headrace_with(args).mount(&self.site)?;
        Self::settle();
        let done = cost::measured(&self.site.server, &mount, network, job, meanwhile);
        self.site.server.spoil_next(&[]);
        self.site.server.set(Profile::Loopback)?;
        // What failed there is the result; what fails here only adds to it.
        let unmounted = mount.unmount();
        let done = done?;
        unmounted.map(|_| done)
    }

    /// Does something without Headrace.
    pub fn bare(&self, network: Conditions, work: Work) -> Result<Outcome> {
        Self::settle();
        cost::bare(&self.site.server, network, work)
    }

    /// Checks a whole file that is not on a mount.
    pub fn check(&self, path: &Path, id: u64, len: u64) -> Result<()> {
        let file = Section { path: path.to_owned(), id, from: 0, len };
        let work = Work::Watch { threads: vec![file], block: 1 << 20 };
        let checked = worker::perform(&Job { work, limit: UNMEASURED });
        checked.map(drop).context(|| "what the bare client wrote".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::faults;

    #[test]
    fn files_outlast_reading_that_takes_longer() {
        let full = Sizes::full();
        assert_eq!(full.lasting(2.5), full);
        let long = full.lasting(6.0);
        assert_eq!((long.limit, long.big), (Duration::from_secs(6), 3072 << 20));
        assert_eq!(Sizes { limit: full.limit, big: full.big, ..long }, full);
        let short = full.lasting(1.0);
        assert_eq!((short.limit, short.big), (Duration::from_secs(1), full.big), "a fault is watched in it");
        assert_eq!(full.lasting(7.3).big % (32 << 20), 0);
    }

    #[test]
    fn reading_goes_on_until_a_fault_has_been_watched() {
        for sizes in [Sizes::tiny(), Sizes::quick(), Sizes::full()] {
            let watched: Duration = sizes.fault.iter().sum();
            let read = Duration::from_secs_f64(sizes.big as f64 / faults::TOTAL as f64);
            assert!(read > watched, "{sizes:?} are read in {read:?}");
        }
    }
}
