//! Reading and writing the superblock, and telling apart the ways in which it can be absent.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use headrace_layout::superblock::{MAX_LEN, OBJECT_KEY, Superblock};
use headrace_store::{ErrorKind, Location, ObjectStore, StoreError};

use crate::error::{Result, VolumeError};

/// Pauses between attempts to learn whether a superblock whose put failed is there after all.
const SETTLE: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1)];

/// What became of the put of a new superblock.
#[derive(Debug)]
pub(crate) enum Placed {
    /// Ours is there.
    Ours,
    /// Another `format` was faster.
    Theirs(Box<Superblock>),
    /// It is not there.
    Absent(StoreError),
    /// The store does not answer: it may be there or not.
    Unknown(StoreError),
}

/// Refuses a local location that is not a directory, in better words than the store has.
pub(crate) fn require_directory(location: &Location) -> Result<()> {
    match location.local_path() {
        Some(dir) if !dir.is_dir() => {
            let detail = if dir.exists() { "it is not a directory" } else { "there is no such directory" };
            Err(VolumeError::NotAVolume { url: location.to_string(), detail: detail.into() })
        }
        _ => Ok(()),
    }
}

/// The superblock at `location`; [`VolumeError::NotAVolume`] if there is none.
pub(crate) async fn read(store: &dyn ObjectStore, location: &Location) -> Result<Superblock> {
    match find(store).await? {
        Some(superblock) => Ok(superblock),
        None => Err(absent(store, location).await),
    }
}

/// The superblock in `store`, if there is one.
pub(crate) async fn find(store: &dyn ObjectStore) -> Result<Option<Superblock>> {
    // Anything may be under that name: no more is read than a superblock can have.
    let len = match store.head(OBJECT_KEY).await {
        Ok(object) => object.size.min(MAX_LEN as u64 + 1),
        Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let bytes = match len {
        0 => Bytes::new(),
        _ => store.get_range(OBJECT_KEY, 0..len).await?,
    };
    Superblock::decode(&bytes)
        .map(Some)
        .map_err(|source| VolumeError::Superblock { url: store.url().to_owned(), source })
}

/// Writes a new superblock unless there is one, and makes sure of what is there in the end: the answer to the put may
/// have been lost, and a store with a weak conditional put may have let two through.
pub(crate) async fn place(store: &dyn ObjectStore, superblock: &Superblock) -> Result<Placed> {
    let failure = store.put_if_absent(OBJECT_KEY, superblock.encode().into()).await.err();
    for pause in SETTLE {
        tokio::time::sleep(pause).await;
        match find(store).await {
            Ok(Some(found)) if found.uuid == superblock.uuid => return Ok(Placed::Ours),
            Ok(Some(found)) => return Ok(Placed::Theirs(Box::new(found))),
            Ok(None) => {
                return Ok(Placed::Absent(failure.unwrap_or_else(|| StoreError {
                    kind: ErrorKind::Corrupt,
                    operation: "put",
                    target: format!("{}/{OBJECT_KEY}", store.url()),
                    detail: "the store said that the object was written, but it is not there".into(),
                })));
            }
            Err(VolumeError::Store(_)) => {}
            Err(e) => return Err(e),
        }
    }
    match failure {
        Some(e) => Ok(Placed::Unknown(e)),
        // Acknowledged, and nothing says otherwise.
        None => Ok(Placed::Ours),
    }
}

/// Why there is no superblock, as exactly as can be found out.
async fn absent(store: &dyn ObjectStore, location: &Location) -> VolumeError {
    let url = location.to_string();
    match store.list("").next().await {
        None => VolumeError::NotAVolume { url, detail: "it is empty".into() },
        // No such bucket: the store's own words are the best.
        Some(Err(e)) => e.into(),
        Some(Ok(object)) => VolumeError::NotAVolume {
            url,
            detail: format!("it holds other things ({:?}) but no {OBJECT_KEY}", object.key),
        },
    }
}
