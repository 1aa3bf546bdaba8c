//! When a snapshot is worth its bytes: a pure decision.

/// The numbers of the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotPolicy {
    /// Bytes of log below which no snapshot is made.
    pub min_log_bytes: u64,
    /// Log as long as the last snapshot divided by this makes a new one due: the log costs a restore more time than a
    /// snapshot of the same size, and a snapshot costs the bucket as much as its size.
    pub size_divisor: u64,
    /// Log objects since the last snapshot that make a new one due, whatever their size: a request each at a restore.
    pub max_log_objects: u64,
    /// Plain bytes of a part.
    pub part_bytes: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> SnapshotPolicy {
        SnapshotPolicy {
            min_log_bytes: 16 << 20,
            size_divisor: 4,
            max_log_objects: 4096,
            part_bytes: 16 << 20,
        }
    }
}

/// The log since the last snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gathered {
    /// Stored bytes of log objects.
    pub(crate) bytes: u64,
    /// Log objects.
    pub(crate) objects: u64,
    /// Stored bytes of the last snapshot; 0 if there is none.
    pub(crate) last_snapshot_bytes: u64,
}

impl SnapshotPolicy {
    /// Whether to make a snapshot now.
    pub(crate) fn due(&self, gathered: &Gathered) -> bool {
        let share = gathered.last_snapshot_bytes / self.size_divisor.max(1);
        gathered.bytes > self.min_log_bytes.max(share) || gathered.objects > self.max_log_objects
    }

    /// Whether to make one while the volume is being closed: a quarter of what would make it due is enough, so that the next machine
    /// starts quickly.
    pub(crate) fn due_at_close(&self, gathered: &Gathered) -> bool {
        let sooner = SnapshotPolicy {
            min_log_bytes: self.min_log_bytes / 4,
            size_divisor: self.size_divisor,
            max_log_objects: self.max_log_objects / 4,
            part_bytes: self.part_bytes,
        };
        sooner.due(gathered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_cost_at_most_a_share_of_the_log() {
        let policy = SnapshotPolicy::default();
        let gathered = |bytes, objects, last_snapshot_bytes| Gathered { bytes, objects, last_snapshot_bytes };
        assert!(!policy.due(&gathered(16 << 20, 10, 0)));
        assert!(policy.due(&gathered((16 << 20) + 1, 10, 0)));
        // A large volume waits for a quarter of its size.
        assert!(!policy.due(&gathered(1 << 30, 10, 4 << 30)));
        assert!(policy.due(&gathered((1 << 30) + 1, 10, 4 << 30)));
        // Many small objects are slow to restore.
        assert!(!policy.due(&gathered(1, 4096, 4 << 30)));
        assert!(policy.due(&gathered(1, 4097, 4 << 30)));
        assert!(policy.due_at_close(&gathered((4 << 20) + 1, 1, 0)));
        assert!(!policy.due_at_close(&gathered(4 << 20, 1, 0)));
    }
}
