//! What reads taught, kept from one mount to the next beside the volume's metadata.

use std::time::Duration;

use headrace_flow::endpoint::Known;
use headrace_flow::reading::Learned;
use headrace_volume::state_dir::{ReadingRecord, StateDir};

use super::{Fetcher, Origin};

impl<O: Origin> Fetcher<O> {
    /// To be called before the first read.
    pub(crate) fn recall(&self, directory: &StateDir) {
        if let Some(record) = directory.reading() {
            self.inner.lock().reads.recall(learned(&record));
        }
    }

    /// To be called when files are closed. It waits for the disk.
    pub(crate) fn note(&self, directory: &StateDir) {
        let Some(learned) = self.inner.lock().reads.learned() else { return };
        let record = record(&learned);
        if directory.reading() == Some(record) {
            return;
        }
        if let Err(error) = directory.set_reading(&record) {
            tracing::warn!(%error, "what was learned of the store is not kept: reads of the next mount begin slowly");
        }
    }
}

fn learned(record: &ReadingRecord) -> Learned {
    let endpoint = Known {
        latency: Duration::from_micros(record.latency_us),
        mib: Duration::from_micros(record.mib_us),
        rate: record.rate,
    };
    Learned { endpoint, run: record.run }
}

fn record(learned: &Learned) -> ReadingRecord {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Learned { endpoint, run } = *learned;
    ReadingRecord { latency_us: us(endpoint.latency), mib_us: us(endpoint.mib), rate: endpoint.rate, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_the_same_after_a_restart() {
        let base = tempfile::tempdir().expect("a directory");
        let directory = StateDir::create(&base.path().join("state")).expect("it can be made");
        assert_eq!(directory.reading(), None);
        let endpoint = Known {
            latency: Duration::from_millis(103),
            mib: Duration::from_micros(11_651),
            rate: 612_000_000,
        };
        let known = Learned { endpoint, run: 800 << 20 };
        directory.set_reading(&record(&known)).expect("it can be written");
        assert_eq!(directory.reading().map(|record| learned(&record)), Some(known));
        std::fs::write(directory.path().join("reading.json"), b"{\"latency_us\": -1")
            .expect("it can be written");
        assert_eq!(directory.reading(), None, "what is damaged is nothing, and no error");
    }
}
