//! Changes to a file while others read it from the disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use super::{Passed, all, pattern};
use crate::mapping::Mapping;
use crate::memory::opens::Way;

#[test]
fn a_writer_that_is_heard_and_readers_that_are_not_see_the_same() {
    const LEN: usize = 100_000;
    let mut data = pattern(LEN);
    let passed = Passed::with("f", &data);
    let reader = passed.open("f", Way::Passed).unwrap();
    let mappings = [Mapping::shared(&reader, LEN).unwrap(), Mapping::private(&reader, LEN).unwrap()];
    let writer = passed.open_writable("f", Way::PassedDirect).unwrap();
    assert!(all(&reader) == data && mappings.iter().all(|mapping| mapping.read(0, LEN) == data));

    for (round, at) in [0_usize, 4096, 5000, 65_530, LEN - 300].into_iter().enumerate() {
        let (reads, writes) = (passed.reads(), passed.writes());
        let piece = vec![round as u8; 300];
        writer.write_all_at(&piece, at as u64).unwrap();
        data[at..at + 300].copy_from_slice(&piece);
        assert_eq!(passed.writes(), writes + 1);
        assert!(passed.fs().data("f") == data);
        assert!(all(&reader) == data);
        assert!(mappings.iter().all(|mapping| mapping.read(0, LEN) == data));
        assert_eq!(passed.reads(), reads);
    }
    // What the writer reads is asked of the file system, as what it writes is.
    let reads = passed.reads();
    assert!(all(&writer) == data);
    assert!(passed.reads() > reads);

    writer.write_all_at(b"longer", LEN as u64).unwrap();
    data.extend_from_slice(b"longer");
    assert_eq!(fs::metadata(passed.path("f")).unwrap().len(), data.len() as u64);
    assert!(all(&reader) == data);
    // More readers come and go, and the file is as it was left.
    drop(reader);
    assert!(all(&passed.open("f", Way::Passed).unwrap()) == data);
    drop((mappings, writer));
    assert!(fs::read(passed.path("f")).unwrap() == data);
}

#[test]
fn a_file_grows_and_shrinks_under_its_readers() {
    const LEN: usize = 50_000;
    let mut data = pattern(LEN);
    let passed = Passed::with("f", &data);
    let reader = passed.open("f", Way::Passed).unwrap();
    let mapping = Mapping::shared(&reader, LEN).unwrap();
    for len in [12_345, 40_000, 0, 9000, 70_000] {
        File::options().write(true).open(passed.path("f")).unwrap().set_len(len as u64).unwrap();
        data.resize(len, 0);
        assert_eq!(fs::metadata(passed.path("f")).unwrap().len(), len as u64);
        assert!(all(&reader) == data, "{len}");
        assert!(mapping.read(0, len.min(LEN)) == data[..len.min(LEN)], "{len}");
        assert!(passed.fs().data("f") == data);
    }
    let writer = passed.open_writable("f", Way::PassedDirect).unwrap();
    writer.set_len(60_000).unwrap();
    data.truncate(60_000);
    assert!(all(&reader) == data && all(&writer) == data);
}

/// What a file system that must hear of every change has to look out for.
#[test]
fn a_writer_that_maps_writes_to_the_disk_unheard() {
    const LEN: usize = 20_000;
    let mut data = pattern(LEN);
    let passed = Passed::with("f", &data);
    let reader = passed.open("f", Way::Passed).unwrap();
    let writer = passed.open_writable("f", Way::PassedDirect).unwrap();
    let writes = passed.writes();
    let mapping = Mapping::writable(&writer, LEN).unwrap();
    mapping.write(777, b"unheard");
    data[777..784].copy_from_slice(b"unheard");
    assert!(all(&reader) == data);
    writer.sync_all().unwrap();
    drop((mapping, writer, reader));
    assert_eq!(passed.writes(), writes);
    assert!(fs::read(passed.path("f")).unwrap() == data);
}

#[test]
fn a_new_file_is_written_by_the_kernel() {
    let data = pattern(300_000);
    let passed = Passed::new();
    let mut named = File::create_new(passed.path("new.passed")).unwrap();
    let mut unnamed = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(passed.mounted.root())
        .unwrap();
    for file in [&mut named, &mut unnamed] {
        file.write_all(&data).unwrap();
        assert_eq!(file.metadata().unwrap().len(), data.len() as u64);
    }
    assert!(all(&unnamed) == data);
    assert!(passed.fs().data("new.passed") == data);
    drop((named, unnamed));
    assert!(fs::read(passed.path("new.passed")).unwrap() == data);
    assert_eq!((passed.reads(), passed.writes()), (0, 0));
}
