//! One entry: its file, and what of it is there.

mod drop;
mod store;
mod sync;
mod verify;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};

use super::Prints;

use super::index::Record;
use super::key::Key;
use super::lane::Lane;
use super::mapped::is_open_elsewhere;
use super::presence::{BLOCK, BLOCKS, CHUNK, GROUP_BLOCKS, GROUPS, Presence};
use super::victim::Candidate;
use super::worker::Job;

pub use super::hit::Hit;

/// Seconds since 1970.
pub(super) fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

struct Chunk {
    print: u64,
    known: Candidate,
    pinned: bool,
    presence: Presence,
    /// Its print was that of the file's extents, and nothing has changed them since.
    valid: bool,
    /// Groups that came, or whose checksum was found right, since the start.
    verified: [u64; GROUPS as usize / 64],
    /// Referred to by whoever reads from the file.
    in_use: Arc<()>,
}

impl Chunk {
    fn new(print: u64) -> Chunk {
        Chunk {
            print,
            known: Candidate { used: now(), uses: 1, bytes: 0 },
            pinned: false,
            presence: Presence::default(),
            valid: false,
            verified: [u64::MAX; GROUPS as usize / 64],
            in_use: Arc::default(),
        }
    }

    fn is_verified(&self, group: u32) -> bool {
        self.verified[group as usize / 64] >> (group % 64) & 1 == 1
    }
}

#[derive(Default)]
struct State {
    chunks: BTreeMap<u32, Chunk>,
    /// Chunks that are gone and still take space.
    doomed: BTreeMap<u32, Arc<()>>,
    /// It has no file any more.
    dead: bool,
    /// The kernel reads the file by itself, for so many.
    passes: u32,
    /// Fills that are being written.
    writing: u32,
    /// Known to be whole, for content of this length.
    whole: Option<u64>,
    /// Changes with every change of the content.
    generation: u64,
    /// New chunks are not to be evicted.
    pinned: bool,
    /// How often something was written to the file, and how much of that is known to be on the disk.
    written: u64,
    synced: u64,
}

/// The local copy of a file's content or of a segment.
pub struct Entry {
    key: Key,
    lane: Arc<Lane>,
    file: Arc<File>,
    path: PathBuf,
    state: Mutex<State>,
    /// So long is the file at least.
    length: AtomicU64,
    /// Of those who look whether it is whole: one at a time.
    verifying: AtomicU32,
}

/// Whether the kernel may read an entry's file by itself.
pub enum Readiness {
    /// It may, while this lives.
    Ready(Pass),
    /// When its checksums have been looked at: [`Entry::verify`].
    Unverified,
    /// When it is on the disk: [`Entry::sync`].
    Unsynced,
    /// Something is missing.
    Incomplete,
}

/// Keeps an entry whole and where it is.
pub struct Pass {
    entry: Arc<Entry>,
}

impl Pass {
    /// The whole content, and nothing behind it.
    pub fn file(&self) -> &Arc<File> {
        &self.entry.file
    }

    /// Whether somebody else still has it open, or has mapped it: the kernel tells of the end of an open file, and not of its mappings'.
    pub fn is_open_elsewhere(&self) -> bool {
        is_open_elsewhere(&self.entry.file)
    }

    /// What it is of.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.entry.state.lock().passes -= 1;
    }
}

impl Entry {
    pub(super) fn new(
        key: Key,
        lane: Arc<Lane>,
        file: File,
        path: PathBuf,
        records: Vec<(u32, Record)>,
    ) -> Entry {
        // Whether what an earlier mount wrote is on the disk, nobody knows.
        let written = if records.is_empty() { 0 } else { sync::INHERITED };
        let chunks = records.into_iter().map(|(chunk, record)| {
            let Record { print, known, pinned, presence } = record;
            let verified = [0; GROUPS as usize / 64];
            (chunk, Chunk { print, known, pinned, presence, valid: false, verified, in_use: Arc::default() })
        });
        let state = Mutex::new(State { chunks: chunks.collect(), written, ..State::default() });
        let length = AtomicU64::new(file.metadata().map_or(0, |metadata| metadata.len()));
        Entry { key, lane, file: Arc::new(file), path, state, length, verifying: AtomicU32::new(0) }
    }

    /// One whose file has all `size` bytes of its content: the chunks, with what they are made from.
    pub(in crate::disk) fn adopted(
        key: Key,
        lane: Arc<Lane>,
        file: Arc<File>,
        path: PathBuf,
        size: u64,
        chunks: impl Iterator<Item = (u32, u64, Presence)>,
    ) -> Entry {
        let chunks = chunks.map(|(number, print, presence)| {
            let known = Candidate { bytes: presence.bytes(), ..Chunk::new(print).known };
            (number, Chunk { presence, known, valid: true, ..Chunk::new(print) })
        });
        let state = State { chunks: chunks.collect(), written: sync::ANEW, ..State::default() };
        let (length, verifying) = (AtomicU64::new(size), AtomicU32::new(0));
        Entry { key, lane, file, path, state: Mutex::new(state), length, verifying }
    }

    /// What it is of.
    pub fn key(&self) -> Key {
        self.key
    }

    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is of no use any more: another one is to be asked for.
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead || self.lane.is_failed()
    }

    /// Bytes of `range` have changed, or may have.
    pub fn changed(&self, range: Range<u64>) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.whole = None;
        for (_, chunk) in state.chunks.range_mut(chunks_of(&range)) {
            chunk.valid = false;
        }
    }

    /// Its bytes are what they were and may be elsewhere in the store: chunks that are known to be good get the prints they have now.
    pub fn moved(self: &Arc<Self>, prints: Prints<'_>) {
        let (generation, known) = {
            let state = self.state.lock();
            let valid = state.chunks.iter().filter(|(_, chunk)| chunk.valid);
            (state.generation, valid.map(|(number, _)| *number).collect::<Vec<_>>())
        };
        for number in known {
            let Some(print) = prints(number) else { continue };
            let mut state = self.state.lock();
            if state.generation != generation || state.dead {
                return;
            }
            if let Some(chunk) =
                state.chunks.get_mut(&number).filter(|chunk| chunk.valid && chunk.print != print)
            {
                chunk.print = print;
                self.lane.send(Job::Dirty(Arc::clone(self), number));
            }
        }
    }

    /// The entry ends here: its file has no name any more, and what is open of it is nobody else's. Answers before anything else can
    /// be read from or put into it.
    pub fn detach(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.dead, true) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.lane.fail(format!("cannot remove {}: {error}", self.path.display()));
        }
        let bytes: u64 = state.chunks.values().map(|chunk| chunk.presence.bytes()).sum();
        drop(state);
        self.lane.release_held(bytes);
        self.lane.send(Job::Gone(Arc::clone(self)));
    }

    /// Locks it with each chunk of `chunks` compared with what it would have to be made from now; what differs is dropped. `None`
    /// if the content changes meanwhile.
    fn validated(self: &Arc<Self>, chunks: Range<u32>, prints: Prints<'_>) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        let unknown = |state: &State| -> Vec<u32> {
            let range = state.chunks.range(chunks.clone());
            range.filter(|(_, chunk)| !chunk.valid).map(|(number, _)| *number).collect()
        };
        let mut wanted = unknown(&state);
        if !wanted.is_empty() {
            let generation = state.generation;
            drop(state);
            let found: Vec<_> = wanted.drain(..).map(|number| (number, prints(number))).collect();
            state = self.state.lock();
            if state.generation != generation {
                return None;
            }
            for (number, print) in found {
                match state.chunks.get_mut(&number) {
                    Some(chunk) if Some(chunk.print) == print => chunk.valid = true,
                    Some(_) => self.drop_chunk(&mut state, number),
                    None => {}
                }
            }
        }
        (!state.dead && unknown(&state).is_empty()).then_some(state)
    }

    /// Where the bytes of `range` are, if all of them are there.
    pub fn find(self: &Arc<Self>, range: Range<u64>, prints: Prints<'_>) -> Option<Hit> {
        if range.is_empty() || self.lane.is_failed() {
            return None;
        }
        let (mut users, mut unverified, mut volatile) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = self.validated(chunks_of(&range), prints)?;
        let is_synced = state.is_synced();
        for number in chunks_of(&range) {
            let chunk = state.chunks.get_mut(&number)?;
            let blocks = blocks_in(number, &range);
            if chunk.presence.run_end(blocks.start, blocks.end) < blocks.end {
                return None;
            }
            for group in blocks.start / GROUP_BLOCKS..=(blocks.end - 1) / GROUP_BLOCKS {
                if !chunk.is_verified(group) {
                    unverified.push((number, group));
                }
                if !is_synced {
                    volatile.push((number, group));
                }
            }
            users.push(Arc::clone(&chunk.in_use));
            if chunk.known.use_at(now()) {
                self.lane.send(Job::Dirty(Arc::clone(self), number));
            }
        }
        drop(state);
        self.lane.figures.hit_bytes.add(range.end - range.start);
        Some(Hit { entry: Arc::clone(self), range, _users: users, unverified, volatile })
    }

    /// The first bytes of `range` that are there, as whole blocks as far as it goes; empty at its end if none are.
    pub fn next_present(self: &Arc<Self>, range: &Range<u64>, prints: Prints<'_>) -> Range<u64> {
        let none = range.end..range.end;
        let Some(state) = self.validated(chunks_of(range), prints) else { return none };
        let mut found: Option<Range<u64>> = None;
        for number in chunks_of(range) {
            let base = u64::from(number) * CHUNK;
            let blocks = blocks_in(number, range);
            let Some(chunk) = state.chunks.get(&number) else {
                if found.is_some() {
                    break;
                }
                continue;
            };
            let from = match &found {
                Some(_) => blocks.start,
                None => chunk.presence.next(blocks.start, blocks.end),
            };
            let to = chunk.presence.run_end(from, blocks.end);
            if to > from {
                let start = found.map_or(base + u64::from(from) * BLOCK, |found| found.start);
                found = Some(start..base + u64::from(to) * BLOCK);
            }
            if found.is_some() && to < blocks.end {
                break;
            }
        }
        found.map_or(none, |found| found.start.max(range.start)..found.end.min(range.end))
    }

    /// Bytes of the content's first `len` that are there.
    pub fn present(self: &Arc<Self>, len: u64, prints: Prints<'_>) -> u64 {
        let (mut at, mut bytes) = (0, 0);
        while at < len {
            let found = self.next_present(&(at..len), prints);
            bytes += found.end - found.start;
            at = found.end.max(at + 1);
        }
        bytes
    }

    /// Whether the kernel may read its file by itself, as content of `size` bytes. To be asked only while nothing changes the content: the
    /// file is cut to that length.
    pub fn pass(self: &Arc<Self>, size: u64, prints: Prints<'_>) -> Readiness {
        if self.lane.is_failed() {
            return Readiness::Incomplete;
        }
        let Some(mut state) = self.validated(chunks_of(&(0..size)), prints) else {
            return Readiness::Incomplete;
        };
        if state.writing > 0 || !state.doomed.is_empty() {
            return Readiness::Incomplete;
        }
        if state.whole != Some(size) {
            for number in chunks_of(&(0..size)) {
                let blocks = blocks_in(number, &(0..size));
                let Some(chunk) = state.chunks.get(&number) else { return Readiness::Incomplete };
                if chunk.presence.run_end(0, blocks.end) < blocks.end {
                    return Readiness::Incomplete;
                }
                if (0..=(blocks.end - 1) / GROUP_BLOCKS).any(|group| !chunk.is_verified(group)) {
                    return Readiness::Unverified;
                }
            }
            if !state.is_synced() {
                return Readiness::Unsynced;
            }
            // What is behind the end goes if it is out of date, and if not, the end is.
            let behind: Vec<u32> =
                state.chunks.range(chunks_of(&(0..size)).end..).map(|(at, _)| *at).collect();
            for number in behind {
                match state.chunks.get(&number) {
                    Some(chunk) if chunk.valid => return Readiness::Incomplete,
                    _ => self.drop_chunk(&mut state, number),
                }
            }
            let last = state.chunks.last_key_value();
            let blocks = blocks_in((size.saturating_sub(1) / CHUNK) as u32, &(0..size));
            if state.passes > 0
                || last.is_some_and(|(_, chunk)| chunk.presence.next(blocks.end, BLOCKS) < BLOCKS)
            {
                return Readiness::Incomplete;
            }
            if self.length.load(Ordering::Relaxed) > size && is_open_elsewhere(&self.file) {
                drop(state);
                self.detach();
                return Readiness::Incomplete;
            }
            // What is behind the end would be read, what is missing before it is zeros.
            if let Err(error) = self.file.set_len(size) {
                drop(state);
                self.broken("cut to length", &error);
                return Readiness::Incomplete;
            }
            self.length.store(size, Ordering::Relaxed);
            state.whole = Some(size);
        }
        let at = now();
        for (number, chunk) in &mut state.chunks {
            if chunk.known.use_at(at) {
                self.lane.send(Job::Dirty(Arc::clone(self), *number));
            }
        }
        state.passes += 1;
        Readiness::Ready(Pass { entry: Arc::clone(self) })
    }

    /// The file cannot be used: neither can its directory.
    pub(super) fn broken(&self, what: &str, error: &io::Error) {
        self.lane.fail(format!("cannot {what} {}: {error}", self.path.display()));
    }

    /// Whether what is there of it, and what comes, is not to be evicted.
    pub fn pin(self: &Arc<Self>, pinned: bool) {
        let mut state = self.state.lock();
        state.pinned = pinned;
        for (number, chunk) in &mut state.chunks {
            if std::mem::replace(&mut chunk.pinned, pinned) != pinned {
                self.lane.send(Job::Dirty(Arc::clone(self), *number));
            }
        }
    }

    /// What the index is to know of a chunk; `None`: nothing.
    pub(super) fn record(&self, number: u32) -> Option<Record> {
        let state = self.state.lock();
        if state.dead {
            return None;
        }
        let Chunk { print, known, pinned, presence, .. } = state.chunks.get(&number)?;
        (presence.count() > 0).then(|| Record {
            print: *print,
            known: *known,
            pinned: *pinned,
            presence: presence.clone(),
        })
    }

    /// Whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.chunks.is_empty() && state.doomed.is_empty() && state.writing == 0 && state.passes == 0
    }

    /// The bytes of `range`; behind what was ever written there are zeros. Blocks.
    pub(super) fn read_at(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let len = usize::try_from(range.end - range.start).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut bytes = vec![0; len];
        let wanted = range.end.min(self.length.load(Ordering::Relaxed)).saturating_sub(range.start);
        let read = read_up_to(&self.file, &mut bytes, range.start)?;
        if (read as u64) < wanted {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "somebody has made it shorter"));
        }
        Ok(bytes)
    }
}

/// The chunks that a range touches.
pub(super) fn chunks_of(range: &Range<u64>) -> Range<u32> {
    let number = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    number(range.start / CHUNK)..number(range.end.div_ceil(CHUNK))
}

/// The blocks of a chunk that a range touches.
fn blocks_in(chunk: u32, range: &Range<u64>) -> Range<u32> {
    let base = u64::from(chunk) * CHUNK;
    let start = range.start.max(base) - base;
    let end = range.end.min(base + CHUNK).saturating_sub(base);
    (start / BLOCK) as u32..end.div_ceil(BLOCK) as u32
}

/// Fills `buffer` from `offset` on as far as the file goes; how far.
pub(in crate::disk) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match file.read_at(&mut buffer[at..], offset + at as u64) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}
