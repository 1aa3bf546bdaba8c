//! What a worker is told, and what it tells.

use std::path::PathBuf;
use std::time::Duration;

use headrace_testbed::Rng;
use serde::{Deserialize, Serialize};

/// Something to do on a mount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What.
    pub work: Work,
    /// When to stop; what was done until then counts.
    pub limit: Duration,
}

impl Job {
    /// The same reads as far as an earlier run of this job came within its time, so that all of them are of what was read before.
    pub fn as_far_as(&self, earlier: &Outcome) -> Job {
        let mut job = self.clone();
        match &mut job.work {
            Work::Read { order: Order::Random { operations, .. }, .. } | Work::Fio { operations, .. } => {
                *operations = (*operations).min(earlier.operations);
            }
            Work::Read { threads, order: Order::Sequential, .. } => {
                if let [sections] = threads.as_mut_slice()
                    && let [section] = sections.as_mut_slice()
                {
                    section.len = section.len.min(earlier.bytes);
                }
            }
            _ => {}
        }
        job
    }
}

/// Kinds of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reads, and checks all that is read.
    Read {
        /// What each thread reads, one section after the other.
        threads: Vec<Vec<Section>>,
        /// In which order.
        order: Order,
        /// Bytes of one call.
        block: u64,
        /// By which call.
        access: Access,
    },
    /// Reads from the first to the last byte, one thread for each section, and takes down when each read ended.
    Watch {
        /// What each thread reads.
        threads: Vec<Section>,
        /// Bytes of one call.
        block: u64,
    },
    /// Gets a file in ranges, several at once, and writes it: no file system in between. Only the bytes are counted, not checked.
    Get {
        /// What.
        objects: Objects,
        /// Where it is written.
        into: PathBuf,
        /// Ranges at once.
        connections: usize,
        /// Bytes of a range.
        request: u64,
    },
    /// Gets ranges of a file, one after the other, and checks them.
    GetEach {
        /// Of what.
        objects: Objects,
        /// Bytes of a range.
        block: u64,
        /// Which.
        order: Order,
    },
    /// Stores a file as objects, several at once: no file system in between. The time is that of the clock on the wall.
    Put {
        /// What.
        objects: Objects,
        /// Objects at once.
        connections: usize,
    },
    /// Overwrites blocks anywhere in a file, each write with content of its own, and calls fsync once. The time is that of the clock on the
    /// wall.
    Overwrite {
        /// The file, with its content before.
        file: Section,
        /// What the content of the first write is a function of; that of the next one of the next number.
        by: u64,
        /// Of the choice.
        seed: u64,
        /// Writes.
        operations: u64,
        /// Bytes of a write.
        block: u64,
    },
    /// Checks a file after [`Work::Overwrite`]: the last write of each block is what is there.
    Rewritten {
        /// The file, with its content before.
        file: Section,
        /// What the content of the first write is a function of.
        by: u64,
        /// Of the order.
        seed: u64,
        /// Writes.
        operations: u64,
        /// Bytes of a write.
        block: u64,
    },
    /// Writes known content.
    Write {
        /// Where; the file is created, unless the order is random: then it must be there.
        file: Section,
        /// In which order.
        order: Order,
        /// Bytes of one call.
        block: u64,
        /// When to call fsync.
        sync: Fsync,
    },
    /// Writes files from the first to the last byte, a thread for each. The time is that of the clock on the wall.
    WriteEach {
        /// Where; they are created.
        files: Vec<Section>,
        /// Bytes of one call.
        block: u64,
        /// When to call fsync.
        sync: Fsync,
    },
    /// Something with many small files.
    Small {
        /// What.
        action: SmallAction,
        /// Above all.
        root: PathBuf,
        /// The directory below `root` that has the files.
        under: String,
        /// How many.
        count: u64,
        /// How many to a directory.
        each: u64,
    },
    /// Random reads by fio with libaio and O_DIRECT.
    Fio {
        /// The file.
        file: PathBuf,
        /// Bytes of a read.
        block: u64,
        /// Reads at once.
        depth: u32,
        /// Reads.
        operations: u64,
    },
    /// A script for bash.
    Program {
        /// The script.
        script: String,
        /// Where it is run.
        dir: PathBuf,
        /// What it must print, if that is known: then the last line is compared.
        prints: Option<String>,
    },
}

/// A range of a file of known content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The file.
    pub path: PathBuf,
    /// What its content is a function of.
    pub id: u64,
    /// First byte.
    pub from: u64,
    /// Bytes.
    pub len: u64,
}

/// A file of known content, cut into objects of a bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objects {
    /// `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// The bucket.
    pub bucket: String,
    /// Before the number of each object.
    pub prefix: String,
    /// What the file's content is a function of.
    pub id: u64,
    /// Bytes of the file.
    pub len: u64,
    /// Bytes of each object; the last one may have fewer.
    pub each: u64,
    /// Got through the HTTP library, as most clients do, and not in the way that Headrace has of its own.
    pub by_library: bool,
}

impl Objects {
    /// The object that has the byte at `offset` of the file, and where in it.
    pub fn at(&self, offset: u64) -> (String, u64) {
        let each = self.each.max(1);
        (format!("{}{:04}", self.prefix, offset / each), offset % each)
    }
}

/// In which order the blocks of a section are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the first to the last.
    Sequential,
    /// So many, anywhere, a block possibly more than once.
    Random {
        /// Of the choice.
        seed: u64,
        /// Blocks.
        operations: u64,
    },
    /// So many sequential streams in turns, each in its own part of the section.
    Interleaved {
        /// Streams.
        streams: u64,
    },
    /// The first block of every so many bytes.
    Strided {
        /// Bytes.
        stride: u64,
    },
}

impl Order {
    /// Offsets within a section of `len` bytes of its blocks of `block` bytes, in order. A last block that is not whole
    /// is part of sequential and interleaved orders only.
    pub fn offsets(self, len: u64, block: u64) -> Box<dyn Iterator<Item = u64> + Send> {
        let block = block.max(1);
        let blocks = len.div_ceil(block);
        let whole = (len / block).max(1);
        match self {
            Order::Sequential => Box::new((0..blocks).map(move |n| n * block)),
            Order::Random { seed, operations } => {
                let mut rng = Rng::new(seed);
                Box::new((0..operations).map(move |_| rng.below(whole) * block))
            }
            Order::Interleaved { streams } => {
                let each = blocks.div_ceil(streams.max(1));
                let turns =
                    (0..each).flat_map(move |turn| (0..streams).map(move |stream| stream * each + turn));
                Box::new(turns.filter(move |n| *n < blocks).map(move |n| n * block))
            }
            Order::Strided { stride } => {
                let stride = stride.max(block);
                Box::new(
                    (0..len.div_ceil(stride)).map(move |n| n * stride).filter(move |at| at + block <= len),
                )
            }
        }
    }
}

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// `pread`.
    Pread,
    /// `pread`, and each stream of [`Order::Interleaved`] has a descriptor of its own.
    PreadApart,
    /// A mapping; what is timed is touching its pages for the first time.
    Mapped,
}

/// When written data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fsync {
    /// Not before it is closed.
    Never,
    /// Once, before it is closed.
    End,
    /// After each write.
    Each,
}

/// What is done with small files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmallAction {
    /// Created, written and closed one after the other, not synced; with their directories.
    Create,
    /// All directories are listed.
    List,
    /// `lstat` of each.
    Stat,
    /// Each is opened, read and closed, in order.
    Read,
    /// The same in a random order.
    ReadShuffled,
    /// All are removed, with their directories.
    Delete,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Time in the calls; with several threads, of the thread that took longest.
    pub seconds: f64,
    /// Calls, files or entries, whatever the case is about.
    pub operations: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Processor time of the client, user and system, without `aside`.
    pub cpu: Duration,
    /// Processor time for making and checking content, of all threads.
    pub aside: Duration,
    /// The limit came before the end.
    pub stopped: bool,
    /// Median time of one operation, seconds.
    pub p50: Option<f64>,
    /// 95 of 100 operations took no longer than this, seconds.
    #[serde(default)]
    pub p95: Option<f64>,
    /// 99 of 100 operations took no longer than this, seconds.
    pub p99: Option<f64>,
    /// Seconds until all was written and fsync was called, where there is one at the end.
    #[serde(default)]
    pub written: f64,
    /// When each read of [`Work::Watch`] ended, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
}

/// A read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its end, seconds on the machine's monotonic clock.
    pub at: f64,
    /// How long it took, seconds.
    pub took: f64,
    /// Bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_second_run_goes_no_further_than_the_first_came() {
        let section = Section { path: "f".into(), id: 1, from: 0, len: 100 << 20 };
        let job = |order, block| Job {
            work: Work::Read { threads: vec![vec![section.clone()]], order, block, access: Access::Pread },
            limit: Duration::from_secs(2),
        };
        let earlier = Outcome { operations: 30, bytes: 30 << 20, stopped: true, ..Outcome::default() };
        let random = job(Order::Random { seed: 1, operations: 1_000 }, 4096).as_far_as(&earlier);
        assert!(matches!(random.work, Work::Read { order: Order::Random { operations: 30, seed: 1 }, .. }));
        let Work::Read { threads, .. } = job(Order::Sequential, 1 << 20).as_far_as(&earlier).work else {
            panic!()
        };
        assert_eq!(threads[0][0].len, 30 << 20);
    }

    #[test]
    fn streams_take_turns() {
        let offsets: Vec<u64> = Order::Interleaved { streams: 2 }.offsets(40, 10).collect();
        assert_eq!(offsets, [0, 20, 10, 30]);
        let strided: Vec<u64> = Order::Strided { stride: 16 }.offsets(40, 4).collect();
        assert_eq!(strided, [0, 16, 32]);
    }

    proptest! {
        #[test]
        fn sequential_and_interleaved_orders_have_each_block_once(
            len in 1u64..5_000, block in 1u64..300, streams in 1u64..9
        ) {
            for order in [Order::Sequential, Order::Interleaved { streams }] {
                let offsets: Vec<u64> = order.offsets(len, block).collect();
                prop_assert_eq!(offsets.len() as u64, len.div_ceil(block));
                prop_assert_eq!(offsets.iter().collect::<BTreeSet<_>>().len(), offsets.len());
                prop_assert!(offsets.iter().all(|at| *at < len));
            }
        }

        #[test]
        fn random_and_strided_orders_stay_inside(len in 300u64..5_000, block in 1u64..300, seed in any::<u64>()) {
            let random = Order::Random { seed, operations: 50 };
            prop_assert_eq!(random.offsets(len, block).count(), 50);
            for order in [random, Order::Strided { stride: 700 }] {
                prop_assert!(order.offsets(len, block).all(|at| at + block <= len));
            }
        }
    }
}
