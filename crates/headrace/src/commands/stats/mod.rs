//! `headrace stats`: what a mount does now, layer by layer.

mod figures;
mod lines;
mod panels;
mod view;

use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use headrace_metrics::Snapshot;

use super::Call;
use super::stop::Stop;
use super::watched;
use crate::cli::command::StatsCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::registry::Record;
use crate::failure::Failure;
use crate::output;
use crate::output::screen::{Input, Screen};
use figures::Figures;
use view::View;

/// How soon a key or a signal is answered.
const LOOK: Duration = Duration::from_millis(50);
/// Lines between two rows of headings.
const PAGE: usize = 20;

/// Runs the command.
pub fn run(call: &Call, command: &StatsCommand) -> Result<(), Failure> {
    let settings = call.begin(Some(&command.target))?;
    let daemon = watched::find(&command.target, settings.process.runtime_dir.as_deref())?;
    if command.once {
        return once(&daemon, command);
    }
    let stop = Stop::listen()?;
    let news = watch(daemon.clone(), command.interval.0);
    if !command.json && Screen::possible() {
        return live(&daemon, &news, &stop);
    }
    let mut printed = 0;
    loop {
        match news.recv_timeout(LOOK) {
            Ok(Ok(figures)) => {
                if print(&figures, command.json, printed)?.is_break() {
                    return Ok(());
                }
                printed += 1;
            }
            Ok(Err(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) if !stop.asked() => {}
            Err(_) => return Ok(()),
        }
    }
}

/// Prints what happened in one interval.
fn once(daemon: &Record, command: &StatsCommand) -> Result<(), Failure> {
    let before = look(daemon)?;
    std::thread::sleep(command.interval.0);
    let figures = Figures::between(&before, &look(daemon)?);
    if command.json {
        return output::print_json(&figures);
    }
    let mut text = format!("{}\n", title(daemon));
    for panel in panels::all(&figures) {
        text.push_str(&format!("\n{}\n", panel.title));
        panel.lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    output::print(&text)
}

fn title(daemon: &Record) -> String {
    format!("{}  {}", output::path(&daemon.mountpoint), output::name(daemon.url.as_bytes()))
}

fn print(figures: &Figures, json: bool, printed: usize) -> Result<ControlFlow<()>, Failure> {
    if json {
        return output::print_json_line(figures);
    }
    let headings =
        if printed.is_multiple_of(PAGE) { format!("{}\n", lines::headings()) } else { String::new() };
    output::print_on(&format!("{headings}{}\n", lines::of(figures)))
}

fn live(daemon: &Record, news: &Receiver<Result<Figures, Failure>>, stop: &Stop) -> Result<(), Failure> {
    let mut view = View::new(title(daemon));
    let mut screen = Screen::open()?;
    screen.draw(|frame| view.draw(frame))?;
    loop {
        let mut changed = match screen.input(LOOK)? {
            Some(Input::Quit) => return Ok(()),
            Some(Input::Key(key)) => view.key(key),
            Some(Input::Resize) => true,
            None => false,
        };
        if stop.asked() {
            return Ok(());
        }
        while let Ok(figures) = news.try_recv() {
            // The screen is given back before the failure is told.
            changed |= view.add(figures?);
        }
        if changed {
            screen.draw(|frame| view.draw(frame))?;
        }
    }
}

/// The metrics now.
fn look(daemon: &Record) -> Result<Snapshot, Failure> {
    let client = Client::connect(daemon);
    let answer = client.and_then(|client| client.call::<Snapshot>(&Request::Metrics, &mut |_| {}));
    answer.map_err(|failure| watched::lost(daemon, failure))
}

/// Looks again and again until nobody takes the figures or the daemon is gone. A slow look never holds up a key.
fn watch(daemon: Record, interval: Duration) -> Receiver<Result<Figures, Failure>> {
    let (sender, news) = mpsc::sync_channel(2);
    std::thread::spawn(move || {
        let mut before = match look(&daemon) {
            Ok(snapshot) => snapshot,
            Err(failure) => {
                let _ = sender.send(Err(failure));
                return;
            }
        };
        let mut due = Instant::now();
        loop {
            // Not later by what a look takes; but never one after the other when looks take longer than that.
            due = (due + interval).max(Instant::now() + interval / 2);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let figures = look(&daemon).map(|now| {
                let figures = Figures::between(&before, &now);
                before = now;
                figures
            });
            let last = figures.is_err();
            if sender.send(figures).is_err() || last {
                return;
            }
        }
    });
    news
}
