//! What is under the lock of a [`super::Fetcher`]: no I/O, no waiting.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use headrace_flow::reading::{Action, FetchId, FileId, HandleId, Reads, RequestId};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::Body;
use super::buffers::Buffers;
use crate::error::{Error, Result};

/// What is kept of a file.
pub(super) struct FileBytes {
    pub body: Body,
    pub buffers: Buffers,
}

/// A read that is not answered.
pub(super) struct Waiting {
    pub file: FileId,
    pub range: Range<u64>,
    pub answer: oneshot::Sender<Result<Vec<Bytes>>>,
}

/// A fetch to be sent.
pub(super) struct Order {
    pub fetch: FetchId,
    pub file: FileId,
    pub body: Body,
    pub range: Range<u64>,
}

/// What follows from an event, to be done when the lock is given back.
#[derive(Default)]
pub(super) struct Outcome {
    pub orders: Vec<Order>,
    /// Reads that were answered although nobody waits for them any more.
    pub unwanted: Vec<RequestId>,
    pub cancelled: Vec<AbortHandle>,
    /// Something is to be done earlier than was known.
    pub wake: bool,
}

pub(super) struct Inner {
    pub reads: Reads,
    pub files: HashMap<FileId, FileBytes>,
    /// The content that each handle reads.
    pub handles: HashMap<HandleId, FileId>,
    pub waiting: HashMap<RequestId, Waiting>,
    /// Fetches under way; those whose task is not started yet have none.
    pub tasks: HashMap<FetchId, Option<AbortHandle>>,
    /// Files that are not open any more, until nothing is kept of them.
    pub closed: Vec<FileId>,
    pub next_request: u64,
    /// When it will be woken.
    pub armed: Option<Duration>,
    pub stopped: bool,
}

impl Inner {
    pub(super) fn new(reads: Reads) -> Inner {
        Inner {
            reads,
            files: HashMap::new(),
            handles: HashMap::new(),
            waiting: HashMap::new(),
            tasks: HashMap::new(),
            closed: Vec::new(),
            next_request: 0,
            armed: None,
            stopped: false,
        }
    }

    /// A handle reads this content of a file from now on.
    pub(super) fn open(&mut self, now: Duration, file: FileId, handle: HandleId, body: Body, len: u64) {
        match self.handles.insert(handle, file) {
            Some(before) if before != file => {
                self.reads.closed(now, handle);
                self.closed.push(before);
            }
            _ => {}
        }
        self.files.entry(file).or_insert_with(|| FileBytes { body, buffers: Buffers::default() });
        self.reads.opened(file, handle, len);
        if matches!(body, Body::Segment(_)) {
            self.reads.together(file);
        }
    }

    pub(super) fn close(&mut self, now: Duration, handle: HandleId) {
        if let Some(file) = self.handles.remove(&handle) {
            self.reads.closed(now, handle);
            self.closed.push(file);
        }
    }

    /// Does what `Reads` wants done. `why`: the failure that an event told of.
    pub(super) fn settle(&mut self, why: Option<&Error>) -> Outcome {
        let mut outcome = Outcome::default();
        while let Some(action) = self.reads.next() {
            match action {
                Action::Fetch { fetch, file, range, .. } => {
                    let Some(FileBytes { body, .. }) = self.files.get(&file) else { continue };
                    self.tasks.insert(fetch, None);
                    outcome.orders.push(Order { fetch, file, body: *body, range });
                }
                Action::Cancel { fetch } => {
                    outcome.cancelled.extend(self.tasks.remove(&fetch).flatten());
                    outcome.orders.retain(|order| order.fetch != fetch);
                }
                Action::Answer { request } => {
                    let Some(Waiting { file, range, answer }) = self.waiting.remove(&request) else {
                        continue;
                    };
                    let found = self.files.get(&file).and_then(|file| file.buffers.get(&range));
                    let found = found.ok_or_else(|| {
                        Error::Internal(format!("bytes {range:?} were to be there and are not"))
                    });
                    let failed = found.is_err();
                    if answer.send(found).is_err() || failed {
                        outcome.unwanted.push(request);
                    }
                }
                Action::Fail { request } => {
                    let Some(Waiting { answer, .. }) = self.waiting.remove(&request) else { continue };
                    let why = why.cloned();
                    let _ = answer
                        .send(Err(why.unwrap_or_else(|| Error::Internal("a read was dropped".to_owned()))));
                }
                Action::Release { file, range } => {
                    if let Some(file) = self.files.get_mut(&file) {
                        file.buffers.release(&range);
                    }
                }
            }
        }
        if !self.closed.is_empty() {
            let (reads, files) = (&self.reads, &mut self.files);
            self.closed.retain(|file| {
                let known = reads.is_known(*file);
                if !known {
                    files.remove(file);
                }
                known
            });
        }
        outcome.wake = match (self.reads.wake_at(), self.armed) {
            (Some(wanted), armed) if armed.is_none_or(|armed| wanted < armed) => {
                self.armed = Some(wanted);
                true
            }
            _ => false,
        };
        outcome
    }
}
