//! `headrace version`

use headrace_layout::superblock::FORMAT_VERSION;
use serde_json::json;

use crate::cli::command::VersionCommand;
use crate::failure::Failure;
use crate::output;

/// Runs the command.
pub fn run(command: &VersionCommand) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if command.json {
        return output::print_json(&json!({ "version": version, "volume_format": FORMAT_VERSION }));
    }
    output::print(&format!("headrace {version}\nvolume format {FORMAT_VERSION}\n"))
}
