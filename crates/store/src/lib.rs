//! Object stores behind one small trait: a local directory, S3, and whatever else the client library speaks.
//!
//! ```no_run
//! # async fn example() -> Result<(), headrace_store::StoreError> {
//! use headrace_store::{Location, StoreOptions, open, probe};
//!
//! let location: Location = "s3://bucket/prefix".parse()?;
//! let store = open(&location, &StoreOptions::default())?;
//! if let Some(reason) = probe(&*store).await?.refuse() {
//!     eprintln!("{reason}");
//! }
//! # Ok(()) }
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headrace_metrics::Collection;

mod body;
pub mod counted;
mod error;
mod health;
mod key;
mod local;
mod location;
mod options;
pub mod probe;
mod remote;
mod sink;

pub use body::Body;
pub use counted::{Counted, StoreStats};
pub use error::{ErrorKind, StoreError};
pub use health::{DirectionHealth, StoreHealth};
pub use local::LocalStore;
pub use location::Location;
pub use options::{Environment, Secret, StoreOptions};
pub use probe::{Capabilities, probe};
pub use sink::Sink;

/// The largest object that is read or written whole, in bytes: four times the largest segment of a volume. A bound on memory, and
/// on what a store that answers nonsense can make us hold.
pub const MAX_OBJECT: u64 = 1 << 30;

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

/// A store rooted at a URL. Futures of the local store need no tokio runtime: without one they complete when first polled, and block the
/// thread for the time of the system calls, an fsync included. Those of the others need one with its I/O and time drivers.
///
/// Keys are relative, `/`-separated and refused with [`ErrorKind::Unsupported`] unless every store can hold them: 1 to 800 bytes, no
/// empty, `.` or `..` segment, no segment over 255 bytes, no control character, no white space at either end. Dropping a
/// future cancels the operation; what was already sent may still take effect.
pub trait ObjectStore: Send + Sync + 'static {
    /// The URL without any credential, for messages.
    fn url(&self) -> &str;

    /// Reads exactly `range`; a shorter or longer body is [`ErrorKind::Corrupt`]. An empty range is answered without asking.
    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>>;

    /// Reads exactly `range` and hands its bytes over as they come, in order and each once, also if it took several attempts. If it
    /// fails, what came before stays handed over.
    fn get_range_to<'a>(
        &'a self,
        key: &'a str,
        range: Range<u64>,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let whole = self.get_range(key, range);
        Box::pin(async move { whole.await.map(|bytes| sink.bytes(bytes)) })
    }

    /// Reads a whole (small) object.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>>;

    /// Writes an object; durable when it resolves.
    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.put_body(key, body.into())
    }

    /// The same for a body in pieces.
    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes an object unless one is there, in which case [`ErrorKind::AlreadyExists`]; atomic where the probe says so.
    ///
    /// When an answer was lost and a later attempt finds an object with exactly this body, it is taken for our own: writers that
    /// compete for a key must therefore write different bodies.
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

    /// How the store has been doing, if it takes that down itself; [`Counted`] does for all.
    fn health(&self) -> Option<StoreHealth> {
        None
    }

    /// Adds what is counted below the operations of this trait, such as attempts.
    fn collect(&self, _into: &mut Collection) {}

    /// For how long an operation is tried before it fails. Large bodies may take longer as long as they move.
    fn deadline(&self) -> Duration {
        StoreOptions::default().deadline
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

/// Opens the store at `location`, taking what `options` leave open from this process's environment. Checks the configuration but sends
/// nothing: whether the store is there and lets us in shows at the first operation.
pub fn open(location: &Location, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>, StoreError> {
    open_with_environment(location, options, &Environment::of_process())
}

/// [`open`] with the environment variables given.
pub fn open_with_environment(
    location: &Location,
    options: &StoreOptions,
    environment: &Environment,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match location.local_path() {
        Some(path) => Ok(Arc::new(LocalStore::open(path)?)),
        None => Ok(Arc::new(remote::RemoteStore::open(location, options, environment)?)),
    }
}

/// Makes the directory of a local store, with its parents, durably; nothing to do for other stores, whose bucket must exist.
pub fn create_root(location: &Location) -> Result<(), StoreError> {
    location.local_path().map_or(Ok(()), LocalStore::create_root)
}
