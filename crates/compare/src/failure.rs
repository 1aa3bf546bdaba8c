//! The one error of this program: text that says what failed, on what, and why.

use std::fmt;

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

/// What may fail.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this explanation.
    pub fn new(why: impl Into<String>) -> Failure {
        Failure(why.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Says what was being done when an error came up.
pub trait Context<T> {
    /// Puts `what` before the error's own text.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", what())))
    }
}
