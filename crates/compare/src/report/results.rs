//! The JSON of a comparison: what was measured, on what, and every single figure. `docs/benchmarks.md` describes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::file;
use crate::cases::Case;
use crate::dataset::Scale;
use crate::failure::{Failure, Result};
use crate::server::Profile;
use crate::subjects::Subject;

/// Changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Of this schema: 1.
    pub version: u32,
    /// When it ended, UTC.
    pub date: String,
    /// How long it took, with all preparations.
    pub took_seconds: f64,
    /// What it ran on.
    pub machine: Machine,
    /// What served the objects.
    pub server: String,
    /// Processor times are the kernel's sums (cgroup v2), not added up from processes.
    pub exact_cpu: bool,
    /// How much was measured.
    pub scale: Scale,
    /// How often at most.
    pub repeat: u32,
    /// Those that took part.
    pub subjects: Vec<SubjectInfo>,
    /// What was to be done.
    pub cases: Vec<CaseInfo>,
    /// Every single figure.
    pub figures: Vec<Figure>,
    /// Subjects and cases that were left out, and why.
    pub not_measured: Vec<String>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel and its release.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that can be used.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Kind of the file system that held all data.
    pub file_system: String,
}

/// A subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectInfo {
    /// Its name.
    pub name: String,
    /// What its program said.
    pub version: String,
    /// What was set.
    pub settings: String,
    /// When data is in the store, what fsync promises.
    pub durability: String,
}

impl SubjectInfo {
    /// Of a subject.
    pub fn of(subject: &dyn Subject) -> SubjectInfo {
        SubjectInfo {
            name: subject.name().into(),
            version: subject.version(),
            settings: subject.settings(),
            durability: subject.durability().into(),
        }
    }
}

/// A case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseInfo {
    /// `GROUP/NAME`.
    pub id: String,
    /// What a person reads.
    pub title: String,
    /// Of `value`: `MB/s` (million bytes), `reads/s`, `s`.
    pub unit: String,
    /// Whether a larger value is a better one.
    pub more_is_better: bool,
}

impl CaseInfo {
    /// Of a case.
    pub fn of(case: &Case) -> CaseInfo {
        CaseInfo {
            id: case.id.into(),
            title: case.title.into(),
            unit: case.measure.unit(),
            more_is_better: case.measure.more_is_better(),
        }
    }

    /// The part of the id before the first slash.
    pub fn group(&self) -> &str {
        self.id.split('/').next().unwrap_or(&self.id)
    }
}

/// One case on one subject, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Id of the case.
    pub case: String,
    /// Name of the subject.
    pub subject: String,
    /// The network.
    pub profile: Profile,
    /// From 0.
    pub repetition: u32,
    /// Why there is nothing measured. Starts with `WRONG DATA` when something else was read than was written.
    pub failed: Option<String>,
    /// What was measured.
    pub measured: Option<Measured>,
}

/// What was measured. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// In the case's unit.
    pub value: f64,
    /// In the calls; of the thread that took longest.
    pub seconds: f64,
    /// Calls, files, entries.
    pub operations: u64,
    /// Read or written by the client.
    pub bytes: u64,
    /// The time limit came first; `value` is of what was done until then.
    pub stopped: bool,
    /// Median of one operation.
    pub p50: Option<f64>,
    /// Of 100 operations, 99 took no longer.
    pub p99: Option<f64>,
    /// Processor time of the client, without `aside`.
    pub client_cpu: f64,
    /// The client's time for making and checking content: not in `seconds`, not in `client_cpu`.
    pub aside: f64,
    /// Processor time of the file system's processes until the client's last call.
    pub daemon_cpu: f64,
    /// Peak of their resident memory, bytes.
    pub peak_memory: u64,
    /// Bytes from the store, heads of answers included.
    pub fetched: u64,
    /// Bytes to the store, heads of requests included.
    pub sent: u64,
    /// Requests by S3 operation.
    pub requests: BTreeMap<String, u64>,
    /// What the requests cost at list prices.
    pub dollars: f64,
    /// Cases that write: what came afterwards, until all was in the store.
    pub stored: Option<Stored>,
}

/// From the client's last call until all is in the store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stored {
    /// Until the mount was gone.
    pub seconds: f64,
    /// Processor time of the file system's processes.
    pub daemon_cpu: f64,
    /// Bytes to the store.
    pub sent: u64,
    /// Requests.
    pub requests: u64,
    /// What they cost at list prices.
    pub dollars: f64,
}

impl Results {
    /// Empty ones, of now.
    pub fn now() -> Results {
        Results {
            version: VERSION,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            took_seconds: 0.0,
            machine: Machine::default(),
            server: String::new(),
            exact_cpu: false,
            scale: Scale::quick(),
            repeat: 0,
            subjects: Vec::new(),
            cases: Vec::new(),
            figures: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    /// Reads a file that [`Self::save`] wrote.
    pub fn load(path: &Path) -> Result<Results> {
        file::load(path, VERSION, |results: &Results| results.version)
    }

    /// Writes them.
    pub fn save(&self, path: &Path) -> Result<()> {
        file::save(self, path)
    }

    /// Takes in what another run on the same machine at the same scale found, as further repetitions.
    pub fn merge(&mut self, other: Results) -> Result<()> {
        if (&self.machine, &self.scale, &self.server) != (&other.machine, &other.scale, &other.server) {
            return Err(Failure::new("results of another machine, scale or server cannot be put together"));
        }
        for subject in other.subjects {
            match self.subjects.iter().find(|one| one.name == subject.name) {
                None => self.subjects.push(subject),
                Some(one) if *one == subject => {}
                Some(one) => {
                    let (a, b) = (&one.version, &subject.version);
                    return Err(Failure::new(format!("{} is not the same in both: {a}, {b}", subject.name)));
                }
            }
        }
        self.cases
            .extend(other.cases.into_iter().filter(|case| !self.cases.contains(case)).collect::<Vec<_>>());
        let first = self.repeat;
        self.figures.extend(
            other
                .figures
                .into_iter()
                .map(|figure| Figure { repetition: figure.repetition + first, ..figure }),
        );
        self.repeat += other.repeat;
        self.not_measured.extend(
            other
                .not_measured
                .into_iter()
                .filter(|line| !self.not_measured.contains(line))
                .collect::<Vec<_>>(),
        );
        self.date = self.date.clone().max(other.date);
        self.took_seconds += other.took_seconds;
        Ok(())
    }

    /// Reads that gave something else than was written.
    pub fn wrong_data(&self) -> Vec<&Figure> {
        let wrong = |figure: &&Figure| figure.failed.as_ref().is_some_and(|why| why.contains("WRONG DATA"));
        self.figures.iter().filter(wrong).collect()
    }
}
