//! An engine in memory. It runs every transaction twice, which a closure must not notice, and counts what it is asked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use headrace_kv::{CommitSeq, Engine, EngineStats, KvError, Read, Stop, Txn, Visit};
use parking_lot::RwLock;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
pub struct MemoryEngine {
    map: RwLock<Map>,
    commits: AtomicU64,
    /// Lookups and scans, and writes, of transactions that committed.
    pub reads: AtomicU64,
    pub writes: AtomicU64,
}

struct View<'a> {
    base: &'a Map,
    own: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    reads: AtomicU64,
    writes: u64,
}

impl<'a> View<'a> {
    fn new(base: &'a Map) -> View<'a> {
        View { base, own: BTreeMap::new(), reads: AtomicU64::new(0), writes: 0 }
    }

    fn merged(&self, start: &[u8], end: &[u8]) -> BTreeMap<&[u8], &[u8]> {
        if start >= end {
            return BTreeMap::new();
        }
        let range = start.to_vec()..end.to_vec();
        let mut merged: BTreeMap<&[u8], &[u8]> =
            self.base.range(range.clone()).map(|(k, v)| (&k[..], &v[..])).collect();
        for (key, value) in self.own.range(range) {
            match value {
                Some(value) => merged.insert(key, value),
                None => merged.remove(&key[..]),
            };
        }
        merged
    }
}

impl Read for View<'_> {
    fn get<'a>(&'a self, key: &[u8]) -> Result<Option<Cow<'a, [u8]>>, KvError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let own = self.own.get(key).map(Option::as_ref);
        let value = own.unwrap_or_else(|| self.base.get(key));
        Ok(value.map(|value| Cow::Borrowed(&value[..])))
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.own.is_empty() && start < end {
            // Straight through, as large directories are listed in many short scans.
            for (key, value) in self.base.range(start.to_vec()..end.to_vec()) {
                if visit(key, value) == ControlFlow::Break(()) {
                    break;
                }
            }
            return Ok(());
        }
        for (key, value) in self.merged(start, end) {
            if visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn scan_reverse(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), KvError> {
        for (key, value) in self.merged(start, end).into_iter().rev() {
            if visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

impl Txn for View<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        assert!((1..=headrace_kv::MAX_KEY_BYTES).contains(&key.len()));
        self.writes += 1;
        self.own.insert(key.to_vec(), Some(value.to_vec()));
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes += 1;
        self.own.insert(key.to_vec(), None);
    }
}

impl Engine for MemoryEngine {
    fn view(&self, f: &mut dyn FnMut(&dyn Read) -> Result<(), Stop>) -> Result<(), Stop> {
        f(&View::new(&self.map.read()))
    }

    fn transact(&self, f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>) -> Result<CommitSeq, Stop> {
        let mut map = self.map.write();
        f(&mut View::new(&map))?;
        let mut again = View::new(&map);
        f(&mut again)?;
        self.reads.fetch_add(again.reads.load(Ordering::Relaxed), Ordering::Relaxed);
        self.writes.fetch_add(again.writes, Ordering::Relaxed);
        for (key, value) in again.own {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(CommitSeq(self.commits.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn position(&self) -> CommitSeq {
        CommitSeq(self.commits.load(Ordering::Relaxed))
    }

    fn durable(&self, _: CommitSeq) -> BoxFuture<'static, Result<(), KvError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn exclusive(&self) -> bool {
        true
    }

    fn close(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}
