//! `headrace du`

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Call, progress};
use crate::cli::command::DuCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::table::{Align, Table};
use crate::output::{self, human};

/// Totals of a tree, as they go over the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Everything that is not a directory.
    pub files: u64,
    /// Directories below the one asked for.
    pub directories: u64,
    /// Sum of the lengths of files.
    pub bytes: u64,
    /// Bytes of data held: holes do not count.
    pub allocated: u64,
}

/// Runs the command.
pub fn run(call: &Call, command: &DuCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let mut all = Vec::new();
    for path in &command.paths {
        let (record, ino) = find::by_path(path, settings.process.runtime_dir.as_deref())?;
        let bar = Progress::new("adding up");
        let totals: Totals =
            Client::connect(&record)?.call(&Request::Du { ino }, &mut progress::of_daemon(&bar))?;
        all.push((path, totals));
    }
    if command.json {
        let list: Vec<_> = all
            .iter()
            .map(|(path, t)| {
                json!({
                    "path": path.to_string_lossy(),
                    "files": t.files,
                    "directories": t.directories,
                    "bytes": t.bytes,
                    "allocated": t.allocated,
                })
            })
            .collect();
        return output::print_json(&list);
    }
    let size = |n: u64| if command.bytes { n.to_string() } else { human::bytes(n) };
    let mut table = Table::new(&[
        ("SIZE", Align::Right),
        ("HELD", Align::Right),
        ("FILES", Align::Right),
        ("DIRS", Align::Right),
        ("PATH", Align::Left),
    ]);
    for (path, t) in &all {
        table.row(vec![
            size(t.bytes),
            size(t.allocated),
            human::count(t.files),
            human::count(t.directories),
            output::path(path),
        ]);
    }
    output::print(&table.render(0))
}
