//! The decision: what has become dearer than it was.

use crate::baseline::{Cost, Measurements};

/// How much more is not yet a regression, as a share of what was recorded.
///
/// The same binary repeats to 0.1 % except where a hash map is seeded at random or a clock is read. Another build of the same
/// sources moves a little more, since inlining is decided across crates. 3 % is above both and below what a forgotten
/// allocation or copy costs.
pub const TOLERANCE: f64 = 0.03;

/// Differences of this many are never a regression: in a benchmark of a few hundred instructions, one more `if` is 3 %.
const SLACK: Cost = Cost { instructions: 32, bytes_copied: 64, copies: 1 };

/// One figure of a [`Cost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// [`Cost::instructions`].
    Instructions,
    /// [`Cost::bytes_copied`].
    BytesCopied,
    /// [`Cost::copies`].
    Copies,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 3] = [Figure::Instructions, Figure::BytesCopied, Figure::Copies];

    /// Its value.
    pub fn of(self, cost: &Cost) -> u64 {
        match self {
            Figure::Instructions => cost.instructions,
            Figure::BytesCopied => cost.bytes_copied,
            Figure::Copies => cost.copies,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Instructions => "instructions",
            Figure::BytesCopied => "bytes copied",
            Figure::Copies => "copies",
        }
    }
}

/// What became of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As recorded, within the tolerance.
    Same,
    /// Less than recorded by more than the tolerance. No failure, but worth recording: what was gained is not guarded until then.
    Better,
    /// More than recorded by more than the tolerance.
    Worse,
}

/// One figure, then and now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which.
    pub figure: Figure,
    /// As recorded.
    pub recorded: u64,
    /// As measured.
    pub now: u64,
    /// What that is.
    pub verdict: Verdict,
}

impl Change {
    /// The difference as a share of what was recorded; infinite if nothing was.
    pub fn share(&self) -> f64 {
        match (self.recorded, self.now) {
            (0, 0) => 0.0,
            (recorded, now) => now as f64 / recorded as f64 - 1.0,
        }
    }
}

/// One benchmark, then and now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    /// In both.
    Compared {
        /// Its name.
        name: String,
        /// Its figures.
        changes: [Change; 3],
    },
    /// Measured and not recorded.
    New {
        /// Its name.
        name: String,
        /// What it costs.
        cost: Cost,
    },
    /// Recorded and not measured any more.
    Gone {
        /// Its name.
        name: String,
    },
}

impl Row {
    /// Why this row fails the check, if it does.
    pub fn failure(&self) -> Option<String> {
        match self {
            Row::Compared { name, changes } => {
                let worse = changes.iter().filter(|change| change.verdict == Verdict::Worse);
                let said: Vec<_> = worse
                    .map(|c| format!("{} went from {} to {}", c.figure.name(), c.recorded, c.now))
                    .collect();
                (!said.is_empty()).then(|| format!("{name}: {}", said.join(", ")))
            }
            Row::New { name, .. } => Some(format!("{name}: not recorded yet")),
            Row::Gone { name } => Some(format!("{name}: recorded, but there is no such benchmark")),
        }
    }

    /// Whether something in it became better.
    pub fn is_better(&self) -> bool {
        matches!(self, Row::Compared { changes, .. } if changes.iter().any(|c| c.verdict == Verdict::Better))
    }
}

/// Compares what was measured with what was recorded; a row for each benchmark of either, by name.
pub fn compare(recorded: &Measurements, now: &Measurements) -> Vec<Row> {
    let mut rows: Vec<(&String, Row)> = now
        .iter()
        .map(|(name, cost)| {
            let row = match recorded.get(name) {
                Some(old) => Row::Compared { name: name.clone(), changes: changes(old, cost) },
                None => Row::New { name: name.clone(), cost: *cost },
            };
            (name, row)
        })
        .collect();
    let gone = recorded.keys().filter(|name| !now.contains_key(*name));
    rows.extend(gone.map(|name| (name, Row::Gone { name: name.clone() })));
    rows.sort_by_key(|(name, _)| *name);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn changes(recorded: &Cost, now: &Cost) -> [Change; 3] {
    Figure::ALL.map(|figure| {
        let (old, new) = (figure.of(recorded), figure.of(now));
        let allowed = ((old as f64 * TOLERANCE) as u64).max(figure.of(&SLACK));
        let verdict = match () {
            () if new > old.saturating_add(allowed) => Verdict::Worse,
            () if new < old.saturating_sub(allowed) => Verdict::Better,
            () => Verdict::Same,
        };
        Change { figure, recorded: old, now: new, verdict }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(costs: &[(&str, u64, u64, u64)]) -> Measurements {
        costs
            .iter()
            .map(|(name, instructions, bytes_copied, copies)| {
                let cost = Cost { instructions: *instructions, bytes_copied: *bytes_copied, copies: *copies };
                ((*name).to_owned(), cost)
            })
            .collect()
    }

    fn failures(recorded: &Measurements, now: &Measurements) -> Vec<String> {
        compare(recorded, now).iter().filter_map(Row::failure).collect()
    }

    #[test]
    fn more_than_the_tolerance_fails_and_less_does_not() {
        let recorded = measured(&[("read", 10_000, 4096, 10)]);
        assert_eq!(failures(&recorded, &measured(&[("read", 10_300, 4096, 10)])), Vec::<String>::new());
        assert_eq!(
            failures(&recorded, &measured(&[("read", 10_301, 4096, 10)])),
            ["read: instructions went from 10000 to 10301"]
        );
    }

    #[test]
    fn one_copy_more_of_what_is_read_fails() {
        let recorded = measured(&[("read", 1_000_000, 1 << 20, 12)]);
        let now = measured(&[("read", 1_010_000, 2 << 20, 14)]);
        assert_eq!(
            failures(&recorded, &now),
            ["read: bytes copied went from 1048576 to 2097152, copies went from 12 to 14"]
        );
    }

    #[test]
    fn a_copy_where_there_was_none_fails() {
        let recorded = measured(&[("read", 1000, 0, 0)]);
        assert_eq!(failures(&recorded, &measured(&[("read", 1000, 4096, 1)])).len(), 1);
    }

    #[test]
    fn better_is_no_failure_and_is_told() {
        let rows = compare(&measured(&[("read", 10_000, 0, 0)]), &measured(&[("read", 9_000, 0, 0)]));
        assert!(rows[0].is_better() && rows[0].failure().is_none(), "{rows:?}");
    }

    #[test]
    fn what_is_new_or_gone_fails() {
        let recorded = measured(&[("a", 1, 0, 0), ("b", 1, 0, 0)]);
        let now = measured(&[("b", 1, 0, 0), ("c", 1, 0, 0)]);
        let failed = failures(&recorded, &now);
        assert_eq!(failed, ["a: recorded, but there is no such benchmark", "c: not recorded yet"]);
    }

    proptest! {
        /// Whatever was recorded: the same passes, a twentieth more of a figure that is not tiny fails, and it fails for that figure only.
        #[test]
        fn an_artificial_regression_fails(
            costs in proptest::collection::btree_map("[a-z]{1,8}", (2_000u64..1 << 40, 4_000u64..1 << 40, 100u64..1 << 20), 1..20),
            which in any::<prop::sample::Index>(),
            figure in 0usize..3,
        ) {
            let recorded: Measurements = costs
                .iter()
                .map(|(name, (instructions, bytes_copied, copies))| {
                    (name.clone(), Cost { instructions: *instructions, bytes_copied: *bytes_copied, copies: *copies })
                })
                .collect();
            prop_assert_eq!(failures(&recorded, &recorded), Vec::<String>::new());
            let mut now = recorded.clone();
            let victim = which.get(&recorded.keys().cloned().collect::<Vec<_>>()).clone();
            let cost = now.get_mut(&victim).expect("it is one of them");
            let value = match figure {
                0 => &mut cost.instructions,
                1 => &mut cost.bytes_copied,
                _ => &mut cost.copies,
            };
            *value += *value / 20;
            let failed = failures(&recorded, &now);
            prop_assert_eq!(failed.len(), 1);
            prop_assert!(failed[0].starts_with(&format!("{victim}: {} went from", Figure::ALL[figure].name())), "{:?}", failed);
        }
    }
}
