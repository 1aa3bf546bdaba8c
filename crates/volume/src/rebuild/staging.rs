//! What the segments tell, sorted by file, on disk.
//!
//! | key | value |
//! |---|---|
//! | `L` | the listing of segments is complete |
//! | `S` segment | stored length: still to be read |
//! | `T` segment | stored length: read |
//! | `X` segment | why it cannot be used |
//! | `R` inode, written (ms), segment, run offset, skip | a part of a run |
//! | `F` inode | the newest that is known of a file |
//! | `D` inode | the newest that is known of a directory |
//! | `N` inode, name | who has a name: segment that says so, inode |
//! | `P` | the last inode that is built |

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{Engine, EngineExt, KvError, Read, Txn};
use headrace_layout::{
    DirectoryRecord, FileRecord, IndexRun, InodeNo, SegmentId, SegmentIndex, SegmentSlice,
};

use crate::error::{Result, VolumeError};

/// Runs written in one transaction.
const BATCH: usize = 4096;

/// A part of a run, as it is to be put into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where in the file.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
    /// Its bytes.
    pub slice: SegmentSlice,
}

pub(super) struct Staging {
    engine: Arc<EmbeddedEngine>,
}

fn keyed(tag: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![tag];
    rest.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn damaged() -> VolumeError {
    KvError::Corrupt("the working files of the rebuild are damaged: delete the folder \"rebuild\" in the state directory and begin again".into()).into()
}

impl Staging {
    pub fn open(dir: &Path) -> Result<Staging> {
        Ok(Staging { engine: super::engine(dir)? })
    }

    pub fn close(self) -> Result<()> {
        Ok(self.engine.close()?)
    }

    /// Waits until everything is on disk.
    pub async fn sync(&self) -> Result<()> {
        super::synced(&*self.engine).await
    }

    fn update(&self, mut change: impl FnMut(&mut dyn Txn) -> Result<()>) -> Result<()> {
        self.engine.transact_with(|txn| change(txn)).map(|_| ())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.engine.view_with(|read: &dyn Read| Ok(read.get(key)?.map(|value| value.into_owned())))
    }

    /// Records of a tag behind `after` (without the tag), at most `limit`.
    fn page(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.engine.view_with(|read: &dyn Read| {
            let mut found = Vec::new();
            read.scan(start, end, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            Ok(found)
        })
    }

    pub fn is_listed(&self) -> Result<bool> {
        Ok(self.get(b"L")?.is_some())
    }

    pub fn set_listed(&self) -> Result<()> {
        self.update(|txn| {
            txn.put(b"L", b"");
            Ok(())
        })
    }

    /// Segments that are there, with their lengths.
    pub fn add_segments(&self, segments: &[(SegmentId, u64)]) -> Result<()> {
        self.update(|txn| {
            for (id, stored) in segments {
                txn.put(&keyed(b'S', &[&id.to_bytes()]), &stored.to_be_bytes());
            }
            Ok(())
        })
    }

    /// Segments that were not read yet, at most `limit`.
    pub fn unread(&self, limit: usize) -> Result<Vec<(SegmentId, u64)>> {
        self.page(b"S", b"T", limit)?.iter().map(|(key, value)| segment(key, value)).collect()
    }

    /// Number of segments of a tag.
    pub fn count(&self, tag: u8) -> Result<u64> {
        self.engine.view_with(|read: &dyn Read| {
            let mut count = 0;
            read.scan(&[tag], &[tag + 1], &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            Ok(count)
        })
    }

    /// Segments that cannot be used, and why; the first `limit`.
    pub fn unusable(&self, limit: usize) -> Result<Vec<String>> {
        let page = self.page(b"X", b"Y", limit)?;
        Ok(page.into_iter().map(|(_, why)| String::from_utf8_lossy(&why).into_owned()).collect())
    }

    pub fn set_unusable(&self, id: SegmentId, why: &str) -> Result<()> {
        self.update(|txn| {
            txn.delete(&keyed(b'S', &[&id.to_bytes()]));
            txn.put(&keyed(b'X', &[&id.to_bytes()]), why.as_bytes());
            Ok(())
        })
    }

    /// What a segment tells. Done again after a crash it changes nothing.
    pub fn add_index(&self, index: &SegmentIndex, stored: u64) -> Result<()> {
        for runs in index.runs.chunks(BATCH) {
            self.update(|txn| {
                runs.iter().for_each(|run| put_run(txn, run));
                Ok(())
            })?;
        }
        let id = index.id.to_bytes();
        for files in index.files.chunks(BATCH) {
            self.update(|txn| {
                for file in files {
                    put_newest(txn, &keyed(b'F', &[&file.ino.0.to_be_bytes()]), id, &encode_file(file))?;
                }
                Ok(())
            })?;
        }
        for directories in index.directories.chunks(BATCH) {
            self.update(|txn| {
                for dir in directories {
                    put_newest(txn, &keyed(b'D', &[&dir.ino.0.to_be_bytes()]), id, &encode_directory(dir))?;
                }
                Ok(())
            })?;
        }
        self.update(|txn| {
            txn.delete(&keyed(b'S', &[&id]));
            txn.put(&keyed(b'T', &[&id]), &stored.to_be_bytes());
            Ok(())
        })
    }

    /// Stored length of a segment that was read.
    pub fn stored(&self, id: SegmentId) -> Result<u64> {
        let value = self.get(&keyed(b'T', &[&id.to_bytes()]))?.ok_or_else(damaged)?;
        Ok(u64::from_be_bytes(value.as_slice().try_into().map_err(|_| damaged())?))
    }

    /// The first file with data behind `after`.
    pub fn next_file(&self, after: InodeNo) -> Result<Option<InodeNo>> {
        let Some(next) = after.0.checked_add(1) else { return Ok(None) };
        let page = self.page(&keyed(b'R', &[&next.to_be_bytes()]), b"S", 1)?;
        page.first().map(|(key, _)| inode(key)).transpose()
    }

    /// Parts of a file behind `after` (a cursor of an earlier answer), oldest first, with the next cursor.
    pub fn parts(&self, ino: InodeNo, after: Option<Vec<u8>>, limit: usize) -> Result<Vec<(Vec<u8>, Part)>> {
        let start = match after {
            Some(mut key) => {
                key.push(0);
                key
            }
            None => keyed(b'R', &[&ino.0.to_be_bytes()]),
        };
        let end = match ino.0.checked_add(1) {
            Some(next) => keyed(b'R', &[&next.to_be_bytes()]),
            None => vec![b'S'],
        };
        let page = self.page(&start, &end, limit)?;
        page.into_iter().map(|(key, value)| decode_part(&key, &value).map(|part| (key, part))).collect()
    }

    pub fn file(&self, ino: InodeNo) -> Result<Option<(SegmentId, FileRecord)>> {
        let found = self.get(&keyed(b'F', &[&ino.0.to_be_bytes()]))?;
        found.map(|value| decode_file(ino, &value)).transpose()
    }

    pub fn directory(&self, ino: InodeNo) -> Result<Option<(SegmentId, DirectoryRecord)>> {
        let found = self.get(&keyed(b'D', &[&ino.0.to_be_bytes()]))?;
        found.map(|value| decode_directory(ino, &value)).transpose()
    }

    /// Directories behind `after`, at most `limit`.
    pub fn directories(&self, after: InodeNo, limit: usize) -> Result<Vec<InodeNo>> {
        let Some(next) = after.0.checked_add(1) else { return Ok(Vec::new()) };
        self.page(&keyed(b'D', &[&next.to_be_bytes()]), b"E", limit)?
            .iter()
            .map(|(key, _)| inode(key))
            .collect()
    }

    /// Gives every name to the one of those that had it whose name was stored last. Done again it changes nothing.
    /// Answers the highest inode number that is mentioned anywhere.
    pub fn choose_names(&self) -> Result<InodeNo> {
        let mut highest = self.last_inode()?;
        for tag in [b'D', b'F'] {
            let mut start = vec![tag];
            loop {
                let page = self.page(&start, &[tag + 1], BATCH)?;
                let Some((last, _)) = page.last() else { break };
                start = [&last[..], &[0]].concat();
                for (_, value) in &page {
                    highest = highest.max(decode_owner(split(value)?.1)?.0.0);
                }
                self.update(|txn| {
                    for (key, value) in &page {
                        let ino = inode(key)?;
                        let (segment, rest) = split(value)?;
                        let ((parent, ..), rest) = decode_owner(rest)?;
                        let name = if tag == b'D' { rest } else { rest.get(20..).ok_or_else(damaged)? };
                        if !name.is_empty() {
                            let key = keyed(b'N', &[&parent.0.to_be_bytes(), name]);
                            put_newest(txn, &key, segment, &ino.0.to_be_bytes())?;
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(highest)
    }

    /// Whether an inode is the one that a name was given to.
    pub fn has_name(&self, parent: InodeNo, name: &[u8], ino: InodeNo) -> Result<bool> {
        let found = self.get(&keyed(b'N', &[&parent.0.to_be_bytes(), name]))?;
        Ok(found.is_some_and(|value| value.get(16..) == Some(&ino.0.to_be_bytes())))
    }

    /// The highest number of an inode that there is something of.
    fn last_inode(&self) -> Result<InodeNo> {
        self.engine.view_with(|read: &dyn Read| {
            let mut last = 1;
            for tag in [b'R', b'F', b'D'] {
                read.scan_reverse(&[tag], &[tag + 1], &mut |key, _| {
                    last = last.max(inode(key).map_or(0, |ino| ino.0));
                    ControlFlow::Break(())
                })?;
            }
            Ok(InodeNo(last))
        })
    }

    /// The last file that is complete.
    pub fn built(&self) -> Result<InodeNo> {
        let Some(value) = self.get(b"P")? else { return Ok(InodeNo(0)) };
        Ok(InodeNo(number(&value)?.0))
    }

    pub fn set_built(&self, ino: InodeNo) -> Result<()> {
        self.update(|txn| {
            txn.put(b"P", &ino.0.to_be_bytes());
            Ok(())
        })
    }
}

fn put_run(txn: &mut dyn Txn, run: &IndexRun) {
    for (skip, len, written) in run.ages() {
        let slice = &run.slice;
        let key = keyed(
            b'R',
            &[
                &run.ino.0.to_be_bytes(),
                &written.to_be_bytes(),
                &slice.segment.to_bytes(),
                &slice.run_offset.to_be_bytes(),
                &skip.to_be_bytes(),
            ],
        );
        let mut value = run.file_offset.saturating_add(u64::from(skip)).to_be_bytes().to_vec();
        value.extend_from_slice(&len.to_be_bytes());
        value.extend_from_slice(&slice.run_len.to_be_bytes());
        for frame in slice.frames.iter().flat_map(|frames| frames.iter()) {
            value.extend_from_slice(&frame.to_be_bytes());
        }
        txn.put(&key, &value);
    }
}

fn decode_part(key: &[u8], value: &[u8]) -> Result<Part> {
    let rest = key.get(17..).ok_or_else(damaged)?;
    let (segment, rest) = split(rest)?;
    let (run_offset, rest) = short(rest)?;
    let (skip, _) = short(rest)?;
    let (offset, value) = number(value)?;
    let (len, value) = short(value)?;
    let (run_len, mut value) = short(value)?;
    let mut frames = Vec::with_capacity(value.len() / 4);
    while !value.is_empty() {
        let (frame, rest) = short(value)?;
        frames.push(frame);
        value = rest;
    }
    let frames = (!frames.is_empty()).then(|| frames.into());
    let slice = SegmentSlice { segment: SegmentId::from_bytes(segment), run_offset, run_len, skip, frames };
    Ok(Part { offset, len, slice })
}

/// Replaces what is known by what a newer segment says.
fn put_newest(txn: &mut dyn Txn, key: &[u8], segment: [u8; 16], record: &[u8]) -> Result<()> {
    let older = txn.get(key)?.is_none_or(|value| value.get(..16).is_none_or(|known| *known <= segment[..]));
    if older {
        txn.put(key, &[&segment[..], record].concat());
    }
    Ok(())
}

fn encode_file(file: &FileRecord) -> Vec<u8> {
    let mut out = encode_owner(file.parent, file.mode, file.uid, file.gid);
    out.extend_from_slice(&file.size.to_be_bytes());
    out.extend_from_slice(&file.mtime_secs.to_be_bytes());
    out.extend_from_slice(&file.mtime_nanos.to_be_bytes());
    out.extend_from_slice(&file.name);
    out
}

fn decode_file(ino: InodeNo, value: &[u8]) -> Result<(SegmentId, FileRecord)> {
    let (segment, rest) = split(value)?;
    let ((parent, mode, uid, gid), rest) = decode_owner(rest)?;
    let (size, rest) = number(rest)?;
    let (secs, rest) = number(rest)?;
    let (mtime_nanos, name) = short(rest)?;
    let name = name.to_vec();
    let record = FileRecord { ino, parent, name, mode, uid, gid, size, mtime_secs: secs as i64, mtime_nanos };
    Ok((SegmentId::from_bytes(segment), record))
}

fn encode_directory(dir: &DirectoryRecord) -> Vec<u8> {
    let mut out = encode_owner(dir.parent, dir.mode, dir.uid, dir.gid);
    out.extend_from_slice(&dir.name);
    out
}

fn decode_directory(ino: InodeNo, value: &[u8]) -> Result<(SegmentId, DirectoryRecord)> {
    let (segment, rest) = split(value)?;
    let ((parent, mode, uid, gid), name) = decode_owner(rest)?;
    Ok((SegmentId::from_bytes(segment), DirectoryRecord { ino, parent, name: name.to_vec(), mode, uid, gid }))
}

fn encode_owner(parent: InodeNo, mode: u16, uid: u32, gid: u32) -> Vec<u8> {
    let mut out = parent.0.to_be_bytes().to_vec();
    for value in [u32::from(mode), uid, gid] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    out
}

type Owner = (InodeNo, u16, u32, u32);

fn decode_owner(bytes: &[u8]) -> Result<(Owner, &[u8])> {
    let (parent, rest) = number(bytes)?;
    let (mode, rest) = short(rest)?;
    let (uid, rest) = short(rest)?;
    let (gid, rest) = short(rest)?;
    Ok(((InodeNo(parent), mode as u16, uid, gid), rest))
}

fn segment(key: &[u8], value: &[u8]) -> Result<(SegmentId, u64)> {
    let (id, _) = split(key.get(1..).ok_or_else(damaged)?)?;
    Ok((SegmentId::from_bytes(id), number(value)?.0))
}

fn inode(key: &[u8]) -> Result<InodeNo> {
    Ok(InodeNo(number(key.get(1..).ok_or_else(damaged)?)?.0))
}

fn split(bytes: &[u8]) -> Result<([u8; 16], &[u8])> {
    bytes.split_first_chunk().map(|(first, rest)| (*first, rest)).ok_or_else(damaged)
}

fn number(bytes: &[u8]) -> Result<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(first, rest)| (u64::from_be_bytes(*first), rest)).ok_or_else(damaged)
}

fn short(bytes: &[u8]) -> Result<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(first, rest)| (u32::from_be_bytes(*first), rest)).ok_or_else(damaged)
}
