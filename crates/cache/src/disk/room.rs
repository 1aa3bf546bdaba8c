//! How much a directory may hold.

/// Space of a disk that is left to others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Floor {
    /// So many bytes.
    Bytes(u64),
    /// This part of the disk, 0 to 1.
    Part(f64),
}

impl Floor {
    /// In bytes, of a disk of `total` bytes.
    pub(super) fn of(self, total: u64) -> u64 {
        match self {
            Floor::Bytes(bytes) => bytes,
            Floor::Part(part) => (total as f64 * part.clamp(0.0, 1.0)) as u64,
        }
    }
}

/// What is known of a directory and its disk, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Space {
    /// Cached.
    pub held: u64,
    /// At most, if something says so.
    pub limit: Option<u64>,
    /// Free on the disk.
    pub free: u64,
    /// Of that to be left free.
    pub floor: u64,
}

impl Space {
    /// As many as it may hold.
    pub(super) fn most(&self) -> u64 {
        let by_disk = self.held.saturating_add(self.free).saturating_sub(self.floor);
        self.limit.map_or(by_disk, |limit| limit.min(by_disk))
    }

    /// Bytes to be evicted before `incoming` more can be taken.
    pub(super) fn excess(&self, incoming: u64) -> u64 {
        let over_limit =
            self.limit.map_or(0, |limit| (self.held.saturating_add(incoming)).saturating_sub(limit));
        let over_floor = self.floor.saturating_add(incoming).saturating_sub(self.free);
        // What is not ours cannot be evicted.
        over_limit.max(over_floor).min(self.held)
    }

    /// Whether `incoming` more can be taken now.
    pub(super) fn fits(&self, incoming: u64) -> bool {
        self.limit.is_none_or(|limit| self.held.saturating_add(incoming) <= limit)
            && self.free >= self.floor.saturating_add(incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// When what is to be evicted has been, the rest fits, unless nothing is left to evict.
        #[test]
        fn evicting_the_excess_makes_room(held in 0u64..1000, limit in proptest::option::of(0u64..1000), free in 0u64..1000, floor in 0u64..1000, incoming in 0u64..100) {
            let space = Space { held, limit, free, floor };
            let excess = space.excess(incoming);
            prop_assert!(excess <= held);
            let after = Space { held: held - excess, free: free + excess, ..space };
            prop_assert!(after.fits(incoming) || after.held == 0);
            if space.fits(incoming) {
                prop_assert_eq!(excess, 0);
            }
            // With all else evicted, as much as it may hold fits, and no more.
            let empty = Space { held: 0, free: free + held, ..space };
            let most = space.most();
            prop_assert!((empty.fits(most) || most == 0) && !empty.fits(most + 1));
        }
    }

    #[test]
    fn a_floor_is_bytes_or_a_part() {
        assert_eq!(Floor::Bytes(7).of(100), 7);
        assert_eq!(Floor::Part(0.25).of(100), 25);
        assert_eq!(Floor::Part(3.0).of(100), 100);
    }
}
