//! An account of written bytes that is kept beside the gate's own, and checks it.

use std::collections::BTreeMap;

/// More than these are not kept.
const VIOLATIONS: usize = 10;

#[derive(Debug)]
struct Part {
    file: u64,
    from: u64,
    until: u64,
    /// The store has it.
    there: bool,
    acknowledged: bool,
    committed: bool,
}

/// Follows each byte: a file is written from its start to its end, and a part is a range of it.
#[derive(Debug, Default)]
pub struct Ledger {
    parts: BTreeMap<u64, Part>,
    accepted: BTreeMap<u64, u64>,
    sent: BTreeMap<u64, u64>,
    in_flight: u64,
    held: u64,
    peak: u64,
    violations: Vec<String>,
}

impl Ledger {
    /// A write was accepted, with so much memory allowed.
    pub fn accepted(&mut self, file: u64, bytes: u64, memory: u64) {
        *self.accepted.entry(file).or_default() += bytes;
        self.in_flight += bytes;
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        if self.held > memory && self.held != bytes {
            self.violated(format!("{bytes} bytes were accepted, which made {} of {memory}", self.held));
        }
    }

    /// The next bytes of a file were sent.
    pub fn sent(&mut self, part: u64, file: u64, bytes: u64) {
        let from = *self.sent.entry(file).or_default();
        let until = from + bytes;
        self.sent.insert(file, until);
        if until > self.accepted.get(&file).copied().unwrap_or(0) {
            self.violated(format!("more of file {file} was sent than accepted"));
        }
        let new = Part { file, from, until, there: false, acknowledged: false, committed: false };
        if self.parts.insert(part, new).is_some() {
            self.violated(format!("part {part} was sent twice"));
        }
    }

    /// The store has a part; its answer may still be on its way.
    pub fn there(&mut self, part: u64) {
        if let Some(part) = self.parts.get_mut(&part) {
            part.there = true;
        }
    }

    /// The gate was told that a part is stored, and said whether that was news.
    pub fn stored(&mut self, name: u64, news: bool) {
        let Some(part) = self.parts.get_mut(&name) else { return };
        let bytes = part.until - part.from;
        let (first, there) = (!std::mem::replace(&mut part.acknowledged, true), part.there);
        if first {
            self.in_flight -= bytes;
        }
        if news != first || !there {
            self.violated(format!("part {name} is stored: news {news}, first {first}, there {there}"));
        }
    }

    /// The gate was told that a part is committed, and said whether that was news.
    pub fn committed(&mut self, name: u64, news: bool) {
        let Some(part) = self.parts.get_mut(&name) else { return };
        let bytes = part.until - part.from;
        let (first, there) = (!std::mem::replace(&mut part.committed, true), part.there);
        if first {
            self.held -= bytes;
        }
        if news != first || !there {
            self.violated(format!("part {name} is committed: news {news}, first {first}, there {there}"));
        }
    }

    /// Bytes accepted and not acknowledged. What the gate says beside it must be the same.
    pub fn in_flight(&mut self, gate: Option<u64>) -> u64 {
        if let Some(gate) = gate.filter(|gate| *gate != self.in_flight) {
            self.violated(format!("{gate} bytes are in flight for the gate, and {} are", self.in_flight));
        }
        self.in_flight
    }

    /// Bytes accepted and not committed.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Most that were.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// When all is over: accepted bytes that are not both in the store and committed.
    pub fn lost(&self) -> u64 {
        let mut safe: BTreeMap<u64, u64> = BTreeMap::new();
        for part in self.parts.values().filter(|part| part.there && part.committed) {
            *safe.entry(part.file).or_default() += part.until - part.from;
        }
        self.accepted.iter().map(|(file, bytes)| bytes - safe.get(file).copied().unwrap_or(0)).sum()
    }

    /// The gate did something that it must not.
    pub fn violated(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// What the gate did that it must not; the first few.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stored_or_not_committed_is_lost() {
        let mut ledger = Ledger::default();
        ledger.accepted(1, 100, 1000);
        ledger.sent(0, 1, 60);
        ledger.sent(1, 1, 30);
        ledger.there(0);
        ledger.stored(0, true);
        ledger.committed(0, true);
        assert_eq!((ledger.lost(), ledger.held(), ledger.in_flight(Some(40))), (40, 40, 40));
        assert_eq!(ledger.violations(), [""; 0]);
    }

    #[test]
    fn a_gate_that_counts_wrongly_is_found_out() {
        let told = |tell: fn(&mut Ledger)| {
            let mut ledger = Ledger::default();
            ledger.accepted(1, 100, 1000);
            ledger.sent(0, 1, 60);
            ledger.there(0);
            tell(&mut ledger);
            ledger.violations().len()
        };
        assert_eq!(told(|ledger| ledger.stored(0, true)), 0);
        assert_eq!(told(|ledger| ledger.stored(0, false)), 1);
        assert_eq!(told(|ledger| (0..2).for_each(|_| ledger.stored(0, true))), 1);
        assert_eq!(told(|ledger| ledger.sent(1, 1, 41)), 1);
        assert_eq!(told(|ledger| ledger.accepted(2, 901, 1000)), 1);
        assert_eq!(told(|ledger| assert_eq!(ledger.in_flight(Some(99)), 100)), 1);
        assert_eq!(told(|ledger| (ledger.sent(2, 1, 1), ledger.stored(2, true)).1), 1);
    }
}
