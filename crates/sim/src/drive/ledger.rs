//! An account of bytes that is kept beside the controller's own, and checks it.

use headrace_flow::reading::FileId;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Which bytes are there, which are on their way, and what the controller said that is not true.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Bytes that are there: disjoint, not adjacent ranges of each file, start to end.
    there: HashMap<FileId, BTreeMap<u64, u64>>,
    /// Sum of them.
    stored: u64,
    /// Bytes asked for and neither there nor given up.
    flying: u64,
    /// Most that both together were.
    peak: u64,
    /// Bytes that came over the network.
    pub fetched: u64,
    /// Bytes of answered reads.
    pub answered: u64,
    violations: Vec<String>,
}

/// More than these are not kept.
const VIOLATIONS: usize = 10;

impl Ledger {
    /// A fetch of so many bytes was sent.
    pub fn sent(&mut self, bytes: u64) {
        self.flying += bytes;
        self.peak = self.peak.max(self.stored + self.flying);
    }

    /// A fetch ended in whatever way; so many of its bytes did not come.
    pub fn ended(&mut self, missing: u64) {
        self.flying = self.flying.saturating_sub(missing);
    }

    /// These bytes came.
    pub fn arrived(&mut self, file: FileId, range: Range<u64>) {
        let bytes = range.end - range.start;
        self.fetched += bytes;
        self.flying = self.flying.saturating_sub(bytes);
        let ranges = self.there.entry(file).or_default();
        let before = overlap(ranges, &range);
        insert(ranges, range);
        self.stored += bytes - before;
        self.peak = self.peak.max(self.stored + self.flying);
    }

    /// A read was answered: all its bytes must be there.
    pub fn answered(&mut self, file: FileId, range: &Range<u64>) {
        let bytes = range.end.saturating_sub(range.start);
        let there = self.there.get(&file).map_or(0, |ranges| overlap(ranges, range));
        if there < bytes {
            self.violated(format!("{file:?} {range:?} was answered with {there} of its {bytes} bytes there"));
        }
        self.answered += bytes;
    }

    /// These bytes are not kept any more.
    pub fn released(&mut self, file: FileId, range: &Range<u64>) {
        let Some(ranges) = self.there.get_mut(&file) else { return };
        self.stored -= overlap(ranges, range);
        remove(ranges, range);
    }

    /// The controller did something that it must not.
    pub fn violated(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// What the controller did that it must not; the first few.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Bytes there and on their way.
    pub fn held(&self) -> u64 {
        self.stored + self.flying
    }

    /// Most bytes that were there and on their way together.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Bytes that came and neither answered a read nor still may, as a share of all that came.
    pub fn wasted(&self) -> f64 {
        if self.fetched == 0 {
            return 0.0;
        }
        self.fetched.saturating_sub(self.answered + self.stored) as f64 / self.fetched as f64
    }
}

/// Bytes of `range` that are in `ranges`.
fn overlap(ranges: &BTreeMap<u64, u64>, range: &Range<u64>) -> u64 {
    let mut sum = 0;
    for (&start, &end) in ranges.range(..range.end).rev() {
        if end <= range.start {
            break;
        }
        sum += end.min(range.end) - start.max(range.start);
    }
    sum
}

fn insert(ranges: &mut BTreeMap<u64, u64>, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    let (mut start, mut end) = (range.start, range.end);
    while let Some((&s, &e)) = ranges.range(..=end).next_back().filter(|&(_, &e)| e >= start) {
        ranges.remove(&s);
        start = start.min(s);
        end = end.max(e);
    }
    ranges.insert(start, end);
}

fn remove(ranges: &mut BTreeMap<u64, u64>, range: &Range<u64>) {
    while let Some((&s, &e)) = ranges.range(..range.end).next_back().filter(|&(_, &e)| e > range.start) {
        ranges.remove(&s);
        if e > range.end {
            ranges.insert(range.end, e);
        }
        if s < range.start {
            ranges.insert(s, range.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: FileId = FileId(1);

    #[test]
    fn an_answer_without_its_bytes_is_noticed() {
        let mut ledger = Ledger::default();
        ledger.sent(100);
        ledger.arrived(FILE, 0..60);
        ledger.answered(FILE, &(0..60));
        assert!(ledger.violations().is_empty());
        ledger.answered(FILE, &(50..70));
        assert_eq!(ledger.violations().len(), 1);
    }

    #[test]
    fn the_peak_counts_what_is_there_and_what_is_coming() {
        let mut ledger = Ledger::default();
        ledger.sent(100);
        ledger.arrived(FILE, 0..40);
        ledger.sent(50);
        assert_eq!((ledger.held(), ledger.peak()), (150, 150));
        ledger.ended(60);
        ledger.released(FILE, &(0..40));
        assert_eq!((ledger.held(), ledger.peak()), (50, 150));
    }

    #[test]
    fn bytes_that_nobody_read_are_waste_once_they_are_gone() {
        let mut ledger = Ledger::default();
        ledger.arrived(FILE, 0..100);
        ledger.answered(FILE, &(0..40));
        assert_eq!(ledger.wasted(), 0.0);
        ledger.released(FILE, &(0..100));
        assert_eq!(ledger.wasted(), 0.6);
        // Second copies of a hedge are waste too.
        ledger.arrived(FILE, 0..100);
        ledger.arrived(FILE, 0..100);
        assert!(ledger.wasted() > 0.5);
    }

    proptest! {
        /// The ranges behave as the set of bytes they stand for.
        #[test]
        fn ranges_are_sets(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 1..60)) {
            let mut ranges = BTreeMap::new();
            let mut set = std::collections::BTreeSet::new();
            for (add, start, length) in steps {
                let range = start..start + length;
                let expected = range.clone().filter(|byte| set.contains(byte)).count() as u64;
                prop_assert_eq!(overlap(&ranges, &range), expected);
                if add {
                    set.extend(range.clone());
                    insert(&mut ranges, range);
                } else {
                    set.retain(|byte| !range.contains(byte));
                    remove(&mut ranges, &range);
                }
                prop_assert_eq!(overlap(&ranges, &(0..200)), set.len() as u64);
            }
        }
    }
}
