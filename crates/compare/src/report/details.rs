//! What each case cost.

use std::fmt::Write;

use headrace_bench::report::{Align, Spread, Table, human};

use super::markdown::cell;
use super::results::{CaseInfo, Measured};
use super::view::View;
use crate::cases::group_title;
use crate::server::Profile;

const GIB: f64 = (1u64 << 30) as f64;

/// Tables for each case of each network.
pub fn render(view: &View<'_>) -> String {
    let mut out = String::from("# What each case cost\n\n");
    let exact =
        if view.results.exact_cpu { "the kernel's own sums (cgroup v2)" } else { "sums over processes" };
    let _ = writeln!(
        out,
        "Made by `make compare`; [benchmarks.md](../benchmarks.md) says how to read it. Medians. Processor time ({exact}) is that of the \
         client (the reading or writing program) and of the file system's own processes; *per unit* is a GiB where bytes are what counts, \
         else 1,000 operations, for programs the whole. *Fetched* and *sent* are bytes from and to the store for each byte that the client \
         read or wrote. *Then stored* is the time from the last call until the mount is gone and everything is in the store; sent, requests \
         and dollars of writes include it. Dollars are S3's list prices for requests, for a million operations or a TiB.\n"
    );
    for profile in view.profiles() {
        for group in view.groups(profile) {
            let _ = writeln!(out, "## {}, {}\n", group_title(group), profile.title());
            for case in view.cases_of(profile, group) {
                let _ = writeln!(out, "**{}** (`{}`)\n", case.title, case.id);
                out.push_str(&table(view, profile, case).markdown());
                out.push('\n');
            }
        }
    }
    out
}

fn table(view: &View<'_>, profile: Profile, case: &CaseInfo) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        (case.unit.as_str(), Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("client CPU s per unit", Align::Right),
        ("daemon CPU s per unit", Align::Right),
        ("peak memory", Align::Right),
        ("fetched", Align::Right),
        ("sent", Align::Right),
        ("requests", Align::Right),
        ("dollars", Align::Right),
        ("then stored", Align::Right),
    ]);
    for subject in view.subjects(profile, &[case]) {
        let median = |of: &dyn Fn(&Measured) -> Option<f64>| {
            view.spread(profile, &case.id, subject, of).map(|spread: Spread| spread.median)
        };
        let number = |value: Option<f64>| value.map_or("-".into(), human::measured);
        let time = |value: Option<f64>| {
            value.map_or("-".into(), |seconds| {
                human::latency(std::time::Duration::from_secs_f64(seconds.max(0.0)))
            })
        };
        let per = |value: f64, measured: &Measured| units(case, measured).map(|units| value / units);
        table.row(vec![
            subject.to_owned(),
            cell(view.value(profile, &case.id, subject)),
            time(median(&|measured| measured.p50)),
            time(median(&|measured| measured.p99)),
            number(median(&|measured| per(measured.client_cpu, measured))),
            number(median(&|measured| {
                per(measured.daemon_cpu + after(measured, |s| s.daemon_cpu), measured)
            })),
            median(&|measured| Some(measured.peak_memory as f64))
                .map_or("-".into(), |bytes| human::bytes(bytes as u64)),
            number(median(&|measured| per_byte(measured.fetched as f64, measured))),
            number(median(&|measured| {
                per_byte(measured.sent as f64 + after(measured, |s| s.sent as f64), measured)
            })),
            number(median(&|measured| Some(requests(measured)))),
            number(median(&|measured| dollars(case, measured))),
            time(median(&|measured| measured.stored.as_ref().map(|stored| stored.seconds))),
        ]);
    }
    table
}

fn after(measured: &Measured, of: impl Fn(&super::results::Stored) -> f64) -> f64 {
    measured.stored.as_ref().map_or(0.0, of)
}

fn requests(measured: &Measured) -> f64 {
    measured.requests.values().sum::<u64>() as f64 + after(measured, |stored| stored.requests as f64)
}

/// GiB, thousands of operations, or 1.
fn units(case: &CaseInfo, measured: &Measured) -> Option<f64> {
    let units = match case.unit.as_str() {
        "MB/s" => measured.bytes as f64 / GIB,
        "s" => 1.0,
        _ => measured.operations as f64 / 1e3,
    };
    (units > 0.0).then_some(units)
}

/// For a TiB, for a million operations, or for the whole.
fn dollars(case: &CaseInfo, measured: &Measured) -> Option<f64> {
    let all = measured.dollars + after(measured, |stored| stored.dollars);
    let factor = if case.unit == "s" {
        1.0
    } else if case.unit == "MB/s" {
        1024.0
    } else {
        1e3
    };
    units(case, measured).map(|units| all / units * factor)
}

fn per_byte(value: f64, measured: &Measured) -> Option<f64> {
    (measured.bytes > 0).then(|| value / measured.bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_per_unit() {
        let case = |unit: &str| CaseInfo {
            id: "a/b".into(),
            title: String::new(),
            unit: unit.into(),
            more_is_better: true,
        };
        let measured = Measured { bytes: 2 << 30, operations: 500, dollars: 0.004, ..Measured::default() };
        assert_eq!(units(&case("MB/s"), &measured), Some(2.0));
        assert_eq!(units(&case("files/s"), &measured), Some(0.5));
        assert_eq!(dollars(&case("files/s"), &measured), Some(8.0));
        assert_eq!(dollars(&case("s"), &measured), Some(0.004));
        assert_eq!(units(&case("MB/s"), &Measured::default()), None);
    }
}
