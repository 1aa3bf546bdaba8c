//! Conditions that change with time.

use std::time::Duration;

use crate::Conditions;
use crate::conditions::{ParseError, duration};

/// Most steps of a schedule.
const MAX_STEPS: usize = 10_000;

/// Conditions by time since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Ascending; the first is at 0.
    steps: Vec<(Duration, Conditions)>,
    every: Option<Duration>,
}

impl Schedule {
    /// Reads a schedule from TOML:
    ///
    /// ```toml
    /// every = "60s"              # optional: all starts again after so long
    /// [[step]]
    /// at = "10s"
    /// first-byte = "200ms"       # any of Conditions::NAMES
    /// [[step]]
    /// at = "15s"
    /// first-byte = "20ms"
    /// error-503 = 0.05
    /// ```
    ///
    /// A step changes what it names; the rest stays as it was before, `start` before the first.
    ///
    /// # Errors
    /// When the text is no such schedule, or its times do not ascend.
    pub fn parse(text: &str, start: &Conditions) -> Result<Schedule, ParseError> {
        let mut table: toml::Table =
            text.parse().map_err(|error| ParseError::new("schedule", format!("{error}")))?;
        let every = match table.remove("every") {
            Some(value) => Some(duration(&plain(&value))?),
            None => None,
        };
        let mut steps = vec![(Duration::ZERO, start.clone())];
        let listed = table.remove("step").unwrap_or(toml::Value::Array(Vec::new()));
        let listed =
            listed.as_array().ok_or_else(|| ParseError::new("step", "not a list: write [[step]]"))?;
        if let Some(name) = table.keys().next() {
            return Err(ParseError::new(name, "no such key; known are every and [[step]]"));
        }
        if listed.len() > MAX_STEPS {
            return Err(ParseError::new("step", format!("more than {MAX_STEPS} steps")));
        }
        for (index, step) in listed.iter().enumerate() {
            let named = |reason: &str| ParseError::new(&format!("step {}", index + 1), reason);
            let step = step.as_table().ok_or_else(|| named("not a table: write [[step]]"))?;
            let at = step.get("at").ok_or_else(|| named("has no time: at = \"10s\""))?;
            let at = duration(&plain(at)).map_err(|error| named(&error.to_string()))?;
            let (last, mut conditions) = steps.last().cloned().unwrap_or((Duration::ZERO, start.clone()));
            if at < last {
                return Err(named("is before the step above it"));
            }
            for (name, value) in step.iter().filter(|(name, _)| *name != "at") {
                conditions.set(name, &plain(value)).map_err(|error| named(&error.to_string()))?;
            }
            steps.push((at, conditions));
        }
        let last = steps.last().map_or(Duration::ZERO, |(at, _)| *at);
        if every.is_some_and(|every| every <= last) {
            return Err(ParseError::new("every", "all starts again before the last step"));
        }
        Ok(Schedule { steps, every })
    }

    /// The conditions so long after the start, and the time since the start at which they change next.
    pub fn at(&self, elapsed: Duration) -> (Conditions, Option<Duration>) {
        let (round, within) = match self.every {
            Some(every) if !every.is_zero() => {
                let within = Duration::from_nanos((elapsed.as_nanos() % every.as_nanos()) as u64);
                (elapsed.saturating_sub(within), within)
            }
            _ => (Duration::ZERO, elapsed),
        };
        let next = self.steps.partition_point(|(at, _)| *at <= within);
        let conditions = next.checked_sub(1).and_then(|now| self.steps.get(now)).map(|(_, now)| now.clone());
        let change = self.steps.get(next).map(|(at, _)| *at).or(self.every);
        (conditions.unwrap_or_default(), change.map(|at| round.saturating_add(at)))
    }
}

/// A value as [`Conditions::set`] reads it.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        every = "60s"
        [[step]]
        at = "10s"
        first-byte = "200ms"
        error-503 = 0.05
        [[step]]
        at = "15s"
        first-byte = "20ms"
    "#;

    #[test]
    fn steps_change_what_they_name_and_all_starts_again() {
        let start = Conditions { stall: 0.5, ..Conditions::default() };
        let schedule = Schedule::parse(TEXT, &start).unwrap();
        let seconds = Duration::from_secs;
        let seen = |at: u64| {
            let (now, next) = schedule.at(seconds(at));
            (now.first_byte.to_string(), now.error_503, now.stall, next.map(|next| next.as_secs()))
        };
        assert_eq!(seen(0), ("0s".into(), 0.0, 0.5, Some(10)));
        assert_eq!(seen(10), ("200ms".into(), 0.05, 0.5, Some(15)));
        assert_eq!(seen(15), ("20ms".into(), 0.05, 0.5, Some(60)));
        assert_eq!(seen(59), ("20ms".into(), 0.05, 0.5, Some(60)));
        assert_eq!(seen(60), ("0s".into(), 0.0, 0.5, Some(70)));
        assert_eq!(seen(191), ("200ms".into(), 0.05, 0.5, Some(195)));
    }

    #[test]
    fn one_without_an_end_stays_at_its_last_step() {
        let schedule =
            Schedule::parse("[[step]]\nat = \"1s\"\ntotal = \"1GB\"", &Conditions::default()).unwrap();
        assert_eq!(schedule.at(Duration::from_secs(100)).1, None);
        assert!(schedule.at(Duration::from_secs(100)).0.total.is_some());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("at = 3", "known are"),
            ("step = 3", "[[step]]"),
            ("[[step]]\nfirst-byte = \"1ms\"", "step 1"),
            ("[[step]]\nat = \"2s\"\n[[step]]\nat = \"1s\"", "step 2"),
            ("[[step]]\nat = \"2s\"\nlatency = \"1s\"", "no such condition"),
            ("[[step]]\nat = \"2s\"\nstall = 2", "probability"),
            ("every = \"1s\"\n[[step]]\nat = \"2s\"", "before the last"),
            ("every = \"0s\"", "before the last"),
            ("[[", "schedule"),
        ] {
            let error = Schedule::parse(text, &Conditions::default()).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
