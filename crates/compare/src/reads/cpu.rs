//! Processor time of cold sequential reads against a client that has no file system to be.

use std::collections::BTreeMap;

use headrace_netlab::Conditions;

use super::rig::Rig;
use super::{Part, Run};
use crate::failure::Result;
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::worker::{Job, Objects, Work};

/// Processor seconds for a GiB: of the daemon, or of the bare client.
pub const CPU: &str = "cpu";
/// The same of the program that reads.
pub const READER: &str = "reader";
/// Million bytes per second.
pub const RATE: &str = "rate";
/// Who is compared.
pub const OURS: &str = "headrace";
/// With what.
pub const BARE: &str = "bare GETs";
/// And with the same through the HTTP library, as most clients do it.
pub const LIBRARY: &str = "GETs by the HTTP library";
/// What the bare client has in flight, and how large.
const CONNECTIONS: usize = 8;
const REQUEST: u64 = 4 << 20;

/// One reader, and four.
const ROWS: [(&str, u64); 2] = [("1 stream", 1), ("4 streams", 4)];

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    for repetition in run.repetitions(Part::Cpu) {
        for (row, streams) in ROWS.into_iter().filter(|(row, _)| run.wants(row)).collect::<Vec<_>>() {
            let mut all = [OURS, BARE, LIBRARY];
            run.in_turns(&mut all, repetition as usize);
            for contender in all {
                let place = Place { part: Part::Cpu, row, contender, repetition };
                run.take(place, || match contender {
                    OURS => ours(rig, streams),
                    _ => bare(rig, contender == LIBRARY),
                });
            }
        }
    }
}

fn ours(rig: &Rig, streams: u64) -> Result<Figure> {
    let work = Work::Watch { threads: rig.sections(streams)?, block: 1 << 20 };
    let (outcome, cost) = rig.cold(&[], Conditions::default(), &Job { work, limit: UNMEASURED })?;
    let gib = outcome.bytes as f64 / f64::from(1 << 30);
    let values = BTreeMap::from([
        (CPU, cost.cpu.as_secs_f64() / gib),
        (READER, outcome.cpu.as_secs_f64() / gib),
        (RATE, outcome.bytes as f64 / 1e6 / outcome.seconds),
    ]);
    Ok((values, Vec::new()))
}

fn bare(rig: &Rig, by_library: bool) -> Result<Figure> {
    let (into, objects) = (rig.scratch()?, Objects { by_library, ..rig.objects() });
    let (id, len) = (objects.id, objects.len);
    let work = Work::Get { objects, into: into.clone(), connections: CONNECTIONS, request: REQUEST };
    let outcome = rig.bare(Conditions::default(), work)?;
    rig.check(&into, id, len)?;
    let gib = outcome.bytes as f64 / f64::from(1 << 30);
    let values = BTreeMap::from([
        (CPU, outcome.cpu.as_secs_f64() / gib),
        (RATE, outcome.bytes as f64 / 1e6 / outcome.seconds),
    ]);
    Ok((values, Vec::new()))
}
