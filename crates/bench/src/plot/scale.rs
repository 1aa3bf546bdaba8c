//! Axes: from values to places, and where the numbers stand.

use super::chart::{Axis, Unit};
use crate::report::human;

/// Least number of ticks worth having.
const FEW: usize = 3;
/// Most ticks drawn, whoever chose them.
const MANY: usize = 40;
/// Room at either end of a logarithmic axis with given ticks, as a part of it.
const ROOM: f64 = 0.04;

/// An axis with its range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Where numbers stand, ascending.
    pub ticks: Vec<f64>,
    unit: Unit,
}

impl Scale {
    /// Fits an axis to what is shown on it. `room`: how many ticks there is room for.
    pub fn fit(axis: &Axis, values: impl IntoIterator<Item = f64>, room: usize) -> Scale {
        let shown = values.into_iter().chain(axis.ticks.iter().copied());
        let shown = shown.filter(|value| value.is_finite() && (*value > 0.0 || !axis.log));
        let (low, high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        if axis.ticks.is_empty() {
            let (low, high, ticks) =
                if axis.log { log_ticks(low, high, room) } else { even_ticks(low, high, room) };
            return Scale { log: axis.log, low, high, ticks, unit: axis.unit };
        }
        // With given ticks the axis ends where they and the data do, with a little room.
        let (low, high) = match axis.log {
            true if low < high => (low / (high / low).powf(ROOM), high * (high / low).powf(ROOM)),
            true => (low / 2.0, high * 2.0),
            false => (low.min(0.0), if high > low.min(0.0) { high } else { low.min(0.0) + 1.0 }),
        };
        let given = axis.ticks.iter().copied();
        let mut ticks: Vec<f64> = given.filter(|tick| (low..=high).contains(tick)).take(MANY).collect();
        ticks.sort_by(f64::total_cmp);
        Scale { log: axis.log, low, high, ticks, unit: axis.unit }
    }

    /// Where a value is: 0 at the beginning of the axis, 1 at its end. `None` if it cannot be shown.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let at = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        at.is_finite().then(|| at.clamp(0.0, 1.0))
    }

    /// A tick's number.
    pub fn label(&self, tick: f64) -> String {
        match self.unit {
            Unit::Plain => plain(tick),
            Unit::Bytes => human::size(tick.max(0.0) as u64),
            Unit::Seconds => seconds(tick),
            Unit::Ratio => format!("{}×", plain(tick)),
        }
    }

    /// A measured value's number: three digits.
    pub fn value_label(unit: Unit, value: f64) -> String {
        match unit {
            Unit::Plain => human::measured(value),
            Unit::Bytes => human::bytes(value.max(0.0) as u64),
            Unit::Seconds => human::latency(duration(value)),
            Unit::Ratio => format!("{}×", human::measured(value)),
        }
    }
}

fn duration(seconds: f64) -> std::time::Duration {
    std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Even steps of 1, 2 or 5 times a power of ten, from 0 on unless values are below.
fn even_ticks(low: f64, high: f64, room: usize) -> (f64, f64, Vec<f64>) {
    let low = low.min(0.0);
    let high = if high > low { high } else { low + 1.0 };
    let most = room.clamp(FEW, MANY) as f64;
    let rough = (high - low) / most;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let ticks = (0..=MANY).map(|n| (first + n as f64) * step).take_while(|tick| *tick <= (last + 0.5) * step);
    (first * step, last * step, ticks.collect())
}

/// Powers of ten, and between them 2 and 5 where there is room. The range ends at such numbers.
fn log_ticks(low: f64, high: f64, room: usize) -> (f64, f64, Vec<f64>) {
    let decades = |digits: &[f64]| -> Vec<f64> {
        let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
        let all: Vec<f64> = (first..=last.min(first.saturating_add(200)))
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .collect();
        let begin = all.iter().rposition(|tick| *tick <= low * 1.000_001).unwrap_or(0);
        let end =
            all.iter().position(|tick| *tick >= high * 0.999_999).unwrap_or(all.len().saturating_sub(1));
        all.get(begin..=end.max(begin)).unwrap_or_default().to_vec()
    };
    let fine = decades(&[1.0, 2.0, 5.0]);
    let coarse = decades(&[1.0]);
    let mut ticks = if fine.len() <= room.max(FEW) || coarse.len() < 2 { fine.clone() } else { coarse };
    // The range is the fine one's even if numbers stand at powers of ten only: less is left empty.
    let (mut begin, mut end) = (fine.first().copied().unwrap_or(low), fine.last().copied().unwrap_or(high));
    if begin >= end {
        (begin, end) = (begin / 2.0, end * 2.0);
    }
    ticks.retain(|tick| (begin..=end).contains(tick));
    let every = ticks.len().div_ceil(room.max(FEW)).max(1);
    let ticks = ticks.into_iter().step_by(every).collect();
    (begin, end, ticks)
}

fn plain(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e9 {
        return format!("{}G", trimmed(value / 1e9));
    }
    if magnitude >= 1e6 {
        return format!("{}M", trimmed(value / 1e6));
    }
    if magnitude >= 1e4 {
        return format!("{}k", trimmed(value / 1e3));
    }
    if magnitude >= 1e3 && value.fract() == 0.0 && value > 0.0 {
        return human::count(value as u64);
    }
    trimmed(value)
}

fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        s if s < 0.999e-6 => format!("{} ns", trimmed(value * 1e9)),
        s if s < 0.999e-3 => format!("{} µs", trimmed(value * 1e6)),
        s if s < 0.999 => format!("{} ms", trimmed(value * 1e3)),
        _ => format!("{} s", trimmed(value)),
    }
}

/// Without digits that say nothing: steps such as 0.1 are not exact in binary.
fn trimmed(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) };
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis, values: &[f64], room: usize) -> Vec<String> {
        let scale = Scale::fit(axis, values.iter().copied(), room);
        scale.ticks.iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&Axis::linear(""), &[3.0, 47.0], 6), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(labels(&Axis::linear(""), &[0.31], 5), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(&Axis::log(""), &[3.0, 47.0], 6), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(&Axis::log(""), &[3.0, 470_000.0], 6), ["10", "100", "1,000", "10k", "100k"]);
        assert_eq!(
            labels(&Axis::log("").unit(Unit::Seconds), &[0.000_3, 0.07], 9),
            ["200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms"]
        );
        assert_eq!(labels(&Axis::log("").ticks([1.0, 10.0, 200.0]), &[1.0, 200.0], 3), ["1", "10", "200"]);
    }

    #[test]
    fn what_cannot_be_shown_has_no_place() {
        let scale = Scale::fit(&Axis::log(""), [1.0, 100.0, 0.0, f64::NAN], 5);
        assert_eq!((scale.place(0.0), scale.place(f64::NAN)), (None, None));
        assert_eq!((scale.place(1.0), scale.place(100.0)), (Some(0.0), Some(1.0)));
        assert!((scale.place(10.0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn values_beyond_the_given_ticks_have_their_place_too() {
        let axis = Axis::log("").ticks([1.0, 10.0]);
        let scale = Scale::fit(&axis, [0.1, 1.0, 100.0], 5);
        let places = [0.1, 1.0, 10.0, 100.0].map(|value| scale.place(value).unwrap());
        assert!(
            places[0] > 0.0 && places.windows(2).all(|pair| pair[0] < pair[1]) && places[3] < 1.0,
            "{places:?}"
        );
        assert_eq!(scale.ticks, [1.0, 10.0]);
        let scale = Scale::fit(&Axis::linear("").ticks([0.0, 4.0]), [8.0], 5);
        assert_eq!((scale.place(4.0), scale.place(8.0)), (Some(0.5), Some(1.0)));
    }

    proptest! {
        #[test]
        fn every_value_has_a_place_in_order(
            log: bool, room in 2usize..20, values in prop::collection::vec(1e-9f64..1e15, 1..20),
        ) {
            let axis = if log { Axis::log("") } else { Axis::linear("") };
            let scale = Scale::fit(&axis, values.iter().copied(), room);
            prop_assert!(!scale.ticks.is_empty() && scale.ticks.len() <= MANY + 1);
            prop_assert!(scale.ticks.is_sorted());
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let places: Vec<f64> = sorted.iter().map(|value| scale.place(*value).unwrap()).collect();
            prop_assert!(places.is_sorted());
            for tick in &scale.ticks {
                let place = scale.place(*tick).unwrap();
                prop_assert!((0.0..=1.0).contains(&place));
                prop_assert!(!scale.label(*tick).is_empty());
            }
        }
    }
}
