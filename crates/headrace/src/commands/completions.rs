//! `headrace completions`

use clap::CommandFactory;

use crate::cli::command::{Cli, CompletionsCommand};
use crate::failure::Failure;
use crate::output;

/// Runs the command.
pub fn run(command: &CompletionsCommand) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Cli::command(), "headrace", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
