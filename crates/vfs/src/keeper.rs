//! Memory of written data that was let go is kept for what is written next, where the pool of written data has room for it: pages that are given
//! back and taken again cost more than copying into them.

/// Who keeps buffers that nobody uses.
pub trait Keeper: Send + Sync {
    /// They may take so many bytes from now on, beside what they may always take. Quick: told under a lock.
    fn allow(&self, bytes: u64);
    /// Gives back what is more than was allowed last.
    fn shrink(&self);
}
