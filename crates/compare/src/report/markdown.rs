//! The report that people read first.

use std::fmt::Write;

use headrace_bench::report::{Align, Spread, Table, human};

use super::plots::Plot;
use super::results::CaseInfo;
use super::summary;
use super::view::View;
use crate::cases::group_title;
use crate::server::Profile;

/// The report; links go to `below`, which is empty or ends in a slash.
pub fn render(view: &View<'_>, plots: &[Plot], below: &str) -> String {
    let mut out = String::new();
    head(view, &mut out);
    summary::render(view, &mut out);
    for profile in view.profiles() {
        let _ = writeln!(out, "### {}\n", capital(profile.title()));
        for group in view.groups(profile) {
            let cases = view.cases_of(profile, group);
            let _ = writeln!(out, "#### {} ({})\n", group_title(group), profile.name());
            if let Some(plot) = plots.iter().find(|plot| plot.profile == profile && plot.group == group) {
                let _ =
                    writeln!(out, "![{}, {}]({below}{})\n", group_title(group), profile.name(), plot.file);
            }
            out.push_str(&table(view, profile, &cases).markdown());
            out.push('\n');
            failures(view, profile, &cases, &mut out);
        }
    }
    left_out(view, &mut out);
    let _ = writeln!(
        out,
        "Processor time, memory, bytes and requests of every case are in [details]({below}details.md), all single figures in \
         [results.json]({below}results.json).\n"
    );
    out
}

fn head(view: &View<'_>, out: &mut String) {
    let results = view.results;
    let machine = &results.machine;
    let _ = writeln!(
        out,
        "{}; {}, {}, {} cores, {} of memory, all data on {}; store: {}. Took {:.0} minutes. Median of up to {} runs in turns, least and \
         greatest in brackets.\n",
        results.date,
        machine.kernel,
        machine.processor,
        machine.cores,
        human::bytes(machine.memory),
        machine.file_system,
        results.server,
        results.took_seconds / 60.0,
        results.repeat
    );
    let mut table = Table::new(&[
        ("subject", Align::Left),
        ("version", Align::Left),
        ("settings", Align::Left),
        ("written data is in the store", Align::Left),
    ]);
    for subject in &results.subjects {
        let settings = format!("`{}`", subject.settings.replace('`', "'"));
        table.row(vec![subject.name.clone(), subject.version.clone(), settings, subject.durability.clone()]);
    }
    let _ = writeln!(out, "{}", table.markdown());
}

/// A row for each subject, a column for each case.
fn table(view: &View<'_>, profile: Profile, cases: &[&CaseInfo]) -> Table {
    let headings: Vec<String> = cases.iter().map(|case| format!("{}, {}", case.title, case.unit)).collect();
    let mut columns = vec![("", Align::Left)];
    columns.extend(headings.iter().map(|heading| (heading.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    for subject in view.subjects(profile, cases) {
        let mut row = vec![subject.to_owned()];
        row.extend(cases.iter().map(|case| cell(view.value(profile, &case.id, subject))));
        table.row(row);
    }
    table
}

/// `123 (120-130)`.
pub fn cell(spread: Option<Spread>) -> String {
    match spread {
        None => "-".into(),
        Some(one) if one.samples == 1 => human::measured(one.median),
        Some(many) => {
            let [median, min, max] = [many.median, many.min, many.max].map(human::measured);
            format!("{median} ({min}-{max})")
        }
    }
}

fn failures(view: &View<'_>, profile: Profile, cases: &[&CaseInfo], out: &mut String) {
    let failures = view.failures(profile, cases);
    for ((subject, why), which) in &failures {
        let which: Vec<&str> = which.iter().copied().collect();
        let _ = writeln!(out, "- {subject}, {}: {}", which.join(", "), clean(why));
    }
    if !failures.is_empty() {
        out.push('\n');
    }
}

fn left_out(view: &View<'_>, out: &mut String) {
    if view.results.not_measured.is_empty() {
        return;
    }
    let _ = writeln!(out, "Not measured:\n");
    for line in &view.results.not_measured {
        let _ = writeln!(out, "- {}", clean(line));
    }
    out.push('\n');
}

/// Without the names of temporary directories, which differ from run to run.
fn clean(text: &str) -> String {
    let word = |word: &str| match word.find(crate::workspace::PREFIX) {
        Some(_) => {
            let name = word.rsplit('/').next().unwrap_or(word);
            if name == word { word.to_owned() } else { format!(".../{name}") }
        }
        None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_the_spread() {
        assert_eq!(cell(None), "-");
        assert_eq!(cell(Some(Spread::single(12.34))), "12.3");
        assert_eq!(cell(Spread::of([100.0, 120.0, 300.0])), "120 (100-300)");
    }

    #[test]
    fn names_of_temporary_directories_are_left_out() {
        let prefix = crate::workspace::PREFIX;
        assert_eq!(clean(&format!("opening /tmp/{prefix}Xy/mnt/a/file: no")), "opening .../file: no");
        assert_eq!(clean("a / b"), "a / b");
    }
}
