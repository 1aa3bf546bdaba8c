//! Writes that go to this machine's disk first (`--writeback`), against the native file system of the same disk.
//!
//! A descriptor that may write is kept open meanwhile, so that storing begins when all is measured.

use std::collections::BTreeMap;
use std::fs::OpenOptions;

use super::rig::Rig;
use super::{Part, Run};
use crate::account::drop_caches;
use crate::failure::{Context, Result};
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::server::Profile;
use crate::subjects::{Native, Subject, headrace_with};
use crate::worker::{Fsync, Job, Section, Work};

/// Million bytes per second until fsync has returned, and until the last write has.
pub const RATE: &str = "rate";
pub const CALLS: &str = "calls";
/// Processor seconds of writer and daemon for a GiB.
pub const CPU: &str = "cpu";
/// Who is compared.
pub const OURS: &str = "headrace";
pub const NATIVE: &str = "native";
/// What is written.
pub const SEQUENTIAL: &str = "sequential 1 MiB";
pub const RANDOM: &str = "random 4 KiB";
const BLOCK: u64 = 4 << 10;
const SEED: u64 = 17;
const FILE: u64 = 0x6000;
const BY: u64 = 1 << 41;
const GIB: f64 = (1 << 30) as f64;

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let rows: Vec<&str> = [SEQUENTIAL, RANDOM].into_iter().filter(|row| run.wants(row)).collect();
    for repetition in run.repetitions(Part::WriteBack) {
        for row in &rows {
            let mut subjects: Vec<Box<dyn Subject>> =
                vec![headrace_with(vec!["--writeback".into()]), Box::new(Native)];
            subjects.retain(|subject| run.wants_contender(subject.name()));
            run.in_turns(&mut subjects, repetition as usize);
            for subject in &subjects {
                let place = Place { part: Part::WriteBack, row, contender: subject.name(), repetition };
                run.take(place, || written(rig, subject.as_ref(), *row == RANDOM));
            }
        }
    }
}

fn written(rig: &Rig, subject: &dyn Subject, random: bool) -> Result<Figure> {
    rig.fresh(subject)?;
    let mount = rig.mount(subject)?;
    let path = mount.path().join(rig.fresh_name());
    let len = if random { rig.sizes().rewritten / 4 } else { rig.sizes().written };
    let file = Section { path: path.clone(), id: FILE, from: 0, len };
    let held = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .context(|| format!("creating {}", path.display()))?;
    let network = || Profile::Loopback.conditions();
    let whole = Work::WriteEach { files: vec![file.clone()], block: 1 << 20, sync: Fsync::End };
    let (operations, block) = (rig.sizes().blocks, BLOCK);
    let (work, check) = if random {
        rig.measured(&mount, network(), &Job { work: whole, limit: UNMEASURED })?;
        (
            Work::Overwrite { file: file.clone(), by: BY, seed: SEED, operations, block },
            Work::Rewritten { file, by: BY, seed: SEED, operations, block },
        )
    } else {
        (whole, super::rig::compare(vec![file]))
    };
    if !random {
        drop_caches()?;
    }
    let (outcome, cost) = rig.measured(&mount, network(), &Job { work, limit: UNMEASURED })?;
    drop(held);
    let settled = rig.settle(mount, subject)?;
    rig.back(subject, network(), check)?;
    if subject.name() == NATIVE {
        std::fs::remove_file(&path).context(|| format!("removing {}", path.display()))?;
    }
    let megabytes = outcome.bytes as f64 / 1e6;
    let values = BTreeMap::from([
        (RATE, megabytes / outcome.seconds),
        (CALLS, megabytes / outcome.written),
        (CPU, (cost.cpu + outcome.cpu).as_secs_f64() / (outcome.bytes as f64 / GIB)),
        ("daemon", cost.cpu.as_secs_f64()),
        ("until_stored", outcome.seconds + settled.seconds),
    ]);
    Ok((values, Vec::new()))
}
