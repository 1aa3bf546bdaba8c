//! What is in a directory, on its disk: a record for each chunk, and sums over all of them that are kept with each change.
//!
//! Kept by redb and not by a memory map: a disk that fails is then an error, not a signal; and its memory has a bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::key::Key;
use super::presence::Presence;
use super::victim::Candidate;

const CHUNKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("chunks");
const SUMS: TableDefinition<'_, &str, u64> = TableDefinition::new("sums");
/// Another one is not understood, and what it describes is dropped.
const FORMAT: u64 = 1;
const PINNED: u8 = 1;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct IndexError(String);

type Result<T> = std::result::Result<T, IndexError>;

/// What is known of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// That of the extents it was filled from; 0 of a segment's.
    pub print: u64,
    /// When it was used last, and how often.
    pub known: Candidate,
    pub pinned: bool,
    pub presence: Presence,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.push(if self.pinned { PINNED } else { 0 });
        bytes.extend_from_slice(&self.print.to_le_bytes());
        bytes.extend_from_slice(&self.known.used.to_le_bytes());
        bytes.push(self.known.uses);
        self.presence.encode(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        let (&[flags], rest) = bytes.split_first_chunk::<1>()?;
        let (print, rest) = rest.split_first_chunk::<8>()?;
        let (used, rest) = rest.split_first_chunk::<4>()?;
        let (&[uses], rest) = rest.split_first_chunk::<1>()?;
        let presence = Presence::decode(rest)?;
        let known = Candidate { used: u32::from_le_bytes(*used), uses, bytes: presence.bytes() };
        let pinned = flags & PINNED != 0;
        Some(Record { print: u64::from_le_bytes(*print), known, pinned, presence })
    }
}

/// Sums over all chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    /// Bytes that are there.
    pub bytes: u64,
    /// Those of chunks that are not evicted.
    pub pinned: u64,
    /// Those of chunks that were used once.
    pub on_probation: u64,
    /// Entries with at least one chunk.
    pub entries: u64,
}

impl Sums {
    fn add(&mut self, record: &Record) {
        let bytes = record.presence.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        if record.pinned {
            self.pinned = self.pinned.saturating_add(bytes);
        }
        if record.known.is_on_probation() {
            self.on_probation = self.on_probation.saturating_add(bytes);
        }
    }

    fn take(&mut self, record: &Record) {
        let bytes = record.presence.bytes();
        self.bytes = self.bytes.saturating_sub(bytes);
        if record.pinned {
            self.pinned = self.pinned.saturating_sub(bytes);
        }
        if record.known.is_on_probation() {
            self.on_probation = self.on_probation.saturating_sub(bytes);
        }
    }
}

/// A change to the index.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// This is known of a chunk now.
    Put(Key, u32, Box<Record>),
    /// Nothing is there of a chunk.
    Remove(Key, u32),
    /// Nothing is there of an entry.
    RemoveAll(Key),
}

/// Some records in the order of the index, and where the next ones begin.
pub(super) struct Lot {
    pub records: Vec<(Key, u32, Record)>,
    /// `None`: these were the last.
    pub next: Option<Vec<u8>>,
}

/// The index of one directory.
pub(super) struct Index {
    database: Database,
}

/// Whatever is wrong with a file must not end the process.
fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, redb::Error>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(IndexError(error.to_string())),
        Err(_) => Err(IndexError("the index is damaged".to_owned())),
    }
}

impl Index {
    /// Opens or makes it; it takes at most some `memory` bytes.
    ///
    /// # Errors
    /// It cannot be read or written, is damaged or of another format.
    pub(super) fn open(path: &Path, memory: usize) -> Result<(Index, Sums)> {
        let (database, format, sums) = guarded(|| {
            let database = Database::builder().set_cache_size(memory).create(path)?;
            let mut write = database.begin_write()?;
            write.set_quick_repair(true);
            let (format, sums);
            {
                let _ = write.open_table(CHUNKS)?;
                let mut table = write.open_table(SUMS)?;
                let known = table.get("format")?.map(|format| format.value());
                format = known.unwrap_or(FORMAT);
                table.insert("format", format)?;
                let read = |name| Ok::<u64, redb::Error>(table.get(name)?.map_or(0, |sum| sum.value()));
                sums = Sums {
                    bytes: read("bytes")?,
                    pinned: read("pinned")?,
                    on_probation: read("on probation")?,
                    entries: read("entries")?,
                };
            }
            write.commit()?;
            Ok((database, format, sums))
        })?;
        if format != FORMAT {
            return Err(IndexError(format!("its format is {format}, this program knows {FORMAT}")));
        }
        Ok((Index { database }, sums))
    }

    /// All that is known of an entry.
    pub(super) fn load(&self, key: Key) -> Result<Vec<(u32, Record)>> {
        let lot = self.range(&key.of_chunk(0), Some(&key.of_chunk(u32::MAX)), usize::MAX)?;
        Ok(lot.records.into_iter().map(|(_, chunk, record)| (chunk, record)).collect())
    }

    /// Whether anything is known of an entry.
    pub(super) fn contains(&self, key: Key) -> Result<bool> {
        Ok(!self.range(&key.of_chunk(0), Some(&key.of_chunk(u32::MAX)), 1)?.records.is_empty())
    }

    /// At most `most` records from the key `from` on.
    pub(super) fn lot(&self, from: &[u8], most: usize) -> Result<Lot> {
        self.range(from, None, most)
    }

    fn range(&self, from: &[u8], to: Option<&[u8]>, most: usize) -> Result<Lot> {
        guarded(|| {
            let read = self.database.begin_read()?;
            let table = read.open_table(CHUNKS)?;
            let mut lot = Lot { records: Vec::new(), next: None };
            let range = match to {
                Some(to) => table.range::<&[u8]>(from..=to)?,
                None => table.range::<&[u8]>(from..)?,
            };
            for item in range {
                let (key, value) = item?;
                if lot.records.len() >= most {
                    lot.next = Some(key.value().to_vec());
                    break;
                }
                // What does not decode is as if it were not there: it is overwritten or its file swept.
                if let (Some((key, chunk)), Some(record)) =
                    (Key::parse(key.value()), Record::decode(value.value()))
                {
                    lot.records.push((key, chunk, record));
                }
            }
            Ok(lot)
        })
    }

    /// Makes changes durable, all of them or none; answers the sums after them.
    pub(super) fn apply(&self, changes: &[Change]) -> Result<Sums> {
        guarded(|| {
            let mut write = self.database.begin_write()?;
            write.set_quick_repair(true);
            let mut sums = Sums::default();
            {
                let mut chunks = write.open_table(CHUNKS)?;
                let mut table = write.open_table(SUMS)?;
                let read = |name| Ok::<u64, redb::Error>(table.get(name)?.map_or(0, |sum| sum.value()));
                sums.bytes = read("bytes")?;
                sums.pinned = read("pinned")?;
                sums.on_probation = read("on probation")?;
                sums.entries = read("entries")?;
                for change in changes {
                    match change {
                        Change::Put(key, chunk, record) => {
                            let was_there = any_of(&chunks, *key)?;
                            let bytes = record.encode();
                            let before = chunks.insert(&key.of_chunk(*chunk)[..], &bytes[..])?;
                            if let Some(before) = before.and_then(|before| Record::decode(before.value())) {
                                sums.take(&before);
                            }
                            sums.add(record);
                            sums.entries += u64::from(!was_there);
                        }
                        Change::Remove(key, chunk) => {
                            let before = chunks.remove(&key.of_chunk(*chunk)[..])?;
                            let Some(before) = before.map(|before| Record::decode(before.value())) else {
                                continue;
                            };
                            before.iter().for_each(|before| sums.take(before));
                            if !any_of(&chunks, *key)? {
                                sums.entries = sums.entries.saturating_sub(1);
                            }
                        }
                        Change::RemoveAll(key) => {
                            let (from, to) = (key.of_chunk(0), key.of_chunk(u32::MAX));
                            let mut some = false;
                            chunks.retain_in(&from[..]..=&to[..], |_, value| {
                                Record::decode(value).iter().for_each(|before| sums.take(before));
                                some = true;
                                false
                            })?;
                            sums.entries = sums.entries.saturating_sub(u64::from(some));
                        }
                    }
                }
                table.insert("bytes", sums.bytes)?;
                table.insert("pinned", sums.pinned)?;
                table.insert("on probation", sums.on_probation)?;
                table.insert("entries", sums.entries)?;
            }
            write.commit()?;
            Ok(sums)
        })
    }
}

fn any_of(
    chunks: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: Key,
) -> std::result::Result<bool, redb::Error> {
    let (from, to) = (key.of_chunk(0), key.of_chunk(u32::MAX));
    Ok(chunks.range::<&[u8]>(&from[..]..=&to[..])?.next().transpose()?.is_some())
}

#[cfg(test)]
mod tests {
    use headrace_layout::InodeNo;
    use proptest::prelude::*;

    use super::*;

    fn record(blocks: u32, uses: u8, pinned: bool) -> Record {
        let mut presence = Presence::default();
        (0..blocks).for_each(|block| {
            presence.insert(block, block * 7);
        });
        let known = Candidate { used: 1000 + blocks, uses, bytes: presence.bytes() };
        Record { print: 0x1234_5678_9abc_def0, known, pinned, presence }
    }

    fn key(number: u64) -> Key {
        Key::File(InodeNo(number))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Sums are those of the records, and both are there after opening it again.
        #[test]
        fn sums_are_true_of_the_records(steps in proptest::collection::vec(
            proptest::collection::vec((0u8..8, 0u64..4, 0u32..3, 1u32..40, 0u8..3, any::<bool>()), 1..6), 1..8)) {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("index");
            let mut model = std::collections::BTreeMap::new();
            let mut last = Sums::default();
            for step in steps {
                let (index, sums) = Index::open(&path, 1 << 20).expect("opens");
                prop_assert_eq!(sums, last);
                let mut changes = Vec::new();
                for (kind, number, chunk, blocks, uses, pinned) in step {
                    match kind {
                        0 => {
                            model.retain(|(held, _), _| *held != number);
                            changes.push(Change::RemoveAll(key(number)));
                        }
                        1 | 2 => {
                            model.remove(&(number, chunk));
                            changes.push(Change::Remove(key(number), chunk));
                        }
                        _ => {
                            let record = record(blocks, uses, pinned);
                            model.insert((number, chunk), record.clone());
                            changes.push(Change::Put(key(number), chunk, Box::new(record)));
                        }
                    }
                }
                last = index.apply(&changes).expect("applies");
                let mut expected = Sums::default();
                model.values().for_each(|record| expected.add(record));
                let mut entries: Vec<u64> = model.keys().map(|(number, _)| *number).collect();
                entries.dedup();
                expected.entries = entries.len() as u64;
                prop_assert_eq!(last, expected);
                for number in 0..4 {
                    let wanted: Vec<_> = model
                        .range((number, 0)..=(number, u32::MAX))
                        .map(|((_, chunk), record)| (*chunk, record.clone()))
                        .collect();
                    prop_assert_eq!(index.contains(key(number)).expect("reads"), !wanted.is_empty());
                    prop_assert_eq!(index.load(key(number)).expect("reads"), wanted);
                }
            }
        }
    }

    #[test]
    fn lots_go_once_through_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let (index, _) = Index::open(&dir.path().join("index"), 1 << 20).expect("opens");
        let changes: Vec<_> =
            (0..100).map(|number| Change::Put(key(number), 0, Box::new(record(1, 1, false)))).collect();
        index.apply(&changes).expect("applies");
        let (mut from, mut seen) = (Vec::new(), Vec::new());
        loop {
            let lot = index.lot(&from, 7).expect("reads");
            assert!(lot.records.len() <= 7);
            seen.extend(lot.records.iter().map(|(key, ..)| *key));
            match lot.next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(seen, (0..100).map(key).collect::<Vec<_>>());
    }

    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
    }

    /// Not a test but a measurement: `cargo test --release -p headrace-cache ten_million -- --ignored --nocapture`
    #[test]
    #[ignore = "takes minutes and a GiB of disk"]
    fn ten_million_entries() {
        let count = 10_000_000u64;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("index");
        let before = resident();
        {
            let (index, _) = Index::open(&path, 4 << 20).expect("opens");
            for first in (0..count).step_by(50_000) {
                let put = |number| Change::Put(key(number), 0, Box::new(record(10, 1, false)));
                index.apply(&(first..first + 50_000).map(put).collect::<Vec<_>>()).expect("applies");
            }
        }
        let began = std::time::Instant::now();
        let (index, sums) = Index::open(&path, 4 << 20).expect("opens");
        let opened = began.elapsed();
        assert_eq!(sums.entries, count);
        let began = std::time::Instant::now();
        for number in (0..count).step_by(1009) {
            assert_eq!(index.load(key(number)).expect("reads").len(), 1);
        }
        let found = began.elapsed() / (count / 1009) as u32;
        let size = std::fs::metadata(&path).expect("metadata").len();
        println!(
            "opened in {opened:?}, an entry found in {found:?}, {} MiB on disk, {} MiB of memory",
            size >> 20,
            resident().saturating_sub(before) >> 20
        );
    }

    #[test]
    fn a_file_that_is_no_index_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("index");
        std::fs::write(&path, vec![0x5a; 100_000]).expect("written");
        assert!(Index::open(&path, 1 << 20).is_err());
    }
}
