//! While one thread alone asks, one of the daemon's workers stays on its processor and takes all requests: nobody else waits longer for it,
//! and it is over when it is.

use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headrace_testbed::process::wait_until;
use headrace_testbed::volume::native_only;
use headrace_testbed::{Backing, MountOptions, Mounted, TestVolume, pattern};

const LONG: Duration = Duration::from_secs(120);

/// By /dev/fuse, whatever the other suites are run with.
fn mounted(volume: &TestVolume) -> Mounted<'_> {
    volume.mount_with(&MountOptions { options: Vec::new(), args: Vec::new() })
}

/// The processors that the daemon's FUSE workers may run on, as the kernel writes them.
fn workers(mounted: &Mounted<'_>) -> Vec<String> {
    let tasks = format!("/proc/{}/task", mounted.daemon().as_raw_nonzero());
    let of = |task: &Path| -> Option<String> {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        field("Name:")?.starts_with("fuse-").then(|| field("Cpus_allowed_list:"))?
    };
    let tasks = fs::read_dir(tasks).expect("the daemon's threads");
    tasks.filter_map(|task| of(&task.expect("a thread").path())).collect()
}

fn on_one(processors: &str) -> bool {
    !processors.contains(['-', ','])
}

/// Whether no more threads run than there are processors.
fn to_spare() -> bool {
    let loadavg = fs::read_to_string("/proc/loadavg").expect("loadavg");
    let running =
        loadavg.split(' ').nth(3).and_then(|threads| threads.split('/').next()?.parse::<usize>().ok());
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    running.expect("how many threads run") <= processors
}

/// Asks for a name that the kernel cannot know of yet.
fn ask(mounted: &Mounted<'_>) {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    missing(&mounted.join(format!("not there {}", ASKED.fetch_add(1, Ordering::Relaxed))));
}

fn missing(path: &Path) {
    let error = fs::symlink_metadata(path).expect_err("nothing has that name");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
}

#[test]
fn a_worker_stays_with_who_asks_alone_and_all_are_free_again_after() {
    let one = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
    if native_only() || one {
        return;
    }
    let volume = TestVolume::new(Backing::Local);
    let mounted = mounted(&volume);
    let before = workers(&mounted);
    assert!(before.len() > 1 && !before.iter().any(|one| on_one(one)), "{before:?}");
    let done = AtomicBool::new(false);
    let (looks, spare) = (Cell::new(0), Cell::new(0));
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                ask(&mounted);
            }
        });
        // On a machine that is busy the scheduler needs no help, so this may take a while, or not be at all.
        let seen = wait_until(LONG, || {
            let now = workers(&mounted);
            looks.set(looks.get() + 1);
            spare.set(spare.get() + u32::from(to_spare()));
            now.iter().any(|one| on_one(one)).then_some(now)
        });
        done.store(true, Ordering::Relaxed);
        seen
    });
    match seen {
        Some(seen) => assert_eq!(seen.iter().filter(|one| on_one(one)).count(), 1, "{seen:?}"),
        None => {
            let (looks, spare) = (looks.get(), spare.get());
            assert!(
                spare * 2 < looks,
                "none stayed, though a processor was free at {spare} of {looks} looks"
            );
        }
    }
    // A worker that has nothing to do stays where it is: whoever asks next finds it so, and by and by all have been asked.
    let freed = wait_until(LONG, || {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| ask(&mounted))));
        });
        (workers(&mounted) == before).then_some(())
    });
    assert!(freed.is_some(), "{:?}", workers(&mounted));
    mounted.unmount();
}

#[test]
fn others_are_answered_whatever_who_asked_alone_does_next() {
    let volume = TestVolume::new(Backing::Local);
    let mounted = mounted(&volume);
    let until = Instant::now() + Duration::from_secs(5);
    std::thread::scope(|scope| {
        // Has a companion in the first half of each turn; in the second it keeps its processor busy.
        scope.spawn(|| {
            let mut turn = 1;
            while Instant::now() < until {
                let asking = Instant::now() + Duration::from_millis(turn % 40);
                while Instant::now() < asking {
                    ask(&mounted);
                }
                let busy = Instant::now() + Duration::from_millis(turn * 7 % 30);
                while Instant::now() < busy {
                    std::hint::spin_loop();
                }
                turn += 13;
            }
        });
        scope.spawn(|| {
            let mut round = 0_u64;
            while Instant::now() < until {
                let (path, renamed) = (mounted.join("one"), mounted.join("other"));
                let content = pattern(round, 5000);
                fs::write(&path, &content).unwrap();
                fs::rename(&path, &renamed).unwrap();
                assert!(fs::read(&renamed).unwrap() == content, "round {round}");
                missing(&path);
                fs::remove_file(&renamed).unwrap();
                round += 1;
                std::thread::sleep(Duration::from_millis(round % 5));
            }
            assert!(round > 10, "{round} rounds in 5 s");
        });
    });
    mounted.unmount();
    volume.assert_clean();
}

/// A program that begins closes the files that are not for it, each with a request, and until that is done nobody can look at it: not the
/// daemon either, which has to answer.
#[test]
fn programs_begin_while_many_files_are_open_here() {
    let volume = TestVolume::new(Backing::Local);
    let mounted = mounted(&volume);
    let open: Vec<fs::File> = (0..200)
        .map(|number| {
            let path = mounted.join(format!("open {number}"));
            fs::write(&path, pattern(number, 100)).unwrap();
            fs::File::options().append(true).open(path).unwrap()
        })
        .collect();
    for round in 0..100 {
        for mut file in &open {
            file.write_all(b"more").unwrap();
        }
        // A child process that is made a program of has all of them.
        let begun = Command::new("true").status().unwrap();
        assert!(begun.success(), "round {round}: {begun}");
    }
    drop(open);
    for number in 0..200 {
        let expected = [pattern(number, 100), b"more".repeat(100)].concat();
        assert!(fs::read(mounted.join(format!("open {number}"))).unwrap() == expected);
    }
    mounted.unmount();
    volume.assert_clean();
}
