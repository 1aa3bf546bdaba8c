//! What the engine counts and times of itself.

use std::time::Instant;

use headrace_metrics::{Collection, Counter, Histogram, Unit};

use crate::EngineStats;

/// One view in so many is timed: reading the clock takes longer than the shortest of them.
const TIMED: u64 = 16;

/// Figures beside those that the engine needs for its own work.
#[derive(Debug, Default)]
pub(super) struct Counts {
    views: Counter,
    view_durations: Histogram,
    transaction_durations: Histogram,
    commit_durations: Histogram,
}

impl Counts {
    /// Runs a view.
    pub(super) fn view<T>(&self, view: impl FnOnce() -> T) -> T {
        let number = self.views.increment_and_get();
        if !number.is_multiple_of(TIMED) {
            return view();
        }
        timed(&self.view_durations, view)
    }

    /// Runs a transaction, its wait for its turn included.
    pub(super) fn transaction<T>(&self, transaction: impl FnOnce() -> T) -> T {
        timed(&self.transaction_durations, transaction)
    }

    /// Writes a group to disk.
    pub(super) fn commit<T>(&self, commit: impl FnOnce() -> T) -> T {
        timed(&self.commit_durations, commit)
    }

    /// Adds what was counted.
    pub(super) fn collect(&self, stats: &EngineStats, into: &mut Collection) {
        let help = "Transactions committed in memory";
        into.counter("headrace_metadata_transactions_total", help, Unit::None, stats.transactions);
        let help = "How long transactions took, their wait for each other included; to disk they go later";
        let durations = self.transaction_durations.snapshot();
        into.duration("headrace_metadata_transaction_duration_seconds", help, durations);
        let help = "Consistent views opened to read";
        into.counter("headrace_metadata_views_total", help, Unit::None, self.views.get());
        let help = "How long views were open, of one in 16 of them";
        into.duration("headrace_metadata_view_duration_seconds", help, self.view_durations.snapshot());
        let help = "Commits of many transactions to disk, each with a sync, failed ones included";
        into.counter("headrace_metadata_syncs_total", help, Unit::None, stats.syncs);
        let help = "How long commits to disk took";
        into.duration("headrace_metadata_commit_duration_seconds", help, self.commit_durations.snapshot());
        let help = "Changes that are not on this machine's disk yet";
        into.gauge("headrace_metadata_pending_bytes", help, Unit::Bytes, stats.pending_bytes as f64);
        let help = "Size of the metadata engine on disk";
        into.gauge("headrace_metadata_disk_bytes", help, Unit::Bytes, stats.disk_bytes as f64);
    }
}

fn timed<T>(durations: &Histogram, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    durations.record(began.elapsed());
    done
}
