//! Reads objects ahead, a few at a time and a bounded number of bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use headrace_store::{ErrorKind, StoreError};
use tokio::task::JoinHandle;

use crate::{Bucket, Key};

/// Objects under way at once.
const MAX_OBJECTS: usize = 6;
/// Bytes of objects under way or waiting to be taken; a single larger one is read alone.
const MAX_BYTES: u64 = 48 << 20;

/// What a key led to.
pub(super) enum Fetched {
    Found(Bytes),
    Missing,
    /// The store says that what it gives is not what was stored.
    Corrupt(String),
}

/// Reads objects in the given order.
pub(super) struct Fetch<I: Iterator> {
    bucket: Bucket,
    keys: std::iter::Peekable<I>,
    under_way: VecDeque<(Key, u64, Task)>,
    bytes: u64,
}

/// Ends with its reader.
struct Task(JoinHandle<Result<Fetched, StoreError>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<I: Iterator<Item = (Key, u64)>> Fetch<I> {
    /// Reads the objects under `keys`, whose sizes in bytes are given.
    pub(super) fn new(bucket: &Bucket, keys: impl IntoIterator<IntoIter = I>) -> Self {
        let keys = keys.into_iter().peekable();
        Fetch { bucket: bucket.clone(), keys, under_way: VecDeque::new(), bytes: 0 }
    }

    /// The next object with its size as listed; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<(Key, u64, Fetched)>, StoreError> {
        while let Some((_, size)) = self.keys.peek() {
            let full = self.under_way.len() >= MAX_OBJECTS || self.bytes.saturating_add(*size) > MAX_BYTES;
            if full && !self.under_way.is_empty() {
                break;
            }
            let Some((key, size)) = self.keys.next() else { break };
            let bucket = self.bucket.clone();
            let task = Task(tokio::spawn(async move { fetch(&bucket, key).await }));
            self.under_way.push_back((key, size, task));
            self.bytes = self.bytes.saturating_add(size);
        }
        let Some((key, size, mut task)) = self.under_way.pop_front() else { return Ok(None) };
        let fetched = match (&mut task.0).await {
            Ok(fetched) => fetched?,
            Err(error) => Fetched::Corrupt(format!("reading it ended early: {error}")),
        };
        self.bytes = self.bytes.saturating_sub(size);
        Ok(Some((key, size, fetched)))
    }
}

/// Reads one object.
pub(super) async fn fetch(bucket: &Bucket, key: Key) -> Result<Fetched, StoreError> {
    match bucket.get(key).await {
        Ok(Some(stored)) => Ok(Fetched::Found(stored)),
        Ok(None) => Ok(Fetched::Missing),
        Err(error) if error.kind == ErrorKind::Corrupt => Ok(Fetched::Corrupt(error.to_string())),
        Err(error) => Err(error),
    }
}

impl Fetched {
    /// The bytes, or what is wrong.
    pub(super) fn into_bytes(self) -> Result<Bytes, String> {
        match self {
            Fetched::Found(stored) => Ok(stored),
            Fetched::Missing => Err("it is missing".into()),
            Fetched::Corrupt(detail) => Err(detail),
        }
    }
}
