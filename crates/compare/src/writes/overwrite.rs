//! Blocks of 4 KiB anywhere in a large file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rig::{Rig, stored};
use super::{Part, Run};
use crate::account::drop_caches;
use crate::failure::Result;
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::server::Profile;
use crate::subjects::{Family, Native, Subject, headrace_with};
use crate::worker::{self, Fsync, Job, Section, Work};

/// Writes per second until fsync has returned.
pub const RATE: &str = "rate";
/// The same until the last write has.
pub const CALLS: &str = "calls";
/// Seconds of the fsync.
pub const FSYNC: &str = "fsync";
/// Bytes stored, until the volume is unmounted, for each byte written; and requests that stored them.
pub const PUT_BYTES: &str = "put_bytes";
pub const PUTS: &str = "puts";
/// Pieces that 64 MiB of the file lie in afterwards.
pub const EXTENTS: &str = "extents";
/// Microseconds of the daemon's processor time for a write.
pub const CPU: &str = "cpu";
/// Million bytes per second, read cold from the first to the last byte afterwards.
pub const BACK: &str = "back";
/// Who is measured.
pub const OURS: &str = "headrace";
const BLOCK: u64 = 4 << 10;
const SEED: u64 = 13;
/// What the content of the file, and of the first write, is a function of.
const FILE: u64 = 0x5000;
const BY: u64 = 1 << 40;

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let networks = [Profile::Loopback, Profile::Slow];
    let networks: Vec<Profile> = networks.into_iter().filter(|network| run.wants(network.name())).collect();
    for repetition in run.repetitions(Part::Overwrite) {
        for network in &networks {
            let mut subjects: Vec<Box<dyn Subject>> = vec![headrace_with(Vec::new())];
            if *network == Profile::Loopback {
                subjects.push(Box::new(Native));
            }
            subjects.retain(|subject| run.wants_contender(subject.name()));
            run.in_turns(&mut subjects, repetition as usize);
            for subject in &subjects {
                let (row, contender) = (network.name(), subject.name());
                let place = Place { part: Part::Overwrite, row, contender, repetition };
                run.take(place, || overwritten(rig, subject.as_ref(), *network));
            }
        }
    }
}

fn overwritten(rig: &Rig, subject: &dyn Subject, network: Profile) -> Result<Figure> {
    rig.fresh(subject)?;
    let path = rig.root(subject)?.join("overwritten");
    let file = Section { path: path.clone(), id: FILE, from: 0, len: rig.sizes().rewritten };
    let mount = rig.mount(subject)?;
    let work = Work::WriteEach { files: vec![file.clone()], block: 1 << 20, sync: Fsync::End };
    worker::run(&Job { work, limit: UNMEASURED })?;
    rig.settle(mount, subject)?;

    let (seed, operations, block) = (SEED, rig.sizes().blocks, BLOCK);
    let mount = rig.mount(subject)?;
    drop_caches()?;
    let work = Work::Overwrite { file: file.clone(), by: BY, seed, operations, block };
    let (outcome, cost) = rig.measured(&mount, network.conditions(), &Job { work, limit: UNMEASURED })?;
    let ours = subject.family() == Family::HeadraceS3;
    let extents = if ours { density(&rig.info(&path)?) } else { None };
    let settled = rig.settle(mount, subject)?;

    let work = Work::Rewritten { file, by: BY, seed, operations, block };
    let (back, _) = rig.back(subject, Profile::Loopback.conditions(), work)?;
    if !ours {
        std::fs::remove_file(&path).ok();
    }
    let (puts, put_bytes) = stored(&[&cost.passed, &settled.passed]);
    let writes = outcome.operations.max(1) as f64;
    let mut values = BTreeMap::from([
        (RATE, writes / outcome.seconds),
        (CALLS, writes / outcome.written),
        (FSYNC, outcome.seconds - outcome.written),
        ("until_unmounted", outcome.seconds + settled.seconds),
        ("p99_ms", outcome.p99.unwrap_or_default() * 1e3),
        (PUT_BYTES, put_bytes as f64 / outcome.bytes.max(1) as f64),
        (PUTS, puts as f64),
        (CPU, (cost.cpu + settled.cpu).as_secs_f64() * 1e6 / writes),
        ("memory", cost.memory as f64),
        (BACK, back.bytes as f64 / 1e6 / back.seconds),
    ]);
    values.extend(extents.map(|extents| (EXTENTS, extents)));
    Ok((values, Vec::new()))
}

/// Extents for 64 MiB of a file, of what `headrace info --json` says of its beginning.
fn density(info: &Value) -> Option<f64> {
    let extents = info.get("extents")?.as_array()?;
    let last = extents.last()?;
    let end = last.get("offset")?.as_u64()? + last.get("len")?.as_u64()?;
    Some(extents.len() as f64 / end.max(1) as f64 * f64::from(64 << 20))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extents_are_counted_as_far_as_they_are_told() {
        let info =
            json!({"extents": [{"offset": 0, "len": 4096}, {"offset": 4096, "len": (32 << 20) - 4096}]});
        assert_eq!(density(&info), Some(4.0));
        assert_eq!(density(&json!({})), None);
        assert_eq!(density(&json!({"extents": []})), None);
    }
}
