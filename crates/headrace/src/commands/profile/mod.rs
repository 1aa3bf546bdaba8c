//! `headrace profile`: which operations, by which process, take the time.

mod live;
mod log;
mod record;
mod table;
pub mod totals;

use std::ops::ControlFlow;
use std::time::Duration;

use super::Call;
use super::stop::Stop;
use super::watched;
use crate::cli::command::ProfileCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::operations::{Part, Told};
use crate::daemon::registry::Record;
use crate::failure::Failure;
use crate::output::screen::Screen;
use crate::output::{self, human};
use table::PAGE;
use totals::Totals;

/// Runs the command.
pub fn run(call: &Call, command: &ProfileCommand) -> Result<(), Failure> {
    if let Some(file) = &command.read {
        call.begin(None)?;
        return finished(&log::read(file)?, command);
    }
    // The command line says that there is one where there is no log.
    let target = command.target.as_deref().unwrap_or_default();
    let settings = call.begin(Some(target))?;
    let daemon = watched::find(target, settings.process.runtime_dir.as_deref())?;
    if let Some(file) = &command.record {
        let stop = Stop::listen()?;
        let (totals, ended) = record::run(&daemon, file, command.duration.map(|span| span.0), &stop)?;
        finished(&totals, command)?;
        return if ended { watched::ended(&daemon) } else { Ok(()) };
    }
    if command.duration.is_none() && !command.json && Screen::possible() {
        return live::run(daemon, command);
    }
    follow(&daemon, command)
}

/// Prints what was gathered.
fn finished(totals: &Totals, command: &ProfileCommand) -> Result<(), Failure> {
    if command.json {
        return output::print_json(&totals.report(command.by, command.sort));
    }
    output::print(&text(totals, command))
}

fn text(totals: &Totals, command: &ProfileCommand) -> String {
    let mut text = format!("{} in {}\n", table::summary(totals), human::seconds(totals.seconds));
    for line in table::lines(totals, command.by, command.sort, PAGE) {
        text.push_str(&line);
        text.push('\n');
    }
    let more = totals.groups(command.by, command.sort).len().saturating_sub(PAGE.rows);
    if more > 0 {
        let rows = human::plural(more as u64, "more row", "more rows");
        text.push_str(&format!("and {rows}; --by command makes fewer, --json has all\n"));
    }
    text
}

/// Without a screen: everything at the end of a time that was given, else what happened in each interval.
fn follow(daemon: &Record, command: &ProfileCommand) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let mut all = Totals::default();
    let mut first = true;
    let mut part = |part: Part| {
        if command.duration.is_some() {
            all.add(&part);
            return Ok(ControlFlow::Continue(()));
        }
        let mut totals = Totals::default();
        totals.add(&part);
        if command.json {
            return output::print_json_line(&totals.report(command.by, command.sort));
        }
        let gap = if std::mem::take(&mut first) { "" } else { "\n" };
        output::print_on(&format!("{gap}{}", text(&totals, command)))
    };
    let how = How { interval: command.interval.0, until: command.duration.map(|span| span.0), each: false };
    let ended = listen(daemon, how, &mut part, &stop)?;
    if command.duration.is_some() {
        finished(&all, command)?;
    }
    if ended { watched::ended(daemon) } else { Ok(()) }
}

/// What to be told.
#[derive(Debug, Clone, Copy)]
struct How {
    interval: Duration,
    until: Option<Duration>,
    each: bool,
}

/// Hands what the daemon tells to `part` until the time is up or a signal comes. True: the mount ended before.
fn listen(
    daemon: &Record,
    how: How,
    part: &mut dyn FnMut(Part) -> Result<ControlFlow<()>, Failure>,
    stop: &Stop,
) -> Result<bool, Failure> {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Operations {
        interval_ms: millis(how.interval),
        for_ms: how.until.map(millis),
        each: how.each,
    };
    let client = Client::connect(daemon).map_err(|failure| watched::lost(daemon, failure))?;
    match client.stream::<Part, Option<Told>>(&request, part, &|| stop.asked()) {
        Ok(told) => Ok(told.flatten().is_some_and(|told| told.ended)),
        Err(failure) => Err(watched::lost(daemon, failure)),
    }
}
