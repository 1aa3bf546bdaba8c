//! Runs all cases on all subjects, in turns, again and again while there is time.

mod machine;
mod measure;
mod prepare;
mod schedule;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cases::{self, Case};
use crate::dataset::Scale;
use crate::failure::{Failure, Result};
use crate::report::results::{CaseInfo, Figure, Results, SubjectInfo};
use crate::server::{Profile, Server};
use crate::subjects::{self, Site, Subject};
use crate::workspace::{Workspace, sweep};
pub use machine::describe as machine;
pub use prepare::fill_directory;
use schedule::{Budget, turns};

/// What to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names of subjects; all that are installed when empty.
    pub subjects: Vec<String>,
    /// Beginnings of ids of cases; all when empty.
    pub cases: Vec<String>,
    /// Networks.
    pub profiles: Vec<Profile>,
    /// How often each case is repeated if time allows.
    pub repeat: u32,
    /// How much.
    pub scale: Scale,
    /// For all of it. What does not fit is reported as not measured.
    pub budget: Duration,
    /// Where the data goes: a disk, not a tmpfs.
    pub temporary: PathBuf,
}

/// Runs it. What could be measured is in the results even if much failed.
pub fn run(options: &Options) -> Result<Results> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("needs root, to mount and to drop caches"));
    }
    let started = Instant::now();
    let (chosen, mut not_measured) = choose(options)?;
    let cases = choose_cases(options)?;
    machine::check_space(&options.temporary, &options.scale, &chosen)?;

    sweep(&options.temporary);
    let workspace = Workspace::new(&options.temporary)?;
    let mut results = Results {
        machine: machine::describe(&options.temporary),
        exact_cpu: crate::account::exact(workspace.groups()?),
        scale: options.scale.clone(),
        repeat: options.repeat,
        ..Results::now()
    };
    let server = Server::start(workspace.path())?;
    let site = Site::new(workspace, server);
    results.server = site.server.describe();
    let fixtures = site.directory("fixtures")?;
    cases::fixtures(&fixtures, options.scale.tree)?;
    let ready = prepare::families(&site, chosen, &options.scale, &mut not_measured);

    results.subjects = ready.iter().map(|subject| SubjectInfo::of(subject.as_ref())).collect();
    results.cases = cases.iter().map(CaseInfo::of).collect();
    let mut run = Run { site: &site, fixtures, scale: &options.scale, number: 0, started };
    let mut budget = Budget::new(options.budget.saturating_sub(started.elapsed()));
    for repetition in 0..options.repeat {
        for profile in &options.profiles {
            for (n, case) in cases.iter().enumerate() {
                let taking: Vec<&dyn Subject> = ready
                    .iter()
                    .map(AsRef::as_ref)
                    .filter(|subject| subject.takes(case))
                    .filter(|subject| *profile == Profile::Loopback || subject.family().remote())
                    .collect();
                let keys: Vec<_> = taking.iter().map(|subject| (case.id, subject.name(), *profile)).collect();
                if !budget.allows(&keys) {
                    if repetition == 0 {
                        not_measured.push(format!("{} on {}: no time was left", case.id, profile.name()));
                    }
                    continue;
                }
                // Another one starts each time, so that none always comes first.
                for turn in turns(taking.len(), repetition as usize + n) {
                    let (Some(subject), Some(key)) = (taking.get(turn), keys.get(turn)) else { continue };
                    let begun = Instant::now();
                    results.figures.push(run.once(*subject, case, *profile, repetition));
                    budget.spent(*key, begun.elapsed());
                }
            }
        }
    }
    results.not_measured = not_measured;
    results.took_seconds = started.elapsed().as_secs_f64();
    Ok(results)
}

struct Run<'a> {
    site: &'a Site,
    fixtures: PathBuf,
    scale: &'a Scale,
    number: u64,
    started: Instant,
}

impl Run<'_> {
    /// One case on one subject; a failure is a result too.
    fn once(&mut self, subject: &dyn Subject, case: &Case, profile: Profile, repetition: u32) -> Figure {
        self.number += 1;
        let name = format!("scratch-{}", self.number);
        let measured = measure::measure(self.site, subject, case, profile, self.scale, &name, &self.fixtures);
        let what = match &measured {
            Ok(measured) => format!("{:.4} {}", measured.value, case.measure.unit()),
            Err(failure) => format!("failed: {failure}"),
        };
        let passed = humantime::format_duration(Duration::from_secs(self.started.elapsed().as_secs()));
        eprintln!(
            "{passed:>8}  {}/{} {} {}: {what}",
            profile.name(),
            repetition + 1,
            case.id,
            subject.name()
        );
        let (measured, failed) = match measured {
            Ok(measured) => (Some(measured), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        Figure { case: case.id.into(), subject: subject.name().into(), profile, repetition, failed, measured }
    }
}

type Chosen = Vec<Box<dyn Subject>>;

fn choose(options: &Options) -> Result<(Chosen, Vec<String>)> {
    let known: Vec<&str> = subjects::all().iter().map(|subject| subject.name()).collect();
    if let Some(unknown) = options.subjects.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::new(format!("no subject {unknown:?}; known: {}", known.join(" "))));
    }
    let wanted = |name: &str| options.subjects.is_empty() || options.subjects.iter().any(|one| one == name);
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for subject in subjects::all() {
        if !wanted(subject.name()) {
            continue;
        }
        match subjects::missing(subject.as_ref()) {
            None => chosen.push(subject),
            Some(why) => {
                eprintln!("compare: {} is left out: {why}", subject.name());
                skipped.push(format!("{}: {why}", subject.name()));
            }
        }
    }
    if chosen.is_empty() {
        Err(Failure::new("none of the subjects is installed"))
    } else {
        Ok((chosen, skipped))
    }
}

fn choose_cases(options: &Options) -> Result<Vec<Case>> {
    let all = cases::all();
    if let Some(unknown) =
        options.cases.iter().find(|begin| !all.iter().any(|case| case.id.starts_with(*begin)))
    {
        return Err(Failure::new(format!(
            "no case begins with {unknown:?}; `headrace-compare list` shows all"
        )));
    }
    // A whole id is that case alone, though another one begins with it.
    let ids: Vec<&str> = all.iter().map(|case| case.id).collect();
    let meant = |id: &str, asked: &str| id == asked || (id.starts_with(asked) && !ids.contains(&asked));
    let wanted =
        |case: &Case| options.cases.is_empty() || options.cases.iter().any(|asked| meant(case.id, asked));
    Ok(all.into_iter().filter(wanted).collect())
}
