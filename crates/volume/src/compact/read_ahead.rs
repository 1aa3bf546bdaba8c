//! How much may be read ahead of the rewriter.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::open::Volume;

/// Unit of the semaphore, whose count is smaller than the bytes can be.
const UNIT: u64 = 4 << 10;

/// Bytes read and not yet pushed: half of what rewriting may take, as the segment being built takes the other half.
pub(super) struct ReadAhead {
    units: Semaphore,
    all: u32,
}

/// A share of it, until dropped.
pub(super) type Held<'a> = Option<SemaphorePermit<'a>>;

impl ReadAhead {
    pub fn new(volume: &Volume) -> ReadAhead {
        ReadAhead::of(volume.memory.rewrite / 2)
    }

    /// Half as much, for who collects what was read in a piece.
    pub fn half(volume: &Volume) -> ReadAhead {
        ReadAhead::of(volume.memory.rewrite / 4)
    }

    fn of(bytes: u64) -> ReadAhead {
        let all = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        ReadAhead { units: Semaphore::new(all as usize), all }
    }

    /// Waits for room for `len` plain bytes: as stored, and as they are. What is more than all there is waits for all. First
    /// come, first served, so that a consumer which takes them in order is never kept waiting by later ones.
    pub async fn hold(&self, len: u32) -> Held<'_> {
        let units = u32::try_from((2 * u64::from(len)).div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.all);
        // Never closed.
        self.units.acquire_many(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_is_too_large_goes_alone() {
        let memory = ReadAhead::of(64 << 10);
        let first = memory.hold(8 << 10).await;
        let mut large = Box::pin(memory.hold(1 << 30));
        assert!((&mut large).now_or_never().is_none());
        drop(first);
        let large = large.await;
        assert!(memory.hold(1).now_or_never().is_none());
        drop(large);
        assert!(memory.hold(1).now_or_never().is_some());
    }
}
