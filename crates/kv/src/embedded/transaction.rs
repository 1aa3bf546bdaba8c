//! A transaction: a view, and on top of it the writes made so far.

use std::borrow::Cow;

use super::layers::View;
use super::memtable::Memtable;
use super::merge::Direction;
use crate::{KvError, MAX_KEY_BYTES, MAX_VALUE_BYTES, Read, Txn, Visit};

pub(super) struct Transaction<'l> {
    writes: Memtable,
    view: View<'l>,
    max_bytes: u64,
    /// The first write that broke a limit. Nothing is buffered after it.
    refused: Option<String>,
}

impl<'l> Transaction<'l> {
    pub(super) fn new(view: View<'l>, max_bytes: u64) -> Self {
        Transaction { writes: Memtable::default(), view, max_bytes, refused: None }
    }

    /// What it wrote, or the limit it broke.
    pub(super) fn finish(self) -> Result<Memtable, KvError> {
        match self.refused {
            None => Ok(self.writes),
            Some(reason) => Err(KvError::Limit(reason)),
        }
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        if self.refused.is_some() {
            return;
        }
        self.refused = check(key, value).err();
        if self.refused.is_some() {
            return;
        }
        self.writes.set(key, value);
        if self.writes.bytes() > self.max_bytes {
            self.refused = Some(format!(
                "it writes more than {} bytes; split it into smaller transactions",
                self.max_bytes
            ));
            self.writes = Memtable::default();
        }
    }
}

fn check(key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(format!("a key of {} bytes; keys have 1 to {MAX_KEY_BYTES}", key.len()));
    }
    match value {
        Some(value) if value.len() > MAX_VALUE_BYTES => {
            Err(format!("a value of {} bytes; the most is {MAX_VALUE_BYTES}", value.len()))
        }
        _ => Ok(()),
    }
}

impl Txn for Transaction<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, Some(value));
    }

    fn delete(&mut self, key: &[u8]) {
        self.set(key, None);
    }
}

impl Read for Transaction<'_> {
    fn get<'a>(&'a self, key: &[u8]) -> Result<Option<Cow<'a, [u8]>>, KvError> {
        match self.writes.get(key) {
            Some(known) => Ok(known.map(Cow::Borrowed)),
            None => self.view.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        self.view.walk(Some(&self.writes), start, end, Direction::Forward, visit)
    }

    fn scan_reverse(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        self.view.walk(Some(&self.writes), start, end, Direction::Reverse, visit)
    }
}
