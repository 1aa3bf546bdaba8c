//! Object stores behind one small trait: a local directory, S3, and whatever else the library below speaks.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// What can go wrong, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No such object (or bucket).
    NotFound,
    /// Wrong credentials or no permission.
    Denied,
    /// The store asks for less; already retried.
    Throttled,
    /// The network or the store failed; already retried until the deadline.
    Transient,
    /// The answer is not what was asked for: wrong length, wrong checksum.
    Corrupt,
    /// A conditional put found an object there.
    AlreadyExists,
    /// The store has no room.
    Full,
    /// The store cannot do this, or the request or configuration is wrong.
    Unsupported,
}

/// A failed operation: what, on which object, why.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation} {target}: {detail}")]
pub struct StoreError {
    /// By what the caller can do.
    pub kind: ErrorKind,
    /// "get", "put", ...
    pub operation: &'static str,
    /// Store and key; never holds credentials.
    pub target: String,
    /// The cause; never holds credentials.
    pub detail: String,
}

/// An object as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Key relative to the store's root prefix.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// When it was last written, if the store says.
    pub modified: Option<SystemTime>,
}

/// A store rooted at a URL. Futures of the local store complete when first polled; those of the others need a tokio runtime.
pub trait ObjectStore: Send + Sync + 'static {
    /// The URL without any credential, for messages.
    fn url(&self) -> &str;

    /// Reads exactly `range`; a shorter or longer body is [`ErrorKind::Corrupt`].
    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>>;

    /// Reads a whole (small) object.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>>;

    /// Writes an object; durable when it resolves.
    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes an object unless one is there, in which case [`ErrorKind::AlreadyExists`]; atomic where the probe says so.
    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Size and time of an object.
    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>>;

    /// Removes an object; succeeds if there is none.
    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// All objects whose key starts with `prefix` (recursively), in no promised order.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>>;

    /// Space in the store, if it has a notion of it.
    fn space(&self) -> Option<Space> {
        None
    }
}

/// Bytes in all and bytes still free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes an unprivileged writer can still use.
    pub free: u64,
}
