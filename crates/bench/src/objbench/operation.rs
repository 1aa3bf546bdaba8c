//! The requests that are measured.

use std::time::{Duration, Instant};

use futures::StreamExt;
use headrace_store::{ObjectStore, StoreError};
use serde::{Deserialize, Serialize};

use super::body::Bodies;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Write a new object.
    Put,
    /// Read a whole object.
    Get,
    /// Read a part of a large object.
    GetRange,
    /// Ask for an object's size.
    Head,
    /// List all objects of the measurement.
    List,
    /// Delete an object.
    Delete,
}

impl Operation {
    /// As in the report.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::GetRange => "ranged get",
            Operation::Head => "head",
            Operation::List => "list",
            Operation::Delete => "delete",
        }
    }

    /// Whether bodies move, so that a rate in bytes means something.
    pub fn moves_bodies(self) -> bool {
        matches!(self, Operation::Put | Operation::Get | Operation::GetRange)
    }
}

/// The objects of one size at one level.
#[derive(Clone)]
pub(super) struct Objects {
    /// Ends with a slash.
    pub prefix: String,
    /// Bytes of each.
    pub size: usize,
    /// Bytes of a ranged get.
    pub block: usize,
    /// Numbers of those that are in the store.
    pub stored: Vec<usize>,
    pub bodies: Bodies,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Answer {
    /// As it should be.
    Done {
        /// From when to when; without the comparison of what was read.
        took: Duration,
        /// Bytes of the body.
        bytes: u64,
        /// Objects written, read, listed or deleted.
        objects: u64,
    },
    /// Not what was written: how it differs.
    Wrong(String),
    /// None.
    Failed(StoreError),
}

impl Objects {
    pub fn key(&self, index: usize) -> String {
        format!("{}{index:07}", self.prefix)
    }

    /// Sends request number `turn` (of this measurement) about object `index`, and checks what it brings.
    pub async fn send(
        &self,
        store: &dyn ObjectStore,
        operation: Operation,
        index: usize,
        turn: usize,
    ) -> Answer {
        let key = self.key(index);
        let body = match operation {
            Operation::Put => self.bodies.body(index, self.size),
            _ => bytes::Bytes::new(),
        };
        let size = self.size as u64;
        let offset = self.offset(turn);
        let end = (offset + self.block).min(self.size);
        let began = Instant::now();
        let done = |bytes, objects| Answer::Done { took: began.elapsed(), bytes, objects };
        let result = match operation {
            Operation::Put => store.put(&key, body).await.map(|()| done(size, 1)),
            Operation::Delete => store.delete(&key).await.map(|()| done(0, 1)),
            Operation::Head => store.head(&key).await.map(|found| {
                let answer = done(0, 1);
                if found.size == size {
                    return answer;
                }
                Answer::Wrong(format!("head {key}: {} bytes instead of {size}", found.size))
            }),
            Operation::Get => store.get(&key).await.map(|found| {
                let answer = done(size, 1);
                if self.bodies.matches(&found, index, 0, self.size) { answer } else { wrong("get", &key) }
            }),
            Operation::GetRange => store.get_range(&key, offset as u64..end as u64).await.map(|found| {
                let answer = done(found.len() as u64, 1);
                let same = self.bodies.matches(&found, index, offset, end - offset);
                if same { answer } else { wrong("get_range", &key) }
            }),
            Operation::List => self.list(store).await.map(|(count, sizes)| {
                let answer = done(0, count as u64);
                let all = count == self.stored.len() && sizes == size.saturating_mul(count as u64);
                if all {
                    return answer;
                }
                let should = self.stored.len();
                Answer::Wrong(format!(
                    "list {}: {count} objects of {sizes} bytes in all instead of {should}",
                    self.prefix
                ))
            }),
        };
        result.unwrap_or_else(Answer::Failed)
    }

    /// Objects and bytes found.
    async fn list(&self, store: &dyn ObjectStore) -> Result<(usize, u64), StoreError> {
        let mut objects = store.list(&self.prefix);
        let (mut count, mut bytes) = (0usize, 0u64);
        while let Some(object) = objects.next().await {
            bytes = bytes.saturating_add(object?.size);
            count += 1;
            // A list that never ends.
            if count > self.stored.len().saturating_mul(2).saturating_add(1000) {
                break;
            }
        }
        Ok((count, bytes))
    }

    /// Where request number `turn` reads: a block of the object, in an order that does not help a store that reads ahead.
    fn offset(&self, turn: usize) -> usize {
        let blocks = self.size / self.block.max(1);
        turn.wrapping_mul(0x9e37_79b1).checked_rem(blocks).unwrap_or(0) * self.block
    }
}

fn wrong(operation: &str, key: &str) -> Answer {
    Answer::Wrong(format!("{operation} {key}: these are not the bytes that were written"))
}
