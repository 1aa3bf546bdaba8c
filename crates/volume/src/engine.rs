//! Opening the metadata engine of a state directory.

use std::sync::Arc;

use headrace_kv::Engine;
use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::error::Result;
use crate::state_dir::StateDir;

/// Opens (or creates) the embedded engine of `state`. The caller holds the volume's lock.
pub(crate) fn open(state: &StateDir) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(EmbeddedEngine::open(&state.engine(), EmbeddedOptions::default())?))
}
