//! The metadata's log of an open volume.

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use headrace_flow::memory::MemoryPlan;
use headrace_kv::{Engine, KvError};
use headrace_metalog::engine::{LogOptions, LoggedEngine};
use headrace_metalog::ship::ShipPolicy;
use headrace_metalog::snapshot::SnapshotPolicy;

pub use headrace_metalog::engine::{Durability, LogState, LogStatus};

use crate::claim::Kept;
use crate::options::OpenOptions;

/// The log of a volume that is open for changes.
#[derive(Clone, Debug)]
pub struct Log {
    engine: Arc<LoggedEngine>,
    kept: Kept,
}

impl Log {
    pub(crate) fn new(engine: Arc<LoggedEngine>, kept: Kept) -> Log {
        Log { engine, kept }
    }

    /// What a change of metadata has to wait for; `None`, without an allocation, if there is room for it.
    pub fn admit(&self) -> Option<impl Future<Output = Result<(), KvError>> + Send + use<>> {
        if let Some(Ok(())) = self.engine.admit().now_or_never() {
            return None;
        }
        let engine = Arc::clone(&self.engine);
        Some(async move { engine.admit().await })
    }

    /// Resolves when everything committed so far is in the bucket.
    pub async fn flush(&self) -> Result<(), KvError> {
        self.engine.flush().await
    }

    /// Whether, right now, nobody else can have taken the volume.
    pub fn is_valid(&self) -> bool {
        self.kept.keeper.is_valid()
    }

    /// Figures.
    pub fn status(&self) -> LogStatus {
        self.engine.status()
    }

    /// Resolves, with the reason, when somebody else has taken the volume.
    pub async fn fenced(&self) -> String {
        self.engine.fenced().await.to_string()
    }

    /// Reads all of the metadata on this machine and compares checksums. Blocks.
    pub(crate) fn verify(&self) -> Result<(), KvError> {
        self.engine.embedded().verify(&mut |_, _| ())
    }

    /// Whether opening has done that already, as it does while there is little.
    pub(crate) fn verified_at_open(&self) -> bool {
        self.engine.embedded().verified_at_open()
    }

    /// Ends it without the store: what is not shipped stays in the engine's own log.
    pub(crate) fn leave(&self) -> Result<(), KvError> {
        self.kept.abandon();
        self.engine.abandon();
        self.engine.embedded().close()
    }

    /// Whether somebody else has taken the volume.
    pub(crate) fn is_fenced(&self) -> bool {
        self.status().state == LogState::Fenced
    }
}

/// How a log is kept within a memory plan.
pub(crate) fn options(open: &OpenOptions, memory: &MemoryPlan) -> LogOptions {
    let defaults = LogOptions::default();
    LogOptions {
        durability: open.durability,
        retention: open.retention,
        ship: ShipPolicy {
            max_object_bytes: memory.log_object,
            press_bytes: defaults.ship.press_bytes.min(memory.log_object / 2),
            ..defaults.ship
        },
        snapshot: SnapshotPolicy {
            part_bytes: defaults.snapshot.part_bytes.min(memory.log_object),
            ..defaults.snapshot
        },
        deadline: open.store.deadline,
        close_deadline: open.store.deadline,
        ..defaults
    }
}
