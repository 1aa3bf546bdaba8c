//! Numbers with units, as a person writes them.

use std::time::Duration;

/// A setting that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {reason}")]
pub struct ParseError {
    /// What was given.
    pub text: String,
    /// Why it is refused, and what would be right.
    pub reason: String,
}

impl ParseError {
    pub(crate) fn new(text: &str, reason: impl Into<String>) -> ParseError {
        ParseError { text: text.to_owned(), reason: reason.into() }
    }
}

/// Longest time that can be asked for: a latency beyond any client's patience.
const LONGEST: f64 = 86_400.0;

/// A number above or equal to zero, and the unit behind it.
pub(super) fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    number.is_finite().then(|| (number, unit.trim()))
}

/// `250us`, `20ms`, `1.5s`, `2m`, or 0.
pub(crate) fn duration(text: &str) -> Result<Duration, ParseError> {
    let seconds = split(text).and_then(|(number, unit)| match unit {
        "ns" => Some(number * 1e-9),
        "us" | "µs" => Some(number * 1e-6),
        "ms" => Some(number * 1e-3),
        "s" => Some(number),
        "m" | "min" => Some(number * 60.0),
        "" if number == 0.0 => Some(0.0),
        _ => None,
    });
    match seconds {
        Some(seconds) if seconds <= LONGEST => Ok(Duration::from_nanos((seconds * 1e9).round() as u64)),
        _ => Err(ParseError::new(text, "not a time such as 20ms, 250us or 1.5s, of a day at most")),
    }
}

/// The shortest text that [`duration`] reads as the same time.
pub(crate) fn duration_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (unit, size) = match nanos {
        0 => return "0s".to_owned(),
        1_000_000_000.. => ("s", 1e9),
        1_000_000.. => ("ms", 1e6),
        1_000.. => ("us", 1e3),
        _ => ("ns", 1.0),
    };
    format!("{}{unit}", nanos as f64 / size)
}

/// A number from 0 to 1.
pub(super) fn probability(text: &str) -> Result<f64, ParseError> {
    text.trim()
        .parse()
        .ok()
        .filter(|number| (0.0..=1.0).contains(number))
        .ok_or_else(|| ParseError::new(text, "not a probability: a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_as_text_is_the_same_time(nanos in 0u64..86_400_000_000_000) {
            let time = Duration::from_nanos(nanos);
            prop_assert_eq!(duration(&duration_text(time)).unwrap(), time);
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = (duration(&text), probability(&text), text.parse::<crate::Rate>(), text.parse::<crate::Latency>());
        }
    }

    #[test]
    fn times_need_units_and_reason() {
        assert_eq!(duration("1.5s").unwrap(), Duration::from_millis(1500));
        for wrong in ["", "20", "ms", "-1s", "1e99s", "20 parsecs", "99999999s"] {
            assert!(duration(wrong).unwrap_err().to_string().contains("20ms"), "{wrong}");
        }
    }
}
