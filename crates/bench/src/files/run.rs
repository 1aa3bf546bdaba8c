//! The order in which everything happens.

use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::caches::{self, Caches};
use super::content::{Content, mix};
use super::error::{Error, On};
use super::options::Options;
use super::outcome::{Directory, Figures, Latency, Machine, Ratio, Report, Run, SCHEMA};
use super::phases::{Phase, Unit};
use super::place::FileSystem;
use super::space::{self, Space};
use super::worker::{self, Setup, Stop, Timing};
use crate::report::Spread;

/// How far a benchmark is.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Which directory.
    pub directory: &'a Path,
    /// Which phase; none while the working directory is deleted.
    pub phase: Option<Phase>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// What is done of the phase, in its unit.
    pub done: u64,
    /// What there is to do; 0 where that is not known.
    pub total: u64,
}

/// Measures `directory` and, if there is one, `against`, in turns. Everything is made below a fresh directory in each of them, and
/// deleted at the end, whatever that is. `tell` hears about ten times a second how far it is.
///
/// # Errors
/// What a file system refused, got wrong or lost; [`Error::Stopped`] after `stop` was asked; see [`Error`].
pub fn run(
    directory: &Path,
    against: Option<&Path>,
    options: &Options,
    stop: &Stop,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<Report, Error> {
    options.validate()?;
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let places = places(directory, against)?;
    check_room(&places, options)?;
    let mut notes = leftovers(&places);
    let phases: Vec<Phase> = Phase::of(options).collect();
    let mut records: Vec<Vec<Record>> =
        places.iter().map(|_| phases.iter().map(|_| Record::default()).collect()).collect();
    let seed = RandomState::new().hash_one("benchmark");
    for repetition in 1..=options.repeat {
        let mut once = Once {
            places: &places,
            options,
            stop,
            seed: mix(seed ^ u64::from(repetition)),
            repetition,
            tell,
        };
        once.run(&phases, &mut records)?;
    }
    let directories: Vec<Directory> = places
        .into_iter()
        .zip(&records)
        .map(|(place, records)| Directory {
            path: place.path,
            file_system: place.file_system,
            phases: phases.iter().zip(records).filter_map(|(phase, record)| record.figures(*phase)).collect(),
        })
        .collect();
    let ratios = match directories.as_slice() {
        [first, second] => first.phases.iter().zip(&second.phases).map(|(a, b)| Ratio::of(a, b)).collect(),
        _ => Vec::new(),
    };
    notes.extend(super::text::notes(&directories));
    Ok(Report {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        machine: Machine::this(),
        options: options.clone(),
        directories,
        ratios,
        notes,
    })
}

struct Place {
    path: PathBuf,
    file_system: FileSystem,
    device: u64,
}

fn places(directory: &Path, against: Option<&Path>) -> Result<Vec<Place>, Error> {
    [Some(directory), against]
        .into_iter()
        .flatten()
        .map(|path| {
            let canonical = path.canonicalize().on("use the directory", path)?;
            let metadata = canonical.metadata().on("use the directory", path)?;
            if !metadata.is_dir() {
                return Err(Error::Io {
                    action: "use the directory",
                    path: path.to_owned(),
                    source: std::io::ErrorKind::NotADirectory.into(),
                });
            }
            let file_system = FileSystem::of(&canonical).on("find the file system of", &canonical)?;
            Ok(Place { path: canonical, file_system, device: metadata.dev() })
        })
        .collect()
}

/// Refuses to fill a file system up. Directories on the same one share its room.
fn check_room(places: &[Place], options: &Options) -> Result<(), Error> {
    for place in places {
        let stat = rustix::fs::statvfs(&place.path).on("find the room in", &place.path)?;
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        let sharing = places.iter().filter(|other| other.device == place.device).count() as u64;
        let needed = options.bytes().saturating_mul(sharing);
        // Some file systems know no limit, and say 0 for everything.
        if needed > available && stat.f_blocks > 0 {
            return Err(Error::Space { directory: place.path.clone(), available, needed });
        }
    }
    Ok(())
}

fn leftovers(places: &[Place]) -> Vec<String> {
    let mut found: Vec<PathBuf> = places.iter().flat_map(|place| space::others(&place.path)).collect();
    found.sort();
    found.dedup();
    found
        .iter()
        .map(|path| {
            format!(
                "{} is of another benchmark: one that still runs and disturbs, or one that was killed.",
                path.display()
            )
        })
        .collect()
}

/// What the repetitions of a phase on a directory took.
#[derive(Default)]
struct Record {
    caches: Option<Caches>,
    timings: Vec<Timing>,
}

impl Record {
    fn figures(&self, phase: Phase) -> Option<Figures> {
        let runs: Vec<Run> = self.timings.iter().map(Run::new).collect();
        Some(Figures {
            phase,
            unit: phase.unit(),
            caches: self.caches,
            rate: Spread::of(runs.iter().map(|run| run.rate))?,
            latency: Latency::of(phase, &self.timings),
            runs,
        })
    }
}

/// One repetition of all phases on all directories.
struct Once<'a> {
    places: &'a [Place],
    options: &'a Options,
    stop: &'a Stop,
    seed: u64,
    repetition: u32,
    tell: &'a mut dyn FnMut(Step<'_>),
}

impl Once<'_> {
    fn run(&mut self, phases: &[Phase], records: &mut [Vec<Record>]) -> Result<(), Error> {
        let mut spaces = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            let tag = mix(self.seed ^ index as u64);
            spaces.push(Space::create(&place.path, tag, self.options.threads)?);
        }
        let mut result = self.all(phases, &spaces, records);
        for (space, place) in spaces.into_iter().zip(self.places) {
            self.step(&place.path, None, 0);
            result = space.remove(result.err());
        }
        result
    }

    fn all(&mut self, phases: &[Phase], spaces: &[Space], records: &mut [Vec<Record>]) -> Result<(), Error> {
        // What a file holds differs by repetition and directory: no file passes for another's.
        let contents: Vec<Content> =
            (1..).zip(spaces).map(|(i, _)| Content::new(mix(self.seed ^ (i << 32)))).collect();
        for (number, &phase) in phases.iter().enumerate() {
            for turn in 0..spaces.len() {
                let who = (turn + number + self.repetition as usize - 1) % spaces.len();
                let (Some(space), Some(content), Some(record)) = (
                    spaces.get(who),
                    contents.get(who),
                    records.get_mut(who).and_then(|r| r.get_mut(number)),
                ) else {
                    continue;
                };
                caches::settle(&spaces.iter().collect::<Vec<_>>());
                if phase.is_cold() {
                    record.caches = Some(self.empty_caches(space, phase));
                }
                let setup = Setup { space, options: self.options, content, seed: self.seed, stop: self.stop };
                let path = &self.places[who].path;
                self.step(path, Some(phase), 0);
                let timing = worker::run(&setup, phase, &mut |done| self.step(path, Some(phase), done))?;
                record.timings.push(timing);
            }
        }
        Ok(())
    }

    fn empty_caches(&self, space: &Space, phase: Phase) -> Caches {
        if self.options.keep_caches {
            Caches::Kept
        } else {
            caches::drop_all(space, self.options.threads, phase.is_big())
        }
    }

    fn step(&mut self, directory: &Path, phase: Option<Phase>, done: u64) {
        let total = match phase {
            // These end when their time is up.
            Some(phase) if phase.unit() != Unit::Operations => {
                phase.total(self.options).saturating_mul(u64::from(self.options.threads))
            }
            _ => 0,
        };
        (self.tell)(Step { directory, phase, repetition: self.repetition, done, total });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little() -> Options {
        Options {
            threads: 3,
            big_size: (1 << 20) + 5_000,
            block_size: 64 << 10,
            small_size: 5_000,
            small_count: 1_100,
            random_time: std::time::Duration::from_millis(50),
            fsync: false,
            keep_caches: true,
            repeat: 1,
        }
    }

    fn is_empty(directory: &Path) -> bool {
        std::fs::read_dir(directory).unwrap().next().is_none()
    }

    #[test]
    fn all_phases_are_measured_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        let report = run(directory.path(), None, &little(), &Stop::default(), &mut |step| {
            if seen.last() != Some(&step.phase) {
                seen.push(step.phase);
            }
            assert!(step.total == 0 || step.done <= step.total);
        })
        .unwrap();
        assert_eq!(seen, Phase::ALL.into_iter().map(Some).chain([None]).collect::<Vec<_>>());
        let [found] = report.directories.as_slice() else { panic!("one directory") };
        assert_eq!(found.phases.iter().map(|f| f.phase).collect::<Vec<_>>(), Phase::ALL);
        assert!(is_empty(directory.path()) && report.ratios.is_empty());
        for figures in &found.phases {
            assert!(figures.rate.median > 0.0 && figures.rate.median.is_finite(), "{figures:?}");
            let latency = &figures.latency;
            assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.max, "{latency:?}");
            assert_eq!(figures.caches, figures.phase.is_cold().then_some(Caches::Kept));
            let [once] = figures.runs.as_slice() else { panic!("one run") };
            assert_eq!(once.operations, latency.count);
            let big = 3 * ((1 << 20) + 5_000);
            match figures.phase {
                Phase::BigWrite | Phase::BigRead | Phase::BigReread => assert_eq!(once.bytes, big),
                Phase::RandomRead | Phase::RandomWrite => assert_eq!(once.bytes, once.operations * 4096),
                Phase::SmallWrite | Phase::SmallRead => {
                    assert_eq!((once.operations, once.bytes), (3_300, 3_300 * 5_000));
                }
                Phase::List => assert_eq!(once.operations, 6),
                Phase::Stat | Phase::Rename | Phase::Delete => assert_eq!(once.operations, 3_300),
            }
        }
    }

    #[test]
    fn two_directories_take_turns_and_are_compared() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = &directories;
        let options = Options { small_count: 20, repeat: 2, ..little() };
        let mut turns = Vec::new();
        let report = run(first.path(), Some(second.path()), &options, &Stop::default(), &mut |step| {
            if step.phase == Some(Phase::Stat) && step.done == 0 {
                turns.push((step.repetition, step.directory.to_owned()));
            }
        })
        .unwrap();
        turns.dedup();
        // Who begins changes.
        let (a, b) = (first.path().to_owned(), second.path().to_owned());
        assert_eq!(turns, [(1, b.clone()), (1, a.clone()), (2, a), (2, b)]);
        assert_eq!(report.ratios.len(), Phase::ALL.len());
        assert!(
            report
                .directories
                .iter()
                .all(|d| d.phases.iter().all(|f| f.rate.samples == 2 && f.runs.len() == 2))
        );
        assert!(directories.iter().all(|d| is_empty(d.path())));
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap().ratios.len(), report.ratios.len());
    }

    #[test]
    fn asked_to_stop_it_ends_in_any_phase_and_leaves_nothing() {
        for phase in Phase::ALL {
            let directory = tempfile::tempdir().unwrap();
            let stop = Stop::default();
            let result = run(directory.path(), None, &little(), &stop, &mut |step| {
                if step.phase == Some(phase) {
                    stop.request();
                }
            });
            assert!(result.unwrap_err().is_stop(), "{phase:?}");
            assert!(is_empty(directory.path()), "{phase:?}");
        }
    }

    #[test]
    fn files_that_change_behind_its_back_are_found() {
        // Which file is spoiled, before which phase, and how it must be called.
        type Spoil = fn(&Path);
        let flip: Spoil = |path| {
            let mut content = std::fs::read(path).unwrap();
            content[4_999] ^= 1;
            std::fs::write(path, content).unwrap();
        };
        let last: Spoil = |path| {
            let mut content = std::fs::read(path).unwrap();
            *content.last_mut().unwrap() ^= 0x80;
            std::fs::write(path, content).unwrap();
        };
        let shorten: Spoil =
            |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4_000).unwrap();
        let lengthen: Spoil =
            |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(2 << 20).unwrap();
        let lose: Spoil = |path| std::fs::remove_file(path).unwrap();
        let add: Spoil = |path| std::fs::write(path.with_file_name("more"), "x").unwrap();
        let cases: &[(Phase, &str, Spoil, &str)] = &[
            (Phase::BigRead, "t001/big", flip, "the byte at 4999 is wrong"),
            (Phase::BigRead, "t001/big", shorten, "but is 4000"),
            (Phase::BigReread, "t000/big", lengthen, "but is"),
            // Beyond the last whole page, so not overwritten.
            (Phase::RandomWrite, "t000/big", last, "the byte at 1053575 is wrong"),
            (Phase::List, "t000/d00001/f00001002", lose, "should list 100 files, but lists 99"),
            (Phase::List, "t000/d00001/f00001002", add, "should list 100 files, but lists 101"),
            (Phase::Stat, "t002/d00000/f00000000", shorten, "but is 4000"),
            (Phase::SmallRead, "t002/d00000/f00000007", flip, "the byte at 4999 is wrong"),
            (Phase::SmallRead, "t002/d00000/f00000007", lengthen, "but is 5001"),
            (Phase::Rename, "t002/d00000/f00000007", lose, "cannot rename"),
            (Phase::Delete, "t000/d00001/r00001002", add, "empty by now"),
        ];
        for (phase, file, spoil, message) in cases {
            let directory = tempfile::tempdir().unwrap();
            let mut spoiled = false;
            let error = run(directory.path(), None, &little(), &Stop::default(), &mut |step| {
                if step.phase == Some(*phase) && !spoiled {
                    let space = std::fs::read_dir(step.directory).unwrap().next().unwrap().unwrap().path();
                    spoil(&space.join(file));
                    spoiled = true;
                }
            })
            .unwrap_err()
            .to_string();
            assert!(error.contains(message), "{phase:?} {file}: {error}");
            assert!(is_empty(directory.path()), "{phase:?}");
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { big_size: 1 << 40, threads: 256, ..little() };
        let error = run(directory.path(), None, &options, &Stop::default(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::Space { .. }), "{error}");
        assert!(is_empty(directory.path()));
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), directory.path().join("missing")] {
            let error = run(&path, None, &little(), &Stop::default(), &mut |_| ()).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error}");
        }
    }
}
