//! Many threads at once.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use crate::support::{Mounted, by_io_uring};

#[test]
fn thirty_two_threads_of_mixed_work() {
    let mounted = Mounted::new();
    fs::create_dir(mounted.path("shared")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..32_usize {
            let mounted = &mounted;
            scope.spawn(move || {
                let own = mounted.path(&format!("own{thread}"));
                fs::create_dir(&own).unwrap();
                for round in 0..40_usize {
                    let data = vec![(thread * 7 + round) as u8; 1 + (thread * 1000 + round * 977) % 70_000];
                    let path = own.join(format!("f{round}"));
                    fs::write(&path, &data).unwrap();
                    assert_eq!(fs::read(&path).unwrap(), data);
                    let moved = mounted.path(&format!("shared/{thread}-{round}"));
                    fs::rename(&path, &moved).unwrap();
                    assert_eq!(fs::metadata(&moved).unwrap().len(), data.len() as u64);
                    if round % 3 == 0 {
                        fs::remove_file(&moved).unwrap();
                    }
                    fs::read_dir(mounted.path("shared")).unwrap().for_each(|entry| drop(entry.unwrap()));
                }
                assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
                fs::remove_dir(&own).unwrap();
            });
        }
    });
    assert_eq!(fs::read_dir(mounted.path("shared")).unwrap().count(), 32 * 26);
}

#[test]
fn appends_by_many_writers_do_not_overlap() {
    let mounted = Mounted::new();
    let path = mounted.path("log");
    File::create(&path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8_u8 {
            let path = &path;
            scope.spawn(move || {
                let file = File::options().append(true).open(path).unwrap();
                for _ in 0..200 {
                    std::io::Write::write_all(&mut &file, &[b'a' + writer; 100]).unwrap();
                }
            });
        }
    });
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 8 * 200 * 100);
    assert!(bytes.chunks(100).all(|record| record.iter().all(|byte| *byte == record[0])));
}

#[test]
fn slow_reads_do_not_hold_up_the_others() {
    let mounted = Mounted::new();
    fs::write(mounted.path("slow.direct"), vec![3; 4096]).unwrap();
    fs::write(mounted.path("fast"), b"fast").unwrap();
    std::thread::scope(|scope| {
        // More than there are workers; but a ring's processor has that many entries only, and what waits keeps its own.
        let slow: Vec<_> = (0..if by_io_uring() { 10 } else { 40 })
            .map(|_| {
                scope.spawn(|| {
                    let mut space = [0; 4096];
                    File::open(mounted.path("slow.direct")).unwrap().read_exact_at(&mut space, 0).unwrap();
                })
            })
            .collect();
        let begun = std::time::Instant::now();
        for _ in 0..100 {
            assert_eq!(fs::read(mounted.path("fast")).unwrap(), b"fast");
        }
        assert!(begun.elapsed() < std::time::Duration::from_millis(400), "{:?}", begun.elapsed());
        slow.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
