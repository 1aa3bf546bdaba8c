//! How much is measured, and the files that every subject has before its first case.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes of a small file.
pub const SMALL: u64 = 4096;
/// Small files to a directory, where nothing else is asked for.
pub const PER_DIRECTORY: u64 = 1_000;
/// Numbers of the small files start here.
const FIRST_SMALL: u64 = 1 << 32;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Bytes of the one large file.
    pub big: u64,
    /// Bytes of each of the 4 files that 4 readers have.
    pub middle: u64,
    /// Bytes of each of the 32 files that 16 and 32 readers have.
    pub part: u64,
    /// Bytes that are written sequentially.
    pub written: u64,
    /// Bytes of the file in which blocks are overwritten.
    pub rewritten: u64,
    /// Small files that are there to be listed and read.
    pub small: u64,
    /// Small files that are written, and those that are deleted.
    pub fresh: u64,
    /// Files of the source tree that is cloned and unpacked.
    pub tree: u64,
    /// Random operations of one case.
    pub random: u64,
    /// When a case is stopped: what was done until then counts.
    pub limit: Duration,
    /// When a program (git, tar, cargo, ls) is killed.
    pub program_limit: Duration,
}

impl Scale {
    /// For figures that are published: every case twice on both networks in under an hour.
    pub fn full() -> Scale {
        Scale {
            big: 256 << 20,
            written: 128 << 20,
            rewritten: 32 << 20,
            middle: 64 << 20,
            part: 8 << 20,
            small: 20_000,
            fresh: 20_000,
            tree: 1_000,
            random: 1_000,
            limit: Duration::from_secs(2),
            program_limit: Duration::from_secs(20),
        }
    }

    /// For a first look, and to see that all works: the cases of [`crate::cases::quick`] in under ten minutes.
    pub fn quick() -> Scale {
        Scale {
            big: 64 << 20,
            written: 32 << 20,
            rewritten: 16 << 20,
            middle: 16 << 20,
            part: 2 << 20,
            small: 2_000,
            fresh: 500,
            tree: 100,
            random: 300,
            limit: Duration::from_secs(1),
            program_limit: Duration::from_secs(8),
        }
    }

    /// For the tests of this program.
    pub fn tiny() -> Scale {
        Scale {
            big: 4 << 20,
            written: 2 << 20,
            rewritten: 1 << 20,
            middle: 1 << 20,
            part: 128 << 10,
            small: 60,
            fresh: 20,
            tree: 10,
            random: 20,
            limit: Duration::from_secs(2),
            program_limit: Duration::from_secs(20),
        }
    }

    /// The large file.
    pub fn big_file(&self) -> DataFile {
        DataFile { name: "big".into(), id: 1, len: self.big }
    }

    /// The files that 4 readers have.
    pub fn middle_files(&self) -> Vec<DataFile> {
        let file = |n: u64| DataFile { name: format!("middle-{n}"), id: 0x100 + n, len: self.middle };
        (0..4).map(file).collect()
    }

    /// The files that 16 and 32 readers have.
    pub fn part_files(&self) -> Vec<DataFile> {
        let file = |n: u64| DataFile { name: format!("part-{n:02}"), id: 0x200 + n, len: self.part };
        (0..32).map(file).collect()
    }

    /// The small files, in order.
    pub fn small_files(&self) -> Vec<DataFile> {
        (0..self.small).map(|n| small_file("small", n, PER_DIRECTORY)).collect()
    }

    /// All of them.
    pub fn all(&self) -> Vec<DataFile> {
        let mut all = vec![self.big_file()];
        all.extend(self.middle_files());
        all.extend(self.part_files());
        all.extend(self.small_files());
        all
    }
}

/// A file of known content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Path below the directory of the data.
    pub name: String,
    /// What its [content](crate::content) is a function of.
    pub id: u64,
    /// Bytes.
    pub len: u64,
}

impl DataFile {
    /// Where it is below `root`.
    pub fn at(&self, root: &Path) -> PathBuf {
        root.join(&self.name)
    }
}

/// The small file with this number, below the directory `under`: `each` to a directory.
pub fn small_file(under: &str, n: u64, each: u64) -> DataFile {
    DataFile { name: format!("{under}/d{:03}/f{n:06}", n / each.max(1)), id: FIRST_SMALL + n, len: SMALL }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_files_share_a_name_or_content() {
        let all = Scale::quick().all();
        assert_eq!(all.iter().map(|file| &file.name).collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(all.iter().map(|file| file.id).collect::<BTreeSet<_>>().len(), all.len());
    }
}
