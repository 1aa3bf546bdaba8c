//! The `headrace` program: commands, configuration, the daemon behind a mount.
//!
//! ```text
//! cli        what can be typed, and the forms in which mount(8) types it
//! config     settings from flags, environment and files, laid over one another
//! commands   one module a command
//! daemon     the process behind a mount, its control socket, and how commands find it
//! logging    where log lines go
//! output     what a person or a script reads
//! ```

mod cli;
mod commands;
mod config;
mod daemon;
mod failure;
mod logging;
mod output;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
