//! Values that flags, environment variables, configuration files and mount options share.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;

/// A number of bytes: `65536`, `64K`, `64KiB`, `1.5G`; `KB`, `MB`, ... are powers of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A value that does not read as what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub String);

impl FromStr for ByteSize {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue(format!("\"{text}\" is not a size; write it like 65536, 64K, 16MiB or 1.5G"));
        let text_trimmed = text.trim();
        let split =
            text_trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_trimmed.len());
        let (number, unit) = text_trimmed.split_at(split);
        let unit = unit.trim().to_ascii_lowercase();
        let (letter, base) = match unit.as_str() {
            "" | "b" => ("", 1024u64),
            u if u.len() == 1 => (u, 1024),
            u if u.ends_with("ib") && u.len() == 3 => (&u[..1], 1024),
            u if u.ends_with('b') && u.len() == 2 => (&u[..1], 1000),
            _ => return Err(bad()),
        };
        let power = match letter {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return Err(bad()),
        };
        let unit = base.pow(power);
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(unit).map(ByteSize).ok_or_else(bad);
        }
        let number: f64 = number.parse().map_err(|_| bad())?;
        let bytes = number * unit as f64;
        // The comparison is also false for NaN.
        if bytes >= 0.0 && bytes < u64::MAX as f64 { Ok(ByteSize(bytes as u64)) } else { Err(bad()) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::output::human::bytes(self.0))
    }
}

/// A span of time: `500ms`, `30s`, `5m`, `1h30m`, `2days`; a plain number is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Ok(seconds) = text.trim().parse::<u64>() {
            return Ok(Span(Duration::from_secs(seconds)));
        }
        humantime::parse_duration(text.trim()).map(Span).map_err(|_| {
            BadValue(format!("\"{text}\" is not a duration; write it like 500ms, 30s, 5m or 1h30m"))
        })
    }
}

/// For how long what is deleted is kept: a span, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep(pub Option<Duration>);

impl FromStr for Keep {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "off" => Ok(Keep(None)),
            span => match span.parse() {
                // Longer than anybody lives, and still a time.
                Ok(Span(span)) if span >= Duration::from_secs(1) && span.as_secs() <= 36_525 * 86_400 => {
                    Ok(Keep(Some(span)))
                }
                _ => Err(BadValue(format!(
                    "\"{text}\" is neither \"off\" nor a duration from 1s to a hundred years, such as 12h or 7days"
                ))),
            },
        }
    }
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Switch(true)),
            "false" | "no" | "off" | "0" => Ok(Switch(false)),
            _ => Err(BadValue(format!("\"{text}\" is neither true nor false"))),
        }
    }
}

/// Whether an optional switch is set to yes.
pub fn on(switch: Option<Switch>) -> bool {
    switch.is_some_and(|s| s.0)
}

/// A moment in the past: RFC 3339 (`2026-11-22T10:00:00Z`), or how long ago (`90m`, `2h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The moment itself.
    At(SystemTime),
    /// This long before now.
    Ago(Duration),
}

impl Moment {
    /// The moment, seen from `now`; the beginning of time where it lies before it.
    pub fn before(self, now: SystemTime) -> SystemTime {
        match self {
            Moment::At(time) => time,
            Moment::Ago(span) => now.checked_sub(span).unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

impl FromStr for Moment {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let text = text.trim();
        // A space instead of the T, and no zone, are taken as people write them: UTC.
        let stamp = text.replacen(' ', "T", 1);
        let zoned = format!("{}Z", stamp.trim_end_matches(['Z', 'z']));
        if let Ok(time) = humantime::parse_rfc3339(&zoned) {
            return Ok(Moment::At(time));
        }
        match humantime::parse_duration(text) {
            Ok(span) => Ok(Moment::Ago(span)),
            Err(_) => Err(BadValue(format!(
                "\"{text}\" is no time; write it like 2026-11-22T10:00:00Z (UTC), or how long ago: 90s, 30m, 2h"
            ))),
        }
    }
}

/// When a change counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durable {
    /// When it is on this machine's disk; it is in the bucket a second or so later.
    Local,
    /// When it is in the bucket.
    Bucket,
}

impl FromStr for Durable {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        <Durable as ValueEnum>::from_str(text.trim(), true)
            .map_err(|_| BadValue(format!("\"{text}\" is neither local nor bucket")))
    }
}

/// How fast stored data is read again: `auto`, `off`, or bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubRate(pub headrace_vfs::Scrub);

impl FromStr for ScrubRate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let rate = match text.trim() {
            "auto" => headrace_vfs::Scrub::Auto,
            "off" => headrace_vfs::Scrub::Off,
            text => match text.parse::<ByteSize>() {
                // Slower than that, a segment takes hours.
                Ok(ByteSize(rate)) if rate >= 1024 => headrace_vfs::Scrub::Rate(rate),
                _ => {
                    return Err(BadValue(format!(
                        "\"{text}\" is neither auto nor off nor a rate of at least 1K bytes a second, such as 8M"
                    )));
                }
            },
        };
        Ok(ScrubRate(rate))
    }
}

/// A span of time within bounds, in whole seconds.
macro_rules! bounded_span {
    ($(#[$doc:meta])* $name:ident, $least:expr, $most:expr, $says:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub Duration);

        impl FromStr for $name {
            type Err = BadValue;

            fn from_str(text: &str) -> Result<Self, BadValue> {
                let Span(span) = text.parse()?;
                if span < Duration::from_secs($least) || span > Duration::from_secs($most) {
                    return Err(BadValue(format!(concat!("\"{}\" is not within ", $says), text)));
                }
                Ok($name(span))
            }
        }
    };
}

bounded_span!(
    /// How long ownership of a volume lasts without being renewed: 2 s to 10 min.
    Lease, 2, 600, "2s and 10m"
);
bounded_span!(
    /// How far back a volume can be restored: 0 to 365 days.
    Retention, 0, 365 * 24 * 3600, "0 and 365days"
);

/// `KEY=VALUE`, handed to the object store's library as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreOption {
    /// The library's name for it.
    pub key: String,
    /// Its value.
    pub value: String,
}

// Some of the library's options are credentials, so values are never shown.
impl fmt::Debug for StoreOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.key)
    }
}

impl FromStr for StoreOption {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(StoreOption { key: key.trim().to_owned(), value: value.to_owned() })
            }
            _ => Err(BadValue("a store option is written KEY=VALUE".to_owned())),
        }
    }
}

/// Threads that serve the kernel, 1 to 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub usize);

impl FromStr for Threads {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().parse::<usize>() {
            Ok(n) if (1..=256).contains(&n) => Ok(Threads(n)),
            _ => Err(BadValue(format!("\"{text}\" is not a number of threads from 1 to 256"))),
        }
    }
}

/// Reading ahead by hand: `WINDOW_MIB:FETCHES:PART_MIB`, the window of each stream, fetches in flight altogether, and the size
/// of each, a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedReads(pub headrace_vfs::FixedReads);

impl FromStr for FixedReads {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue(format!(
                "\"{text}\" is not WINDOW_MIB:FETCHES:PART_MIB with 1 to 1024, 1 to 256, and 1, 2, 4 or 8"
            ))
        };
        let numbers: Option<Vec<u64>> = text.trim().split(':').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([window @ 1..=1024, fetches @ 1..=256, part @ (1 | 2 | 4 | 8)]) => {
                let (window, fetches, part) = (window << 20, *fetches as usize, part << 20);
                Ok(FixedReads(headrace_vfs::FixedReads { window, fetches, part }))
            }
            _ => Err(bad()),
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for machines.
    Json,
}

impl FromStr for LogFormat {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        <LogFormat as ValueEnum>::from_str(text, true)
            .map_err(|_| BadValue(format!("\"{text}\" is neither text nor json")))
    }
}

/// How file data is compressed in new volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression(pub headrace_layout::superblock::Compression);

impl FromStr for Compression {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        text.trim()
            .parse()
            .map(Compression)
            .map_err(|_| BadValue(format!("\"{text}\" is none of: none, lz4, zstd, zstd:LEVEL")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("64K", 65536),
            ("64k", 65536),
            ("64KiB", 65536),
            ("64 KiB", 65536),
            ("64KB", 64000),
            ("1.5G", 3 << 29),
            ("16m", 16 << 20),
            ("2T", 2 << 40),
            ("7b", 7),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn reads_by_hand_are_three_numbers() {
        let fixed = headrace_vfs::FixedReads { window: 64 << 20, fetches: 16, part: 4 << 20 };
        assert_eq!("64:16:4".parse(), Ok(FixedReads(fixed)));
        for text in [
            "",
            "64",
            "64:16",
            "64:16:3",
            "0:16:4",
            "64:0:4",
            "64:257:4",
            "2048:1:1",
            "64:16:4:1",
            "a:b:c",
            "-1:1:1",
        ] {
            assert!(text.parse::<FixedReads>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "K", "1X", "-1", "1KKB", "99999999999999999999", "18446744073709551615K", "1..5M", "é", "1é"]
        {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_number_is_seconds() {
        assert_eq!("90".parse::<Span>(), Ok(Span(Duration::from_secs(90))));
        assert_eq!("1h30m".parse::<Span>(), Ok(Span(Duration::from_secs(5400))));
        assert!("soon".parse::<Span>().is_err());
    }

    #[test]
    fn moments_are_stamps_or_ages() {
        let stamp = humantime::parse_rfc3339("2026-11-22T10:00:00Z").unwrap();
        for text in ["2026-11-22T10:00:00Z", "2026-11-22 10:00:00", " 2026-11-22T10:00:00z "] {
            assert_eq!(text.parse(), Ok(Moment::At(stamp)), "{text}");
        }
        assert_eq!("90m".parse(), Ok(Moment::Ago(Duration::from_secs(5400))));
        assert_eq!(Moment::Ago(Duration::from_secs(60)).before(stamp), stamp - Duration::from_secs(60));
        assert_eq!(Moment::Ago(Duration::MAX).before(stamp), SystemTime::UNIX_EPOCH);
        for text in ["", "yesterday", "10:00", "2026-13-01T00:00:00Z"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    #[test]
    fn leases_and_retentions_have_bounds() {
        assert_eq!("30".parse(), Ok(Lease(Duration::from_secs(30))));
        assert!("1s".parse::<Lease>().is_err() && "11m".parse::<Lease>().is_err());
        assert_eq!("0".parse(), Ok(Retention(Duration::ZERO)));
        assert!("400days".parse::<Retention>().unwrap_err().0.contains("365days"));
        assert_eq!("Bucket".parse(), Ok(Durable::Bucket));
        assert!("disk".parse::<Durable>().unwrap_err().0.contains("local"));
    }

    #[test]
    fn store_options_hide_their_value() {
        let option: StoreOption = "secret_access_key=hunter2=x".parse().unwrap();
        assert_eq!(option.value, "hunter2=x");
        assert!(!format!("{option:?}").contains("hunter2"));
        assert!("=x".parse::<StoreOption>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,24}") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<Span>();
            let _ = text.parse::<Switch>();
            let _ = text.parse::<StoreOption>();
            let _ = text.parse::<Threads>();
            let _ = text.parse::<Moment>();
            let _ = text.parse::<Lease>();
            let _ = text.parse::<Durable>();
        }
    }
}
