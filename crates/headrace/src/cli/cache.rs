//! Values of the settings of the cache on local disks.

use std::str::FromStr;
use std::time::Duration;

use headrace_vfs::FreeSpace;

use super::values::{BadValue, ByteSize, Span};

/// Less is no cache, bytes.
const LEAST_SIZE: u64 = 1 << 20;
/// Slower than that, a file takes hours; bytes a second.
const LEAST_RATE: u64 = 1 << 10;

/// How much may be cached, all directories together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSize {
    /// Nothing at all.
    Off,
    /// So many bytes.
    Bytes(u64),
}

impl FromStr for CacheSize {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "off" => Ok(CacheSize::Off),
            size => match size.parse() {
                Ok(ByteSize(bytes)) if bytes >= LEAST_SIZE => Ok(CacheSize::Bytes(bytes)),
                Ok(_) => {
                    Err(BadValue(format!("\"{text}\" is too little for a cache: 1M at least, or \"off\"")))
                }
                Err(_) => Err(BadValue(format!("\"{text}\" is neither \"off\" nor a size such as 20G"))),
            },
        }
    }
}

/// Space that is left to others on each disk: a size, or a part of the disk as `10%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheFree(pub FreeSpace);

impl FromStr for CacheFree {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue(format!(
                "\"{text}\" is neither a size such as 20G nor a part of the disk from 0% to 100%"
            ))
        };
        let space = match text.trim().strip_suffix('%') {
            Some(percent) => match percent.trim().parse::<f64>() {
                // Neither holds for NaN.
                Ok(percent) if (0.0..=100.0).contains(&percent) => FreeSpace::Part(percent / 100.0),
                _ => return Err(bad()),
            },
            None => FreeSpace::Bytes(text.parse::<ByteSize>().map_err(|_| bad())?.0),
        };
        Ok(CacheFree(space))
    }
}

/// How long something stays cached that nobody uses; `None`: until its place is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry(pub Option<Duration>);

impl FromStr for Expiry {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "never" => Ok(Expiry(None)),
            span => match span.parse() {
                Ok(Span(span)) if span >= Duration::from_secs(1) => Ok(Expiry(Some(span))),
                _ => Err(BadValue(format!(
                    "\"{text}\" is neither \"never\" nor a duration of 1s or more, such as 12h or 30days"
                ))),
            },
        }
    }
}

/// How fast files are fetched for later, bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillRate(pub u64);

impl FromStr for FillRate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.parse() {
            Ok(ByteSize(rate)) if rate >= LEAST_RATE => Ok(FillRate(rate)),
            _ => Err(BadValue(format!(
                "\"{text}\" is not a rate of at least 1K bytes a second; write it like 500K or 20M"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_or_no_cache() {
        assert_eq!("off".parse(), Ok(CacheSize::Off));
        assert_eq!("20G".parse(), Ok(CacheSize::Bytes(20 << 30)));
        for text in ["", "on", "0", "1023K", "-1G", "20%"] {
            assert!(text.parse::<CacheSize>().is_err(), "{text}");
        }
        assert!("0".parse::<CacheSize>().unwrap_err().0.contains("off"));
    }

    #[test]
    fn free_space_is_a_size_or_a_part_of_the_disk() {
        assert_eq!("10%".parse(), Ok(CacheFree(FreeSpace::Part(0.1))));
        assert_eq!("0.5 %".parse(), Ok(CacheFree(FreeSpace::Part(0.005))));
        assert_eq!("0%".parse(), Ok(CacheFree(FreeSpace::Part(0.0))));
        assert_eq!("100%".parse(), Ok(CacheFree(FreeSpace::Part(1.0))));
        assert_eq!("5G".parse(), Ok(CacheFree(FreeSpace::Bytes(5 << 30))));
        for text in ["", "%", "101%", "-1%", "nan%", "inf%", "ten%", "10%%", "5X"] {
            assert!(text.parse::<CacheFree>().is_err(), "{text}");
        }
    }

    #[test]
    fn expiry_is_a_span_or_never() {
        assert_eq!("never".parse(), Ok(Expiry(None)));
        assert_eq!("30days".parse(), Ok(Expiry(Some(Duration::from_secs(30 * 86_400)))));
        for text in ["", "0", "500ms", "soon"] {
            assert!(text.parse::<Expiry>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_not_absurd() {
        assert_eq!("20M".parse(), Ok(FillRate(20 << 20)));
        for text in ["0", "1000", "fast", ""] {
            assert!(text.parse::<FillRate>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,24}") {
            let _ = text.parse::<CacheSize>();
            let _ = text.parse::<CacheFree>();
            let _ = text.parse::<Expiry>();
            let _ = text.parse::<FillRate>();
        }
    }
}
