//! The bucket of one volume: its store, how its objects are sealed, and the few operations the log needs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use headrace_layout::Codec;
use headrace_store::{ErrorKind, ObjectStore, StoreError};
use uuid::Uuid;

use crate::{Clock, Key, SystemClock};

/// How long an emulated conditional put waits before it looks who won. Long against the time between another writer's look and
/// its put, which is what it guards against.
const SETTLE: Duration = Duration::from_secs(2);

/// Where a volume's log is.
#[derive(Clone)]
pub struct Bucket {
    /// Holds the objects.
    pub store: Arc<dyn ObjectStore>,
    /// Seals them.
    pub codec: Codec,
    /// The volume, which every object names.
    pub volume: Uuid,
    /// Whether the store's conditional put is atomic; if not it is emulated, and two writers at the same moment are only
    /// *likely* to be told apart.
    pub conditional: bool,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// How a put of a new object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutNew {
    /// It is there, and it is ours.
    Created,
    /// Another one is there.
    Exists,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("url", &self.store.url())
            .field("volume", &self.volume)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// The bucket of `volume` on this machine's clock.
    pub fn new(store: Arc<dyn ObjectStore>, codec: Codec, volume: Uuid, conditional: bool) -> Bucket {
        Bucket { store, codec, volume, conditional, clock: Arc::new(SystemClock) }
    }

    /// The stored bytes of an object; `None` if there is none.
    pub async fn get(&self, key: Key) -> Result<Option<Bytes>, StoreError> {
        found(self.store.get(&key.to_string()).await)
    }

    /// Whether there is such an object.
    pub async fn exists(&self, key: Key) -> Result<bool, StoreError> {
        Ok(found(self.store.head(&key.to_string()).await)?.is_some())
    }

    /// Writes an object whatever was there.
    pub async fn put(&self, key: Key, stored: Bytes) -> Result<(), StoreError> {
        self.store.put(&key.to_string(), stored).await
    }

    /// Writes an object unless one is there. Bodies of competing writers must differ. After an error it may be there or come to
    /// be there.
    ///
    /// Where the store is not atomic, two who write the same object within moments may both be told that they created it.
    pub async fn put_new(&self, key: Key, stored: Bytes) -> Result<PutNew, StoreError> {
        self.put_new_after(key, stored, None).await
    }

    /// [`Self::put_new`] for what decides who owns the volume: where the store is not atomic, of those who write at the
    /// same moment the last one wins, and all wait long enough to see that.
    pub(crate) async fn put_new_settled(&self, key: Key, stored: Bytes) -> Result<PutNew, StoreError> {
        self.put_new_after(key, stored, Some(SETTLE)).await
    }

    async fn put_new_after(
        &self,
        key: Key,
        stored: Bytes,
        settle: Option<Duration>,
    ) -> Result<PutNew, StoreError> {
        if self.conditional {
            return match self.store.put_if_absent(&key.to_string(), stored).await {
                Ok(()) => Ok(PutNew::Created),
                Err(error) if error.kind == ErrorKind::AlreadyExists => Ok(PutNew::Exists),
                Err(error) => Err(error),
            };
        }
        if let Some(there) = self.get(key).await? {
            return Ok(if there == stored { PutNew::Created } else { PutNew::Exists });
        }
        self.put(key, stored.clone()).await?;
        if let Some(settle) = settle {
            self.clock.sleep(settle).await;
        }
        match self.get(key).await? {
            Some(there) if there == stored => Ok(PutNew::Created),
            _ => Ok(PutNew::Exists),
        }
    }

    /// Removes an object, if there is one.
    pub async fn delete(&self, key: Key) -> Result<(), StoreError> {
        self.store.delete(&key.to_string()).await
    }

    /// The keys of the log's objects beneath `prefix` (one of the constants in [`crate::keys`], or a snapshot's prefix) with
    /// their sizes in bytes, ascending. What is not ours is left out.
    pub async fn list(&self, prefix: &str) -> Result<Vec<(Key, u64)>, StoreError> {
        let mut listed = Vec::new();
        let mut objects = self.store.list(prefix);
        while let Some(object) = objects.next().await {
            let object = object?;
            listed.extend(Key::parse(&object.key).map(|key| (key, object.size)));
        }
        listed.sort_unstable();
        Ok(listed)
    }
}

/// Splits "there is none" from other failures.
fn found<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
