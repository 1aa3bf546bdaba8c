//! What a mount learned of the store, and of those who read, is there for the next one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, Fault, FaultProxy, MountOptions, Mounted, Run, TestVolume, direct, pattern};

const MIB: usize = 1 << 20;
/// Bytes of a file that are enough for what is known to be believed, and too few to say by themselves how many fetches are needed.
const SMALL: usize = 768 << 10;

/// Fetches that may be in flight.
fn allowed(mounted: &Mounted<'_>) -> f64 {
    let status = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let socket = status["metrics"]["socket"].as_str().expect("a socket for metrics");
    let told =
        Run::new("curl").args(["-sS", "--fail", "--unix-socket", socket, "http://localhost/metrics"]).ok();
    let line = told.lines().find_map(|line| line.strip_prefix("headrace_read_fetches_allowed "));
    line.and_then(|value| value.parse().ok()).expect("a number of fetches")
}

/// Large files: what was read of the last two streams is what is learned of how far one goes.
const LARGE: [&str; 2] = ["one", "other"];

/// Reads a small file, and then all of the large ones; how many fetches might be in flight in between.
fn begin(mounted: &Mounted<'_>, written: &[u8]) -> f64 {
    let mut found = vec![0; MIB];
    // The kernel reads nothing ahead; nothing is on a local disk, so the buffer need not be aligned.
    let past_the_page_cache = direct::open(&mounted.join("small")).unwrap();
    past_the_page_cache.read_exact_at(&mut found[..SMALL], 0).unwrap();
    assert!(found[..SMALL] == written[..SMALL], "small: other bytes");
    let allowed = allowed(mounted);
    drop(past_the_page_cache);
    for name in LARGE {
        let (file, mut at) = (File::open(mounted.join(name)).unwrap(), 0);
        for wanted in written.chunks(MIB) {
            file.read_exact_at(&mut found[..wanted.len()], at).unwrap();
            assert!(found[..wanted.len()] == *wanted, "{name}: other bytes at {at}");
            at += wanted.len() as u64;
        }
    }
    allowed
}

/// Where what was learned is kept.
fn record(volume: &TestVolume) -> PathBuf {
    let status = volume.command(&["status", "--json"]).arg(volume.mount_point()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    PathBuf::from(status["state_dir"].as_str().expect("the state directory")).join("reading.json")
}

#[test]
fn as_much_as_the_last_mount_found_to_be_of_use_is_in_flight_after_the_first_bytes() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let data = pattern(11, 128 * MIB);
    let mounted = volume.mount();
    for name in LARGE {
        std::fs::write(mounted.join(name), &data).unwrap();
    }
    std::fs::write(mounted.join("small"), &data[..SMALL]).unwrap();
    mounted.unmount();
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    proxy.always(Fault::Delay(Duration::from_millis(150)));
    let options = MountOptions::default()
        .option(&format!("endpoint={}", proxy.endpoint()))
        .arg("--cache-size")
        .arg("off");
    let mounted = volume.mount_with(&options);
    let record = record(&volume);
    assert_eq!(begin(&mounted, &data), 8.0, "nothing is known yet");
    mounted.unmount();
    let read_record = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(&record).expect("it was written")).expect("JSON")
    };
    let mut learned = read_record();
    let number = |name: &str| learned[name].as_u64().expect("a number");
    assert!((150_000..600_000).contains(&number("latency_us")), "{learned}");
    assert!(number("run") >= data.len() as u64 && number("rate") > 1_000_000, "{learned}");
    // However much it was on a busy machine, and however slowly it came: a second for each MiB, 19 of them in a second. That is 19 fetches and
    // some slack; more if the latency takes as long as the bytes. Or one of them in a second, and so no more than if nothing were known.
    for (rate, expected) in [(20_000_000, 26.0..54.0), (1_000_000, 8.0..8.5)] {
        (learned["rate"], learned["mib_us"]) = (rate.into(), 1_000_000.into());
        std::fs::write(&record, learned.to_string()).unwrap();
        let mounted = volume.mount_with(&options);
        let allowed = begin(&mounted, &data);
        assert!(expected.contains(&allowed), "{allowed}: {learned}");
        mounted.unmount();
        assert_ne!(read_record(), learned, "it was learned anew");
    }
    // It is no loss if it cannot be read.
    std::fs::write(&record, "{\"latency_us\":").unwrap();
    let mounted = volume.mount_with(&options);
    assert_eq!(begin(&mounted, &data), 8.0, "nothing can be known");
    mounted.unmount();
    assert!(read_record()["latency_us"].is_u64());
}
