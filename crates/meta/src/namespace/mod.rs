//! The namespace.
#![allow(unused_variables)]

use std::sync::Arc;

use headrace_kv::Engine;
use headrace_layout::{ExtentMap, InodeNo, SegmentId, SegmentSlice};

use crate::*;

/// A volume's files and directories.
pub struct Namespace {
    engine: Arc<dyn Engine>,
}

impl Namespace {
    /// Writes the root directory and counters into an empty engine.
    pub fn format(engine: &dyn Engine, root_uid: u32, root_gid: u32, root_mode: u16) -> Result<()> {
        todo!()
    }
    /// Opens what [`Namespace::format`] made.
    pub fn open(engine: Arc<dyn Engine>) -> Result<Namespace> {
        todo!()
    }
    /// The engine underneath.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
    /// x
    pub fn lookup(&self, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn parent(&self, dir: InodeNo) -> Result<InodeNo> {
        todo!()
    }
    /// x
    pub fn setattr(&self, ino: InodeNo, change: &SetAttr) -> Result<Attr> {
        todo!()
    }
    /// x
    #[allow(clippy::too_many_arguments)]
    pub fn create(
        &self,
        parent: InodeNo,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
        target: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn create_unnamed(&self, parent: InodeNo, mode: u16, caller: &Caller) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn link(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn unlink(&self, parent: InodeNo, name: &[u8]) -> Result<Unlinked> {
        todo!()
    }
    /// x
    pub fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        todo!()
    }
    /// x
    pub fn rename(
        &self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<Renamed> {
        todo!()
    }
    /// x
    pub fn reclaim(&self, ino: InodeNo) -> Result<()> {
        todo!()
    }
    /// x
    pub fn orphans(&self) -> Result<Vec<InodeNo>> {
        todo!()
    }
    /// x
    pub fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        todo!()
    }
    /// x
    pub fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        todo!()
    }
    /// x
    pub fn getxattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        todo!()
    }
    /// x
    pub fn listxattr(&self, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        todo!()
    }
    /// x
    pub fn setxattr(
        &self,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        todo!()
    }
    /// x
    pub fn removexattr(&self, ino: InodeNo, name: &[u8]) -> Result<()> {
        todo!()
    }
    /// x
    pub fn extents(&self, ino: InodeNo, chunk: u32) -> Result<ExtentMap> {
        todo!()
    }
    /// x
    pub fn inline_value(&self, ino: InodeNo, id: u64) -> Result<Option<Vec<u8>>> {
        todo!()
    }
    /// x
    pub fn commit_write(&self, ino: InodeNo, commit: &DataCommit) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn swap_extents(
        &self,
        ino: InodeNo,
        swaps: &[Swap],
        new_segments: &[(SegmentId, u64)],
    ) -> Result<usize> {
        todo!()
    }
    /// x
    pub fn truncate(&self, ino: InodeNo, size: u64, kill_suid: bool) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn allocate(&self, ino: InodeNo, offset: u64, len: u64, keep_size: bool) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn punch(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn zero_range(&self, ino: InodeNo, offset: u64, len: u64, keep_size: bool) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn collapse(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn insert(&self, ino: InodeNo, offset: u64, len: u64) -> Result<Attr> {
        todo!()
    }
    /// x
    pub fn clone_range(
        &self,
        src: InodeNo,
        src_off: u64,
        dst: InodeNo,
        dst_off: u64,
        len: u64,
    ) -> Result<u64> {
        todo!()
    }
    /// x
    pub fn seek(&self, ino: InodeNo, offset: u64, hole: bool) -> Result<u64> {
        todo!()
    }
    /// x
    pub fn inline_backlog(&self, after: Option<(InodeNo, u64)>, max_bytes: u64) -> Result<Vec<InlineRef>> {
        todo!()
    }
    /// x
    pub fn inline_bytes(&self) -> u64 {
        todo!()
    }
    /// x
    pub fn segments(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentUse>> {
        todo!()
    }
    /// x
    pub fn segment(&self, id: SegmentId) -> Result<Option<SegmentUse>> {
        todo!()
    }
    /// x
    pub fn dead_segments(&self, dead_before: Time, limit: usize) -> Result<Vec<SegmentId>> {
        todo!()
    }
    /// x
    pub fn forget_segments(&self, ids: &[SegmentId]) -> Result<()> {
        todo!()
    }
    /// x
    pub fn segment_users(&self, id: SegmentId) -> Result<Vec<(InodeNo, u64)>> {
        todo!()
    }
    /// x
    pub fn statfs(&self) -> Result<Totals> {
        todo!()
    }
    /// x
    pub fn directory_totals(&self, dir: InodeNo) -> Result<DirTotals> {
        todo!()
    }
    /// x
    pub fn tree_totals(&self, dir: InodeNo, progress: &mut dyn FnMut(&DirTotals)) -> Result<DirTotals> {
        todo!()
    }
    /// x
    pub fn touch_atime(&self, ino: InodeNo, time: Time) -> Result<()> {
        todo!()
    }
    /// x
    pub fn check(&self, sink: &mut dyn FnMut(Problem)) -> Result<CheckSummary> {
        todo!()
    }
}

// Until the bodies are there.
const _: fn(&SegmentSlice) = |_| ();
