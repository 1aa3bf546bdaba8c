//! What commands and daemon say to one another: one JSON object a line. The command sends one request; the daemon sends
//! any number of progress lines and parts of a result that comes in parts, and then exactly one result.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::daemon::warming::Work;
use crate::failure::{Exit, Failure};

/// Longest request, bytes.
pub const MAX_REQUEST: u64 = 64 << 10;
/// Longest line of an answer, bytes.
pub const MAX_ANSWER: u64 = 64 << 20;
/// How long a daemon may be silent before a command takes it for hung. While it works it sends progress more often.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// How often a working daemon sends progress.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What a command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// Figures.
    Status,
    /// What the mount counts and times, layer by layer: a [`headrace_metrics::Snapshot`].
    Metrics,
    /// Make everything written so far durable in the store.
    Flush,
    /// Delete garbage.
    Gc {
        /// Only say what would go.
        dry_run: bool,
        /// Spare what is younger than this many seconds.
        grace_secs: u64,
    },
    /// Where an inode's data is.
    Info {
        /// The inode.
        ino: u64,
    },
    /// Totals of a tree.
    Du {
        /// Its root.
        ino: u64,
    },
    /// What the mount does from here on, in parts.
    Operations {
        /// How often to send a part, milliseconds.
        interval_ms: u64,
        /// When to end, milliseconds from now; `None`: when the command goes away.
        for_ms: Option<u64>,
        /// Each operation, rather than sums by process and operation.
        each: bool,
    },
    /// The cache and some files: [`crate::daemon::warming::Part`]s, until all are done or the command goes away.
    Warm {
        /// What to do with them.
        work: Work,
        /// Their inodes, as many as fit into a request.
        files: Vec<u64>,
        /// Most bytes to fetch a second; `None`: as fast as it goes.
        rate: Option<u64>,
    },
    /// What was deleted at or below a path and is kept, in parts: [`crate::daemon::trash::Part`].
    Deleted {
        /// Names from the root of the volume.
        below: Vec<Vec<u8>>,
    },
    /// Bring back what was deleted: [`crate::daemon::trash::Back`].
    RestoreFile {
        /// Its path then: names from the root of the volume.
        path: Vec<Vec<u8>>,
        /// Its inode, if not the one deleted last.
        version: Option<u64>,
        /// Where to, if not there.
        to: Option<Vec<Vec<u8>>>,
    },
    /// Delete for good what is kept: [`crate::daemon::trash::Emptied`].
    EmptyTrash,
    /// Flush, unmount, end.
    Shutdown {
        /// Detach even if in use.
        lazy: bool,
        /// Leave what is only on this machine's disk for the next mount here.
        #[serde(default)]
        leave: bool,
    },
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// It goes on.
    Progress(Step),
    /// A part of the result.
    Part(Value),
    /// It is done; last line.
    Done(Value),
    /// It failed; last line.
    Failed(Problem),
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is being done; empty where there is nothing to add.
    pub what: String,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 where that is not known.
    pub total: u64,
    /// Whether units are bytes.
    pub bytes: bool,
}

/// A failure on its way to the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What failed and why.
    pub message: String,
    /// What to do.
    pub advice: Option<String>,
    /// The exit code.
    pub exit: u8,
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Problem {
        Problem {
            message: failure.message().to_owned(),
            advice: failure.advice().map(str::to_owned),
            exit: failure.exit_code().code(),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let failure = Failure::new(problem.message).exit(Exit::from_code(problem.exit));
        match problem.advice {
            Some(advice) => failure.advise(advice),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_lines_survive_the_way() {
        for request in [
            Request::Status,
            Request::Gc { dry_run: true, grace_secs: 600 },
            Request::Info { ino: u64::MAX },
            Request::Warm { work: Work::Pin, files: vec![1, u64::MAX], rate: Some(1 << 20) },
            Request::Warm { work: Work::Check, files: Vec::new(), rate: None },
            Request::Deleted { below: vec![b"a\xff".to_vec()] },
            Request::RestoreFile { path: vec![b"a".to_vec()], version: Some(7), to: None },
            Request::EmptyTrash,
            Request::Shutdown { lazy: false, leave: true },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
        let failure = Failure::new("a\nb").advise("c").exit(Exit::InUse);
        let text = serde_json::to_string(&Line::Failed(Problem::from(&failure))).unwrap();
        assert!(!text.contains('\n'));
        let Line::Failed(problem) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert_eq!(Failure::from(problem), failure);
    }
}
