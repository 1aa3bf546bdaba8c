//! Headrace against the best figure of each of the others.

use std::collections::BTreeMap;
use std::fmt::Write;

use headrace_bench::report::{Align, Spread, Table, human};

use super::results::CaseInfo;
use super::view::View;

/// The subject that others are compared with.
const OURS: &str = "headrace";

/// A table of ratios; nothing when Headrace or all others are missing.
pub fn render(view: &View<'_>, out: &mut String) {
    for profile in view.profiles() {
        let cases = view.cases(profile);
        let others = programs(&view.subjects(profile, &cases));
        if others.is_empty() || !view.subjects(profile, &cases).contains(&OURS) {
            continue;
        }
        let _ = writeln!(
            out,
            "How many times as good Headrace (on S3, at its defaults) is as the better of each peer's two settings; above 1 Headrace is \
             better; {}:\n",
            profile.title()
        );
        let mut columns = vec![("case", Align::Left), ("headrace", Align::Right)];
        columns.extend(others.keys().map(|name| (*name, Align::Right)));
        let mut table = Table::new(&columns);
        for case in cases {
            let Some(ours) = view.value(profile, &case.id, OURS) else { continue };
            let mut row = vec![case.id.clone(), format!("{} {}", human::measured(ours.median), case.unit)];
            row.extend(others.values().map(|names| {
                let best = best(names.iter().filter_map(|name| view.value(profile, &case.id, name)), case);
                best.map_or("-".into(), |best| ratio(ours, best, case))
            }));
            table.row(row);
        }
        let _ = writeln!(out, "{}", table.markdown());
    }
}

/// Variants by program: `juicefs` and `juicefs-tuned` are one. Variants of Headrace itself are left out.
fn programs<'a>(subjects: &[&'a str]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut programs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for subject in subjects.iter().filter(|subject| !subject.starts_with(OURS)) {
        programs.entry(subject.strip_suffix("-tuned").unwrap_or(subject)).or_default().push(subject);
    }
    programs
}

fn best(values: impl Iterator<Item = Spread>, case: &CaseInfo) -> Option<f64> {
    let medians = values.map(|value| value.median);
    if case.more_is_better { medians.max_by(f64::total_cmp) } else { medians.min_by(f64::total_cmp) }
}

fn ratio(ours: Spread, theirs: f64, case: &CaseInfo) -> String {
    let ratio = if case.more_is_better { ours.median / theirs } else { theirs / ours.median };
    format!("{}x", human::measured(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_variant_counts() {
        let by = programs(&["native", "headrace", "headrace-bucket", "juicefs", "juicefs-tuned"]);
        assert_eq!(by.keys().copied().collect::<Vec<_>>(), ["juicefs", "native"]);
        assert_eq!(by.get("juicefs").map(Vec::len), Some(2));
        let case = |more_is_better| CaseInfo {
            id: "a/b".into(),
            title: String::new(),
            unit: "s".into(),
            more_is_better,
        };
        let values = || [Spread::single(2.0), Spread::single(4.0)].into_iter();
        assert_eq!(best(values(), &case(true)), Some(4.0));
        assert_eq!(best(values(), &case(false)), Some(2.0));
        assert_eq!(ratio(Spread::single(1.0), 4.0, &case(true)), "0.250x");
        assert_eq!(ratio(Spread::single(1.0), 4.0, &case(false)), "4.00x");
    }
}
