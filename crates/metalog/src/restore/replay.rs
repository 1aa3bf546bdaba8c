//! Applying the log, object by object.

use headrace_kv::KvError;
use headrace_kv::log::LogGroup;

use super::Sink;
use super::chain::{Break, Chain};
use super::fetch::Fetched;
use crate::object::{LogBody, LogObject};
use crate::{Bucket, Key, ObjectHash};

/// A state that the log is being applied to.
pub(super) struct Replay<S> {
    pub(super) bucket: Bucket,
    pub(super) sink: S,
    pub(super) chain: Chain,
    /// Groups applied so far.
    pub(super) groups: u64,
    /// Nothing later than this, Unix milliseconds, is wanted.
    limit: Option<u64>,
    /// The state's time before the object that was read last.
    before: u64,
    /// Number of the object whose hash the base itself vouches for.
    vouched: u64,
}

/// What comes next.
pub(super) enum Step {
    /// The next object.
    Next,
    /// Nothing: the target is reached.
    Reached,
}

/// Why it cannot go on.
pub(super) enum Problem {
    /// What is being built cannot be written.
    Sink(KvError),
    /// An object is missing or damaged.
    Damaged {
        key: String,
        detail: String,
        /// The time of the newest state that is certain.
        reached: u64,
    },
}

impl<S: Sink> Replay<S> {
    pub(super) fn new(bucket: Bucket, sink: S, chain: Chain, limit: Option<u64>) -> Self {
        Replay { bucket, sink, chain, groups: 0, limit, before: chain.at_ms, vouched: chain.number }
    }

    /// Whether a state of time `reached` is all that was asked for.
    pub(super) fn reached_exactly(&self, reached: u64) -> bool {
        self.limit.is_some_and(|limit| limit <= reached) && self.chain.at_ms == reached
    }

    /// Applies what the object that the snapshot is tied to holds beyond the snapshot.
    pub(super) fn rest_of(&mut self, object: LogObject) -> Result<Step, Problem> {
        let LogBody::Groups(groups) = object.body else { return Ok(Step::Next) };
        let position = self.chain.position;
        let rest: Vec<_> = groups.into_iter().filter(|group| group.upto > position).collect();
        if rest.first().is_some_and(|first| first.after != position) {
            let detail = format!("its groups do not begin at position {}, where the snapshot is", position.0);
            return Err(self.damaged(self.chain.number, detail, self.chain.at_ms));
        }
        self.groups(&rest)
    }

    /// Applies the next object.
    pub(super) fn object(&mut self, fetched: Fetched) -> Result<Step, Problem> {
        let number = self.chain.number.saturating_add(1);
        let reached = self.chain.at_ms;
        let stored = fetched.into_bytes().map_err(|detail| self.damaged(number, detail, reached))?;
        let object = LogObject::decode(&self.bucket, number, &stored).map_err(|error| {
            let text = error.to_string();
            let detail = text.strip_prefix(&format!("{}: ", Key::Log { number })).unwrap_or(&text).to_owned();
            self.damaged(number, detail, reached)
        })?;
        let hash = ObjectHash::of(&stored);
        drop(stored);
        self.chain.follow(&object, hash).map_err(|broken| self.broken(number, &broken))?;
        self.before = reached;
        match object.body {
            LogBody::Epoch { .. } => Ok(Step::Next),
            LogBody::Groups(groups) => self.groups(&groups),
            LogBody::Reset { at_ms, .. } if self.is_beyond(self.chain.time_with(at_ms)) => Ok(Step::Reached),
            LogBody::Reset { snapshot, .. } => {
                let detail =
                    format!("it sets the state to that of snapshot {}, which cannot be used", snapshot.id);
                Err(self.damaged(number, detail, reached))
            }
        }
    }

    fn groups(&mut self, groups: &[LogGroup]) -> Result<Step, Problem> {
        for group in groups {
            if self.is_beyond(self.chain.time_with(group.at_ms)) {
                return Ok(Step::Reached);
            }
            self.sink.apply(group).map_err(|error| match error {
                KvError::Corrupt(detail) => self.damaged(self.chain.number, detail, self.chain.at_ms),
                other => Problem::Sink(other),
            })?;
            self.chain.apply(group.upto, group.at_ms);
            self.groups += 1;
        }
        Ok(Step::Next)
    }

    fn is_beyond(&self, at_ms: u64) -> bool {
        self.limit.is_some_and(|limit| at_ms > limit)
    }

    /// The log ends here, although the object numbered `known` was written.
    pub(super) fn ends_early(&self, known: u64) -> Problem {
        let number = self.chain.number.saturating_add(1);
        let detail =
            format!("it is missing: a snapshot says that the log went on to {}", Key::Log { number: known });
        self.damaged(number, detail, self.chain.at_ms)
    }

    fn damaged(&self, number: u64, detail: String, reached: u64) -> Problem {
        Problem::Damaged { key: Key::Log { number }.to_string(), detail, reached }
    }

    fn broken(&self, number: u64, broken: &Break) -> Problem {
        let before = Key::Log { number: self.chain.number };
        match broken {
            Break::Replaced if self.chain.number == self.vouched => {
                let detail =
                    format!("it was not written after {before}: another object was put in its place");
                self.damaged(number, detail, self.chain.at_ms)
            }
            // Either may be the wrong one, and the earlier one is applied already.
            Break::Replaced => {
                let detail =
                    format!("it was not written after the {before} that is there: one of them was exchanged");
                self.damaged(number, detail, self.before)
            }
            Break::Positions { begins } => {
                let (begins, at) = (begins.0, self.chain.position.0);
                let detail = format!("it goes on at position {begins}, but {before} ends at {at}");
                self.damaged(number, detail, self.chain.at_ms)
            }
        }
    }
}
