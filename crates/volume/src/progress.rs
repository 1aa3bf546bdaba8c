//! How long work says how far it has come.

use serde::Serialize;

/// How far a piece of long work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// What is being done, in a word or two, for a person.
    pub phase: &'static str,
    /// Units done in this phase.
    pub done: u64,
    /// Units in all; 0 if that is not known.
    pub total: u64,
    /// What is counted.
    pub unit: Unit,
}

/// What a [`Progress`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Things.
    Items,
    /// Bytes.
    Bytes,
}

/// Receives progress. Called often, from the task that does the work: it must not block.
pub type ProgressFn<'a> = dyn Fn(Progress) + Send + Sync + 'a;

/// Throws progress away.
pub fn silent(_: Progress) {}
