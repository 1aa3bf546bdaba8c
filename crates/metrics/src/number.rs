//! Single numbers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// What only grows: requests answered, bytes moved.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter that begins at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds one and gives the count with it.
    pub fn increment_and_get(&self) -> u64 {
        self.0.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Adds `amount`. Wraps at 2^64, which nothing counted here reaches.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What goes up and down: requests under way, bytes held.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// A gauge at zero.
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Adds `amount`, which may be negative.
    pub fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Sets it.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }

    /// Adds `amount` until the answer is dropped, however the work in between ends.
    pub fn raise(&self, amount: i64) -> Raised<'_> {
        self.add(amount);
        Raised { gauge: self, amount }
    }
}

/// A part of a [`Gauge`] that is taken back when this is dropped.
#[derive(Debug)]
#[must_use = "the gauge falls again when this is dropped"]
pub struct Raised<'a> {
    gauge: &'a Gauge,
    amount: i64,
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.gauge.add(-self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_gauge_falls_when_the_work_ends() {
        let gauge = Gauge::new();
        {
            let _one = gauge.raise(1);
            let _more = gauge.raise(4);
            assert_eq!(gauge.get(), 5);
        }
        assert_eq!(gauge.get(), 0);
    }
}
