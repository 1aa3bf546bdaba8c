//! `headrace objbench`

use std::io;

use headrace_bench::objbench::{self, ObjbenchError, Report, Step};
use headrace_bench::plot::Figure;
use headrace_bench::report::colour_wanted;
use tokio::signal::unix::{SignalKind, signal};

use super::{Call, open};
use crate::cli::objbench::ObjbenchCommand;
use crate::failure::{Context, Failure};
use crate::output::progress::{Progress, Unit};
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, command: &ObjbenchCommand) -> Result<(), Failure> {
    let url = &command.url;
    let settings = call.begin(Some(url))?;
    let location = open::location(url)?;
    let options = command.options(available_memory()).checked().map_err(failure)?;
    if let Some(path) = &command.plot {
        Figure::check_path(path).map_err(|e| Failure::usage("cannot plot").because(&e))?;
    }
    let store = headrace_store::open(&location, &open::store_options(&settings)?)?;
    if let Some(space) = store.space().filter(|space| space.free < options.most_stored()) {
        return Err(Failure::new(format!(
            "{location} has room for {}, but up to {} are written",
            human::bytes(space.free),
            human::bytes(options.most_stored())
        ))
        .advise("Ask for fewer or smaller objects, or for fewer requests at a time: --big-objects, --big-size, --concurrency."));
    }
    let report = super::block_on(async {
        let stop = objbench::Stop::default();
        stop_on_signals(&stop)?;
        let bar = Progress::new("measuring");
        let show = |step: Step| bar.set_phase(&step.what, Unit::Items, step.done, step.total);
        objbench::run(store, location.is_local(), options, stop, show).await.map_err(failure)
    })?;
    if command.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.text(colour_wanted(&io::stdout())))?;
    }
    if let Some(path) = &command.plot {
        report.figure().save(path).context(|| "cannot plot".to_owned())?;
    }
    verdict(&report)
}

/// The first signal ends the measuring, the second what comes after it too.
fn stop_on_signals(stop: &objbench::Stop) -> Result<(), Failure> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind).context(|| "cannot listen for signals".to_owned())?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if !stop.asked() {
                    output::say(
                        "stopping, and removing what was written; interrupt again to leave it behind",
                    );
                }
                stop.ask();
            }
        });
    }
    Ok(())
}

fn verdict(report: &Report) -> Result<(), Failure> {
    let problems = report.problems();
    if problems.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(problems.join("; "));
    match report.cleanup.left {
        0 => Err(failure),
        _ => {
            Err(failure
                .advise("Nothing uses the objects below that prefix: they can be deleted with any tool."))
        }
    }
}

fn failure(error: ObjbenchError) -> Failure {
    match error {
        ObjbenchError::Store(error) => Failure::from(error),
        ObjbenchError::Options(why) => Failure::usage(why),
        other => Failure::new("").because(&other),
    }
}

/// Memory that could be used without taking anybody else's, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}
