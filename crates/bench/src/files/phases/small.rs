//! Small files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;

use super::big::read_full;
use crate::files::content::Stream;
use crate::files::error::{Error, On};
use crate::files::space::PER_DIRECTORY;
use crate::files::worker::Worker;

pub fn write(worker: &mut Worker<'_>) -> Result<(), Error> {
    let mut content = vec![0; worker.options.small_size as usize];
    let fsync = worker.options.fsync;
    for number in 0..worker.options.small_count {
        if number.is_multiple_of(PER_DIRECTORY) {
            let directory = worker.space.directory(worker.thread, number);
            worker.busy(|| fs::create_dir(&directory)).on("create", &directory)?;
        }
        worker.content.fill(Stream::small(worker.thread, number), 0, &mut content);
        let path = worker.space.small(worker.thread, number);
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(&content)?;
            if fsync { file.sync_all() } else { Ok(()) }
        };
        worker.operation(content.len() as u64, 1, write)?.on("write", &path)?;
    }
    Ok(())
}

pub fn read(worker: &mut Worker<'_>) -> Result<(), Error> {
    let size = worker.options.small_size;
    // One byte more than there should be, to notice a file that has grown.
    let mut content = vec![0; size as usize + 1];
    for number in 0..worker.options.small_count {
        let path = worker.space.small(worker.thread, number);
        let read = || read_full(&mut File::open(&path)?, &mut content);
        let got = worker.operation(size, 1, read)?.on("read", &path)?;
        if got as u64 != size {
            return Err(Error::Length { path, expected: size, found: got as u64 });
        }
        worker.check(Stream::small(worker.thread, number), 0, &content[..got], &path)?;
    }
    Ok(())
}

pub fn stat(worker: &mut Worker<'_>) -> Result<(), Error> {
    let expected = worker.options.small_size;
    for number in 0..worker.options.small_count {
        let path = worker.space.small(worker.thread, number);
        let found = worker.operation(0, 1, || fs::symlink_metadata(&path))?.on("stat", &path)?.len();
        if found != expected {
            return Err(Error::Length { path, expected, found });
        }
    }
    Ok(())
}

pub fn list(worker: &mut Worker<'_>) -> Result<(), Error> {
    let count = worker.options.small_count;
    for first in (0..count).step_by(PER_DIRECTORY as usize) {
        let path = worker.space.directory(worker.thread, first);
        let names: Vec<u32> = (first..count.min(first + PER_DIRECTORY)).collect();
        let expected = names.len() as u64;
        let list = || {
            fs::read_dir(&path)?
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<std::io::Result<Vec<_>>>()
        };
        let listed = worker.operation(0, expected, list)?.on("list", &path)?;
        let entries = listed.len() as u64;
        let mut listed: HashSet<_> = listed.into_iter().collect();
        let known =
            names.iter().filter(|&&n| listed.remove(worker.space.small_name(n).as_os_str())).count() as u64;
        if known != expected || entries != expected {
            return Err(Error::Listing {
                path,
                expected,
                found: if known < expected { known } else { entries },
            });
        }
    }
    Ok(())
}

pub fn rename(worker: &mut Worker<'_>) -> Result<(), Error> {
    for number in 0..worker.options.small_count {
        let from = worker.space.small(worker.thread, number);
        let to = worker.space.renamed(worker.thread, number);
        worker.operation(0, 1, || fs::rename(&from, &to))?.on("rename", &from)?;
    }
    Ok(())
}

pub fn delete(worker: &mut Worker<'_>) -> Result<(), Error> {
    for number in 0..worker.options.small_count {
        let path = worker.space.renamed(worker.thread, number);
        worker.operation(0, 1, || fs::remove_file(&path))?.on("delete", &path)?;
    }
    Ok(())
}

/// Only empty directories can be deleted: a file that came back, or an old name that stayed, is found.
pub fn delete_directories(worker: &mut Worker<'_>) -> Result<(), Error> {
    for first in (0..worker.options.small_count).step_by(PER_DIRECTORY as usize) {
        worker.go_on()?;
        let path = worker.space.directory(worker.thread, first);
        fs::remove_dir(&path).on("delete the directory, empty by now,", &path)?;
    }
    Ok(())
}
