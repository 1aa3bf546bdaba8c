//! Logs: to standard error, or for a process in the background to a file that `SIGHUP` reopens.

pub mod file;

use std::io;
use std::path::PathBuf;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

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
    let layer = fmt::layer();
    let json = settings.log_format == Some(LogFormat::Json);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match (target, json) {
        (Target::Stderr, false) => Box::new(layer.with_writer(io::stderr).with_ansi(on_terminal())),
        (Target::Stderr, true) => Box::new(layer.json().with_writer(io::stderr)),
        (Target::File(file), false) => Box::new(layer.with_writer(file).with_ansi(false)),
        (Target::File(file), true) => Box::new(layer.json().with_writer(file)),
    };
    let layer = layer.with_filter(filter).with_filter(FilterFn::new(is_safe));
    // Not `init`: that would also take in the records of libraries that use the `log` crate, and one that signs requests
    // writes credentials there. Whoever started logging first in this process keeps it.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(layer));
    if verbosity == Verbosity::Daemon {
        log_panics();
    }
    Ok(())
}

/// A panic is a fault of ours, and where it was is what we need to know: a daemon's standard error goes nowhere.
fn log_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let what = panic.payload_as_str().unwrap_or_default();
        tracing::error!(place, what, thread = thread.name(), "a part of the program panicked");
        usual(panic);
    }));
}

/// What other people's code says in detail may hold credentials, such as the headers of a request. Only our own detail is
/// logged, whatever the filter asks for.
fn is_safe(event: &Metadata<'_>) -> bool {
    let target = event.target();
    *event.level() <= Level::WARN
        || target == "headrace"
        || target.starts_with("headrace::")
        || target.starts_with("headrace_")
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
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn filters_are_checked() {
        let with = |log: &str| ProcessSettings { log: Some(log.into()), ..Default::default() };
        assert!(filter(&with("warn,headrace_store=debug"), Verbosity::Daemon).is_ok());
        assert!(filter(&with("a=b=c"), Verbosity::Daemon).unwrap_err().message().contains("HEADRACE_LOG"));
    }

    #[test]
    fn details_of_other_peoples_code_are_never_logged() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let writer = move || Sink(Arc::clone(&sink));
        let layer = fmt::layer().with_writer(writer).with_filter(FilterFn::new(is_safe));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            tracing::debug!(target: "signer", "secret detail");
            tracing::warn!(target: "signer", "something is wrong");
            tracing::debug!(target: "headrace_store::remote", "our detail");
        });
        let text = String::from_utf8(lines.lock().clone()).unwrap();
        assert!(!text.contains("secret detail"), "{text}");
        assert!(text.contains("something is wrong") && text.contains("our detail"), "{text}");
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
