//! A line an interval, for terminals that are none and for logs.

use super::figures::Figures;
use super::panels::{bytes, latency};
use crate::output::human;

/// Name and width of each column.
const COLUMNS: [(&str, usize); 12] = [
    ("TIME", 8),
    ("READ/S", 10),
    ("WRITE/S", 10),
    ("OP/S", 7),
    ("P50", 8),
    ("P99", 8),
    ("HITS", 5),
    ("IN/S", 10),
    ("OUT/S", 10),
    ("STORE/S", 7),
    ("P99", 8),
    ("DIRTY", 10),
];

/// The headings.
pub fn headings() -> String {
    line(COLUMNS.map(|(name, _)| name.to_owned()))
}

/// The figures.
pub fn of(figures: &Figures) -> String {
    let (fuse, store) = (&figures.fuse, &figures.store);
    let hits: f64 = figures.caches.iter().map(|cache| cache.hits_per_second).sum();
    let misses: f64 = figures.caches.iter().map(|cache| cache.misses_per_second).sum();
    line([
        time_of_day(figures.at),
        bytes(fuse.read_bytes_per_second),
        bytes(fuse.written_bytes_per_second),
        human::rate(fuse.all.per_second),
        latency(fuse.all.p50_seconds),
        latency(fuse.all.p99_seconds),
        if hits + misses > 0.0 { format!("{:.0}%", hits / (hits + misses) * 100.0) } else { "-".to_owned() },
        bytes(store.received_bytes_per_second),
        bytes(store.sent_bytes_per_second),
        human::rate(store.all.per_second),
        latency(store.all.p99_seconds),
        bytes(figures.writers.dirty_bytes),
    ])
}

fn line(cells: [String; COLUMNS.len()]) -> String {
    let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:>width$}"));
    cells.collect::<Vec<_>>().join("  ")
}

/// `12:34:56`, UTC.
fn time_of_day(at: f64) -> String {
    let seconds = at as u64 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::snapshot;
    use super::*;

    #[test]
    fn figures_stand_under_their_headings() {
        let line = of(&Figures::between(&snapshot(86_400.0, 0), &snapshot(90_061.0, 7322)));
        assert_eq!(line.len(), headings().len(), "{line}");
        assert!(line.starts_with("01:01:01     8.0 KiB         0 B     2.00"), "{line}");
        assert!(line.contains("  75%  "), "{line}");
    }
}
