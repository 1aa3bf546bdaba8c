//! `headrace restore-file`

use super::{Call, progress};
use crate::cli::trash::RestoreFileCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::daemon::trash::Back;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, command: &RestoreFileCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let runtime_dir = settings.process.runtime_dir.as_deref();
    let (record, path) = find::by_old_path(&command.path, runtime_dir)?;
    let shown = output::path(&command.path);
    if path.is_empty() && (command.version.is_some() || command.to.is_some()) {
        return Err(Failure::usage(format!("{shown} is a mount point: name what was deleted on it"))
            .advise(format!("\"headrace trash list {shown}\" shows what there is.")));
    }
    let to = match &command.to {
        None => None,
        Some(to) => {
            let (other, names) = find::by_old_path(to, runtime_dir)?;
            if other.socket != record.socket || names.is_empty() {
                let to = output::path(to);
                return Err(Failure::usage(format!("{to} is no name on the volume that {shown} was on")));
            }
            Some(names)
        }
    };
    let bar = Progress::new("restoring");
    let request = Request::RestoreFile { path, version: command.version, to };
    let back: Back = Client::connect(&record)?.call(&request, &mut progress::of_daemon(&bar))?;
    drop(bar);
    if command.json { output::print_json(&back) } else { output::print(&summary(&back)) }
}

fn summary(back: &Back) -> String {
    let at = output::path(&back.path);
    let what = match &back.deleted {
        Some(when) => format!("restored {at}, deleted {when}"),
        None => format!("restored what was deleted in {at}"),
    };
    let mut text = format!(
        "{what}: {} and {}, {}\n",
        human::plural(back.files, "file", "files"),
        human::plural(back.directories, "directory", "directories"),
        human::bytes(back.bytes),
    );
    if back.older > 0 {
        let older = human::plural(back.older, "older file", "older files");
        text.push_str(&format!("{older} of the same names stay in the trash\n"));
    }
    if back.taken > 0 {
        let taken = human::plural(back.taken, "name is taken", "names are taken");
        text.push_str(&format!("{taken}: what was deleted under them stays in the trash\n"));
    }
    if back.others > 0 {
        let others = human::plural(back.others, "other", "others");
        text.push_str(&format!("{others} deleted under the same path: see \"headrace trash list\"\n"));
    }
    text
}
