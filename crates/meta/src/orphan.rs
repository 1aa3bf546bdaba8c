//! Inodes without a name, and other unfinished work.

use std::ops::ControlFlow;

use headrace_layout::InodeNo;

use crate::data::chunks::{self, Taken};
use crate::key::Key;
use crate::namespace::{Namespace, drop_xattrs};
use crate::record::{Flags, Inode, KeptRecord};
use crate::transaction::Tx;
use crate::{Attr, Kept, Kind, Result, Time, key, trash};

/// Inodes reclaimed in one transaction, at most: others wait while it runs.
const BATCH: usize = 256;

/// An inode without a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nameless {
    /// Its number.
    pub ino: InodeNo,
    /// How it is kept, and its attributes; `None` of one to be reclaimed.
    pub kept: Option<(Kept, Attr)>,
}

impl Namespace {
    /// Inodes with unfinished work that [`Namespace::reclaim`] finishes: those without a name, which open files may still
    /// use or which are kept, and files whose shortening was interrupted.
    pub fn orphans(&self) -> Result<Vec<InodeNo>> {
        let mut inodes = self.marked(key::ORPHAN)?;
        inodes.extend(self.marked(key::UNSETTLED)?);
        inodes.sort_unstable();
        inodes.dedup();
        Ok(inodes)
    }

    /// Files whose shortening was interrupted.
    pub fn unsettled(&self) -> Result<Vec<InodeNo>> {
        self.marked(key::UNSETTLED)
    }

    fn marked(&self, tag: u8) -> Result<Vec<InodeNo>> {
        let range = key::all(tag);
        self.view(|read| {
            let mut inodes = Vec::new();
            read.scan(&range.start, &range.end, &mut |key, _| {
                if let Some(Key::Orphan(ino) | Key::Unsettled(ino)) = Key::parse(key) {
                    inodes.push(ino);
                }
                ControlFlow::Continue(())
            })?;
            Ok(inodes)
        })
    }

    /// The inodes without a name behind `after`, in the order of their numbers, up to `limit`. None: that was the last. Those that
    /// cannot be read are left out, and so never reclaimed before a repair.
    pub fn nameless(&self, after: InodeNo, limit: usize) -> Result<(Vec<Nameless>, Option<InodeNo>)> {
        let (start, end) = (key::behind(&key::orphan(after)), key::all(key::ORPHAN).end);
        self.view(|read| {
            let (mut found, mut last) = (Vec::new(), None);
            let mut seen = 0;
            read.scan(&start, &end, &mut |key, value| {
                if seen == limit {
                    return ControlFlow::Break(());
                }
                seen += 1;
                let Some(Key::Orphan(ino)) = Key::parse(key) else { return ControlFlow::Continue(()) };
                last = Some(ino);
                match KeptRecord::decode(value) {
                    Ok(record) => found.push((ino, record)),
                    Err(error) => tracing::warn!(%ino, %error, "a deleted file cannot be read"),
                }
                ControlFlow::Continue(())
            })?;
            let last = last.filter(|_| seen == limit);
            let mut nameless = Vec::with_capacity(found.len());
            for (ino, record) in found {
                let kept = match record {
                    None => None,
                    Some(record) => match Inode::load(read, ino) {
                        Ok(Some(inode)) => Some((record.kept(ino), inode.attr(ino))),
                        // Without an inode there is nothing to keep.
                        Ok(None) => None,
                        Err(error) => {
                            tracing::warn!(%ino, %error, "a deleted file cannot be read");
                            continue;
                        }
                    },
                };
                nameless.push(Nameless { ino, kept });
            }
            Ok((nameless, last))
        })
    }

    /// Deletes an inode without a name and all it holds, a huge one in several transactions. One that has a name (again), or
    /// is kept, keeps everything; an interrupted shortening is finished.
    pub fn reclaim(&self, ino: InodeNo) -> Result<()> {
        self.reclaim_all(&[ino], Time::now())
    }

    /// [`Namespace::reclaim`] of many, in as few transactions as they fit into; kept ones go if they are kept until `now` only.
    /// The first that cannot be reclaimed ends it.
    pub fn reclaim_all(&self, mut inodes: &[InodeNo], now: Time) -> Result<()> {
        while !inodes.is_empty() {
            let batch = &inodes[..inodes.len().min(BATCH)];
            let done = self.update(|tx| {
                let mut taken = Taken::default();
                for (done, &ino) in batch.iter().enumerate() {
                    if !reclaim_step(tx, ino, now, &mut taken)? {
                        return Ok(done);
                    }
                }
                Ok(batch.len())
            })?;
            inodes = &inodes[done..];
        }
        Ok(())
    }
}

/// Goes on with one inode; whether nothing is left to do.
fn reclaim_step(tx: &mut Tx<'_>, ino: InodeNo, now: Time, taken: &mut Taken) -> Result<bool> {
    let Some(inode) = tx.find_inode(ino)? else {
        trash::forget(tx, ino)?;
        tx.delete(&key::orphan(ino));
        tx.delete(&key::unsettled(ino));
        return Ok(true);
    };
    let (kind, flags) = (inode.kind, inode.flags);
    if inode.nlink > 0 {
        return Ok(!flags.has(Flags::UNSETTLED) || chunks::settle_step(tx, ino)?);
    }
    if let Some(record) = KeptRecord::load(tx.read(), ino)? {
        if record.until > now {
            return Ok(!flags.has(Flags::UNSETTLED) || chunks::settle_step(tx, ino)?);
        }
        // With the first step nobody can have it back any more.
        trash::let_go(tx, ino, &record);
    }
    if kind == Kind::File && !chunks::drop_after(tx, ino, 0, taken)? {
        return Ok(false);
    }
    if flags.has(Flags::XATTRS) {
        drop_xattrs(tx, ino)?;
    }
    if flags.has(Flags::UNSETTLED) {
        tx.delete(&key::unsettled(ino));
    }
    if kind == Kind::Directory {
        tx.delete(&key::usage(ino));
    }
    tx.delete(&key::orphan(ino));
    tx.remove_inode(ino)?;
    Ok(true)
}
