//! Virtual time: what happens next ([`queue`]) and what is drawn ([`random`]). A run is decided by its scenario and its seed alone.

pub mod queue;
pub mod random;

pub use queue::Queue;
pub use random::Random;
