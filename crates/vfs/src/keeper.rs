//! Memory of written data that was let go is kept for what is written next, where the pool of written data has room for it: pages that are given
//! back and taken again cost more than copying into them.

use std::sync::{Arc, OnceLock};

/// Who keeps buffers that nobody uses.
pub trait Keeper: Send + Sync {
    /// They may take so many bytes from now on, beside what they may always take. Quick: told under a lock.
    fn allow(&self, bytes: u64);
    /// Gives back what is more than was allowed last.
    fn shrink(&self);
}

/// The one who was named, if anybody was.
#[derive(Default)]
pub(crate) struct Kept(OnceLock<Arc<dyn Keeper>>);

impl Kept {
    /// False if there is one.
    pub(crate) fn name(&self, keeper: Arc<dyn Keeper>) -> bool {
        self.0.set(keeper).is_ok()
    }

    pub(crate) fn allow(&self, bytes: u64) {
        if let Some(keeper) = self.0.get() {
            keeper.allow(bytes);
        }
    }

    pub(crate) fn shrink(&self) {
        if let Some(keeper) = self.0.get() {
            keeper.shrink();
        }
    }
}
