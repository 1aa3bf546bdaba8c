//! When throughput is back after a fault.

use std::ops::Range;

use crate::worker::Moment;

/// Throughput is looked at over so many seconds: less is a matter of single reads.
const SPAN: f64 = 0.5;
/// And that every so many seconds.
const STEP: f64 = 0.02;
/// It is back at so much of what it was.
const BACK: f64 = 0.9;
/// What it was is measured over so many seconds before the fault, at most.
const BEFORE: f64 = 2.0;

/// Throughput around a fault. Rates in million bytes per second, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recovery {
    /// In the seconds before it.
    pub before: f64,
    /// While it lasted.
    pub during: f64,
    /// From its end until the next half second has 90 % of that before it; `None` if that never came.
    pub seconds: Option<f64>,
}

/// What the reads in `moments` (by their ends, in order) say of a fault that lasted for `fault`. What has no moments within a span that was
/// read in does not count as recovered: the last read must be a span later. `None` if nothing was read before the fault.
pub fn recovery(moments: &[Moment], fault: &Range<f64>) -> Option<Recovery> {
    let first = moments.first()?.at;
    let last = moments.last()?.at;
    let before = rate(moments, &(first.max(fault.start - BEFORE)..fault.start))?;
    if before <= 0.0 {
        return None;
    }
    let during = rate(moments, &fault.clone()).unwrap_or(0.0);
    let mut seconds = None;
    let mut at = fault.end;
    while seconds.is_none() && at + SPAN <= last {
        if rate(moments, &(at..at + SPAN)).is_some_and(|rate| rate >= BACK * before) {
            seconds = Some(at - fault.end);
        }
        at += STEP;
    }
    Some(Recovery { before, during, seconds })
}

/// Million bytes per second; `None` of no time.
pub fn rate(moments: &[Moment], time: &Range<f64>) -> Option<f64> {
    let from = moments.partition_point(|moment| moment.at < time.start);
    let to = moments.partition_point(|moment| moment.at < time.end);
    let bytes: u64 = moments.get(from..to).unwrap_or_default().iter().map(|moment| moment.bytes).sum();
    (time.end > time.start).then(|| bytes as f64 / 1e6 / (time.end - time.start))
}

/// Million bytes per second, where a read counts as much of its bytes as it has of its time within `time`.
pub fn throughput(moments: &[Moment], time: &Range<f64>) -> f64 {
    let bytes = |moment: &Moment| {
        let from = moment.at - moment.took;
        let within = moment.at.min(time.end) - from.max(time.start);
        moment.bytes as f64 * (within.max(0.0) / moment.took.max(f64::EPSILON)).min(1.0)
    };
    moments.iter().map(bytes).sum::<f64>() / 1e6 / (time.end - time.start).max(f64::EPSILON)
}

/// Rates of one span after the other, from the first read on.
pub fn series(moments: &[Moment], span: f64) -> Vec<f64> {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return Vec::new() };
    let spans = ((last.at - first.at) / span) as usize;
    let of = |n: usize| {
        let from = first.at + n as f64 * span;
        rate(moments, &(from..from + span)).unwrap_or(0.0)
    };
    (0..spans.min(10_000)).map(of).collect()
}

/// The longest read that was under way at any time in `time`, seconds.
pub fn longest(moments: &[Moment], time: &Range<f64>) -> f64 {
    let under_way = |moment: &&Moment| moment.at >= time.start && moment.at - moment.took < time.end;
    moments.iter().filter(under_way).map(|moment| moment.took).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of 100 kB, 100 a second but for `slow`, in which they are `tenths` of that.
    fn reads(slow: Range<f64>, tenths: u32) -> Vec<Moment> {
        let mut moments = Vec::new();
        for n in 0..1000 {
            let at = f64::from(n) * 0.01;
            if !slow.contains(&at) || n % 10 < tenths {
                moments.push(Moment { at, took: 0.01, bytes: 100_000 });
            }
        }
        moments
    }

    #[test]
    fn it_is_back_when_reads_come_again_as_before() {
        let got = recovery(&reads(3.0..5.5, 0), &(3.0..5.0)).unwrap();
        assert!((got.before - 10.0).abs() < 0.2, "{got:?}");
        assert!(got.during < 0.1, "{got:?}");
        // Nine tenths of the span suffice.
        let seconds = got.seconds.unwrap();
        assert!((0.4..0.55).contains(&seconds), "{seconds}");
        let at_once = recovery(&reads(3.0..5.0, 5), &(3.0..5.0)).unwrap();
        assert_eq!(at_once.seconds, Some(0.0));
        assert!((at_once.during - 5.0).abs() < 0.2);
    }

    #[test]
    fn what_stays_slow_or_ends_is_not_back() {
        assert_eq!(recovery(&reads(3.0..99.0, 8), &(3.0..5.0)).unwrap().seconds, None);
        let ended: Vec<Moment> = reads(3.0..5.0, 0).into_iter().filter(|moment| moment.at < 5.3).collect();
        assert_eq!(recovery(&ended, &(3.0..5.0)).unwrap().seconds, None);
        assert_eq!(recovery(&[], &(3.0..5.0)), None);
    }

    #[test]
    fn the_longest_read_counts_wherever_it_is_under_way() {
        let moment = |at, took| Moment { at, took, bytes: 1 };
        let moments = [moment(1.0, 0.1), moment(2.0, 0.7), moment(3.0, 0.2), moment(9.0, 5.5)];
        assert_eq!(longest(&moments, &(1.5..2.5)), 0.7);
        assert_eq!(longest(&moments, &(2.9..3.4)), 0.2);
        assert_eq!(longest(&moments, &(2.9..3.6)), 5.5);
        assert_eq!(longest(&[], &(0.0..1.0)), 0.0);
    }

    #[test]
    fn a_series_has_a_rate_for_each_span() {
        let got = series(&reads(3.0..5.0, 0), 1.0);
        assert_eq!(got.len(), 9);
        assert!((got[1] - 10.0).abs() < 0.2 && got[3] < 0.2, "{got:?}");
    }
}
