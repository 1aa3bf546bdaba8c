//! A view with changes on top of it that are not written yet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use headrace_kv::{KvError, Read, Visit};

use crate::{Result, key};

/// Records read at once, and their bytes: the visit of one may change others.
const PAGE: usize = 4096;
const PAGE_BYTES: usize = 4 << 20;

pub(super) struct Overlay<'a> {
    read: &'a dyn Read,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// Records copied out.
pub(super) type Page = Vec<(Vec<u8>, Vec<u8>)>;

impl<'a> Overlay<'a> {
    pub(super) fn new(read: &'a dyn Read) -> Overlay<'a> {
        Overlay { read, changes: BTreeMap::new() }
    }

    /// Sets a record; answers whether that changes anything.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.get(key)?.as_deref() == Some(value) {
            return Ok(false);
        }
        self.change(key, Some(value.to_vec()))?;
        Ok(true)
    }

    /// Removes a record; answers whether it was there.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        if self.get(key)?.is_none() {
            return Ok(false);
        }
        self.change(key, None)?;
        Ok(true)
    }

    fn change(&mut self, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        if self.read.get(key)?.as_deref() == value.as_deref() {
            self.changes.remove(key);
        } else {
            self.changes.insert(key.to_vec(), value);
        }
        Ok(())
    }

    pub(super) fn into_changes(self) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        self.changes
    }

    /// The range of all records of a tag.
    pub(super) fn all(tag: u8) -> Range<Vec<u8>> {
        key::all(tag)
    }

    /// The next records of a range, which moves on behind them; none at its end.
    pub(super) fn page(&self, range: &mut Range<Vec<u8>>) -> Result<Page> {
        let mut page = Page::new();
        let mut bytes = 0;
        self.scan(&range.start, &range.end, &mut |key, value| {
            bytes += key.len() + value.len();
            page.push((key.to_vec(), value.to_vec()));
            if page.len() >= PAGE || bytes >= PAGE_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        match page.last() {
            Some((last, _)) => range.start = key::behind(last),
            None => range.start.clone_from(&range.end),
        }
        Ok(page)
    }
}

impl Read for Overlay<'_> {
    fn get<'a>(&'a self, key: &[u8]) -> std::result::Result<Option<Cow<'a, [u8]>>, KvError> {
        match self.changes.get(key) {
            Some(change) => Ok(change.as_deref().map(Cow::Borrowed)),
            None => self.read.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> std::result::Result<(), KvError> {
        if start >= end {
            return Ok(());
        }
        let bounds = (std::ops::Bound::Included(start), std::ops::Bound::Excluded(end));
        let mut changed = self.changes.range::<[u8], _>(bounds).peekable();
        let mut stopped = false;
        self.read.scan(start, end, &mut |key, value| {
            while let Some((new, change)) = changed.next_if(|(new, _)| new.as_slice() < key) {
                if let Some(value) = change
                    && visit(new, value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let step = match changed.next_if(|(new, _)| new.as_slice() == key) {
                Some((_, Some(value))) => visit(key, value),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            stopped = step.is_break();
            step
        })?;
        for (new, change) in changed {
            if stopped {
                break;
            }
            if let Some(value) = change {
                stopped = visit(new, value).is_break();
            }
        }
        Ok(())
    }

    fn scan_reverse(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> std::result::Result<(), KvError> {
        let mut all = Vec::new();
        self.scan(start, end, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        for (key, value) in all.iter().rev() {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
