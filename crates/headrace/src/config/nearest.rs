//! The name someone probably meant.

/// The candidate nearest to `word`, if it is near enough to be a slip of the fingers.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    // A third of the letters may be wrong, and two in any case.
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|c| (distance(&word, c), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Edits from `a` to `b`: insert, delete, replace, swap neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    // Bounded input: a hostile key must not cost quadratic time.
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = above[j] + usize::from(a[i] != b[j]);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_are_found() {
        let keys = ["endpoint", "region", "memory", "read-only"];
        assert_eq!(nearest("endpiont", keys), Some("endpoint"));
        assert_eq!(nearest("read_onyl", keys), Some("read-only"));
        assert_eq!(nearest("memry", keys), Some("memory"));
        assert_eq!(nearest("colour", keys), None);
    }

    proptest! {
        #[test]
        fn distance_is_a_sensible_measure(a in "\\PC{0,20}", b in "\\PC{0,20}") {
            prop_assert_eq!(distance(&a, &a), 0);
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert!(distance(&a, &b) <= a.chars().count().max(b.chars().count()));
        }
    }
}
