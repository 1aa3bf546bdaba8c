//! Large files from start to end.

use std::fs::File;
use std::io::{Read, Write};

use crate::files::content::{PAGE, Stream, Version};
use crate::files::error::{Error, On};
use crate::files::worker::Worker;

pub fn write(worker: &mut Worker<'_>) -> Result<(), Error> {
    let path = worker.space.big(worker.thread);
    let stream = Stream::big(worker.thread, Version::First);
    let mut block = worker.block()?;
    let mut file = worker.busy(|| File::create_new(&path)).on("create", &path)?;
    let mut at = 0;
    while at < worker.options.big_size {
        let piece = piece(&mut block, worker.options.big_size - at);
        worker.content.fill(stream, at / PAGE as u64, piece);
        let len = piece.len() as u64;
        worker.operation(len, len, || file.write_all(piece))?.on("write to", &path)?;
        at += len;
    }
    worker.busy(|| file.sync_all()).on("sync", &path)?;
    worker.busy(|| drop(file));
    Ok(())
}

pub fn read(worker: &mut Worker<'_>) -> Result<(), Error> {
    let path = worker.space.big(worker.thread);
    let stream = Stream::big(worker.thread, Version::First);
    let mut block = worker.block()?;
    let mut file = worker.busy(|| File::open(&path)).on("open", &path)?;
    let size = worker.options.big_size;
    let mut at = 0;
    while at < size {
        let piece = piece(&mut block, size - at);
        let len = piece.len() as u64;
        let got = worker.operation(len, len, || read_full(&mut file, piece))?.on("read", &path)?;
        if got < piece.len() {
            return Err(Error::Length { path, expected: size, found: at + got as u64 });
        }
        worker.check(stream, at, piece, &path)?;
        at += len;
    }
    let beyond = worker.busy(|| file.read(&mut block)).on("read", &path)?;
    if beyond > 0 {
        return Err(Error::Length { path, expected: size, found: size + beyond as u64 });
    }
    Ok(())
}

/// The part of `block` that is left to do.
fn piece(block: &mut [u8], left: u64) -> &mut [u8] {
    let len = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
    &mut block[..len]
}

/// Reads until `buffer` is full or the file ends; how much that was.
pub fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
