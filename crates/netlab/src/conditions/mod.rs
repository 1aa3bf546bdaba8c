//! How a network behaves.

mod latency;
mod quantity;
mod rate;

use serde::{Deserialize, Serialize};

pub use latency::{Latency, Tail};
pub use quantity::ParseError;
pub(crate) use quantity::duration;
pub use rate::Rate;

/// How a network behaves at one time. The default is the loopback interface as it is: no delay, no cap, no fault.
///
/// The fields `error_*`, `reset`, `truncate` and `stall` are probabilities, 0 to 1, of what one request meets; they
/// exclude each other, so their sum is at most 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Conditions {
    /// From a request's last byte to its answer's first. The server's own time is part of it; a server that takes
    /// longer than this makes the answer so much later.
    pub first_byte: Latency,
    /// What the first request of every connection waits besides, for handshakes that loopback does not have.
    pub connect: Latency,
    /// Most bytes per second of each connection, in each direction.
    pub per_connection: Option<Rate>,
    /// Most bytes per second of all connections together, in each direction.
    pub total: Option<Rate>,
    /// 503 SlowDown in the server's place.
    pub error_503: f64,
    /// 429 in the server's place.
    pub error_429: f64,
    /// 500 in the server's place.
    pub error_500: f64,
    /// The connection is reset somewhere in the answer's body.
    pub reset: f64,
    /// The connection is closed somewhere in the answer's body.
    pub truncate: f64,
    /// Somewhere in the answer's body nothing more comes, and the connection stays.
    pub stall: f64,
}

impl Conditions {
    /// The names that [`Self::set`] knows.
    pub const NAMES: [&str; 10] = [
        "first-byte",
        "connect",
        "per-connection",
        "total",
        "error-503",
        "error-429",
        "error-500",
        "reset",
        "truncate",
        "stall",
    ];

    /// 20 ms to the first byte and 90 MB/s per connection: an object store of the same region, as one connection
    /// sees it.
    pub fn slow() -> Conditions {
        Conditions {
            first_byte: Latency::constant(std::time::Duration::from_millis(20)),
            per_connection: Rate::per_second(90_000_000),
            ..Conditions::default()
        }
    }

    /// Sets one of [`Self::NAMES`] from text such as `20ms`, `90MB`, `0.05`; `none` is no cap.
    ///
    /// # Errors
    /// A name or a value that is not known, or probabilities that exceed 1 together; then nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        let mut next = self.clone();
        match name {
            "first-byte" => next.first_byte = value.parse()?,
            "connect" => next.connect = value.parse()?,
            "per-connection" => next.per_connection = rate::optional(value)?,
            "total" => next.total = rate::optional(value)?,
            "error-503" => next.error_503 = quantity::probability(value)?,
            "error-429" => next.error_429 = quantity::probability(value)?,
            "error-500" => next.error_500 = quantity::probability(value)?,
            "reset" => next.reset = quantity::probability(value)?,
            "truncate" => next.truncate = quantity::probability(value)?,
            "stall" => next.stall = quantity::probability(value)?,
            _ => {
                return Err(ParseError::new(
                    name,
                    format!("no such condition; known: {}", Self::NAMES.join(", ")),
                ));
            }
        }
        next.check().map_err(|error| ParseError::new(value, format!("{name}: {}", error.reason)))?;
        *self = next;
        Ok(())
    }

    /// Whether the probabilities are such, alone and together.
    ///
    /// # Errors
    /// When they are not.
    pub fn check(&self) -> Result<(), ParseError> {
        let all = self.probabilities();
        if let Some(wrong) = all.iter().find(|one| !(0.0..=1.0).contains(*one)) {
            return Err(ParseError::new(&wrong.to_string(), "a probability is between 0 and 1"));
        }
        let sum: f64 = all.iter().sum();
        if sum > 1.0 + 1e-9 {
            return Err(ParseError::new(
                &sum.to_string(),
                "the probabilities of all faults exceed 1 together",
            ));
        }
        Ok(())
    }

    fn probabilities(&self) -> [f64; 6] {
        [self.error_503, self.error_429, self.error_500, self.reset, self.truncate, self.stall]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_name_is_known_and_a_refused_value_changes_nothing() {
        let mut conditions = Conditions::default();
        for name in Conditions::NAMES {
            let value = match name {
                "first-byte" | "connect" => "15ms,uniform=5ms",
                "per-connection" | "total" => "90MB",
                _ => "0.1",
            };
            conditions.set(name, value).unwrap();
        }
        let before = conditions.clone();
        for (name, value) in [
            ("stall", "0.6"),
            ("stall", "-1"),
            ("stall", "nan"),
            ("first-byte", "20"),
            ("total", "0"),
            ("x", "1"),
        ] {
            let error = conditions.set(name, value).unwrap_err();
            assert!(!error.to_string().is_empty());
            assert_eq!(conditions, before, "{name}={value}");
        }
        conditions.set("total", "none").unwrap();
        assert_eq!(conditions.total, None);
    }

    #[test]
    fn json_gives_the_same_back() {
        let conditions = Conditions {
            first_byte: Latency { base: Duration::from_millis(20), tail: Tail::Pareto { shape: 1.5 } },
            reset: 0.25,
            ..Conditions::slow()
        };
        let text = serde_json::to_string(&conditions).unwrap();
        assert!(text.contains(r#""first-byte":"20ms,pareto=1.5""#), "{text}");
        assert!(text.contains(r#""per-connection":"90MB/s""#), "{text}");
        assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), conditions);
    }
}
