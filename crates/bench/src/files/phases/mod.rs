//! What is timed, in this order.

mod big;
mod random;
mod small;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::options::Options;
use super::worker::Worker;

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Each thread writes its large file from start to end, and syncs it.
    BigWrite,
    /// Each thread reads its large file from start to end.
    BigRead,
    /// The same again, with whatever the caches now hold.
    BigReread,
    /// Each thread reads pages of its large file at random, each page once at most.
    RandomRead,
    /// Each thread overwrites pages of its large file at random, each page once at most, and syncs the file.
    RandomWrite,
    /// Each thread creates, writes and closes its small files.
    SmallWrite,
    /// Each thread lists its directories.
    List,
    /// Each thread asks for the attributes of its small files.
    Stat,
    /// Each thread opens, reads and closes its small files.
    SmallRead,
    /// Each thread gives its small files other names.
    Rename,
    /// Each thread deletes its small files.
    Delete,
}

/// What a phase's rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes a second.
    Bytes,
    /// Reads or writes a second.
    Operations,
    /// Files a second.
    Files,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 11] = [
        Phase::BigWrite,
        Phase::BigRead,
        Phase::BigReread,
        Phase::RandomRead,
        Phase::RandomWrite,
        Phase::SmallWrite,
        Phase::List,
        Phase::Stat,
        Phase::SmallRead,
        Phase::Rename,
        Phase::Delete,
    ];

    /// Those that `options` leave something to do in.
    pub fn of(options: &Options) -> impl Iterator<Item = Phase> + use<> {
        let (big, small) = (options.big_size > 0, options.small_count > 0);
        Phase::ALL.into_iter().filter(move |phase| if phase.is_big() { big } else { small })
    }

    /// Whether it is about the large files.
    pub fn is_big(self) -> bool {
        use Phase::*;
        matches!(self, BigWrite | BigRead | BigReread | RandomRead | RandomWrite)
    }

    /// Whether it begins with empty caches, where they can be emptied.
    pub fn is_cold(self) -> bool {
        use Phase::*;
        matches!(self, BigRead | RandomRead | List | Stat | SmallRead)
    }

    /// In a few words.
    pub fn title(self) -> &'static str {
        match self {
            Phase::BigWrite => "write large files",
            Phase::BigRead => "read large files",
            Phase::BigReread => "read them again",
            Phase::RandomRead => "read 4 KiB at random",
            Phase::RandomWrite => "write 4 KiB at random",
            Phase::SmallWrite => "write small files",
            Phase::List => "list directories",
            Phase::Stat => "stat small files",
            Phase::SmallRead => "read small files",
            Phase::Rename => "rename small files",
            Phase::Delete => "delete small files",
        }
    }

    /// What one of its latencies is the time of.
    pub fn operation(self) -> &'static str {
        match self {
            Phase::BigWrite => "one write of a block",
            Phase::BigRead => "one read of a block",
            Phase::BigReread => "one read of a block, again",
            Phase::RandomRead => "one read of 4 KiB",
            Phase::RandomWrite => "one write of 4 KiB",
            Phase::SmallWrite => "create, write and close one file",
            Phase::List => "list one directory",
            Phase::Stat => "stat one file",
            Phase::SmallRead => "open, read and close one file",
            Phase::Rename => "rename one file",
            Phase::Delete => "delete one file",
        }
    }

    /// What its rate counts.
    pub fn unit(self) -> Unit {
        match self {
            Phase::BigWrite | Phase::BigRead | Phase::BigReread => Unit::Bytes,
            Phase::RandomRead | Phase::RandomWrite => Unit::Operations,
            _ => Unit::Files,
        }
    }

    /// How much a thread does, in the unit of the rate; for the random ones the most it can do before its time is up.
    pub(super) fn total(self, options: &Options) -> u64 {
        match self.unit() {
            Unit::Bytes => options.big_size,
            Unit::Operations => options.pages(),
            Unit::Files => u64::from(options.small_count),
        }
    }

    /// The part of a thread.
    pub(super) fn work(self, worker: &mut Worker<'_>) -> Result<(), Error> {
        match self {
            Phase::BigWrite => big::write(worker),
            Phase::BigRead | Phase::BigReread => big::read(worker),
            Phase::RandomRead => random::read(worker),
            Phase::RandomWrite => random::write(worker),
            Phase::SmallWrite => small::write(worker),
            Phase::List => small::list(worker),
            Phase::Stat => small::stat(worker),
            Phase::SmallRead => small::read(worker),
            Phase::Rename => small::rename(worker),
            Phase::Delete => small::delete(worker),
        }
    }

    /// What is looked at afterwards, when nothing is timed any more. `done` is how many operations the thread did.
    pub(super) fn look_back(self, worker: &mut Worker<'_>, done: u64) -> Result<(), Error> {
        match self {
            Phase::RandomWrite => random::check_written(worker, done),
            Phase::Delete => small::delete_directories(worker),
            _ => Ok(()),
        }
    }

    /// Whether [`Self::look_back`] does anything.
    pub(super) fn looks_back(self) -> bool {
        matches!(self, Phase::RandomWrite | Phase::Delete)
    }
}
