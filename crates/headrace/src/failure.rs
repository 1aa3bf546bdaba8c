//! What a command says when it cannot do what it was asked: what failed, on what, why, and what to do about it.

use std::error::Error;
use std::fmt;

/// Exit codes, as documented in `docs/commands.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It failed.
    Failure = 1,
    /// The command line, an environment variable or the configuration file is wrong.
    Usage = 2,
    /// `fsck` found problems.
    Problems = 3,
    /// The volume or the mount point is in use.
    InUse = 4,
    /// There is no such volume, mount or file.
    NotFound = 5,
    /// The store, the key or the operating system refuses.
    Denied = 6,
}

impl Exit {
    /// The number handed to the shell.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit a number stands for; anything unknown is a plain failure.
    pub fn from_code(code: u8) -> Exit {
        [Exit::Usage, Exit::Problems, Exit::InUse, Exit::NotFound, Exit::Denied]
            .into_iter()
            .find(|e| e.code() == code)
            .unwrap_or(Exit::Failure)
    }
}

/// A failed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    what: String,
    advice: Option<String>,
    exit: Exit,
}

impl Failure {
    /// A failure that is described in full by `what`.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), advice: None, exit: Exit::Failure }
    }

    /// A mistake in how the program was called or configured.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::new(what).exit(Exit::Usage)
    }

    /// Adds the reason: `error` and every error beneath it, each said once.
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Failure {
        self.what = flatten(Some(self.what), error);
        self
    }

    /// Adds what the user can do.
    pub fn advise(mut self, advice: impl Into<String>) -> Failure {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the exit code.
    pub fn exit(mut self, exit: Exit) -> Failure {
        self.exit = exit;
        self
    }

    /// The exit code.
    pub fn exit_code(&self) -> Exit {
        self.exit
    }

    /// What failed and why, on one line.
    pub fn message(&self) -> &str {
        &self.what
    }

    /// What to do, if anything is known.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(advice) = &self.advice {
            write!(f, "\n  {advice}")?;
        }
        Ok(())
    }
}

/// An error and its causes as one line. Many libraries repeat the cause in their own message: it is then not said again.
pub fn flatten(start: Option<String>, error: &(dyn Error + 'static)) -> String {
    let mut text = start.unwrap_or_default();
    let mut next = Some(error);
    while let Some(error) = next {
        let part = error.to_string();
        if !part.is_empty() && !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
        next = error.source();
    }
    text
}

/// Turns a library's error into a [`Failure`] that says what was being done.
pub trait Context<T> {
    /// `what` says what was being done and on what.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|e| Failure::new(what()).because(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn a_cause_that_is_already_named_is_not_repeated() {
        let failure = Failure::new("cannot do it").because(&Outer(Inner)).advise("try again");
        assert_eq!(failure.to_string(), "cannot do it: outer: inner\n  try again");
    }

    #[test]
    fn exit_codes_survive_the_way_through_a_pipe() {
        for exit in [Exit::Failure, Exit::Usage, Exit::Problems, Exit::InUse, Exit::NotFound, Exit::Denied] {
            assert_eq!(Exit::from_code(exit.code()), exit);
        }
    }
}
