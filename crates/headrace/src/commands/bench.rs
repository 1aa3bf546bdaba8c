//! `headrace bench`

use std::io;

use headrace_bench::files::{self, Error, Step, Unit};
use headrace_bench::plot::Figure;
use headrace_bench::report::colour_wanted;

use super::Call;
use super::stop::Stop;
use crate::cli::bench::BenchCommand;
use crate::failure::{Context, Exit, Failure};
use crate::output::progress::{Progress, Unit as BarUnit};
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, command: &BenchCommand) -> Result<(), Failure> {
    call.begin(None)?;
    if let Some(path) = &command.plot {
        Figure::check_path(path).map_err(|e| Failure::usage("cannot plot").because(&e))?;
    }
    let signals = Stop::listen()?;
    let stop = files::Stop::default();
    let bar = Progress::new("measuring");
    let mut told = false;
    let result =
        files::run(&command.directory, command.against.as_deref(), &command.options(), &stop, &mut |step| {
            if signals.asked() && !told {
                told = true;
                stop.request();
                output::say("stopping, and deleting what was made; interrupt again to leave it behind");
            }
            show(&bar, command, step);
        });
    drop(bar);
    let report = result.map_err(|error| failure(&error))?;
    if command.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.text(colour_wanted(&io::stdout())))?;
    }
    match &command.plot {
        Some(path) => report.figure().save(path).context(|| "cannot plot".to_owned()),
        None => Ok(()),
    }
}

fn show(bar: &Progress, command: &BenchCommand, step: Step<'_>) {
    let mut what = step.phase.map_or("delete everything", |phase| phase.title()).to_owned();
    if command.against.is_some() {
        what = format!("{}: {what}", output::path(step.directory));
    }
    if command.repeat > 1 {
        what = format!("{}/{} {what}", step.repetition, command.repeat);
    }
    let unit = match step.phase.map(|phase| phase.unit()) {
        Some(Unit::Bytes) => BarUnit::Bytes,
        _ => BarUnit::Items,
    };
    bar.set_phase(&what, unit, step.done, step.total);
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Option(why) => Failure::usage(why.clone()),
        Error::Stopped => Failure::new("stopped before the end; everything that was made is deleted again"),
        Error::Space { directory, available, needed } => Failure::new(format!(
            "{} has room for {}, but the files need {}",
            output::path(directory),
            human::bytes(*available),
            human::bytes(*needed)
        ))
        .advise("ask for fewer or smaller files: --threads, --big-size, --small-count, --small-size"),
        Error::Corrupt { .. } | Error::Length { .. } | Error::Listing { .. } => Failure::new("wrong data")
            .because(error)
            .advise("either something else changed the files meanwhile, or this file system or its disk is not sound"),
        other => {
            let exit = match other.io().map(io::Error::kind) {
                Some(io::ErrorKind::NotFound) => Exit::NotFound,
                Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => Exit::Denied,
                _ => Exit::Failure,
            };
            Failure::new("").because(other).exit(exit)
        }
    }
}
