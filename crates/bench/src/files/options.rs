//! How much work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::content::PAGE;
use super::error::Error;

/// How much work, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Threads that work at the same time, each on files of its own: 1 to 256.
    pub threads: u32,
    /// Bytes of each thread's large file: 0 for no large files, or 4 KiB to 1 TiB.
    pub big_size: u64,
    /// Bytes of each read and write of a large file: 4 KiB to 64 MiB, a multiple of 4 KiB.
    pub block_size: u64,
    /// Bytes of a small file: 1 to 64 MiB.
    pub small_size: u64,
    /// Small files of each thread: 0 to 10,000,000.
    pub small_count: u32,
    /// How long pages are read, and written, at random, at most: 1 ms to 1 h.
    #[serde(rename = "random_seconds", with = "seconds")]
    pub random_time: Duration,
    /// Whether each small file is synced before it is closed.
    pub fsync: bool,
    /// Whether the kernel's caches are left alone.
    pub keep_caches: bool,
    /// How often all of it is done: 1 to 100.
    pub repeat: u32,
}

/// Bytes of memory that the threads' buffers may take together.
const MEMORY: u64 = 4 << 30;

impl Options {
    /// What is done when nothing else is asked for: a GiB in large files, 2,000 small ones.
    pub fn standard() -> Options {
        Options {
            threads: 4,
            big_size: 256 << 20,
            block_size: 1 << 20,
            small_size: 128 << 10,
            small_count: 500,
            random_time: Duration::from_secs(5),
            fsync: false,
            keep_caches: false,
            repeat: 1,
        }
    }

    /// Less of everything: an impression in seconds.
    pub fn quick() -> Options {
        Options {
            big_size: 32 << 20,
            small_count: 100,
            random_time: Duration::from_secs(1),
            ..Options::standard()
        }
    }

    /// Refuses what cannot be done.
    ///
    /// # Errors
    /// [`Error::Option`] names the option and its range.
    pub fn validate(&self) -> Result<(), Error> {
        const TIB: u64 = 1 << 40;
        const MIB: u64 = 1 << 20;
        let page = PAGE as u64;
        let checks = [
            ((1..=256).contains(&self.threads), "the number of threads must be from 1 to 256"),
            (
                self.big_size == 0 || (page..=TIB).contains(&self.big_size),
                "the size of the large files must be from 4 KiB to 1 TiB, or 0 for none",
            ),
            (
                (page..=64 * MIB).contains(&self.block_size) && self.block_size.is_multiple_of(page),
                "the block size must be from 4 KiB to 64 MiB and a multiple of 4 KiB",
            ),
            (
                (1..=64 * MIB).contains(&self.small_size),
                "the size of the small files must be from 1 byte to 64 MiB",
            ),
            (self.small_count <= 10_000_000, "there can be at most 10,000,000 small files a thread"),
            (
                self.big_size > 0 || self.small_count > 0,
                "there is nothing to do: neither large files nor small ones are asked for",
            ),
            (
                self.block_size.max(self.small_size).saturating_mul(u64::from(self.threads)) <= MEMORY,
                "threads with blocks or small files that large would take more than 4 GiB of memory",
            ),
            ((1..=100).contains(&self.repeat), "the number of repetitions must be from 1 to 100"),
            (
                self.random_time >= Duration::from_millis(1) && self.random_time <= Duration::from_secs(3600),
                "the time for reading and writing at random must be from 1ms to 1h",
            ),
        ];
        match checks.into_iter().find(|(fits, _)| !fits) {
            Some((_, why)) => Err(Error::Option(why.to_owned())),
            None => Ok(()),
        }
    }

    /// Bytes that all files of a directory hold together.
    pub fn bytes(&self) -> u64 {
        let small = self.small_size.saturating_mul(u64::from(self.small_count));
        self.big_size.saturating_add(small).saturating_mul(u64::from(self.threads))
    }

    /// Pages of a large file that are read and written at random: the whole ones.
    pub(super) fn pages(&self) -> u64 {
        self.big_size / PAGE as u64
    }
}

mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_can_be_done() {
        for options in [Options::standard(), Options::quick()] {
            options.validate().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        let fine = Options::quick();
        for (options, word) in [
            (Options { threads: 0, ..fine.clone() }, "threads"),
            (Options { threads: 257, ..fine.clone() }, "threads"),
            (Options { big_size: 100, ..fine.clone() }, "large files"),
            (Options { block_size: 5000, ..fine.clone() }, "block size"),
            (Options { block_size: 1 << 40, ..fine.clone() }, "block size"),
            (Options { small_size: 0, ..fine.clone() }, "small files"),
            (Options { big_size: 0, small_count: 0, ..fine.clone() }, "nothing to do"),
            (Options { repeat: 0, ..fine.clone() }, "repetitions"),
            (Options { threads: 100, block_size: 64 << 20, ..fine.clone() }, "memory"),
        ] {
            let error = options.validate().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
