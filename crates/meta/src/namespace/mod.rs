//! The tree of names: one file per family of operations.

mod acl;
mod create;
mod link;
mod lookup;
pub(crate) mod name;
mod readdir;
mod rename;
mod setattr;
mod unlink;
mod xattr;

pub(crate) use xattr::{drop_capability, erase_all as drop_xattrs, expected_flags};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headrace_kv::{Engine, EngineExt, Read};
use headrace_layout::InodeNo;

use crate::record::{Counters, Flags, Inode};
use crate::transaction::Tx;
use crate::{Kind, MetaError, Result, Time, key};

/// The version of keys and records that this program writes and the newest it reads.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// What directories give as their length.
const DIRECTORY_SIZE: u64 = 4096;
/// The first position in a directory; the ones before are for "." and "..".
pub(crate) const FIRST_COOKIE: u64 = 3;

/// A volume's files and directories.
pub struct Namespace {
    engine: Arc<dyn Engine>,
    /// For how long what is deleted is kept, milliseconds; 0: not at all.
    keep: AtomicU64,
}

impl Namespace {
    /// Writes the root directory and the counters into an engine. [`MetaError::Exists`] if it holds a volume.
    pub fn format(engine: &dyn Engine, root_uid: u32, root_gid: u32, root_mode: u16) -> Result<()> {
        update(engine, |tx| {
            if tx.read().get(key::SCHEMA)?.is_some() {
                return Err(MetaError::Exists);
            }
            let root = Inode {
                home: InodeNo::ROOT,
                uid: root_uid,
                gid: root_gid,
                ..Inode::empty(Kind::Directory, root_mode & 0o7777, tx.now)
            };
            let counters = Counters {
                next_ino: InodeNo::ROOT.0 + 1,
                next_inline: 1,
                inodes: 1,
                bytes: 0,
                inline_bytes: 0,
            };
            tx.put(&key::inode(InodeNo::ROOT), &root.encode());
            tx.put(key::COUNTERS, &counters.encode());
            tx.put(key::SCHEMA, &SCHEMA_VERSION.to_be_bytes());
            Ok(())
        })
    }

    /// Opens what [`Namespace::format`] made. What a crash left unfinished is listed by [`Namespace::orphans`].
    pub fn open(engine: Arc<dyn Engine>) -> Result<Namespace> {
        let found = engine
            .view_with(|read| Ok::<_, MetaError>(read.get(key::SCHEMA)?.map(|bytes| bytes.into_owned())))?
            .ok_or(MetaError::NotFormatted)?;
        let found = match found.as_slice().try_into() {
            Ok(bytes) => u32::from_be_bytes(bytes),
            Err(_) => return Err(MetaError::Corrupt("the schema version has the wrong length".into())),
        };
        match found {
            SCHEMA_VERSION => Ok(Namespace { engine, keep: AtomicU64::new(0) }),
            0 => Err(MetaError::Corrupt("the schema version is 0".into())),
            _ => Err(MetaError::NewerSchema { found, supported: SCHEMA_VERSION }),
        }
    }

    /// Keeps what loses its last name from now on for `time`, instead of leaving it to be reclaimed.
    pub fn keep_deleted(&self, time: Duration) {
        self.keep.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// For how long that is, if at all.
    pub(crate) fn keep(&self) -> Option<Duration> {
        Some(self.keep.load(Ordering::Relaxed)).filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// The engine underneath, for durability and figures.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Runs `f` over a consistent view.
    pub(crate) fn view<T>(&self, f: impl FnMut(&dyn Read) -> Result<T>) -> Result<T> {
        self.engine.view_with(f)
    }

    /// Runs `f` as one transaction; it may run several times and must have no effect outside.
    pub(crate) fn update<T>(&self, f: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        update(&*self.engine, f)
    }
}

fn update<T>(engine: &dyn Engine, mut f: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
    let now = Time::now();
    let (value, _) = engine.transact_with(|txn| {
        let mut tx = Tx::new(txn, now);
        let value = f(&mut tx)?;
        tx.finish()?;
        Ok::<T, MetaError>(value)
    })?;
    Ok(value)
}

impl Inode {
    /// An inode with nothing in it, made now.
    pub(crate) fn empty(kind: Kind, mode: u16, now: Time) -> Inode {
        let is_dir = kind == Kind::Directory;
        Inode {
            kind,
            flags: Flags::default(),
            mode,
            nlink: if is_dir { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            size: if is_dir { DIRECTORY_SIZE } else { 0 },
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            home: crate::record::NOWHERE,
            next_cookie: if is_dir { FIRST_COOKIE } else { 0 },
            target: Vec::new(),
        }
    }
}
