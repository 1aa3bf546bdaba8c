//! Logs: to standard error, or for a process in the background to a file that `SIGHUP` reopens.

pub mod file;

use std::io;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use self::file::LogFile;
use crate::cli::settings::ProcessSettings;
use crate::cli::values::LogFormat;
use crate::failure::Failure;

/// Where log lines go.
pub enum Target {
    /// Standard error.
    Stderr,
    /// A file.
    File(LogFile),
}

/// How much is logged unless the user says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// A command that reports by itself: only what goes wrong.
    Command,
    /// A daemon, whose log is all there is.
    Daemon,
}

/// Starts logging. To be called once.
pub fn start(settings: &ProcessSettings, verbosity: Verbosity, target: Target) -> Result<(), Failure> {
    let filter = filter(settings, verbosity)?;
    let json = settings.log_format == Some(LogFormat::Json);
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    // Whoever started logging first in this process keeps it: nothing is lost.
    let _ = match (target, json) {
        (Target::Stderr, false) => builder.with_writer(io::stderr).with_ansi(on_terminal()).try_init(),
        (Target::Stderr, true) => builder.with_writer(io::stderr).json().try_init(),
        (Target::File(file), false) => builder.with_writer(file).with_ansi(false).try_init(),
        (Target::File(file), true) => builder.with_writer(file).json().try_init(),
    };
    Ok(())
}

fn on_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stderr()) && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

fn filter(settings: &ProcessSettings, verbosity: Verbosity) -> Result<EnvFilter, Failure> {
    let default = match verbosity {
        Verbosity::Command => "error",
        Verbosity::Daemon => "info",
    };
    EnvFilter::try_new(settings.log.as_deref().unwrap_or(default)).map_err(|e| {
        Failure::usage("the log filter (--log, HEADRACE_LOG) cannot be understood").because(&e).advise(
            "Use one of error, warn, info, debug, trace, or a list such as \"warn,headrace_store=debug\".",
        )
    })
}

/// The log file of a daemon for the volume called `name`.
pub fn default_file(name: &str) -> Result<PathBuf, Failure> {
    let file = format!("{name}.log");
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/log/headrace").join(file));
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|h| h.join(".local/state")))
        .map(|base| base.join("headrace/log").join(file))
        .ok_or_else(|| {
            Failure::usage("cannot choose a log file: HOME is not set").advise("Give one with --log-file.")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked() {
        let with = |log: &str| ProcessSettings { log: Some(log.into()), ..Default::default() };
        assert!(filter(&with("warn,headrace_store=debug"), Verbosity::Daemon).is_ok());
        assert!(filter(&with("a=b=c"), Verbosity::Daemon).unwrap_err().message().contains("HEADRACE_LOG"));
    }
}
