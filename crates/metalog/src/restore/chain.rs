//! What makes a line of log objects one history: numbers, hashes and positions that follow each other. Pure.

use headrace_kv::CommitSeq;

use crate::ObjectHash;
use crate::object::{LogBody, LogObject};

/// Where a walk along the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Number of the object that was read last.
    pub(crate) number: u64,
    /// Of its stored bytes.
    pub(crate) hash: ObjectHash,
    /// The state's position.
    pub(crate) position: CommitSeq,
    /// The state's time, Unix milliseconds: the latest that any group up to here named, so that a clock that was set back does not
    /// turn the order round.
    pub(crate) at_ms: u64,
}

/// Why the next object is not the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The object before it is not the one that it was written after.
    Replaced,
    /// Its groups do not begin where the state is.
    Positions {
        /// Where it begins.
        begins: CommitSeq,
    },
}

impl Chain {
    /// Checks that the object, whose stored bytes have `hash`, follows, and goes on to it. Does not apply its groups:
    /// [`Self::apply`] does.
    pub(crate) fn follow(&mut self, object: &LogObject, hash: ObjectHash) -> Result<(), Break> {
        if object.prev != self.hash {
            return Err(Break::Replaced);
        }
        match &object.body {
            LogBody::Epoch { position, .. } if *position != self.position => {
                return Err(Break::Positions { begins: *position });
            }
            LogBody::Groups(groups) => {
                if let Some(first) = groups.first().filter(|first| first.after != self.position) {
                    return Err(Break::Positions { begins: first.after });
                }
            }
            LogBody::Epoch { .. } | LogBody::Reset { .. } => {}
        }
        self.number += 1;
        self.hash = hash;
        Ok(())
    }

    /// What the state's time is with a group of `at_ms`.
    pub(crate) fn time_with(&self, at_ms: u64) -> u64 {
        self.at_ms.max(at_ms)
    }

    /// The state includes a group.
    pub(crate) fn apply(&mut self, upto: CommitSeq, at_ms: u64) {
        self.position = upto;
        self.at_ms = self.time_with(at_ms);
    }
}
