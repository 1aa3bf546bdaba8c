//! `headrace flush`

use serde_json::Value;

use super::{Call, progress};
use crate::cli::command::FlushCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::failure::Failure;
use crate::output::progress::Progress;

/// Runs the command.
pub fn run(call: &Call, command: &FlushCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let record = find::by_mountpoint(&command.mountpoint, settings.process.runtime_dir.as_deref())?;
    let bar = Progress::new("writing out");
    Client::connect(&record)?.call::<Value>(&Request::Flush, &mut progress::of_daemon(&bar))?;
    Ok(())
}
