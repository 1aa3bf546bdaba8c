//! A whole volume, objects and metadata, on a disk that loses power, used by the real program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use headrace_testbed::mount::{daemons_of, force_unmount};
use headrace_testbed::power::Disk;
use headrace_testbed::writer::{Demand, Writer};
use headrace_testbed::{Finished, Rng, Run, headrace};

use crate::mounted_disk::MountedDisk;

/// A round ends here if there was not enough to do by then for the power to go.
const ROUND_LIMIT: Duration = Duration::from_secs(6);
const WRITERS: u64 = 2;

/// Where everything of this test is.
struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn mount_point(&self) -> PathBuf {
        self.scratch.path().join("mnt")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// A command of the program with the volume and its state below `disk`.
    fn run(&self, disk: &Path, args: &[&str]) -> Run {
        let env: [(OsString, OsString); 2] = [
            ("HEADRACE_STATE_DIR".into(), disk.join("state").into()),
            ("HEADRACE_RUNTIME_DIR".into(), self.scratch.path().join("run").into()),
        ];
        Run::new(headrace()).args(args).envs(&env).limit(Duration::from_secs(120))
    }

    fn mount(&self, disk: &Path, args: &[&str]) -> Finished {
        self.run(disk, &["mount"])
            .arg(disk.join("vol"))
            .arg(self.mount_point())
            .arg("--log-file")
            .arg(self.scratch.path().join("log"))
            .args(args)
            .finish()
    }

    fn umount(&self, disk: &Path) -> Finished {
        self.run(disk, &["umount"]).arg(self.mount_point()).finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        force_unmount(&self.mount_point());
    }
}

/// That many power cuts of one volume.
pub fn power_cuts(rounds: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let scratch = tempfile::Builder::new().prefix("headrace-test-").tempdir().expect("temporary directory");
    let place = Place { scratch };
    let mount_point = place.mount_point();
    let disk_dir = place.scratch.path().join("disk");
    let mut left = place.scratch.path().join("left-0");
    for dir in [&mount_point, &disk_dir, &left] {
        std::fs::create_dir(dir).expect("directory for a test");
    }
    place.run(&left, &["format"]).arg(left.join("vol")).ok();
    let mut writers: Vec<_> =
        (0..WRITERS).map(|n| Writer::new(&format!("writer-{n}"), rng.next_u64())).collect();
    let mut cuts = 0;
    for round in 1..=rounds {
        let mounted =
            MountedDisk::new(Disk::load(&left).expect("loading what the last round left"), &disk_dir);
        // One in four while it is mounted and recovers, the others while it works.
        let work = rng.below(4) != 0;
        if !work {
            mounted.disk.cut_after(rng.below(120));
        }
        // The log's objects are on this disk too: where they count as well, they alone must be enough.
        let in_bucket = rng.below(2) == 0;
        let lose_state = in_bucket && rng.below(2) == 0;
        let durable = if in_bucket { "bucket" } else { "local" };
        let up = place.mount(&disk_dir, &["--lease", "2s", "--durable", durable]);
        if up.status.success() {
            if work {
                mounted.disk.cut_after(rng.below(600));
            }
            let stop = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                for writer in &mut writers {
                    writer.work(scope, mount_point.clone(), stop);
                }
                if !mounted.disk.wait_until_cut(ROUND_LIMIT) {
                    mounted.disk.cut();
                }
                kill_daemons(&mount_point);
            });
        } else {
            assert!(mounted.disk.wait_until_cut(Duration::ZERO), "round {round}: {up}\n{}", place.log());
        }
        mounted.disk.cut();
        force_unmount(&mount_point);
        cuts += 1;

        let image_seed = rng.next_u64();
        let image = mounted.disk.image(image_seed);
        drop(mounted);
        let dir = place.scratch.path().join(format!("left-{round}"));
        image.write_to(&dir).expect("writing what is left");
        let _ = std::fs::remove_dir_all(std::mem::replace(&mut left, dir));

        let told = || format!("HEADRACE_POWERCUT_SEED={seed}: round {round}, image {image_seed}");
        // What was acknowledged before this round was shipped by the unmount that ended the last one.
        let up = if lose_state {
            std::fs::remove_dir_all(left.join("state")).expect("losing the state directory");
            place.mount(&left, &["--lease", "2s", "--takeover"])
        } else {
            place.mount(&left, &["--lease", "2s"])
        };
        assert!(up.status.success(), "{}: {up}\n{}", told(), place.log());
        for writer in &mut writers {
            if let Err(wrong) = writer.verify(&mount_point, Demand::Everything) {
                panic!("{}: {}\n{}", told(), wrong.join("\n"), place.log());
            }
        }
        let down = place.umount(&left);
        assert!(down.status.success(), "{}: {down}\n{}", told(), place.log());
        let checked = place.run(&left, &["fsck", "--data"]).arg(left.join("vol")).finish();
        assert!(checked.status.success(), "{}: {checked}", told());
    }
    let acknowledged: u64 = writers.iter().map(Writer::acknowledged).sum();
    println!("a volume in a directory: {cuts} power cuts, {acknowledged} acknowledged changes, all there");
    assert!(acknowledged > rounds, "only {acknowledged} changes: the power went before any work");
}

fn kill_daemons(mount_point: &Path) {
    for daemon in daemons_of(mount_point) {
        let _ = rustix::process::kill_process(daemon, rustix::process::Signal::KILL);
    }
}
