//! The machine is lost: the bucket alone brings the volume back.
//!
//! With `--durable bucket` nothing that was acknowledged is missing. With the default, what is missing is younger than the
//! lag that `headrace status` stated, and what is left is the state of one moment.
//!
//! `HEADRACE_LOST_ROUNDS` sets the number of lost machines for each test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headrace_testbed::volume::native_only;
use headrace_testbed::writer::{Demand, Kept, Writer};
use headrace_testbed::{Backing, Rng, Site, TestVolume, env_number};

const WRITERS: u64 = 3;
const MOUNT: [&str; 4] = ["--lease", "2s", "--retention", "0s"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Durable {
    Local,
    Bucket,
}

fn lose_machines(backing: Backing, durable: Durable, default_rounds: u64, format: &[&str]) {
    if native_only() {
        return;
    }
    let rounds = env_number("HEADRACE_LOST_ROUNDS", default_rounds);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock after 1970");
    let seed = env_number("HEADRACE_LOST_SEED", clock.as_micros() as u64);
    let told = format!(
        "machines lost on {backing:?}, durable {durable:?}: {rounds} rounds; HEADRACE_LOST_SEED={seed}"
    );
    println!("{told}");
    let mut rng = Rng::new(seed);
    let volume = TestVolume::with_format(backing, format);
    let mut writers: Vec<_> =
        (0..WRITERS).map(|n| Writer::new(&format!("writer-{n}"), rng.next_u64()).largest(2 << 20)).collect();
    let (mut total, mut longest_lag) = (Kept::default(), Duration::ZERO);
    for round in 1..=rounds {
        // Every machine is a new one: it has nothing but the URL.
        let site = Site::new(&volume, &format!("machine-{round}")).mounting_with(&MOUNT);
        let site = match durable {
            Durable::Local => site,
            Durable::Bucket => site.mounting_with(&["--durable", "bucket"]),
        };
        // The machine before is dead, and did not say goodbye.
        if round > 1 && rng.below(2) == 0 {
            site.command(&["restore", "--takeover", "--lease", "2s"]).arg(site.url()).ok();
        }
        site.mount(&["--takeover"]);
        if round > 1 {
            verify(&site, &mut writers, Demand::Everything, &told, round);
        }
        let demand = work_until_lost(&site, &mut writers, &mut rng, durable, &mut longest_lag);
        site.kill();
        site.lose_state();

        let site = Site::new(&volume, &format!("rescuer-{round}")).mounting_with(&MOUNT);
        let refused = site.try_mount(&[]);
        assert!(
            refused.status.code() == Some(4) && refused.stderr.contains("--takeover"),
            "{told}\nround {round}: nobody may take a volume from an owner that may be alive without saying so: {refused}"
        );
        site.mount(&["--takeover"]);
        let kept = verify(&site, &mut writers, demand, &told, round);
        (total.kept, total.lost) = (total.kept + kept.kept, total.lost + kept.lost);
        site.umount();
        site.assert_clean();
        // This one says goodbye, and is gone as well.
        site.lose_state();
    }
    println!(
        "machines lost on {backing:?}, durable {durable:?}: {rounds} machines, {} acknowledged changes there, {} lost within the \
         stated lag of {longest_lag:?} at most",
        total.kept, total.lost
    );
    assert!(durable == Durable::Local || total.lost == 0);
    assert!(
        total.kept as u64 > rounds * 3,
        "only {} changes: the machines were lost before any work",
        total.kept
    );
}

/// Writers work, then the machine goes; what must be there afterwards.
fn work_until_lost(
    site: &Site,
    writers: &mut [Writer],
    rng: &mut Rng,
    durable: Durable,
    longest_lag: &mut Duration,
) -> Demand {
    let mount_point = &site.mount_point();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in writers {
            writer.work(scope, mount_point.clone(), stop);
        }
        std::thread::sleep(Duration::from_millis(200 + rng.below(2_000)));
        let demand = match durable {
            Durable::Bucket => Demand::Everything,
            Durable::Local => {
                // The lag is of some moment after this one.
                let asked = Instant::now();
                let status = site.status().expect("the status of a mount that works");
                let lag = status["log"]["lag_ms"].as_u64().expect("the lag is stated");
                let lag = Duration::from_millis(lag);
                *longest_lag = lag.max(*longest_lag);
                Demand::Before(asked.checked_sub(lag).expect("a lag shorter than the uptime of this machine"))
            }
        };
        site.kill_daemons();
        stop.store(true, Ordering::Relaxed);
        demand
    })
}

fn verify(site: &Site, writers: &mut [Writer], demand: Demand, told: &str, round: u64) -> Kept {
    let mut total = Kept::default();
    for writer in writers {
        match writer.verify(&site.mount_point(), demand) {
            Ok(kept) => (total.kept, total.lost) = (total.kept + kept.kept, total.lost + kept.lost),
            Err(wrong) => panic!("{told}\nround {round}:\n{}\n{}", wrong.join("\n"), site.log()),
        }
    }
    total
}

#[test]
fn the_bucket_has_everything_that_was_acknowledged_on_the_local_store() {
    lose_machines(Backing::Local, Durable::Bucket, 3, &[]);
}

#[test]
fn the_bucket_has_everything_that_was_acknowledged_on_s3() {
    lose_machines(Backing::S3, Durable::Bucket, 3, &["--compression", "zstd"]);
}

#[test]
fn no_more_is_lost_than_status_said_on_the_local_store() {
    lose_machines(Backing::Local, Durable::Local, 2, &[]);
}

#[test]
fn no_more_is_lost_than_status_said_on_s3() {
    lose_machines(Backing::S3, Durable::Local, 2, &[]);
}
