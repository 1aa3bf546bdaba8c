//! Bytes per second.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::quantity::{ParseError, split};

/// Units: name, bytes. Decimal as networks are sold, binary for those who ask.
const UNITS: [(&str, f64); 11] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kbit", 1e3 / 8.0),
    ("Mbit", 1e6 / 8.0),
    ("Gbit", 1e9 / 8.0),
];

/// A rate above zero, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(NonZeroU64);

impl Rate {
    /// So many bytes per second; `None` for 0, which is no rate.
    pub fn per_second(bytes: u64) -> Option<Rate> {
        NonZeroU64::new(bytes).map(Rate)
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> u64 {
        self.0.get()
    }
}

/// A rate, or `none`.
pub(super) fn optional(text: &str) -> Result<Option<Rate>, ParseError> {
    if text.trim() == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// `90MB`, `90MB/s`, `1GiB/s`, `2Gbit`.
impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let plain = text.trim().trim_end_matches("/s");
        let bytes = split(plain).and_then(|(number, unit)| {
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| number * size)
        });
        match bytes {
            Some(bytes) if (1.0..1e15).contains(&bytes) => Rate::per_second(bytes.round() as u64),
            _ => None,
        }
        .ok_or_else(|| ParseError::new(text, "not a rate such as 90MB, 1GiB/s or 2Gbit (none: no cap)"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let (unit, size) = match bytes {
            1_000_000_000.. => ("GB", 1e9),
            1_000_000.. => ("MB", 1e6),
            1_000.. => ("kB", 1e3),
            _ => ("B", 1.0),
        };
        write!(f, "{}{unit}/s", bytes as f64 / size)
    }
}

impl TryFrom<String> for Rate {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Rate, ParseError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rate_as_text_is_the_same_rate(bytes in 1u64..1_000_000_000_000) {
            let rate = Rate::per_second(bytes).unwrap();
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }

    #[test]
    fn units_are_what_they_say() {
        for (text, bytes) in [("90MB", 90_000_000), ("1GiB/s", 1 << 30), ("2Gbit", 250_000_000), ("7B", 7)] {
            assert_eq!(text.parse::<Rate>().unwrap().bytes_per_second(), bytes, "{text}");
        }
        for wrong in ["", "0MB", "90", "90 Mb", "-1MB", "9e30GB", "none"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
