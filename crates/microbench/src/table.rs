//! Tables for people.

use std::fmt::Write as _;

use crate::baseline::{Cost, Measurements};
use crate::compare::{Change, Figure, Row, Verdict};

/// A row per benchmark and three columns per figure: recorded, now, change.
pub fn comparison(rows: &[Row]) -> String {
    let mut lines = vec![heading()];
    for row in rows {
        lines.push(match row {
            Row::Compared { name, changes } => {
                let mut cells = vec![name.clone()];
                cells.extend(changes.iter().flat_map(|c| [grouped(c.recorded), grouped(c.now), change(c)]));
                cells
            }
            Row::New { name, cost } => {
                let mut cells = vec![name.clone()];
                cells.extend(
                    Figure::ALL.iter().flat_map(|f| [String::new(), grouped(f.of(cost)), "new".into()]),
                );
                cells
            }
            Row::Gone { name } => {
                let mut cells = vec![name.clone()];
                cells.extend(Figure::ALL.iter().flat_map(|_| [String::new(), String::new(), "gone".into()]));
                cells
            }
        });
    }
    aligned(&lines)
}

fn heading() -> Vec<String> {
    let mut cells = vec!["benchmark".to_owned()];
    cells.extend(
        Figure::ALL.iter().flat_map(|f| [f.name().to_owned(), "now".to_owned(), "change".to_owned()]),
    );
    cells
}

fn change(change: &Change) -> String {
    let share = change.share();
    let text = if share.is_infinite() { "from 0".to_owned() } else { format!("{:+.1} %", share * 100.0) };
    match change.verdict {
        Verdict::Same if share == 0.0 => "=".to_owned(),
        Verdict::Same => text,
        Verdict::Better => format!("{text} better"),
        Verdict::Worse => format!("{text} WORSE"),
    }
}

/// What those benchmarks that say how much data they move cost for each byte of it; empty if none does.
pub fn per_byte(measurements: &Measurements) -> String {
    let mut lines: Vec<Vec<String>> =
        measurements.iter().filter_map(|(name, cost)| Some(ratios(name, cost, moved_by(name)?))).collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.insert(
        0,
        ["benchmark", "instructions/KiB", "10^6 instructions/GiB", "copied/byte"].map(String::from).into(),
    );
    aligned(&lines)
}

fn ratios(name: &str, cost: &Cost, bytes: u64) -> Vec<String> {
    let per_byte = cost.instructions as f64 / bytes as f64;
    vec![
        name.to_owned(),
        format!("{:.1}", per_byte * 1024.0),
        format!("{:.0}", per_byte * (1u64 << 30) as f64 / 1e6),
        format!("{:.3}", cost.bytes_copied as f64 / bytes as f64),
    ]
}

/// Bytes that a benchmark moves, from the end of its name: `..._4_kib`, `..._1_mib`.
fn moved_by(name: &str) -> Option<u64> {
    let mut words = name.rsplit('_');
    let unit = match words.next()? {
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        _ => return None,
    };
    let number = words.next()?.rsplit(':').next()?;
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// The first column to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut written = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            // Writing to a string does not fail.
            let _ = if column == 0 {
                write!(written, "{cell:width$}")
            } else {
                write!(written, "  {cell:>width$}")
            };
        }
        text.push_str(written.trim_end());
        text.push('\n');
    }
    text
}

/// 1234567 as "1,234,567".
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;

    fn one(name: &str, instructions: u64, bytes_copied: u64) -> Measurements {
        [(name.to_owned(), Cost { instructions, bytes_copied, copies: 1 })].into()
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_regression_can_be_seen() {
        let table = comparison(&compare(&one("read", 10_000, 0), &one("read", 11_000, 4096)));
        let row = table.lines().nth(1).expect("a row");
        assert!(row.contains("11,000  +10.0 % WORSE"), "{table}");
        assert!(row.contains("from 0 WORSE"), "{table}");
        assert_eq!(table.lines().count(), 2);
    }

    #[test]
    fn data_moved_is_read_from_the_name() {
        assert_eq!(moved_by("data::read::store_1_mib"), Some(1 << 20));
        assert_eq!(moved_by("data::read::get::cold_128_kib"), Some(128 << 10));
        assert_eq!(moved_by("layout::encode::plain::32_kib"), Some(32 << 10));
        assert_eq!(moved_by("meta::namespace::create"), None);
        let table = per_byte(&one("data::read::cold_1_mib", 2 << 20, 1 << 20));
        assert!(table.lines().nth(1).expect("a row").ends_with("1.000"), "{table}");
        assert_eq!(per_byte(&one("meta::create", 1, 1)), "");
    }
}
