//! The work that is measured. Everything that is read is compared with what was written.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use headrace_testbed::{pattern, shell};

use crate::place::Place;
use crate::report::Row;

/// How much work.
pub struct Sizes {
    /// Small files, of [`SMALL`] bytes each.
    pub files: u64,
    /// Bytes of the large file.
    pub large: u64,
}

/// Bytes per small file.
const SMALL: usize = 4096;
/// Small files per directory.
const PER_DIRECTORY: u64 = 1_000;
/// Bytes per write and read of the large file.
const BLOCK: usize = 1 << 20;

/// Does all of it in `place`, and gives each figure to `record`.
pub fn all(place: &mut dyn Place, sizes: &Sizes, record: &mut dyn FnMut(Row, f64)) {
    small_files(place, sizes.files, record);
    git(place, record);
    large_file(place, sizes.large, record);
}

fn name(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("d{:04}/f{n:07}", n / PER_DIRECTORY))
}

fn small_files(place: &mut dyn Place, files: u64, record: &mut dyn FnMut(Row, f64)) {
    let dir = place.path().join("small");
    std::fs::create_dir(&dir).expect("directory");
    let rate = |started: Instant| files as f64 / started.elapsed().as_secs_f64();

    let started = Instant::now();
    for n in 0..files {
        if n % PER_DIRECTORY == 0 {
            std::fs::create_dir(dir.join(format!("d{:04}", n / PER_DIRECTORY))).expect("directory");
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(name(&dir, n)).expect("creating");
        file.write_all(&pattern(n, SMALL)).expect("writing");
    }
    record(Row::Create, rate(started));

    place.cold();
    let started = Instant::now();
    let mut listed = 0;
    for directory in std::fs::read_dir(&dir).expect("listing") {
        listed += std::fs::read_dir(directory.expect("entry").path()).expect("listing").count() as u64;
    }
    assert_eq!(listed, files, "a listing is not complete");
    record(Row::ListCold, rate(started));

    place.cold();
    for row in [Row::StatCold, Row::StatWarm] {
        let started = Instant::now();
        for n in 0..files {
            assert_eq!(std::fs::symlink_metadata(name(&dir, n)).expect("stat").len(), SMALL as u64);
        }
        record(row, rate(started));
    }

    place.cold();
    for row in [Row::ReadSmallCold, Row::ReadSmallWarm] {
        let started = Instant::now();
        for n in 0..files {
            let content = std::fs::read(name(&dir, n)).expect("reading");
            assert!(content == pattern(n, SMALL), "file {n} is not what was written");
        }
        record(row, rate(started));
    }

    let started = Instant::now();
    for n in 0..files {
        std::fs::remove_file(name(&dir, n)).expect("removing");
    }
    record(Row::Delete, rate(started));
    std::fs::remove_dir_all(&dir).expect("removing");
}

const REPOSITORY: &str = r#"
    export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=B GIT_AUTHOR_EMAIL=b@example.com
    export GIT_COMMITTER_NAME=B GIT_COMMITTER_EMAIL=b@example.com
    git init --quiet --initial-branch=main source
    cd source
    for d in {1..50}; do
        mkdir -p "d$d"
        for f in {1..100}; do printf "line %s of file $f in $d\n" {1..60} > "d$d/f$f.txt"; done
    done
    git add --all
    git commit --quiet --message one
"#;

fn git(place: &mut dyn Place, record: &mut dyn FnMut(Row, f64)) {
    let source = tempfile::tempdir().expect("temporary directory");
    shell(source.path(), REPOSITORY).ok();
    place.cold();
    let path = place.path();
    let url = source.path().join("source");
    let started = Instant::now();
    shell(&path, &format!("git clone --quiet --no-local {url:?} clone")).ok();
    record(Row::GitClone, started.elapsed().as_secs_f64());
    place.cold();
    let started = Instant::now();
    let status = shell(&path, "git -C clone status --porcelain").ok();
    record(Row::GitStatus, started.elapsed().as_secs_f64());
    assert_eq!(status, "", "the clone is not clean");
    shell(&path, "git -C clone fsck --full --no-progress\nrm -rf clone").ok();
}

fn large_file(place: &mut dyn Place, size: u64, record: &mut dyn FnMut(Row, f64)) {
    let path = place.path().join("large");
    let rate = |started: Instant| size as f64 / 1e6 / started.elapsed().as_secs_f64();
    // Random, so that nothing compresses; made beforehand, so that making it is not measured. Each block is stamped with
    // its number: two blocks are never equal.
    let mut block = pattern(1, BLOCK);
    let stamp = |block: &mut Vec<u8>, n: u64| block[..8].copy_from_slice(&n.to_le_bytes());

    let started = Instant::now();
    let mut file = File::create(&path).expect("creating");
    for n in 0..size / BLOCK as u64 {
        stamp(&mut block, n);
        file.write_all(&block).expect("writing");
    }
    file.sync_all().expect("fsync");
    drop(file);
    record(Row::WriteLarge, rate(started));

    place.cold();
    let mut read = vec![0; BLOCK];
    for row in [Row::ReadLargeCold, Row::ReadLargeWarm] {
        let started = Instant::now();
        let mut file = File::open(&path).expect("opening");
        for n in 0..size / BLOCK as u64 {
            file.read_exact(&mut read).expect("reading");
            stamp(&mut block, n);
            assert!(read == block, "block {n} is not what was written");
        }
        assert_eq!(file.read(&mut read).expect("reading"), 0, "the file is too long");
        record(row, rate(started));
    }
    std::fs::remove_file(&path).expect("removing");
}
