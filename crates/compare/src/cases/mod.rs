//! What is done on every subject. A case is a small struct: add one to the list of its group, and it is run, checked and reported.

mod mmap;
mod programs;
mod random;
mod sequential;
mod small_files;
mod streams;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dataset::{DataFile, PER_DIRECTORY, Scale};
use crate::worker::{Access, Job, Order, Outcome, Section, SmallAction, Work};
pub use programs::fixtures;

/// For what is not measured.
const UNMEASURED: Duration = Duration::from_secs(120);

/// What a case's figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Million bytes per second.
    Throughput,
    /// So many of these per second.
    Rate(&'static str),
    /// Seconds, less is better.
    Seconds,
}

impl Measure {
    /// The unit.
    pub fn unit(self) -> String {
        match self {
            Measure::Throughput => "MB/s".into(),
            Measure::Rate(what) => format!("{what}/s"),
            Measure::Seconds => "s".into(),
        }
    }

    /// The figure.
    pub fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Measure::Throughput => outcome.bytes as f64 / 1e6 / outcome.seconds,
            Measure::Rate(_) => outcome.operations as f64 / outcome.seconds,
            Measure::Seconds => outcome.seconds,
        }
    }

    /// Whether a larger figure is a better one.
    pub fn more_is_better(self) -> bool {
        self != Measure::Seconds
    }
}

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name on the command line and in results: the group's name comes first.
    pub id: &'static str,
    /// What a person reads.
    pub title: &'static str,
    /// What is measured.
    pub measure: Measure,
    /// What is done.
    plan: fn(&Place) -> Plan,
}

impl Case {
    /// The part of the id before the first slash.
    pub fn group(&self) -> &'static str {
        self.id.split('/').next().unwrap_or(self.id)
    }

    /// What is done at a place.
    pub fn plan(&self, place: &Place) -> Plan {
        (self.plan)(place)
    }
}

/// Where a case is run.
#[derive(Debug)]
pub struct Place<'a> {
    /// How much.
    pub scale: &'a Scale,
    /// The mount's root; its data is below `data`.
    pub root: &'a Path,
    /// A directory on the mount that no other case uses.
    pub scratch: PathBuf,
    /// What the programs work on; not on the mount.
    pub fixtures: &'a Path,
}

impl Place<'_> {
    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    fn whole(&self, file: &DataFile) -> Section {
        Section { path: file.at(&self.data()), id: file.id, from: 0, len: file.len }
    }

    /// A file of its own, of this length.
    fn fresh(&self, len: u64) -> Section {
        Section { path: self.scratch.join("file"), id: 0x1000, from: 0, len }
    }

    fn small(&self, action: SmallAction) -> Job {
        let work = Work::Small {
            action,
            root: self.data(),
            under: "small".into(),
            count: self.scale.small,
            each: PER_DIRECTORY,
        };
        self.measured(work)
    }

    fn measured(&self, work: Work) -> Job {
        Job { work, limit: self.scale.limit }
    }
}

fn unmeasured(work: Work) -> Job {
    Job { work, limit: UNMEASURED }
}

fn read(threads: Vec<Vec<Section>>, order: Order, block: u64) -> Work {
    Work::Read { threads, order, block, access: Access::Pread }
}

/// Reads and checks all of a file.
fn check(section: Section) -> Job {
    unmeasured(read(vec![vec![section]], Order::Sequential, 1 << 20))
}

/// The jobs that check what a case did.
pub type Check = Box<dyn Fn(&Outcome) -> Vec<Job>>;

/// The steps of a case.
pub struct Plan {
    /// Done in an earlier mount.
    pub setup: Vec<Job>,
    /// Done in the same mount, before what is measured; the kernel keeps what it has cached.
    pub before: Vec<Job>,
    /// What is measured.
    pub timed: Job,
    /// Whether it changes anything: then the time until all is in the store is measured too.
    pub writes: bool,
    /// What checks it, given the outcome; done in a later mount.
    pub after: Check,
    /// Large files that can go when it is over.
    pub remove: Vec<PathBuf>,
}

impl Plan {
    /// Only reads, each of which is checked.
    fn reads(timed: Job) -> Plan {
        Plan {
            setup: Vec::new(),
            before: Vec::new(),
            timed,
            writes: false,
            after: Box::new(|_| Vec::new()),
            remove: Vec::new(),
        }
    }

    /// Writes, to be checked by these jobs.
    fn writes(timed: Job, after: impl Fn(&Outcome) -> Vec<Job> + 'static) -> Plan {
        Plan { writes: true, after: Box::new(after), ..Plan::reads(timed) }
    }
}

/// All cases, in the order in which they are run.
pub fn all() -> Vec<Case> {
    [
        sequential::CASES,
        random::CASES,
        streams::CASES,
        mmap::CASES,
        write::CASES,
        small_files::CASES,
        programs::CASES,
    ]
    .concat()
}

/// Those that a first look is made of: of each kind the one that tells most.
pub fn quick() -> Vec<Case> {
    all().into_iter().filter(|case| QUICK.contains(&case.id)).collect()
}

const QUICK: [&str; 14] = [
    "sequential/1-by-1m",
    "sequential/4-by-1m",
    "sequential/32-by-256k",
    "sequential/again",
    "random/4k",
    "random/128k",
    "streams/4-on-one",
    "streams/strided",
    "write/sequential",
    "write/fsync",
    "small/create",
    "small/read",
    "programs/git-clone",
    "programs/ls-lr",
];

/// What a group is called in a report.
pub fn group_title(group: &str) -> &'static str {
    match group {
        "sequential" => "Sequential reads",
        "random" => "Random reads",
        "streams" => "Interleaved and strided reads",
        "mmap" => "Reads through a mapping",
        "write" => "Writes to large files",
        "small" => "Small files",
        "programs" => "Programs",
        _ => "Others",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_have_a_known_group() {
        let all = all();
        assert_eq!(all.iter().map(|case| case.id).collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|case| group_title(case.group()) != "Others"));
        assert_eq!(quick().len(), QUICK.len());
    }

    /// The plans of all cases on a plain directory: whatever they write is checked, and nothing fails.
    #[test]
    fn every_case_works_on_a_directory() {
        let scale = Scale::tiny();
        let dir = tempfile::tempdir().unwrap();
        let made = crate::runner::fill_directory(dir.path(), &scale);
        made.unwrap();
        let fixtures_dir = dir.path().join("fixtures");
        std::fs::create_dir(&fixtures_dir).unwrap();
        fixtures(&fixtures_dir, scale.tree).unwrap();
        for (n, case) in all().into_iter().enumerate() {
            let scratch = dir.path().join(format!("scratch-{n}"));
            std::fs::create_dir(&scratch).unwrap();
            let place = Place { scale: &scale, root: dir.path(), scratch, fixtures: &fixtures_dir };
            let plan = case.plan(&place);
            if matches!(plan.timed.work, Work::Fio { .. })
                && headrace_testbed::binary::find_tool("fio").is_none()
            {
                continue;
            }
            let perform = |job: &Job| {
                crate::worker::perform(job).unwrap_or_else(|failure| panic!("{}: {failure}", case.id))
            };
            for job in plan.setup.iter().chain(&plan.before) {
                perform(job);
            }
            let outcome = perform(&plan.timed);
            assert!(outcome.operations > 0, "{}", case.id);
            assert!(case.measure.of(&outcome) > 0.0, "{}", case.id);
            for job in &(plan.after)(&outcome) {
                perform(job);
            }
        }
    }
}
