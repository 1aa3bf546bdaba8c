//! Cold reads of files in a store, on real mounts: the right bytes whatever happens on the way, little more than was asked for, and
//! nobody waits for what hangs.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::{
    Backing, Fault, FaultProxy, MountOptions, Mounted, Rng, Run, TestVolume, direct, pattern,
};

const MIB: usize = 1 << 20;

/// A figure of a mount's metrics, all labels together.
fn figure(mounted: &Mounted<'_>, name: &str) -> f64 {
    let status = mounted.volume().command(&["status", "--json"]).arg(mounted.path()).ok();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let socket = status["metrics"]["socket"].as_str().expect("a socket for metrics");
    let told =
        Run::new("curl").args(["-sS", "--fail", "--unix-socket", socket, "http://localhost/metrics"]).ok();
    let of_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    };
    let figures: Vec<f64> = told
        .lines()
        .filter(of_it)
        .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number"))
        .collect();
    assert!(!figures.is_empty(), "no {name} in {told}");
    figures.iter().sum()
}

fn write(path: &Path, data: &[u8]) {
    let file = File::create(path).unwrap();
    file.write_all_at(data, 0).unwrap();
    file.sync_all().unwrap();
}

fn same(what: &str, found: &[u8], wanted: &[u8]) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let differs = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
    assert_eq!(differs, None, "{what}: first differing byte");
}

/// Reads 4 KiB, which are to be what was written.
fn read_page(file: &File, written: &[u8], page: u64) {
    let at = page as usize * 4096;
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, at as u64).unwrap();
    same("4 KiB", &found, &written[at..at + 4096]);
}

/// Reads a file from end to end in calls of `size` bytes.
fn read_through(path: &Path, size: usize) -> Vec<u8> {
    let mut file = File::open(path).unwrap();
    let mut content = Vec::new();
    let mut buffer = vec![0; size];
    loop {
        let len = file.read(&mut buffer).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if len == 0 {
            return content;
        }
        content.extend_from_slice(&buffer[..len]);
    }
}

#[test]
fn a_small_read_anywhere_fetches_little() {
    if native_only() {
        return;
    }
    const READS: u64 = 40;
    for format in [&[][..], &["--compression", "lz4"]] {
        let volume = TestVolume::with_format(Backing::S3, format);
        let mounted = volume.mount();
        let data = pattern(1, 48 * MIB);
        write(&mounted.join("file"), &data);
        let mounted = mounted.remount();
        let file = File::open(mounted.join("file")).unwrap();
        let received = || figure(&mounted, "headrace_store_received_bytes_total");
        let before = received();
        let mut rng = Rng::new(7);
        for _ in 0..READS {
            // Of one corner: what is read all over is fetched whole.
            read_page(&file, &data, rng.below(6 * 256));
        }
        let each = (received() - before) / READS as f64;
        assert!(each <= 65536.0, "{each} bytes came for each 4096 ({format:?})");
        drop(file);
        mounted.unmount();
    }
}

#[test]
fn a_file_that_is_read_all_over_comes_once() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount_with(&MountOptions::default().option("memory=512MiB"));
    let data = pattern(1, 24 * MIB);
    write(&mounted.join("file"), &data);
    let mounted = mounted.remount();
    let file = File::open(mounted.join("file")).unwrap();
    let before = figure(&mounted, "headrace_store_received_bytes_total");
    let mut rng = Rng::new(7);
    for _ in 0..4000 {
        read_page(&file, &data, rng.below(24 * 256));
    }
    let received = figure(&mounted, "headrace_store_received_bytes_total") - before;
    let most = 1.1 * data.len() as f64;
    assert!(received <= most, "{received} bytes came of a file of {}", data.len());
    assert!(figure(&mounted, "headrace_read_whole_files_total") >= 1.0);
    drop(file);
    mounted.unmount();
}

/// What has no room in memory comes onto the local disk, if that has room for twice as much.
#[test]
fn a_file_larger_than_memory_that_is_read_all_over_comes_onto_the_local_disk() {
    if native_only() {
        return;
    }
    let size = 192 * MIB;
    let data = pattern(12, size);
    for (cache_size, whole) in [("1GiB", true), ("256MiB", false)] {
        let volume = TestVolume::new(Backing::S3);
        let options = MountOptions::default().option("memory=64MiB").arg("--cache-size").arg(cache_size);
        let mounted = volume.mount_with(&options);
        write(&mounted.join("file"), &data);
        let mounted = mounted.remount();
        let file = File::open(mounted.join("file")).unwrap();
        let mut rng = Rng::new(7);
        let mut read = || read_page(&file, &data, rng.below(size as u64 / 4096));
        let received = || figure(&mounted, "headrace_store_received_bytes_total");
        let wholes = || figure(&mounted, "headrace_read_whole_files_total");
        let before = received();
        let until = Instant::now() + Duration::from_secs(if whole { 120 } else { 5 });
        while wholes() == 0.0 && Instant::now() < until {
            (0..200).for_each(|_| read());
        }
        assert_eq!(wholes() > 0.0, whole, "{cache_size}");
        if whole {
            let came = received() - before;
            assert!(came <= 1.25 * size as f64, "{came} bytes came of a file of {size}");
            // By now it is on the disk.
            std::thread::sleep(Duration::from_secs(1));
            let before = received();
            (0..2_000).for_each(|_| read());
            let came = received() - before;
            assert!(came <= 0.05 * size as f64, "{came} bytes came of what is here");
        }
        drop(file);
        mounted.unmount();
    }
}

/// What was written is packed into segments, but for so many bytes.
fn packed(mounted: &Mounted<'_>, but: usize) {
    File::open(mounted.path()).unwrap().sync_all().unwrap();
    // What fills a segment is packed at once.
    let began = Instant::now();
    while figure(mounted, "headrace_inline_bytes") > but as f64 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is packed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// They lie in more segments than memory has room for, and each of them is read here and there.
#[test]
fn small_files_read_in_any_order_come_by_their_segments_onto_the_local_disk() {
    if native_only() {
        return;
    }
    const FILES: u64 = 8000;
    const SIZE: usize = 16 << 10;
    let all = (FILES as usize * SIZE) as f64;
    let volume = TestVolume::with_format(Backing::S3, &["--segment-size", "8M"]);
    let options = MountOptions::default().option("memory=64MiB").arg("--cache-size").arg("1GiB");
    let mounted = volume.mount_with(&options);
    let path = |mounted: &Mounted<'_>, n: u64| mounted.join(format!("d{:02}/f{n:04}", n / 100));
    for n in 0..FILES {
        if n % 100 == 0 {
            std::fs::create_dir(mounted.join(format!("d{:02}", n / 100))).unwrap();
        }
        std::fs::write(path(&mounted, n), pattern(n, SIZE)).unwrap();
    }
    packed(&mounted, 8 * MIB);
    let mounted = mounted.remount();
    let (mut order, mut rng): (Vec<u64>, Rng) = ((0..FILES).collect(), Rng::new(3));
    order.sort_by_cached_key(|_| rng.next_u64());
    let read = |n: u64| {
        let found = std::fs::read(path(&mounted, n)).unwrap();
        same(&format!("f{n:04}"), &found, &pattern(n, SIZE));
    };
    let requests = || figure(&mounted, "headrace_store_requests_total");
    let received = || figure(&mounted, "headrace_store_received_bytes_total");
    let before = (requests(), received());
    order.iter().for_each(|n| read(*n));
    let (asked, came) = (requests() - before.0, received() - before.1);
    assert!(came <= 2.0 * all, "{came} bytes came of {all}");
    assert!(asked <= FILES as f64 / 8.0, "{asked} requests for {FILES} files");
    assert!(figure(&mounted, "headrace_read_whole_files_total") >= 8.0);
    // By now they are on the disk.
    std::thread::sleep(Duration::from_secs(1));
    let before = received();
    order.iter().rev().step_by(4).for_each(|n| read(*n));
    let came = received() - before;
    assert!(came <= 0.1 * all, "{came} bytes came of what is here");
    mounted.unmount();
}

#[test]
fn small_files_read_in_order_come_ahead_of_their_reader() {
    if native_only() {
        return;
    }
    const FILES: u64 = 1000;
    const SIZE: usize = 12 << 10;
    let volume = TestVolume::with_format(Backing::S3, &["--segment-size", "8M"]);
    let mounted = volume.mount();
    for n in 0..FILES {
        std::fs::write(mounted.join(format!("f{n:04}")), pattern(n, SIZE)).unwrap();
    }
    packed(&mounted, 6 * MIB);
    let mounted = mounted.remount();
    let requests = || figure(&mounted, "headrace_store_requests_total");
    let before = requests();
    for n in 0..FILES {
        let found = std::fs::read(mounted.join(format!("f{n:04}"))).unwrap();
        same(&format!("f{n:04}"), &found, &pattern(n, SIZE));
    }
    // Six MiB are 24 pieces of the size in which single files are got.
    let asked = requests() - before;
    assert!((1.0..=18.0).contains(&asked), "{asked} requests");
    mounted.unmount();
}

/// Too long for the metadata, too short for streams of their own.
#[test]
fn files_of_some_hundred_kib_come_with_their_neighbours() {
    if native_only() {
        return;
    }
    const FILES: u64 = 300;
    let size = |n: u64| (70 + n * 37 % 180) as usize * 1024;
    let volume = TestVolume::with_format(Backing::S3, &["--segment-size", "8M"]);
    let mounted = volume.mount();
    for n in 0..FILES {
        std::fs::write(mounted.join(format!("f{n:04}")), pattern(n, size(n))).unwrap();
    }
    let mounted = mounted.remount();
    let requests = || figure(&mounted, "headrace_store_requests_total");
    let received = || figure(&mounted, "headrace_store_received_bytes_total");
    let before = (requests(), received());
    for n in 0..FILES {
        let found = std::fs::read(mounted.join(format!("f{n:04}"))).unwrap();
        same(&format!("f{n:04}"), &found, &pattern(n, size(n)));
    }
    let (asked, came) = (requests() - before.0, received() - before.1);
    assert!((1.0..=FILES as f64 / 2.5).contains(&asked), "{asked} requests for {FILES} files");
    let all: usize = (0..FILES).map(size).sum();
    assert!(came <= 1.2 * all as f64, "{came} bytes came of {all}");
    mounted.unmount();
}

#[test]
fn many_readers_at_once_read_what_was_written_within_their_memory() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let options = MountOptions::default().option("memory=128MiB");
    let mounted = volume.mount_with(&options);
    const FILES: u64 = 16;
    let size = 6 * MIB + 12_345;
    for n in 0..FILES {
        write(&mounted.join(format!("f{n}")), &pattern(n, size));
    }
    let mounted = mounted.remount();
    std::thread::scope(|scope| {
        for n in 0..FILES {
            let path = mounted.join(format!("f{n}"));
            scope.spawn(move || {
                let chunk = [256 << 10, 128 << 10, 4096, 1 << 20][(n % 4) as usize];
                same(&path.display().to_string(), &read_through(&path, chunk), &pattern(n, size));
            });
        }
        for _ in 0..20 {
            let (used, limit) =
                (figure(&mounted, "headrace_memory_bytes"), figure(&mounted, "headrace_memory_limit_bytes"));
            assert!(used <= limit, "{used} of {limit}");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    mounted.unmount();
    // Four streams on one descriptor, backwards and in strides: each in its own order. Without a cache, or the kernel would read its copy.
    let mounted = volume.mount_with(&options.option("cache-size=off"));
    let wanted = pattern(3, size);
    let file = direct::open(&mounted.join("f3")).unwrap();
    let read = |at: usize, len: usize| {
        let mut found = vec![0; len];
        file.read_exact_at(&mut found, at as u64).unwrap();
        same(&format!("{len} bytes at {at}"), &found, &wanted[at..at + len]);
    };
    for turn in 0..12 {
        (0..4).for_each(|stream| read(stream * 3 * MIB / 2 + turn * (128 << 10), 128 << 10));
    }
    (0..40).rev().for_each(|block| read(block * (128 << 10), 128 << 10));
    (0..20).for_each(|block| read(block * (256 << 10), 16 << 10));
    drop(file);
    mounted.unmount();
}

/// The kernel reads ahead of each by 16 MiB and more, in what order it likes when it has much to do: that is one stream each, nevertheless.
#[test]
fn what_many_read_from_end_to_end_is_fetched_once() {
    if native_only() {
        return;
    }
    const FILES: u64 = 8;
    let size = 40 * MIB;
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    for n in 0..FILES {
        write(&mounted.join(format!("f{n}")), &pattern(n, size));
    }
    mounted.unmount();
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    proxy.always(Fault::Delay(Duration::from_millis(15)));
    let options = MountOptions::default().option(&format!("endpoint={}", proxy.endpoint()));
    let mounted = volume.mount_with(&options);
    std::thread::scope(|scope| {
        for n in 0..FILES {
            let path = mounted.join(format!("f{n}"));
            scope.spawn(move || {
                same(&path.display().to_string(), &read_through(&path, MIB), &pattern(n, size));
            });
        }
    });
    let fetched = figure(&mounted, "headrace_read_fetched_bytes_total");
    let most = 1.02 * (FILES * size as u64) as f64;
    assert!(fetched <= most, "{fetched} bytes of {most}");
    mounted.unmount();
}

/// What is fetched ahead is kept on the local disk as well. A reader who is slower finds it in memory, so that his stream sees him go on.
#[test]
fn what_is_cached_while_its_reader_rests_is_one_stream_and_fetched_for_somebody() {
    if native_only() {
        return;
    }
    let (size, piece) = (192 * MIB, 16 * MIB);
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    write(&mounted.join("file"), &pattern(11, size));
    mounted.unmount();
    let mounted = volume.mount();
    let file = File::open(mounted.join("file")).unwrap();
    let wanted = pattern(11, size);
    let mut found = vec![0; piece];
    for start in (0..size).step_by(piece) {
        file.read_exact_at(&mut found, start as u64).unwrap();
        same(&format!("from {start} on"), &found, &wanted[start..start + piece]);
        // So long takes the cache to write what it has.
        std::thread::sleep(Duration::from_millis(300));
    }
    let streams = figure(&mounted, "headrace_read_streams");
    drop(file);
    let bytes = |what: &str| figure(&mounted, &format!("headrace_{what}_bytes_total"));
    let (cached, fetched, wasted) = (bytes("disk_cache_filled"), bytes("read_fetched"), bytes("read_wasted"));
    let [hedged, hung, given_up] =
        ["hedges", "hung", "cancelled"].map(|what| figure(&mounted, &format!("headrace_read_{what}_total")));
    let size = size as f64;
    let told = format!(
        "{streams} streams; of {size} bytes {fetched} fetched, {wasted} in vain, {cached} cached; {hedged} hedged, {hung} hung, {given_up} given up"
    );
    // What comes first may come as two, of which one is given up with a fetch or two of several MiB.
    assert!(streams <= 2.0 && fetched <= 1.05 * size && wasted <= 0.05 * size, "{told}");
    assert!(cached >= size / 2.0, "nothing is shown unless most is cached meanwhile: {told}");
    mounted.unmount();
}

#[test]
fn the_right_bytes_whatever_happens_on_the_way() {
    if native_only() {
        return;
    }
    let volume = TestVolume::with_format(Backing::S3, &["--segment-size", "4MiB"]);
    let data = pattern(5, 40 * MIB + 777);
    let mounted = volume.mount();
    write(&mounted.join("file"), &data);
    mounted.unmount();
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    let options = MountOptions::default()
        .option("request-timeout=2000ms")
        .option(&format!("endpoint={}", proxy.endpoint()));
    for (seed, menu) in [
        (1, &[Fault::Busy(0), Fault::Broken, Fault::TooMany][..]),
        (2, &[Fault::Reset, Fault::ResetAnswer(300_000), Fault::Truncate(200_000), Fault::Shorten(70_000)]),
        (3, &[Fault::StallAnswer(100_000), Fault::Hang, Fault::Delay(Duration::from_millis(400))]),
        (4, &[Fault::CorruptAnswer]),
    ] {
        let mounted = volume.mount_with(&options);
        proxy.mix(seed, 200, menu);
        same(&format!("{menu:?}"), &read_through(&mounted.join("file"), MIB), &data);
        proxy.always(Fault::None);
        // And on when it is over.
        let mounted = mounted.remount();
        same("afterwards", &read_through(&mounted.join("file"), MIB), &data);
        mounted.unmount();
    }
    assert!(proxy.faults() >= 4, "{} answers were spoiled", proxy.faults());
}

/// The answer that hangs would be given up after 20 s; a second request brings the same bytes long before.
/// Programs that take all processors for themselves are noticed while somebody reads, and he reads what was written.
#[test]
fn that_processors_are_busy_is_noticed() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let data = pattern(23, 32 * MIB);
    let mounted = volume.mount();
    write(&mounted.join("file"), &data);
    mounted.unmount();
    let mounted = volume.mount_with(&MountOptions::default().arg("--cache-size").arg("off"));
    assert_eq!(figure(&mounted, "headrace_read_processors_busy"), 0.0, "nobody has read");
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // The kernel keeps nothing of it.
        let file = direct::open(&mounted.join("file")).unwrap();
        let (mut found, mut noticed) = (vec![0; MIB], false);
        let until = Instant::now() + Duration::from_secs(60);
        while !noticed && Instant::now() < until {
            for (at, wanted) in data.chunks(MIB).enumerate() {
                file.read_exact_at(&mut found, (at * MIB) as u64).unwrap();
                if found != wanted {
                    enough.store(true, Ordering::Relaxed);
                    same("while processors are busy", &found, wanted);
                }
            }
            noticed = figure(&mounted, "headrace_read_processors_busy") == 1.0;
        }
        enough.store(true, Ordering::Relaxed);
        assert!(noticed, "within a minute");
    });
    mounted.unmount();
}

#[test]
fn nobody_waits_for_an_answer_that_hangs() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let data = pattern(9, 96 * MIB);
    let mounted = volume.mount();
    write(&mounted.join("file"), &data);
    mounted.unmount();
    let proxy = FaultProxy::start(volume.s3().expect("S3").address());
    // Too little memory for all to be there before anything hangs.
    let options = MountOptions::default().option("memory=128M");
    let options = options.option(&format!("endpoint={}", proxy.endpoint()));
    let mounted = volume.mount_with(&options);
    let file = File::open(mounted.join("file")).unwrap();
    let mut found = vec![0; data.len()];
    // What is fetched ahead meanwhile is a part of the rest.
    let (first, rest) = found.split_at_mut(4 * MIB);
    file.read_exact_at(first, 0).unwrap();
    proxy.next(&[Fault::StallAnswer(100_000), Fault::None, Fault::Hang]);
    let began = Instant::now();
    file.read_exact_at(rest, 4 * MIB as u64).unwrap();
    let took = began.elapsed();
    same("file", &found, &data);
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(figure(&mounted, "headrace_read_hedges_total") >= 1.0);
    drop(file);
    mounted.unmount();
}

/// What was fetched ahead is not what was written since.
#[test]
fn a_file_that_is_written_while_it_is_read_shows_what_was_written() {
    if native_only() {
        return;
    }
    let volume = TestVolume::new(Backing::S3);
    let mounted = volume.mount();
    let path = mounted.join("file");
    let mut data = pattern(11, 16 * MIB);
    write(&path, &data);
    let mounted = mounted.remount();
    let reader = direct::open(&path).unwrap();
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut rng = Rng::new(3);
    let chunk = 256 << 10;
    for at in (0..data.len()).step_by(chunk) {
        // Ahead of the reader, where its window is.
        let len = 1 + rng.below(200_000) as usize;
        let ahead = at + rng.below(3 << 20) as usize;
        let new = pattern(at as u64, len);
        writer.write_all_at(&new, ahead as u64).unwrap();
        data.resize(data.len().max(ahead + len), 0);
        data[ahead..ahead + len].copy_from_slice(&new);
        match rng.below(4) {
            0 => writer.sync_all().unwrap(),
            1 => {
                let end = data.len() - rng.below(100_000) as usize;
                writer.set_len(end as u64).unwrap();
                data.truncate(end);
                data.resize(end + 70_000, 0);
                writer.set_len(data.len() as u64).unwrap();
            }
            _ => {}
        }
        let mut found = vec![0; chunk.min(data.len() - at)];
        reader.read_exact_at(&mut found, at as u64).unwrap();
        same(&format!("at {at}"), &found, &data[at..at + found.len()]);
    }
    drop((reader, writer));
    same("in the end", &std::fs::read(&path).unwrap(), &data);
    let mounted = mounted.remount();
    same("after a remount", &std::fs::read(&path).unwrap(), &data);
    mounted.unmount();
    volume.assert_clean();
}
