//! A directory of this machine as a store: one file per object, keys as paths.
//!
//! Writing is: a file in the temporary directory, one write, fdatasync, rename into place, fsync of the directory (and, the first time, of
//! the directories above it), so an object is either wholly there and durable, or not there.
//!
//! All system calls are in [`files`]. Within a tokio runtime they are made by its threads for blocking work, for the directory may be that of a
//! slow disk or of a file server; but what is in memory is read at once.

mod descriptors;
mod directories;
mod errors;
mod files;
mod list;
mod temporary;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use rustix::fs::{FileType, Stat};
use tokio::runtime::Handle;

use self::files::Files;
use self::temporary::Finish;
use crate::error::{ErrorKind, StoreError};
use crate::{Body, ObjectMeta, ObjectStore, Sink, Space, key};

/// Bytes that are handed over at once of a range that is read as it comes.
const PIECE: u64 = 1 << 20;
/// Objects listed at once.
const LISTED: usize = 256;

/// A store in a directory of this machine.
#[derive(Debug)]
pub struct LocalStore {
    files: Arc<Files>,
}

impl LocalStore {
    /// Opens the store in the directory `path`, which must exist; removes temporary files that a crash left more than an hour ago.
    pub fn open(path: &Path) -> Result<LocalStore, StoreError> {
        Ok(LocalStore { files: Arc::new(Files::open(path)?) })
    }

    /// Makes the directory `path` with its parents, durably. An existing one is left as it is.
    pub fn create_root(path: &Path) -> Result<(), StoreError> {
        Files::create_root(path)
    }

    /// Does what may take long where that disturbs nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Arc<Files>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let files = Arc::clone(&self.files);
        let Ok(runtime) = Handle::try_current() else { return work(&files) };
        let done = runtime.spawn_blocking(move || work(&files)).await;
        done.unwrap_or_else(|error| {
            let why = format!("the work was cut short: {error}");
            Err(StoreError::new(ErrorKind::Transient, operation, self.files.url.clone(), why))
        })
    }

    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        if let Some(bytes) = self.files.read_at_once(key, &range) {
            return Ok(bytes);
        }
        let key = key.to_owned();
        self.blocking("get", move |files| files.read_range(&key, range)).await
    }
}

/// What is known of a regular file; `None` for anything else.
fn object_meta(key: String, stat: &Stat) -> Option<ObjectMeta> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let since = u64::try_from(stat.st_mtime)
        .ok()
        .map(|secs| Duration::new(secs, stat.st_mtime_nsec as u32 % 1_000_000_000));
    let modified = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    Some(ObjectMeta { key, size: u64::try_from(stat.st_size).unwrap_or(0), modified })
}

impl ObjectStore for LocalStore {
    fn url(&self) -> &str {
        &self.files.url
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.read(key, range).boxed()
    }

    fn get_range_to<'a>(
        &'a self,
        key: &'a str,
        range: Range<u64>,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut at = range.start;
            loop {
                let end = range.end.min(at.saturating_add(PIECE));
                // Of a range that makes no sense this is the error.
                sink.bytes(self.read(key, at..end).await?);
                at = end;
                if at >= range.end {
                    return Ok(());
                }
            }
        }
        .boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        let key = key.to_owned();
        self.blocking("get", move |files| files.read_whole(&key)).boxed()
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.to_owned();
        self.blocking("put", move |files| files.write("put", &key, &body, Finish::Replace)).boxed()
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.to_owned();
        self.blocking("put", move |files| files.write("put", &key, &body.into(), Finish::Absent)).boxed()
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        let key = key.to_owned();
        self.blocking("head", move |files| files.head_now(&key)).boxed()
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.to_owned();
        self.blocking("delete", move |files| files.delete_now(&key)).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        let objects = match key::check_prefix(prefix) {
            Ok(()) => list::Objects::new(Arc::clone(&self.files), prefix),
            Err(why) => {
                let error = self.files.refuse(ErrorKind::Unsupported, "list", prefix, why);
                return stream::iter([Err(error)]).boxed();
            }
        };
        stream::unfold(Some(objects), |objects| async {
            let mut objects = objects?;
            let some = self.blocking("list", move |_| {
                let some: Vec<_> = objects.by_ref().take(LISTED).collect();
                let more = (some.len() == LISTED).then_some(objects);
                Ok((some, more))
            });
            Some(some.await.unwrap_or_else(|error| (vec![Err(error)], None)))
        })
        .flat_map(stream::iter)
        .boxed()
    }

    fn space(&self) -> Option<Space> {
        self.files.space()
    }
}

#[cfg(test)]
mod tests;
