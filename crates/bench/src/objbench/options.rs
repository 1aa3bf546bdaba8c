//! What is measured.

use std::time::Duration;

use serde::Serialize;

use super::ObjbenchError;
use crate::report::human;

/// Most requests at a time.
pub const MAX_CONCURRENCY: usize = 4096;
/// Most levels of concurrency in a run.
const MAX_LEVELS: usize = 32;
/// Most objects of a size at a level.
pub const MAX_OBJECTS: usize = 1_000_000;

/// What is measured, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Requests at a time, one level after the other.
    pub concurrency: Vec<usize>,
    /// Bytes of a large object.
    pub big_size: u64,
    /// Most large objects written at a level; as many as there are requests at a time if those are more.
    pub big_objects: usize,
    /// Bytes of a small object; 0 is allowed.
    pub small_size: u64,
    /// Most small objects written at a level; as with the large ones.
    pub small_objects: usize,
    /// Bytes of a ranged get.
    pub block: u64,
    /// How long each measurement goes on, in seconds; requests under way then are let finish.
    #[serde(rename = "seconds_each", serialize_with = "as_seconds")]
    pub time: Duration,
    /// Most bytes of bodies in memory at a time; what would need more is left out, and the report says so.
    pub memory: u64,
    /// Leave out the checks that write much.
    pub quick: bool,
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Default for Options {
    /// About two minutes.
    fn default() -> Options {
        Options {
            concurrency: vec![1, 10, 200, 800],
            big_size: 4 << 20,
            big_objects: 256,
            small_size: 4 << 10,
            small_objects: 1000,
            block: 128 << 10,
            time: Duration::from_secs(3),
            memory: 4 << 30,
            quick: false,
        }
    }
}

impl Options {
    /// About twenty seconds: a first impression.
    pub fn quick() -> Options {
        Options {
            concurrency: vec![1, 10, 50],
            big_objects: 64,
            small_objects: 300,
            time: Duration::from_millis(700),
            quick: true,
            ..Options::default()
        }
    }

    /// Refuses what makes no sense, and puts the levels in order.
    pub fn checked(mut self) -> Result<Options, ObjbenchError> {
        self.concurrency.sort_unstable();
        self.concurrency.dedup();
        let refuse = |why: String| Err(ObjbenchError::Options(why));
        if self.concurrency.is_empty() || self.concurrency.len() > MAX_LEVELS {
            return refuse(format!("give 1 to {MAX_LEVELS} levels of concurrency"));
        }
        if let Some(wrong) = self.concurrency.iter().find(|level| !(1..=MAX_CONCURRENCY).contains(*level)) {
            return refuse(format!("{wrong} requests at a time: it must be 1 to {MAX_CONCURRENCY}"));
        }
        for (name, size, least) in [("large", self.big_size, 1), ("small", self.small_size, 0)] {
            if !(least..=headrace_store::MAX_OBJECT).contains(&size) {
                let most = human::size(headrace_store::MAX_OBJECT);
                return refuse(format!(
                    "the size of {name} objects must be {least} byte to {most}, not {size}"
                ));
            }
        }
        if self.block == 0 || self.block > self.big_size {
            return refuse(format!(
                "a ranged get of {} cannot be measured in objects of {}",
                human::size(self.block),
                human::size(self.big_size)
            ));
        }
        for (name, count) in [("large", self.big_objects), ("small", self.small_objects)] {
            if !(1..=MAX_OBJECTS).contains(&count) {
                return refuse(format!(
                    "{count} {name} objects: it must be 1 to {}",
                    human::count(MAX_OBJECTS as u64)
                ));
            }
        }
        if self.time.is_zero() || self.time > Duration::from_secs(3600) {
            return refuse("a measurement must go on for more than nothing and at most an hour".to_owned());
        }
        Ok(self)
    }

    /// Objects of a size written at a level.
    pub(super) fn objects(&self, most: usize, concurrency: usize) -> usize {
        most.max(concurrency)
    }

    /// What the run stores at most at a time, in bytes: each level removes its objects.
    pub fn most_stored(&self) -> u64 {
        let largest = self.concurrency.last().copied().unwrap_or(1);
        let of = |most, size: u64| size.saturating_mul(self.objects(most, largest) as u64);
        of(self.big_objects, self.big_size).saturating_add(of(self.small_objects, self.small_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_put_in_order() {
        let options = Options { concurrency: vec![10, 1, 10], ..Options::default() };
        assert_eq!(options.checked().unwrap().concurrency, [1, 10]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |change: fn(&mut Options)| {
            let mut options = Options::quick();
            change(&mut options);
            options.checked().unwrap_err().to_string()
        };
        assert!(of(|o| o.concurrency = vec![]).contains("levels"));
        assert!(of(|o| o.concurrency = vec![0]).contains("0 requests"));
        assert!(of(|o| o.concurrency = vec![100_000]).contains("100000 requests"));
        assert!(of(|o| o.big_size = 0).contains("large"));
        assert!(of(|o| o.small_size = u64::MAX).contains("small"));
        assert!(of(|o| o.block = 8 << 20).contains("8 MiB cannot be measured in objects of 4 MiB"));
        assert!(of(|o| o.small_objects = 0).contains("0 small objects"));
        assert!(of(|o| o.time = Duration::ZERO).contains("more than nothing"));
        assert!(Options::default().checked().is_ok());
    }

    #[test]
    fn what_is_stored_is_known_before() {
        let options = Options { concurrency: vec![1, 800], ..Options::default() };
        assert_eq!(options.most_stored(), 800 * (4 << 20) + 1000 * (4 << 10));
    }
}
