//! One file: its bytes now, those that are durable, and the changes in between.

use std::ops::Range;

use super::SECTOR;
use crate::Rng;

/// A change of the bytes that no sync has covered yet.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Resize(usize),
}

/// The content of a regular file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileContent {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

impl FileContent {
    /// A file that is durable as it is.
    pub(super) fn durable(bytes: Vec<u8>) -> FileContent {
        FileContent { current: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.current.len()
    }

    pub(super) fn read(&self, range: Range<usize>) -> &[u8] {
        let end = range.end.min(self.current.len());
        &self.current[range.start.min(end)..end]
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        put(&mut self.current, offset, data);
        self.unsynced.push(Change::Write { offset, data: data.to_vec() });
    }

    pub(super) fn resize(&mut self, len: usize) {
        self.current.resize(len, 0);
        self.unsynced.push(Change::Resize(len));
    }

    pub(super) fn zero(&mut self, range: Range<usize>) {
        let end = range.end.min(self.current.len());
        if range.start < end {
            self.write(range.start, &vec![0; end - range.start]);
        }
    }

    /// Makes everything so far durable.
    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write { offset, data } => put(&mut self.durable, offset, &data),
                Change::Resize(len) => self.durable.resize(len, 0),
            }
        }
    }

    /// What may be left after a power cut.
    pub(super) fn after_cut(&self, rng: &mut Rng) -> Vec<u8> {
        let count = self.unsynced.len();
        let fate = Fate::choose(rng, count);
        // Sizes are kept up to here.
        let sizes = match fate {
            Fate::Nothing => 0,
            Fate::Everything => count,
            Fate::Prefix { whole } => whole + rng.below(2) as usize,
            Fate::Sectors { .. } => rng.below(count as u64 + 1) as usize,
        };
        // `running` is the state that programs saw after each change; `image` what the disk has of it.
        let (mut running, mut image) = (self.durable.clone(), self.durable.clone());
        let mut size = image.len();
        for (index, change) in self.unsynced.iter().enumerate() {
            match change {
                Change::Resize(len) => {
                    if index >= sizes && *len < running.len() {
                        break;
                    }
                    running.resize(*len, 0);
                    image.truncate(*len);
                }
                Change::Write { offset, data } => {
                    put(&mut running, *offset, data);
                    let manner = fate.of_write(rng, index);
                    for sector in sectors(*offset, data.len()) {
                        if manner.keeps(rng) {
                            let end = sector.end.min(running.len());
                            put(&mut image, sector.start, &running[sector.start..end]);
                        }
                    }
                }
            }
            if index < sizes {
                size = running.len();
            }
        }
        image.resize(size, 0);
        image
    }
}

/// What becomes of a file's unsynced changes as a whole. The extremes are common in life and the best at finding bugs, so
/// they are not left to many coins falling the same way.
#[derive(Clone, Copy)]
enum Fate {
    Nothing,
    Everything,
    /// Those before `whole` are there, that one is torn, the rest is lost.
    Prefix {
        whole: usize,
    },
    /// Each on its own.
    Sectors {
        percent: u64,
    },
}

impl Fate {
    fn choose(rng: &mut Rng, count: usize) -> Fate {
        match rng.below(8) {
            0 => Fate::Nothing,
            1 => Fate::Everything,
            2..=4 => Fate::Prefix { whole: rng.below(count as u64 + 1) as usize },
            _ => Fate::Sectors { percent: 5 + rng.below(91) },
        }
    }

    fn of_write(self, rng: &mut Rng, index: usize) -> Manner {
        match self {
            Fate::Nothing => Manner::Lost,
            Fate::Everything => Manner::Whole,
            Fate::Prefix { whole } if index < whole => Manner::Whole,
            Fate::Prefix { whole } if index == whole => Manner::Torn { percent: 50 },
            Fate::Prefix { .. } => Manner::Lost,
            Fate::Sectors { percent } => match rng.below(3) {
                0 => Manner::Torn { percent },
                _ if rng.below(100) < percent => Manner::Whole,
                _ => Manner::Lost,
            },
        }
    }
}

#[derive(Clone, Copy)]
enum Manner {
    Lost,
    Whole,
    Torn { percent: u64 },
}

impl Manner {
    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Manner::Lost => false,
            Manner::Whole => true,
            Manner::Torn { percent } => rng.below(100) < percent,
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// The sectors that `len` bytes at `offset` touch, whole.
fn sectors(offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    let first = offset / SECTOR;
    let last = (offset + len).div_ceil(SECTOR);
    (first..last).map(|number| number * SECTOR..(number + 1) * SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_stays_and_each_sector_is_one_of_its_states() {
        for seed in 0..2_000 {
            let mut file = FileContent::default();
            file.write(0, &[1; 4 * SECTOR]);
            file.sync();
            file.write(SECTOR, &[2; 2 * SECTOR]);
            file.write(SECTOR, &[3; 100]);
            let left = file.after_cut(&mut Rng::new(seed));
            assert_eq!(left.len(), 4 * SECTOR, "no size was changed");
            assert_eq!(left[..SECTOR], [1; SECTOR]);
            assert_eq!(left[3 * SECTOR..], [1; SECTOR]);
            let states = [vec![1; SECTOR], vec![2; SECTOR], [vec![3; 100], vec![2; SECTOR - 100]].concat()];
            assert!(states[..].contains(&left[SECTOR..2 * SECTOR].to_vec()), "seed {seed}");
            assert!(states[..2].contains(&left[2 * SECTOR..3 * SECTOR].to_vec()), "seed {seed}");
        }
    }

    #[test]
    fn every_outcome_of_an_unsynced_write_happens() {
        let mut file = FileContent::durable(vec![1; 2 * SECTOR]);
        file.write(0, &[2; 2 * SECTOR]);
        let outcomes: std::collections::BTreeSet<_> = (0..200)
            .map(|seed| {
                let left = file.after_cut(&mut Rng::new(seed));
                (left[0], left[SECTOR])
            })
            .collect();
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }

    #[test]
    fn a_lost_truncation_hides_what_came_after_it() {
        for seed in 0..2_000 {
            let mut file = FileContent::durable(vec![1; 4 * SECTOR]);
            file.resize(0);
            file.write(0, &[2; SECTOR]);
            let left = file.after_cut(&mut Rng::new(seed));
            match left.len() / SECTOR {
                4 => assert!(left.iter().all(|byte| *byte == 1), "seed {seed}"),
                1 => assert!(left == [2; SECTOR] || left == [0; SECTOR], "seed {seed}"),
                0 => {}
                other => panic!("seed {seed}: {other} sectors"),
            }
        }
    }
}
