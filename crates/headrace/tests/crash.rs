//! `kill -9` of the daemon at any moment: what was acknowledged as durable is there afterwards.
//!
//! While writers write, garbage collection without grace, packing, log shipping and snapshots run; the kill comes while all
//! that works, while the volume is being mounted and recovers, or while it is being unmounted.
//!
//! `HEADRACE_CRASH_ROUNDS` sets the number of kills for each test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headrace_testbed::volume::native_only;
use headrace_testbed::writer::{Demand, Writer};
use headrace_testbed::{Backing, Rng, Site, TestVolume, env_number};

const WRITERS: u64 = 3;

/// Small segments, so that every few files are packed and every few changes leave garbage.
const FORMAT: [&str; 2] = ["--segment-size", "1M"];
/// Nothing is kept for later: what is garbage goes at once.
const MOUNT: [&str; 4] = ["--retention", "0s", "--lease", "5s"];

/// What is going on when the daemon is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    Working,
    Mounting,
    Unmounting,
}

fn crash(backing: Backing, default_rounds: u64, more: &[&str]) {
    if native_only() {
        return;
    }
    let rounds = env_number("HEADRACE_CRASH_ROUNDS", default_rounds);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_CRASH_SEED", clock.as_micros() as u64);
    let told = format!("crash on {backing:?} {more:?}: {rounds} rounds; HEADRACE_CRASH_SEED={seed}");
    println!("{told}");
    let mut rng = Rng::new(seed);
    let volume = TestVolume::with_format(backing, &FORMAT);
    let site = Site::new(&volume, "machine").mounting_with(&MOUNT).mounting_with(more);
    let mut writers: Vec<_> =
        (0..WRITERS).map(|n| Writer::new(&format!("writer-{n}"), rng.next_u64()).largest(3 << 20)).collect();
    let mut collected = 0;
    for round in 1..=rounds {
        let moment = match rng.below(10) {
            // The first round has work to lose, however busy the machine is.
            _ if round == 1 => Moment::Working,
            0..=6 => Moment::Working,
            7..=8 => Moment::Mounting,
            _ => Moment::Unmounting,
        };
        if moment == Moment::Mounting {
            std::thread::scope(|scope| {
                let mounting = scope.spawn(|| site.try_mount(&[]));
                std::thread::sleep(Duration::from_millis(rng.below(250)));
                site.kill_daemons();
                // Killed or there: both are fine.
                mounting.join().expect("the thread that mounts");
            });
        } else {
            site.mount(&[]);
            let least = Duration::from_millis(if round == 1 { 3_000 } else { 100 });
            collected += work(&site, &mut writers, &mut rng, moment, least);
        }
        if round % 3 == 0 {
            // The mount that died stays behind, and mounting has to deal with it.
            site.kill_daemons();
        } else {
            site.kill();
        }
        site.mount(&[]);
        for writer in &mut writers {
            if let Err(wrong) = writer.verify(&site.mount_point(), Demand::Everything) {
                panic!(
                    "{told}\nround {round}, killed while {moment:?}:\n{}\n{}",
                    wrong.join("\n"),
                    site.log()
                );
            }
        }
        site.umount();
        site.assert_clean();
    }
    let acknowledged: u64 = writers.iter().map(Writer::acknowledged).sum();
    println!(
        "crash on {backing:?} {more:?}: {rounds} kills, {acknowledged} acknowledged changes, all there; garbage was \
         collected {collected} times"
    );
    let expected = if rounds < 20 { 1 } else { rounds * 3 };
    assert!(acknowledged >= expected, "only {acknowledged} changes: the kills came before any work");
}

/// Writers and housekeeping until the kill; how often garbage was collected.
fn work(site: &Site, writers: &mut [Writer], rng: &mut Rng, moment: Moment, least: Duration) -> u64 {
    let mount_point = &site.mount_point();
    let stop = &AtomicBool::new(false);
    let mut collected = 0;
    std::thread::scope(|scope| {
        for writer in writers {
            writer.work(scope, mount_point.clone(), stop);
        }
        let housekeeping = scope.spawn(move || {
            let mut collected = 0;
            while !stop.load(Ordering::Relaxed) {
                let gc = site.command(&["gc", "--grace", "0s"]).arg(mount_point).finish();
                collected += u64::from(gc.status.success());
                site.command(&["flush"]).arg(mount_point).finish();
            }
            collected
        });
        // Long enough for some work, short and random enough to meet every stage of it.
        std::thread::sleep(least + Duration::from_millis(rng.below(1_500)));
        if moment == Moment::Unmounting {
            // Users first: nothing can be unmounted under them.
            stop.store(true, Ordering::Relaxed);
            let delay = Duration::from_millis(rng.below(300));
            let unmounting = scope.spawn(move || site.command(&["umount"]).arg(mount_point).finish());
            std::thread::sleep(delay);
            site.kill_daemons();
            unmounting.join().expect("the thread that unmounts");
        }
        site.kill_daemons();
        stop.store(true, Ordering::Relaxed);
        collected = housekeeping.join().expect("the thread that keeps house");
    });
    collected
}

#[test]
fn acknowledged_changes_survive_a_kill_on_the_local_store() {
    crash(Backing::Local, 7, &[]);
}

#[test]
fn acknowledged_changes_survive_a_kill_on_s3() {
    crash(Backing::S3, 4, &[]);
}

/// New files on this machine's disk, stored slowly: a kill comes before, while and after they are stored.
#[test]
fn acknowledged_changes_survive_a_kill_when_they_are_written_back() {
    crash(Backing::S3, 4, &["--writeback", "--upload-rate", "4M"]);
}

#[test]
fn acknowledged_changes_survive_a_kill_with_durability_in_the_bucket() {
    crash(Backing::S3, 3, &["--durable", "bucket"]);
}
