//! Signals of a daemon.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Context, Failure};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Unmount, write everything out, end: SIGTERM, SIGINT.
    End,
    /// Open the log file anew: SIGHUP.
    ReopenLog,
}

/// Signals as they come. From the moment this exists they no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Begins to listen. Needs a runtime.
    pub fn listen() -> Result<Signals, Failure> {
        let what = || "cannot listen for signals".to_owned();
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).context(what)?,
            interrupt: signal(SignalKind::interrupt()).context(what)?,
            hangup: signal(SignalKind::hangup()).context(what)?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Asked {
        let asked = tokio::select! {
            Some(()) = self.terminate.recv() => Some(Asked::End),
            Some(()) = self.interrupt.recv() => Some(Asked::End),
            Some(()) = self.hangup.recv() => Some(Asked::ReopenLog),
            else => None,
        };
        match asked {
            Some(asked) => asked,
            // The runtime is ending.
            None => std::future::pending().await,
        }
    }
}
