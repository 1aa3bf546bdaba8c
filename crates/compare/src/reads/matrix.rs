//! The default against settings by hand: where processor time is the limit on a small machine, and over a link that is slower than that.

use std::collections::BTreeMap;
use std::ops::Range;

use headrace_bench::report::Spread;

use super::cell::Cell;
use super::hand::Hand;
use super::rig::Rig;
use super::{Part, Results, Run, recovery};
use crate::failure::{Failure, Result};
use crate::figures::run::{Figure, Place};
use crate::worker::{Job, Moment, Work};

/// Who decides by itself, and was never mounted on such a network.
pub const DEFAULT: &str = "default";
/// The same, which was mounted on it before.
pub const AGAIN: &str = "default, mounted before";
/// Million bytes per second from the first read to the end, or until reading is stopped.
pub const RATE: &str = "rate";
/// The same in the second half of the time: what it came to.
pub const STEADY: &str = "steady";
/// Settings that are measured again after the first time.
const FINALISTS: usize = 2;
/// Bytes of a read.
const BLOCK: u64 = 1 << 20;

/// Of the link, million bytes per second: less than two processors can move.
pub const LINK: u64 = 150;

/// [`Part::Matrix`] or [`Part::Link`].
pub fn measure(run: &mut Run<'_>, rig: &Rig, part: Part) {
    let link = (part == Part::Link).then_some(LINK);
    let cells: Vec<Cell> = Cell::all(link).into_iter().filter(|cell| run.wants(&cell.name())).collect();
    for repetition in run.repetitions(part) {
        for (n, cell) in cells.iter().enumerate() {
            let name = cell.name();
            let mut hands = finalists(run.results(), part, &name);
            if hands.is_empty() {
                hands = Hand::candidates(cell).iter().map(Hand::to_string).collect();
            }
            let mut contenders = vec![DEFAULT.to_owned()];
            contenders.extend(hands);
            run.in_turns(&mut contenders, repetition as usize + n);
            for contender in contenders {
                let place = Place { part, row: &name, contender: &contender, repetition };
                if contender == DEFAULT {
                    run.take(place, || rig.forget().and_then(|()| read(rig, cell, DEFAULT)));
                    let place = Place { contender: AGAIN, ..place };
                    run.take(place, || read(rig, cell, AGAIN));
                } else {
                    run.take(place, || read(rig, cell, &contender));
                }
            }
        }
    }
}

fn read(rig: &Rig, cell: &Cell, contender: &str) -> Result<Figure> {
    let options = match contender {
        DEFAULT | AGAIN => Vec::new(),
        fixed => vec![format!("fixed-reads={fixed}")],
    };
    let work = Work::Watch { threads: rig.sections(cell.streams)?, block: BLOCK };
    // What is slower is read for longer.
    let limit = rig.sizes().limit * if cell.link.is_some() { 2 } else { 1 };
    let job = Job { work, limit };
    let (outcome, cost) = rig.cold(&options, cell.conditions(), &job)?;
    let reading = span(&outcome.moments, outcome.stopped.then_some(limit.as_secs_f64()))
        .ok_or_else(|| Failure::new("nothing was read"))?;
    let middle = (reading.start + reading.end) / 2.0;
    let gets = cost.passed.operations.get("GetObject").copied().unwrap_or_default();
    let values = BTreeMap::from([
        // What it took: how large fetches were, and what they cost.
        ("get_bytes", gets.bytes_sent as f64 / gets.requests.max(1) as f64),
        ("cpu", cost.cpu.as_secs_f64() / (outcome.bytes.max(1) as f64 / f64::from(1 << 30))),
        (RATE, recovery::throughput(&outcome.moments, &reading)),
        (STEADY, recovery::throughput(&outcome.moments, &(middle..reading.end))),
        ("memory", cost.memory as f64),
        ("fetched", cost.passed.bytes_sent as f64 / outcome.bytes.max(1) as f64),
    ]);
    Ok((values, recovery::series(&outcome.moments, 0.1)))
}

/// From the first read to the end of the last, or for so many seconds where reading was stopped: from then on fewer and fewer read, and what was
/// read ahead for the others is nobody's.
fn span(moments: &[Moment], stopped: Option<f64>) -> Option<Range<f64>> {
    let begun = moments.iter().map(|moment| moment.at - moment.took).min_by(f64::total_cmp)?;
    let end = moments.last()?.at;
    let end = stopped.map_or(end, |limit| end.min(begun + limit));
    (end > begun).then_some(begun..end)
}

/// Whether somebody chose the numbers.
fn is_by_hand(contender: &str) -> bool {
    ![DEFAULT, AGAIN].contains(&contender)
}

/// Fixed settings of a cell that were best so far.
fn finalists(results: &Results, part: Part, row: &str) -> Vec<String> {
    let mut all: Vec<(f64, &str)> = results
        .contenders(part, row)
        .into_iter()
        .filter(|contender| is_by_hand(contender))
        .filter_map(|name| Some((results.value(part, row, name, RATE)?.median, name)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(FINALISTS).map(|(_, name)| name.to_owned()).collect()
}

/// A setting by hand, what it reached, and how much of that the default did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByHand<'r> {
    pub setting: &'r str,
    pub rate: Spread,
    pub steady: Option<Spread>,
    /// [`RATE`] of the default as a part of this one's, of each repetition.
    pub whole: Option<Spread>,
    /// The same of [`STEADY`].
    pub half: Option<Spread>,
    /// [`RATE`] of [`AGAIN`] as a part of this one's.
    pub before: Option<Spread>,
}

/// The best fixed setting of a cell: of those that were measured most often, so that luck does not decide, the one of which the default
/// reaches least within a repetition, since rates of different hours differ by more than settings do. One that was measured again was chosen
/// for how it did the first time, the luck of which says nothing of the setting: what counts is how it did since then.
pub fn best<'r>(results: &'r Results, part: Part, row: &str) -> Option<ByHand<'r>> {
    let values = |contender: &str, name: &str| results.repeated(part, row, contender, name);
    let mut hands = results.contenders(part, row);
    hands.retain(|contender| is_by_hand(contender));
    let most = hands.iter().map(|setting| values(setting, RATE).len()).max()?;
    hands.retain(|setting| values(setting, RATE).len() == most);
    let of = |setting: &'r str| {
        let since =
            |name| values(setting, name).into_iter().skip(usize::from(most > 1)).collect::<BTreeMap<_, _>>();
        let (rate, steady) = (since(RATE), since(STEADY));
        let part_of = |all: &BTreeMap<u32, f64>, contender, name| {
            let reached = values(contender, name);
            Spread::of(all.iter().filter_map(|(repetition, rate)| Some(reached.get(repetition)? / rate)))
        };
        Some(ByHand {
            setting,
            rate: Spread::of(rate.values().copied())?,
            steady: Spread::of(steady.values().copied()),
            whole: part_of(&rate, DEFAULT, RATE),
            half: part_of(&steady, DEFAULT, STEADY),
            before: part_of(&rate, AGAIN, RATE),
        })
    };
    // What has no default beside it is compared by its rate, after all that have.
    let least = |by: &ByHand<'_>| by.whole.map_or(f64::INFINITY, |whole| whole.median);
    let found = hands.into_iter().filter_map(of);
    found.min_by(|a, b| least(a).total_cmp(&least(b)).then(b.rate.median.total_cmp(&a.rate.median)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::results::Sample;

    fn sample(repetition: u32, contender: &str, value: f64) -> Sample<Part> {
        Sample {
            part: Part::Matrix,
            row: "r".into(),
            contender: contender.into(),
            repetition,
            failed: None,
            values: BTreeMap::from([(RATE.to_owned(), value)]),
            series: Vec::new(),
        }
    }

    fn found(results: &Results) -> Option<(&str, f64, Option<f64>)> {
        let by = best(results, Part::Matrix, "r")?;
        Some((by.setting, by.rate.median, by.whole.map(|whole| whole.median)))
    }

    #[test]
    fn only_the_best_are_measured_again_and_luck_does_not_win() {
        let mut results = Results::now();
        results.samples = vec![
            sample(0, "a", 5.0),
            sample(0, DEFAULT, 9.0),
            sample(0, AGAIN, 99.0),
            sample(0, "b", 9.0),
            sample(0, "c", 7.0),
            sample(0, "d", 1.0),
        ];
        assert_eq!(finalists(&results, Part::Matrix, "r"), ["b", "c"]);
        assert_eq!(found(&results), Some(("b", 9.0, Some(1.0))));
        results.samples.extend([sample(1, DEFAULT, 3.0), sample(1, "c", 6.0), sample(1, "b", 5.0)]);
        assert_eq!(found(&results), Some(("c", 6.0, Some(0.5))), "the first time chose them and no more");
        results.samples.push(sample(1, "a", 50.0));
        assert_eq!(found(&results).unwrap().0, "a", "measured as often");
        results.samples.extend([sample(2, "c", 4.0), sample(2, "b", 4.2), sample(2, DEFAULT, 2.0)]);
        assert_eq!(found(&results).unwrap().0, "c", "two repetitions are not often where others have three");
        assert!(best(&results, Part::Matrix, "other").is_none());
    }

    #[test]
    fn rates_are_compared_within_a_repetition() {
        let mut results = Results::now();
        let repetitions = [(1.0, 1.0, 1.0), (10.0, 10.0, 12.0), (20.0, 24.0, 22.0), (30.0, 30.0, 36.0)];
        for (n, (default, a, b)) in (0..).zip(repetitions) {
            results.samples.extend([sample(n, DEFAULT, default), sample(n, AGAIN, default / 2.0)]);
            results.samples.extend([sample(n, "a", a), sample(n, "b", b)]);
        }
        let by = best(&results, Part::Matrix, "r").unwrap();
        let (whole, before) = (by.whole.unwrap(), by.before.unwrap());
        assert_eq!((by.setting, by.rate.median, by.half), ("b", 22.0, None), "`a` has the higher rate");
        assert_eq!((whole.median, whole.min, whole.max), (30.0 / 36.0, 10.0 / 12.0, 20.0 / 22.0));
        assert_eq!(before.median, 15.0 / 36.0);
        results.samples.retain(|sample| is_by_hand(&sample.contender));
        assert_eq!(found(&results), Some(("a", 24.0, None)), "with no default beside them");
    }

    #[test]
    fn what_is_read_after_it_was_stopped_does_not_count() {
        let read = |at, took| Moment { at, took, bytes: 1_000_000 };
        let reads = [read(11.0, 1.0), read(12.0, 2.0), read(13.0, 2.0), read(16.0, 4.0)];
        let rate = |stopped| recovery::throughput(&reads, &span(&reads, stopped).unwrap());
        assert_eq!(span(&reads, None), Some(10.0..16.0));
        assert!((rate(None) - 4.0 / 6.0).abs() < 1e-9);
        assert_eq!(span(&reads, Some(4.0)), Some(10.0..14.0));
        // Of the last read half was there by then.
        assert!((rate(Some(4.0)) - 3.5 / 4.0).abs() < 1e-9);
        assert_eq!(span(&reads, Some(9.0)), Some(10.0..16.0), "all ended before");
        assert_eq!(span(&[], Some(1.0)), None);
    }
}
