//! The log's figures, kept in memory.

use std::collections::VecDeque;

use crate::CommitSeq;
use crate::log::LogBacklog;

/// What is known of a group without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupFigures {
    pub(super) after: CommitSeq,
    pub(super) upto: CommitSeq,
    pub(super) at_ms: u64,
    /// Bytes of its encoded changes.
    pub(super) bytes: u64,
}

/// The groups not yet given up, oldest first.
#[derive(Default, Debug)]
pub(super) struct Backlog {
    groups: VecDeque<GroupFigures>,
    bytes: u64,
    /// Groups up to here may go from the disk.
    trimmed: CommitSeq,
}

impl Backlog {
    pub(super) fn push(&mut self, group: GroupFigures) {
        self.bytes = self.bytes.saturating_add(group.bytes);
        self.groups.push_back(group);
    }

    pub(super) fn trim(&mut self, upto: CommitSeq) {
        while let Some(first) = self.groups.front()
            && first.upto <= upto
        {
            self.trimmed = first.upto;
            self.bytes = self.bytes.saturating_sub(first.bytes);
            self.groups.pop_front();
        }
    }

    pub(super) fn trimmed(&self) -> CommitSeq {
        self.trimmed
    }

    /// The position before the first group.
    pub(super) fn base(&self) -> Option<CommitSeq> {
        self.groups.front().map(|g| g.after)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn figures(&self) -> LogBacklog {
        LogBacklog {
            groups: self.groups.len() as u64,
            bytes: self.bytes,
            oldest_at_ms: self.groups.front().map(|g| g.at_ms),
        }
    }
}
