//! Writing a snapshot: parts as the engine is read, the manifest last.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use headrace_kv::KvError;
use headrace_kv::embedded::EngineSnapshot;

use crate::object::{Anchor, Manifest, PartBuilder, PartRecord, SnapshotRef, Writer};
use crate::{Bucket, Key, MetalogError, ObjectHash, PutNew, SnapshotId};

/// The parts of a snapshot that is not complete yet.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) id: SnapshotId,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) parts: Vec<PartRecord>,
}

impl Parts {
    /// Stored bytes of all parts.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.stored).sum()
    }
}

/// What reading the engine has come to; moves between the runtime and the thread that reads.
struct Reading {
    snapshot: Arc<EngineSnapshot>,
    builder: PartBuilder,
    last_key: Option<Vec<u8>>,
    bytes: u64,
    ended: bool,
}

impl Reading {
    /// Gathers about `part_bytes` of records. The engine is not held up while they are sealed.
    fn gather(&mut self, part_bytes: u64) -> Result<(), KvError> {
        let Reading { snapshot, builder, last_key, bytes, ended } = self;
        let mut last: Option<Vec<u8>> = None;
        *ended = true;
        snapshot.scan(last_key.as_deref(), &mut |key, value| {
            builder.push(key, value);
            *bytes += (key.len() + value.len()) as u64;
            if (builder.len() as u64) < part_bytes {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            *ended = false;
            ControlFlow::Break(())
        })?;
        *last_key = last;
        Ok(())
    }
}

/// Reads `snapshot` and writes it to the bucket in parts, each read while the one before is sent. Memory: about four parts.
pub(crate) async fn write_parts(
    bucket: &Bucket,
    id: SnapshotId,
    snapshot: EngineSnapshot,
    part_bytes: u64,
) -> Result<Parts, MetalogError> {
    let mut written = Parts { id, records: 0, bytes: 0, parts: Vec::new() };
    let mut reading = Reading {
        snapshot: Arc::new(snapshot),
        builder: PartBuilder::new(),
        last_key: None,
        bytes: 0,
        ended: false,
    };
    let mut unsent: Option<(Key, Bytes)> = None;
    loop {
        let number = written.parts.len() as u32;
        let read = async {
            if reading.ended {
                return Ok((reading, None));
            }
            let bucket = bucket.clone();
            on_thread(move || {
                reading.gather(part_bytes)?;
                let part = (!reading.builder.is_empty()).then(|| reading.builder.seal(&bucket, id, number));
                Ok((reading, part.transpose()?))
            })
            .await
        };
        let send = async {
            match unsent.take() {
                Some((key, stored)) => Ok(bucket.put(key, stored).await?),
                None => Ok(()),
            }
        };
        let ((now, part), ()) = futures::try_join!(read, send)?;
        reading = now;
        let Some((stored, record)) = part else { break };
        written.records += record.records;
        written.parts.push(record);
        unsent = Some((Key::SnapshotPart { snapshot: id, part: number }, stored));
    }
    written.bytes = reading.bytes;
    Ok(written)
}

/// Writes the manifest, which makes a snapshot of `parts`.
pub(crate) async fn complete(
    bucket: &Bucket,
    parts: Parts,
    writer: Writer,
    at_ms: u64,
    anchor: Anchor,
) -> Result<SnapshotRef, MetalogError> {
    let Parts { id, records, bytes, parts } = parts;
    let manifest = Manifest { id, writer, at_ms, anchor: Some(anchor), records, bytes, parts };
    let stored = manifest.encode(bucket)?;
    let hash = ObjectHash::of(&stored);
    match bucket.put_new(manifest.key(), stored).await? {
        PutNew::Created => Ok(SnapshotRef { id, manifest: hash }),
        PutNew::Exists => Err(MetalogError::Unwritable {
            key: manifest.key().to_string(),
            detail: "another one is there, under an identity that is this snapshot's alone".into(),
        }),
    }
}

/// Runs what blocks beside the runtime.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MetalogError> + Send + 'static,
) -> Result<T, MetalogError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ended_early(&error).into()),
    }
}

/// [`on_thread`] for work on an engine.
pub(crate) async fn on_thread_kv<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KvError> + Send + 'static,
) -> Result<T, KvError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ended_early(&error)),
    }
}

fn ended_early(error: &tokio::task::JoinError) -> KvError {
    KvError::Io { path: "metadata log".into(), detail: format!("a working thread ended early: {error}") }
}
