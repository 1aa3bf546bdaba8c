//! Changes of a file that go into what the kernel reads of it by itself, when their bytes are in no call.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use headrace_cache::disk::GROUP;

use super::sources::{ATTEMPTS, Missed, READ_WIDTH, Through};
use crate::caching::passing::Passing;
use crate::error::Result;
use crate::inode::Inode;
use crate::vfs::Vfs;

/// Bytes at a time.
const STEP: u64 = 1 << 20;

impl Vfs {
    /// Committed bytes from `from` on have changed: whoever is passed through is to read them as they are now.
    ///
    /// # Errors
    /// They cannot be had, or not be written to the local disk.
    pub(super) async fn pass_on(self: &Arc<Self>, inode: &Arc<Inode>, from: u64) -> Result<()> {
        let mut at = from;
        let mut attempt = 1;
        loop {
            let (end, content) = {
                let mut state = inode.state.lock();
                if state.passing.is_none() || at >= state.size {
                    return Ok(());
                }
                let end = state.size.min(at + STEP);
                (end, state.content.read_to(end))
            };
            let bytes = match self.committed(inode, at, end).await {
                Ok(bytes) => bytes,
                Err(Missed::Moved(_)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    continue;
                }
                Err(Missed::Moved(error) | Missed::Failed(error)) => return Err(error),
                Err(Missed::Damaged(error)) => return Err(error.into()),
            };
            let mut state = inode.state.lock();
            // A write was committed meanwhile, or the end has moved.
            if state.content.read_to(end) != content || state.size < end {
                continue;
            }
            let newer = state.dirty.overlay(at, end);
            state.passing_change(|passing| {
                for (offset, piece) in bytes.iter().chain(&newer) {
                    passing.write(*offset, piece)?;
                }
                Ok(())
            })?;
            (at, attempt) = (end, 1);
        }
    }

    /// What was written through mappings of the local file that the kernel reads in place of this one becomes written data of this one.
    ///
    /// # Errors
    /// The local file cannot be read.
    pub(crate) async fn take_mapped_changes(self: &Arc<Self>, inode: &Arc<Inode>) -> Result<()> {
        if !inode.state.lock().passing.as_ref().is_some_and(Passing::is_mapped_to_write) {
            return Ok(());
        }
        for group in 0.. {
            let offset = group * GROUP;
            let over = |inode: &Inode| {
                let state = inode.state.lock();
                state.passing.is_none() || offset >= state.size
            };
            if over(inode) {
                return Ok(());
            }
            let charge = self.admission.acquire(GROUP).await;
            let mut state = inode.state.lock();
            let size = state.size;
            let Some(passing) = state.passing.as_mut().filter(|_| offset < size) else { return Ok(()) };
            if let Some(bytes) = passing.mapped_changes(group, size)? {
                self.accept(inode.ino, &mut state, offset, &charge.attach(bytes), None);
            }
        }
        Ok(())
    }

    /// Committed bytes, holes as zeros.
    async fn committed(&self, inode: &Inode, start: u64, end: u64) -> Result<Vec<(u64, Bytes)>, Missed> {
        let mut sources = Vec::new();
        self.sources(inode.ino, start, end, &mut sources)?;
        let fetches: Vec<_> =
            sources.into_iter().map(|source| self.fetch_whole(inode.ino, source, Through::Store)).collect();
        let found: Vec<(u64, Vec<Bytes>)> = stream::iter(fetches).buffered(READ_WIDTH).try_collect().await?;
        let (mut out, mut at) = (Vec::new(), start);
        let hole = |from: u64, to: u64| {
            let mut zeros = Vec::new();
            super::zeros(to.saturating_sub(from), &mut zeros);
            let mut at = from;
            zeros.into_iter().map(move |piece| {
                let offset = at;
                at += piece.len() as u64;
                (offset, piece)
            })
        };
        for (offset, pieces) in found {
            out.extend(hole(at, offset));
            at = offset;
            for piece in pieces {
                let len = piece.len() as u64;
                out.push((at, piece));
                at += len;
            }
        }
        out.extend(hole(at, end));
        Ok(out)
    }
}
