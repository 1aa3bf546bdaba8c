//! Pages of large files in random order.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::big::read_full;
use crate::files::content::{PAGE, Stream, Version};
use crate::files::error::{Error, On};
use crate::files::permutation::Permutation;
use crate::files::worker::Worker;

/// In which order a thread takes the pages: another one to write than to read, or a cache that has just been read into would
/// be what is measured.
fn order(worker: &Worker<'_>, writes: bool) -> Permutation {
    Permutation::new(worker.options.pages(), worker.seed ^ u64::from(worker.thread) << 1 ^ u64::from(writes))
}

pub fn read(worker: &mut Worker<'_>) -> Result<(), Error> {
    let path = worker.space.big(worker.thread);
    let stream = Stream::big(worker.thread, Version::First);
    let order = order(worker, false);
    let mut page = [0; PAGE];
    let file = worker.busy(|| File::open(&path)).on("open", &path)?;
    let end = Instant::now() + worker.options.random_time;
    for at in (0..).map_while(|i| order.get(i)) {
        let offset = at * PAGE as u64;
        worker.operation(PAGE as u64, 1, || file.read_exact_at(&mut page, offset))?.on("read", &path)?;
        worker.check(stream, offset, &page, &path)?;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(())
}

pub fn write(worker: &mut Worker<'_>) -> Result<(), Error> {
    let path = worker.space.big(worker.thread);
    let stream = Stream::big(worker.thread, Version::Second);
    let order = order(worker, true);
    let mut page = [0; PAGE];
    let file = worker.busy(|| OpenOptions::new().write(true).open(&path)).on("open", &path)?;
    let end = Instant::now() + worker.options.random_time;
    for at in (0..).map_while(|i| order.get(i)) {
        worker.content.fill(stream, at, &mut page);
        let offset = at * PAGE as u64;
        worker.operation(PAGE as u64, 1, || file.write_all_at(&page, offset))?.on("write to", &path)?;
        if Instant::now() >= end {
            break;
        }
    }
    worker.busy(|| file.sync_all()).on("sync", &path)?;
    Ok(())
}

/// Reads a large file from start to end: the pages that were overwritten must be new, all others as they were.
pub fn check_written(worker: &mut Worker<'_>, written: u64) -> Result<(), Error> {
    let path = worker.space.big(worker.thread);
    let order = order(worker, true);
    let mut new = Bits::new(worker.options.pages());
    (0..written).filter_map(|i| order.get(i)).for_each(|page| new.set(page));
    let mut block = worker.block()?;
    let mut file = File::open(&path).on("open", &path)?;
    let mut at = 0;
    loop {
        worker.go_on()?;
        let got = read_full(&mut file, &mut block).on("read", &path)?;
        for (index, page) in (at / PAGE as u64..).zip(block[..got].chunks(PAGE)) {
            let version = if new.get(index) { Version::Second } else { Version::First };
            worker.check(Stream::big(worker.thread, version), index * PAGE as u64, page, &path)?;
        }
        at += got as u64;
        if got < block.len() {
            break;
        }
    }
    let expected = worker.options.big_size;
    if at == expected { Ok(()) } else { Err(Error::Length { path, expected, found: at }) }
}

/// A set of pages.
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: u64) -> Bits {
        // 1 TiB, the largest file, is 32 MiB of bits.
        Bits(vec![0; usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX >> 4)])
    }

    fn set(&mut self, at: u64) {
        if let Some(word) = self.0.get_mut((at / 64) as usize) {
            *word |= 1 << (at % 64);
        }
    }

    fn get(&self, at: u64) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}
