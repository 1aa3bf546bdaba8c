//! What was found, as tables with what is asked of it.

use headrace_bench::report::Spread;

use super::matrix::ByHand;
use super::{Part, Results, cpu, descriptors, faults, many, matrix, one_get};
use crate::figures::text::{self, Section, columns, ratio, shown, spread};

/// The default reaches so much of the best setting by hand.
const OF_BEST: f64 = 0.95;
/// Processor time, at most so many times that of a bare client.
const OF_BARE: f64 = 1.25;
/// A random read takes at most so many times one GET, and fetches at most so many bytes.
const OF_GET: f64 = 1.3;
const FETCHED: f64 = 65_536.0;
/// Streams on one descriptor reach so much of those on their own.
const OF_APART: f64 = 0.9;
/// Throughput is back after so many seconds.
const BACK: f64 = 2.0;
/// No read waits longer for a connection that is dead, milliseconds: that is when a fetch is sent a second time at the latest, when nothing
/// is known of how long they take.
const DEAD: f64 = 2_000.0;

/// All of it as Markdown.
pub fn render(results: &Results) -> String {
    text::render(results, &Part::ALL, |part, section| match part {
        Part::Matrix => {
            section.begin("Defaults against settings by hand");
            of_matrix(results, part, section);
        }
        Part::Link => {
            section.begin(&format!("The same over a link of {} MB/s", matrix::LINK));
            of_matrix(results, part, section);
        }
        Part::Cpu => of_cpu(results, section),
        Part::OneGet => of_one_get(results, section),
        Part::Descriptors => of_descriptors(results, section),
        Part::Many => of_many(results, section),
        Part::Faults => of_faults(results, section),
    })
}

fn of_matrix(results: &Results, part: Part, to: &mut Section) {
    let mut table = columns(&[
        "network, streams",
        "default, MB/s",
        "second half",
        "mounted before",
        "best by hand, MB/s",
        "second half",
        "window:fetches:part, MiB",
        "of best",
        "of best, second half",
        "mounted before, of best",
    ]);
    for row in results.rows(part) {
        let value = |contender: &str, name| results.value(part, row, contender, name);
        let best = matrix::best(results, part, row);
        let of = |what: fn(ByHand<'_>) -> Option<Spread>| best.and_then(what);
        let (whole, half, before) = (of(|by| by.whole), of(|by| by.half), of(|by| by.before));
        let name = best.map_or("-", |best| best.setting);
        to.ask(whole.is_none_or(|whole| whole.median >= OF_BEST), || {
            let [whole, half, before] = [whole, half, before].map(spread);
            format!("{row}: {whole} of {name} ({half} in the second half, {before} if mounted before)")
        });
        let mut line = vec![row.to_owned()];
        line.extend(
            [
                value(matrix::DEFAULT, matrix::RATE),
                value(matrix::DEFAULT, matrix::STEADY),
                value(matrix::AGAIN, matrix::RATE),
                of(|by| Some(by.rate)),
                of(|by| by.steady),
            ]
            .map(spread),
        );
        line.push(name.to_owned());
        line.extend([whole, half, before].map(spread));
        table.row(line);
    }
    to.table(&table);
}

fn of_cpu(results: &Results, to: &mut Section) {
    to.begin("Processor seconds for a GiB, cold, loopback");
    let mut table = columns(&[
        "readers",
        "headrace",
        "its reader",
        "MB/s",
        "bare GETs",
        "MB/s",
        "ratio",
        "by the HTTP library",
        "MB/s",
        "ratio",
    ]);
    let part = Part::Cpu;
    for row in results.rows(part) {
        let ours = |name| results.value(part, row, cpu::OURS, name);
        let bare = |name| results.value(part, row, cpu::BARE, name);
        let library = |name| results.value(part, row, cpu::LIBRARY, name);
        let times = ratio(ours(cpu::CPU), bare(cpu::CPU));
        to.ask(times.is_none_or(|times| times <= OF_BARE), || {
            format!("{row}: {} times a bare client, asked for is {OF_BARE}", shown(times))
        });
        table.row(vec![
            row.to_owned(),
            spread(ours(cpu::CPU)),
            spread(ours(cpu::READER)),
            spread(ours(cpu::RATE)),
            spread(bare(cpu::CPU)),
            spread(bare(cpu::RATE)),
            shown(times),
            spread(library(cpu::CPU)),
            spread(library(cpu::RATE)),
            shown(ratio(ours(cpu::CPU), library(cpu::CPU))),
        ]);
    }
    to.table(&table);
}

fn of_one_get(results: &Results, to: &mut Section) {
    to.begin("One random read, cold");
    let mut table = columns(&[
        "network",
        "read of 4 KiB, ms",
        "fetched, bytes",
        "GET of 32 KiB, ms",
        "ratio",
        "by the HTTP library, ms",
        "ratio",
    ]);
    let part = Part::OneGet;
    for row in results.rows(part) {
        let ours = |name| results.value(part, row, one_get::OURS, name);
        let (median, fetched) = (ours(one_get::MEDIAN), ours(one_get::FETCHED));
        let get = results.value(part, row, one_get::BARE, one_get::MEDIAN);
        let times = ratio(median, get);
        to.ask(times.is_none_or(|times| times <= OF_GET), || {
            format!("{row}: {} times one GET, asked for is {OF_GET}", shown(times))
        });
        to.ask(fetched.is_none_or(|fetched| fetched.max <= FETCHED), || {
            format!("{row}: {} bytes fetched for a read, asked for are {FETCHED}", spread(fetched))
        });
        let library = results.value(part, row, one_get::LIBRARY, one_get::MEDIAN);
        table.row(vec![
            row.to_owned(),
            spread(median),
            spread(fetched),
            spread(get),
            shown(times),
            spread(library),
            shown(ratio(median, library)),
        ]);
    }
    to.table(&table);
}

fn of_descriptors(results: &Results, to: &mut Section) {
    to.begin("Streams in turns on one descriptor, 128 KiB");
    let mut table = columns(&["network, streams", "one descriptor, MB/s", "own descriptors, MB/s", "ratio"]);
    let part = Part::Descriptors;
    for row in results.rows(part) {
        let one = results.value(part, row, descriptors::ONE, descriptors::RATE);
        let apart = results.value(part, row, descriptors::APART, descriptors::RATE);
        let of = ratio(one, apart);
        to.ask(of.is_none_or(|of| of >= OF_APART), || {
            format!("{row}: {} of the same on own descriptors, asked for is {OF_APART}", shown(of))
        });
        table.row(vec![row.to_owned(), spread(one), spread(apart), shown(of)]);
    }
    to.table(&table);
}

fn of_many(results: &Results, to: &mut Section) {
    to.begin("32 files at once, 256 KiB");
    let mut table = columns(&["who", "network", "MB/s", "headrace is so many times as fast"]);
    let part = Part::Many;
    for row in results.rows(part) {
        let ours = results.value(part, row, many::OURS, many::RATE);
        for who in results.contenders(part, row) {
            let theirs = results.value(part, row, who, many::RATE);
            let times = ratio(ours, theirs).filter(|_| who != many::OURS);
            to.ask(times.is_none_or(|times| times > 1.0), || format!("{row}: {} times {who}", shown(times)));
            table.row(vec![who.to_owned(), row.to_owned(), spread(theirs), shown(times)]);
        }
    }
    to.table(&table);
}

fn of_faults(results: &Results, to: &mut Section) {
    to.begin("Faults: 20 ms, 90 MB/s per connection, 120 MB/s in all");
    let mut table = columns(&[
        "fault, streams",
        "before, MB/s",
        "during",
        "back after, s",
        "longest read before, ms",
        "during, ms",
        "requests hit",
    ]);
    let part = Part::Faults;
    for row in results.rows(part) {
        let value = |name| results.value(part, row, faults::OURS, name);
        let (back, never) = (value(faults::BACK), value(faults::NEVER));
        let not_at_all = never.is_some_and(|never| never.max > 0.0);
        let late = back.is_some_and(|back| back.max > BACK) || not_at_all;
        to.ask(!late, || {
            let more = if not_at_all { ", or not while it was watched" } else { "" };
            format!("{row}: back after {} s{more}, asked for are {BACK}", spread(back))
        });
        let longest = value(faults::LONGEST_DURING);
        let hung = longest.is_some_and(|longest| longest.max > DEAD) && faults::is_dead_connection(row);
        to.ask(!hung, || {
            format!(
                "{row}: a read took {} ms while connections were dead, asked for are {DEAD}",
                spread(longest)
            )
        });
        let mut line = vec![row.to_owned()];
        line.extend([value(faults::BEFORE), value(faults::DURING)].map(spread));
        line.push(if not_at_all { format!("{}, or more", spread(back)) } else { spread(back) });
        let rest = [faults::LONGEST_BEFORE, faults::LONGEST_DURING, faults::FAULTS];
        line.extend(rest.map(|name| spread(value(name))));
        table.row(line);
    }
    to.table(&table);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::results;

    fn sample(part: Part, row: &str, contender: &str, values: &[(&str, f64)]) -> results::Sample<Part> {
        let values: BTreeMap<String, f64> =
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let (row, contender) = (row.to_owned(), contender.to_owned());
        results::Sample { part, row, contender, repetition: 0, failed: None, values, series: Vec::new() }
    }

    #[test]
    fn what_misses_what_is_asked_is_named() {
        let mut results = Results::now();
        results.samples = vec![
            sample(Part::Matrix, "1ms/20MB/1", "default", &[("rate", 96.0)]),
            sample(Part::Matrix, "1ms/20MB/1", "8:4:4", &[("rate", 100.0)]),
            sample(Part::Matrix, "20ms/20MB/1", "default", &[("rate", 80.0)]),
            sample(Part::Matrix, "20ms/20MB/1", "8:4:4", &[("rate", 100.0)]),
            sample(Part::Cpu, "1 stream", cpu::OURS, &[("cpu", 1.2)]),
            sample(Part::Cpu, "1 stream", cpu::BARE, &[("cpu", 1.0)]),
            sample(Part::Faults, "503/1", faults::OURS, &[("back", 0.4), ("never", 0.0)]),
            sample(Part::Faults, "reset/1", faults::OURS, &[("back", 2.4), ("never", 0.0)]),
            sample(Part::Faults, "stall/1", faults::OURS, &[("back", 0.1), ("never", 1.0)]),
            sample(Part::Faults, "hang/1", faults::OURS, &[("back", 0.0), ("longest_during", 2_100.0)]),
            sample(Part::Faults, "503/4", faults::OURS, &[("back", 0.0), ("longest_during", 3_000.0)]),
        ];
        let mut lost = sample(Part::Faults, "stall/4", faults::OURS, &[]);
        lost.failed = Some("WRONG DATA: f at 7".into());
        results.samples.push(lost);
        let report = render(&results);
        let misses: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(misses.len(), 5, "{report}");
        assert!(misses[0].starts_with("20ms/20MB/1: 0.800 of 8:4:4"), "{report}");
        assert!(misses[1].starts_with("reset/1: back after 2.40 s"), "{report}");
        assert!(misses[2].starts_with("stall/1") && misses[2].contains("not while"), "{report}");
        assert!(misses[3].starts_with("hang/1: a read took 2,100 ms"), "{report}");
        assert!(misses[4].contains("WRONG DATA"), "{report}");
        assert_eq!(results.wrong_data().len(), 1);
        assert!(report.contains("All as asked."), "{report}");
    }
}
