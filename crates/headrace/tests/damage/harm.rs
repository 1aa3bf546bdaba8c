//! Ways in which a file can be damaged.

use std::path::{Path, PathBuf};

use headrace_testbed::Rng;

/// What is done to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Harm {
    FlipBit,
    Truncate,
    Empty,
    Grow,
    Delete,
    /// 4 KiB of zeros somewhere.
    Zero,
    /// Changes places with another file.
    Swap(PathBuf),
    /// Becomes a copy of another file.
    Replace(PathBuf),
}

impl Harm {
    /// One that needs no other file.
    pub fn choose(rng: &mut Rng) -> Harm {
        match rng.below(8) {
            0..=2 => Harm::FlipBit,
            3 => Harm::Truncate,
            4 => Harm::Empty,
            5 => Harm::Grow,
            6 => Harm::Zero,
            _ => Harm::Delete,
        }
    }

    /// Does it to `path`.
    pub fn inflict(&self, path: &Path, rng: &mut Rng) {
        let mut bytes = std::fs::read(path).expect("a file to damage");
        let len = bytes.len() as u64;
        match self {
            Harm::FlipBit => {
                assert!(len > 0, "{} is empty", path.display());
                bytes[rng.below(len) as usize] ^= 1 << rng.below(8);
            }
            Harm::Truncate => bytes.truncate(rng.below(len.max(1)) as usize),
            Harm::Empty => bytes.clear(),
            Harm::Grow => bytes.extend_from_slice(&[0x5a; 777]),
            Harm::Zero => {
                let start = rng.below(len.max(1)) as usize & !4095;
                let end = (start + 4096).min(bytes.len());
                bytes[start..end].fill(0);
            }
            Harm::Delete => return std::fs::remove_file(path).expect("removing a file"),
            Harm::Swap(other) => {
                let theirs = std::fs::read(other).expect("another file");
                std::fs::write(other, std::mem::replace(&mut bytes, theirs)).expect("damaging a file");
            }
            Harm::Replace(other) => bytes = std::fs::read(other).expect("another file"),
        }
        std::fs::write(path, bytes).expect("damaging a file");
    }
}
