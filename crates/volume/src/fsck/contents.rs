//! Every file: does it use lost segments, and (on request) can every byte be read?

use std::collections::HashSet;

use bytes::Bytes;
use futures::{StreamExt, stream};
use headrace_layout::{CHUNK_SIZE, Extent, ExtentData, InodeNo, SegmentId};
use headrace_meta::{Kind, LOST_SEGMENT, MetaError};

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
    let mut walk = Walk { volume, data, lost, total, done: 0, progress, recorder, linked: HashSet::new() };
    let mut directories = vec![(InodeNo::ROOT, Vec::new())];
    while let Some((dir, path)) = directories.pop() {
        let mut after = 0;
        loop {
            let names = names(volume, dir, after)?;
            let Some(last) = names.last() else { break };
            after = last.cookie;
            for name in names {
                let path = [&path[..], b"/", &name.name].concat();
                match name.kind {
                    Kind::Directory => directories.push((name.ino, path)),
                    Kind::File => walk.file(name.ino, &printable(&path)).await?,
                    _ => {}
                }
            }
        }
    }
    for ino in volume.meta.orphans()? {
        walk.file(ino, &format!("(unlinked) inode {ino}")).await?;
    }
    Ok(())
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

struct Walk<'a, 'r> {
    volume: &'a Volume,
    data: bool,
    lost: &'a HashSet<SegmentId>,
    total: u64,
    done: u64,
    progress: &'a ProgressFn<'a>,
    recorder: &'a mut Recorder<'r>,
    /// Files with several names that were seen already.
    linked: HashSet<InodeNo>,
}

impl Walk<'_, '_> {
    async fn file(&mut self, ino: InodeNo, path: &str) -> Result<()> {
        let attr = match self.volume.meta.getattr(ino) {
            Ok(attr) if attr.kind == Kind::File => attr,
            // Metadata's own check has reported what is wrong with it.
            Ok(_) | Err(MetaError::NotFound | MetaError::Stale | MetaError::Corrupt(_)) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if attr.nlink > 1 && !self.linked.insert(ino) {
            return Ok(());
        }
        // A local store never waits: let others have the thread.
        tokio::task::yield_now().await;
        let mut bad = DamagedFile::new(path.to_owned(), ino.0);
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
            self.chunk(ino, chunk, &mut bad).await?;
            offset = (u64::from(chunk) + 1) * CHUNK_SIZE;
        }
        self.recorder.report.files_read += u64::from(self.data);
        if let Some(message) = bad.message() {
            self.recorder.report.damaged_files += 1;
            self.recorder.error("damaged-file", message, DAMAGED);
            if self.recorder.report.damaged.len() < DAMAGED_KEPT {
                self.recorder.report.damaged.push(bad);
            }
        }
        Ok(())
    }

    async fn chunk(&mut self, ino: InodeNo, chunk: u32, bad: &mut DamagedFile) -> Result<()> {
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
                bad.add(base + u64::from(extent.start), extent.len, &why);
            } else if self.data {
                pieces.extend((0..extent.len).step_by(PIECE as usize).map(|from| (extent, from)));
            }
        }
        let volume = self.volume;
        let mut reads = stream::iter(pieces)
            .map(|(extent, from)| async move {
                let len = PIECE.min(extent.len - from);
                (extent, from, len, read_extent(volume, ino, &extent.data, from, len).await)
            })
            .buffered(CONCURRENCY);
        while let Some((extent, from, len, read)) = reads.next().await {
            self.done = self.done.saturating_add(u64::from(len));
            let (done, total) = (self.done, self.total);
            (self.progress)(Progress { phase: "reading files", done, total, unit: Unit::Bytes });
            self.judge(ino, chunk, extent, from, len, read, bad).await?;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    async fn judge(
        &mut self,
        ino: InodeNo,
        chunk: u32,
        extent: &Extent,
        from: u32,
        len: u32,
        read: Result<Option<Vec<Bytes>>>,
        bad: &mut DamagedFile,
    ) -> Result<()> {
        let why = match read {
            Ok(Some(parts)) => {
                let got: u64 = parts.iter().map(|p| p.len() as u64).sum();
                self.recorder.report.bytes_read += got;
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
                Some(why) => bad.add(base + u64::from(extent.start + at), len, &why),
                None => self.recorder.report.bytes_read += u64::from(len),
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
