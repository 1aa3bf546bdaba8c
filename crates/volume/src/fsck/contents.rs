//! Every file: does it use lost segments, and (on request) can every byte be read?

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use futures::{StreamExt, stream};
use headrace_cache::{Others, SpanCache};
use headrace_layout::{CHUNK_SIZE, Extent, ExtentData, InodeNo, SegmentId, SegmentSlice};
use headrace_meta::{Kind, LOST_SEGMENT, MetaError};
use tokio::sync::Semaphore;

use super::report::{DAMAGED_KEPT, DamagedFile, Recorder};
use crate::error::{Result, VolumeError};
use crate::info::next_chunk;
use crate::open::Volume;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::read::read_extent;

/// Bytes read in one piece.
const PIECE: u32 = 4 << 20;
/// Pieces read at once.
const CONCURRENCY: usize = 8;
/// Files looked at side by side: a small one is one piece.
const FILES: usize = 32;
/// Stored bytes kept, because packed files that are named one after the other lie one after the other.
const SPANS: u64 = 16 << 20;
/// Names read from a directory at once: bounds memory, and keeps views of the metadata short.
const NAMES: usize = 1024;

const DAMAGED: &str = "restore the file from a copy; its other bytes can still be read";

/// Walks the tree and everything that is unlinked but still held.
pub(super) async fn check(
    volume: &Volume,
    data: bool,
    lost: &HashSet<SegmentId>,
    total: u64,
    progress: &ProgressFn<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<()> {
    let walk = Walk {
        volume,
        data,
        lost,
        total,
        done: AtomicU64::new(0),
        progress,
        spans: SpanCache::new(SPANS),
        reads: Semaphore::new(CONCURRENCY),
    };
    // Files with several names that were seen already.
    let mut linked = HashSet::new();
    let mut directories = vec![(InodeNo::ROOT, Vec::new())];
    while let Some((dir, path)) = directories.pop() {
        let mut after = 0;
        loop {
            let names = names(volume, dir, after)?;
            let Some(last) = names.last() else { break };
            after = last.cookie;
            let mut files = Vec::new();
            for name in names {
                let path = [&path[..], b"/", &name.name].concat();
                match name.kind {
                    Kind::Directory => directories.push((name.ino, path)),
                    Kind::File if walk.is_new(name.ino, &mut linked)? => {
                        files.push((name.ino, printable(&path)));
                    }
                    _ => {}
                }
            }
            walk.files(files, recorder).await?;
        }
    }
    let mut orphans = Vec::new();
    for ino in volume.meta.orphans()? {
        if walk.is_new(ino, &mut linked)? {
            let name = match volume.meta.path_of(ino)? {
                Some(path) => format!("{} (in the trash)", printable(&path)),
                None => format!("(unlinked) inode {ino}"),
            };
            orphans.push((ino, name));
        }
    }
    walk.files(orphans, recorder).await
}

struct Name {
    cookie: u64,
    ino: InodeNo,
    kind: Kind,
    name: Vec<u8>,
}

/// The next names of a directory; none if it is gone.
fn names(volume: &Volume, dir: InodeNo, after: u64) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    let read = volume.meta.readdir(dir, after, false, &mut |entry| {
        names.push(Name {
            cookie: entry.cookie,
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.to_vec(),
        });
        names.len() < NAMES
    });
    match read {
        Ok(()) => Ok(names),
        Err(MetaError::NotFound | MetaError::Stale | MetaError::NotDirectory) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

struct Walk<'a> {
    volume: &'a Volume,
    data: bool,
    lost: &'a HashSet<SegmentId>,
    total: u64,
    done: AtomicU64,
    progress: &'a ProgressFn<'a>,
    spans: SpanCache,
    /// One for each piece that may be in memory.
    reads: Semaphore,
}

/// What was found of a file.
struct Checked {
    bad: DamagedFile,
    bytes_read: u64,
}

impl Walk<'_> {
    /// Whether it is a file, and none that was seen before under another name.
    fn is_new(&self, ino: InodeNo, linked: &mut HashSet<InodeNo>) -> Result<bool> {
        match self.volume.meta.getattr(ino) {
            Ok(attr) => Ok(attr.kind == Kind::File && (attr.nlink <= 1 || linked.insert(ino))),
            // Metadata's own check has reported what is wrong with it.
            Err(MetaError::NotFound | MetaError::Stale | MetaError::Corrupt(_)) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    async fn files(&self, files: Vec<(InodeNo, String)>, recorder: &mut Recorder<'_>) -> Result<()> {
        let mut checks = stream::iter(files).map(|(ino, path)| self.file(ino, path)).buffered(FILES);
        while let Some(checked) = checks.next().await {
            let Checked { bad, bytes_read } = checked?;
            recorder.report.bytes_read += bytes_read;
            recorder.report.files_read += u64::from(self.data);
            if let Some(message) = bad.message() {
                recorder.report.damaged_files += 1;
                recorder.error("damaged-file", message, DAMAGED);
                if recorder.report.damaged.len() < DAMAGED_KEPT {
                    recorder.report.damaged.push(bad);
                }
            }
        }
        Ok(())
    }

    async fn file(&self, ino: InodeNo, path: String) -> Result<Checked> {
        // A local store never waits: let others have the thread.
        tokio::task::yield_now().await;
        let mut checked = Checked { bad: DamagedFile::new(path, ino.0), bytes_read: 0 };
        let mut offset = 0;
        loop {
            let chunk = match next_chunk(self.volume, ino, offset) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(VolumeError::Meta(MetaError::NotFound | MetaError::Stale | MetaError::Corrupt(_))) => {
                    break;
                }
                Err(e) => return Err(e),
            };
            self.chunk(ino, chunk, &mut checked).await?;
            offset = (u64::from(chunk) + 1) * CHUNK_SIZE;
        }
        Ok(checked)
    }

    async fn chunk(&self, ino: InodeNo, chunk: u32, checked: &mut Checked) -> Result<()> {
        let map = match self.volume.meta.extents(ino, chunk) {
            Ok(map) => map,
            Err(MetaError::NotFound | MetaError::Stale | MetaError::Corrupt(_)) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let base = u64::from(chunk) * CHUNK_SIZE;
        let mut pieces = Vec::new();
        for extent in map.extents() {
            let is_lost = matches!(&extent.data, ExtentData::Segment(s) if self.lost.contains(&s.segment));
            if is_lost {
                let ExtentData::Segment(slice) = &extent.data else { continue };
                let why = if slice.segment == LOST_SEGMENT {
                    "where it was is not known any more".to_owned()
                } else {
                    format!("{} is lost", slice.segment.object_key())
                };
                checked.bad.add(base + u64::from(extent.start), extent.len, &why);
            } else if self.data {
                pieces.extend((0..extent.len).step_by(PIECE as usize).map(|from| (extent, from)));
            }
        }
        let mut reads = stream::iter(pieces)
            .map(|(extent, from)| async move {
                let len = PIECE.min(extent.len - from);
                let permit = self.reads.acquire().await;
                let read = self.read(ino, &extent.data, from, len).await;
                // What was read is not looked at again.
                let read = read.map(|parts| parts.map(|parts| parts.iter().map(|p| p.len() as u64).sum()));
                drop(permit);
                (extent, from, len, read)
            })
            .buffered(CONCURRENCY);
        while let Some((extent, from, len, read)) = reads.next().await {
            let done = self.done.fetch_add(u64::from(len), Relaxed) + u64::from(len);
            let total = self.total;
            (self.progress)(Progress { phase: "reading files", done, total, unit: Unit::Bytes });
            self.judge(ino, chunk, extent, from, len, read, checked).await?;
        }
        Ok(())
    }

    /// As [`read_extent`]; what lies close together in the store is brought together.
    async fn read(&self, ino: InodeNo, data: &ExtentData, from: u32, len: u32) -> Result<Option<Vec<Bytes>>> {
        if let ExtentData::Segment(slice) = data
            && slice.run_len <= self.volume.superblock.inline_max
            && let Some(parts) = self.read_through_spans(slice, from, len).await?
        {
            return Ok(Some(parts));
        }
        read_extent(self.volume, ino, data, from, len).await
    }

    /// None if that does not give what is to be there: then it must be seen whether it is the store's fault.
    async fn read_through_spans(
        &self,
        slice: &SegmentSlice,
        from: u32,
        len: u32,
    ) -> Result<Option<Vec<Bytes>>> {
        let volume = self.volume;
        let Some(segment) = volume.meta.segment(slice.segment)? else { return Ok(None) };
        let (key, wanted) = (slice.segment.object_key(), volume.codec.stored_range(slice, from, len));
        let fetch = |range| volume.store.get_range(&key, range);
        let Ok(Some(stored)) =
            self.spans.read(slice.segment, segment.stored, &wanted, Others::Join, fetch).await
        else {
            return Ok(None);
        };
        Ok(volume.codec.decode(slice, from, len, stored).ok())
    }

    #[allow(clippy::too_many_arguments)]
    async fn judge(
        &self,
        ino: InodeNo,
        chunk: u32,
        extent: &Extent,
        from: u32,
        len: u32,
        read: Result<Option<u64>>,
        checked: &mut Checked,
    ) -> Result<()> {
        let why = match read {
            Ok(Some(got)) => {
                checked.bytes_read += got;
                return Ok(());
            }
            Ok(None) => "its inline value is missing".to_owned(),
            Err(VolumeError::Meta(MetaError::Corrupt(detail))) => detail,
            Err(error) if error.is_damage() => error.to_string(),
            Err(error) => return Err(error),
        };
        // Written, packed or compacted since the extents were read: then the old place does not matter.
        let now = self.volume.meta.extents(ino, chunk).unwrap_or_default();
        let start = extent.start + from;
        let same = extent.trim(start, start + len);
        if now.slice(start, start + len).first() != same.as_ref() {
            return Ok(());
        }
        let base = u64::from(chunk) * CHUNK_SIZE;
        for (at, len) in self.frames(extent, from, len) {
            let lost = match read_extent(self.volume, ino, &extent.data, at, len).await {
                Ok(Some(_)) => None,
                Err(error) if error.is_damage() => Some(error.to_string()),
                _ => Some(why.clone()),
            };
            match lost {
                Some(why) => checked.bad.add(base + u64::from(extent.start + at), len, &why),
                None => checked.bytes_read += u64::from(len),
            }
        }
        Ok(())
    }

    /// Cuts a piece of an extent at the boundaries of frames, which are good or bad each on its own.
    fn frames(&self, extent: &Extent, from: u32, len: u32) -> Vec<(u32, u32)> {
        let ExtentData::Segment(slice) = &extent.data else { return vec![(from, len)] };
        let frame = self.volume.superblock.frame_size;
        let (mut at, end, mut parts) = (from, from + len, Vec::new());
        while at < end {
            let next = (at + frame - (slice.skip + at) % frame).min(end);
            parts.push((at, next - at));
            at = next;
        }
        parts
    }
}

/// A path fit for a terminal: control characters and what is not UTF-8 are escaped.
fn printable(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped() {
        assert_eq!(printable(b"/a\nb\x1b[31m\xff\xc3\xa4"), "/a\\nb\\u{1b}[31m\\xffä");
    }

    #[test]
    fn damage_is_one_message_per_file() {
        let mut damage = DamagedFile::new("/f".into(), 2);
        assert_eq!(damage.message(), None);
        damage.add(10, 5, "checksum mismatch");
        damage.add(15, 5, "checksum mismatch");
        damage.add(100, 5, "other");
        let message = damage.message().unwrap();
        assert_eq!(
            message,
            "/f: 15 bytes cannot be read, from offset 10 (and 1 more ranges): checksum mismatch"
        );
        assert_eq!(damage.ranges.len(), 2);
    }
}
