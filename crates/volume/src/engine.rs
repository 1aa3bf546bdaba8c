//! Opening the metadata engine of a state directory.

use std::sync::Arc;

use headrace_flow::memory::MemoryPlan;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::error::Result;
use crate::state_dir::StateDir;

/// Opens (or creates) the embedded engine of `state`. The caller holds the volume's lock.
pub(crate) fn open(state: &StateDir, memory: &MemoryPlan) -> Result<Arc<EmbeddedEngine>> {
    Ok(Arc::new(EmbeddedEngine::open(&state.engine(), options(memory))?))
}

/// The engine's bounds within a memory plan.
pub(crate) fn options(memory: &MemoryPlan) -> EmbeddedOptions {
    EmbeddedOptions {
        freeze_bytes: memory.freeze,
        max_pending_bytes: memory.pending,
        max_group_bytes: memory.group,
        max_group_keys: memory.group_keys,
        max_mapped_bytes: memory.mapped,
        log: true,
        ..EmbeddedOptions::default()
    }
}
