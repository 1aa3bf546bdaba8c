//! Failures of background writing, and which open files have been told of them.
//!
//! As in Linux (errseq): each open file hears of a failure once, whoever else has heard of it before; failures between two calls
//! count as one; and one that nobody was told of waits for whoever opens the file next.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// The failures of one file.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Counts failures.
    number: u64,
    last: Option<Error>,
    /// Whether anybody was told of the last one.
    told: bool,
}

/// The number of the last failure that an open file has heard of.
#[derive(Debug, Default)]
pub(crate) struct Heard(AtomicU64);

impl Failures {
    /// Written data could not be stored.
    pub fn record(&mut self, error: Error) {
        self.number += 1;
        self.last = Some(error);
        self.told = false;
    }

    /// What a file that is opened now counts as having heard.
    pub fn heard_at_open(&self) -> Heard {
        let untold = self.number > 0 && !self.told;
        Heard(AtomicU64::new(self.number - u64::from(untold)))
    }

    /// Tells an open file of what it has not heard yet.
    pub fn tell(&mut self, heard: &Heard) -> Option<Error> {
        if heard.0.swap(self.number, Ordering::Relaxed) >= self.number {
            return None;
        }
        self.told = true;
        self.last.clone()
    }

    /// What an open file has not heard yet, which does not count as having told it.
    pub fn untold(&self, heard: &Heard) -> Option<Error> {
        let news = heard.0.load(Ordering::Relaxed) < self.number;
        self.last.clone().filter(|_| news)
    }

    /// Failures so far, to be compared with a later answer of [`Self::since`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The last failure, if there was one after the `number`th.
    pub fn since(&self, number: u64) -> Option<&Error> {
        self.last.as_ref().filter(|_| self.number > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> Error {
        Error::Internal(text.into())
    }

    #[test]
    fn each_open_file_hears_once() {
        let mut failures = Failures::default();
        let (first, second) = (failures.heard_at_open(), failures.heard_at_open());
        assert!(failures.tell(&first).is_none());
        failures.record(failure("a"));
        failures.record(failure("b"));
        assert!(failures.tell(&first).is_some_and(|error| error.to_string().contains('b')));
        assert!(failures.tell(&first).is_none());
        assert!(failures.tell(&second).is_some(), "who comes second hears as well");
        assert!(failures.tell(&second).is_none());
        assert!(failures.tell(&failures.heard_at_open()).is_none(), "all who were there know");
        failures.record(failure("c"));
        assert!(failures.tell(&first).is_some());
    }

    #[test]
    fn one_that_nobody_heard_of_waits_for_the_next_to_open() {
        let mut failures = Failures::default();
        failures.record(failure("a"));
        let (late, later) = (failures.heard_at_open(), failures.heard_at_open());
        assert!(failures.tell(&late).is_some());
        assert!(failures.tell(&later).is_some());
        assert!(failures.tell(&failures.heard_at_open()).is_none());
    }

    #[test]
    fn who_waits_sees_what_happens_meanwhile() {
        let mut failures = Failures::default();
        failures.record(failure("before"));
        let number = failures.number();
        assert!(failures.since(number).is_none());
        failures.record(failure("meanwhile"));
        assert!(failures.since(number).is_some());
    }
}
