//! What was written here and is stored stays here, as cached data.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use headrace_testbed::mapping::SharedMapping;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, TestVolume, pattern};

use super::{assert_stored_by_itself, writing_back};

const MIB: usize = 1 << 20;
const SIZES: [usize; 4] = [70_000, 300_000, 3 * MIB + 5, 66 * MIB + 1];

/// The store answers after ten seconds: whoever needed it would be found out.
#[test]
fn what_is_stored_is_read_without_the_store() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let cache = format!("cache-dir={}", volume.scratch().join("disk").display());
    let options = writing_back().option(&format!("endpoint={}", proxy.endpoint())).option(&cache);
    let mounted = volume.mount_with(&options);
    for (n, size) in SIZES.into_iter().enumerate() {
        fs::write(mounted.join(n.to_string()), pattern(n as u64, size)).unwrap();
    }
    assert_stored_by_itself(&volume);
    let check = |when: &str| {
        proxy.always(Fault::Delay(Duration::from_secs(10)));
        let began = Instant::now();
        for (n, size) in SIZES.into_iter().enumerate() {
            let content = fs::read(volume.mount_point().join(n.to_string())).unwrap();
            assert!(content == pattern(n as u64, size), "{n} {when}");
        }
        assert!(began.elapsed() < Duration::from_secs(9), "{when} it came from the store");
        proxy.always(Fault::None);
    };
    check("when it is stored");
    let mounted = mounted.remount();
    check("after another mount");

    // By the kernel itself, as what was fetched.
    let file = File::open(mounted.join("3")).unwrap();
    let status = volume.command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let passed = status["cache"]["passed_through"].as_u64();
    assert_eq!(passed, Some(1), "{status}");
    drop(file);

    // And what it was is not read once it is something else.
    let path = mounted.join("2");
    let mut expected = pattern(2, SIZES[2]);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"more").unwrap();
    expected.extend_from_slice(b"more");
    drop(file);
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[7; 5000], 70_000).unwrap();
    expected[70_000..75_000].fill(7);
    assert!(fs::read(&path).unwrap() == expected);
    let mounted = mounted.remount();
    assert!(fs::read(&path).unwrap() == expected, "after another mount");
    mounted.unmount();
    volume.assert_clean();
}

/// One that is written, stored, cached, emptied and written again, many times, is always what it was last.
#[test]
fn a_file_that_is_new_again_and_again_is_what_it_was_last() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&writing_back());
    let path = mounted.join("file");
    // Each round is another stage at which it is changed.
    for round in 0..6_u64 {
        let size = 400_000 + round as usize % 3 * 200_000;
        let mut expected = pattern(round, size);
        fs::write(&path, &expected).unwrap();
        if round % 2 == 0 {
            assert_stored_by_itself(&volume);
            assert!(fs::read(&path).unwrap() == expected, "round {round}, stored");
        }
        // Written through a mapping of what may be cached by now.
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mapping = SharedMapping::new(&file, size).unwrap();
        mapping.write(size - 100, &[round as u8; 100]);
        expected[size - 100..].fill(round as u8);
        file.sync_all().unwrap();
        drop((mapping, file));
        assert!(fs::read(&path).unwrap() == expected, "round {round}");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
    let expected = pattern(77, MIB);
    fs::write(&path, &expected).unwrap();
    let mounted = mounted.remount();
    assert!(fs::read(&path).unwrap() == expected);
    mounted.unmount();
    volume.assert_clean();
}
