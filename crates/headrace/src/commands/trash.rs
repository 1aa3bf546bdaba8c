//! `headrace trash`

use std::io::{self, BufRead, IsTerminal};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::stop::Stop;
use super::{Call, progress};
use crate::cli::trash::{TrashCommand, TrashEmptyCommand, TrashListCommand};
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::daemon::trash::{Emptied, Entry, Part};
use crate::failure::{Context, Failure};
use crate::output::progress::Progress;
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, command: &TrashCommand) -> Result<(), Failure> {
    match command {
        TrashCommand::List(command) => list(call, command),
        TrashCommand::Empty(command) => empty(call, command),
    }
}

/// An entry as JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// Where it was; none if its directory is gone for good.
    path: Option<String>,
    name: String,
    version: u64,
    kind: &'a str,
    size: u64,
    held: u64,
    uid: u32,
    deleted: &'a str,
    until: &'a str,
}

fn list(call: &Call, command: &TrashListCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let (record, below) = find::by_old_path(&command.path, settings.process.runtime_dir.as_deref())?;
    let stop = Stop::listen()?;
    let (mut files, mut bytes) = (0u64, 0u64);
    let mut show = |part: Part| {
        for entry in &part.entries {
            files += 1;
            bytes = bytes.saturating_add(entry.held);
            let path = entry.path.as_deref().map(|path| on_mount(&record.mountpoint, path));
            let flow = if command.json {
                output::print_json_line(&line(entry, path.as_deref()))?
            } else {
                output::print_on(&row(entry, path.as_deref()))?
            };
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    if !command.json {
        output::print(&format!("{HEADING}\n"))?;
    }
    let request = Request::Deleted { below };
    let end = Client::connect(&record)?.stream::<Part, Value>(&request, &mut show, &|| stop.asked())?;
    if end.is_some() && !command.json {
        let all = human::plural(files, "entry", "entries");
        output::print(&format!("{all}, {}\n", human::bytes(bytes)))?;
    }
    Ok(())
}

const HEADING: &str = "DELETED               KEPT UNTIL               SIZE       VERSION  PATH";

fn row(entry: &Entry, path: Option<&Path>) -> String {
    let shown = match path {
        Some(path) => output::path(path),
        None => format!("{} (its directory is gone for good)", output::name(&entry.name)),
    };
    let mark = if entry.kind == "directory" { "/" } else { "" };
    let size = if entry.kind == "directory" { String::new() } else { human::bytes(entry.size) };
    format!("{}  {}  {size:>10}  {:>12}  {shown}{mark}\n", entry.deleted, entry.until, entry.version)
}

fn line<'a>(entry: &'a Entry, path: Option<&Path>) -> Line<'a> {
    Line {
        path: path.map(|path| path.to_string_lossy().into_owned()),
        name: String::from_utf8_lossy(&entry.name).into_owned(),
        version: entry.version,
        kind: &entry.kind,
        size: entry.size,
        held: entry.held,
        uid: entry.uid,
        deleted: &entry.deleted,
        until: &entry.until,
    }
}

/// A path from the root of a volume as it is on its mount.
fn on_mount(mountpoint: &Path, path: &[u8]) -> PathBuf {
    let names = path.strip_prefix(b"/").unwrap_or(path);
    mountpoint.join(Path::new(std::ffi::OsStr::from_bytes(names)))
}

fn empty(call: &Call, command: &TrashEmptyCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let record = find::by_mountpoint(&command.mountpoint, settings.process.runtime_dir.as_deref())?;
    if !command.yes {
        confirm(&output::path(&command.mountpoint))?;
    }
    let bar = Progress::new("deleting for good");
    let gone: Emptied =
        Client::connect(&record)?.call(&Request::EmptyTrash, &mut progress::of_daemon(&bar))?;
    drop(bar);
    if command.json {
        return output::print_json(&gone);
    }
    output::print(&format!(
        "deleted for good: {}, {}\n",
        human::plural(gone.files, "entry", "entries"),
        human::bytes(gone.bytes)
    ))
}

fn confirm(mountpoint: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "emptying the trash is asked about first, and there is no terminal to ask on",
        )
        .advise("Add --yes to delete without being asked."));
    }
    output::say(&format!("Everything in the trash of {mountpoint} is deleted for good. Type yes to go on:"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context(|| "cannot read the answer".to_owned())?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::new("nothing was deleted")) }
}
