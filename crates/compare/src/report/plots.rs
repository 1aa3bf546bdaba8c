//! A figure for each group of cases on each network.

use std::path::Path;

use headrace_bench::plot::{Axis, BarChart, Bars, Figure};

use super::results::CaseInfo;
use super::view::View;
use crate::cases::group_title;
use crate::failure::{Context, Result};
use crate::server::Profile;

/// A figure that was saved.
#[derive(Debug)]
pub struct Plot {
    /// The network.
    pub profile: Profile,
    /// The group of cases.
    pub group: String,
    /// The file's name.
    pub file: String,
}

/// Programs in the order of their colours: variants of one share a colour, the tuned one is lighter.
const COLOURS: [&str; 7] = ["headrace", "juicefs", "mount-s3", "rclone", "geesefs", "s3fs", "native"];

/// Saves all of them to `dir`.
pub fn save(view: &View<'_>, dir: &Path) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for profile in view.profiles() {
        for group in view.groups(profile) {
            let cases = view.cases_of(profile, group);
            let figure = figure(view, profile, group, &cases);
            let file = format!("{}-{group}.svg", profile.name());
            let path = dir.join(&file);
            figure.save(&path).context(|| format!("drawing {}", path.display()))?;
            plots.push(Plot { profile, group: group.into(), file });
        }
    }
    Ok(plots)
}

/// One chart for each unit of the group: bars of different units do not compare.
fn figure(view: &View<'_>, profile: Profile, group: &str, cases: &[&CaseInfo]) -> Figure {
    let results = view.results;
    let mut figure = Figure::new(group_title(group)).with_subtitle(format!(
        "{}; {}; {}, {} cores",
        profile.title(),
        results.date.split('T').next().unwrap_or_default(),
        results.machine.processor,
        results.machine.cores
    ));
    let mut units: Vec<&str> = cases.iter().map(|case| case.unit.as_str()).collect();
    units.dedup();
    for unit in units {
        let cases: Vec<&CaseInfo> = cases.iter().copied().filter(|case| case.unit == unit).collect();
        let better =
            if cases.iter().all(|case| case.more_is_better) { "more is better" } else { "less is better" };
        let names: Vec<String> = cases.iter().map(|case| case.title.clone()).collect();
        let label = format!("{unit}, {better}");
        let axis = if wide(view, profile, &cases) { Axis::log(label) } else { Axis::linear(label) };
        let bars = view.subjects(profile, &cases).into_iter().map(|subject| {
            let values = cases.iter().map(|case| view.value(profile, &case.id, subject));
            style(Bars::new(subject, values.collect::<Vec<_>>()), subject)
        });
        let mut chart = BarChart::new(unit, axis, names);
        chart.bars = bars.collect();
        figure.add(chart);
    }
    figure.note("Median; whiskers: least and greatest.");
    figure
}

/// Whether values are so far apart that the small ones would not be seen.
fn wide(view: &View<'_>, profile: Profile, cases: &[&CaseInfo]) -> bool {
    let values = cases.iter().flat_map(|case| {
        let subjects = view.subjects(profile, &[case]);
        subjects.into_iter().filter_map(|subject| view.value(profile, &case.id, subject)).collect::<Vec<_>>()
    });
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value.median), most.max(value.median))
    });
    least > 0.0 && most / least > 30.0
}

fn style(bars: Bars, subject: &str) -> Bars {
    let known = COLOURS.iter().position(|name| subject.starts_with(name)).unwrap_or(COLOURS.len());
    let bars = bars.colour(known);
    if COLOURS.contains(&subject) { bars } else { bars.light() }
}
