//! Large files, written and synced, against the same bytes stored as objects by a client that has no file system to be.

use std::collections::BTreeMap;

use headrace_netlab::Conditions;

use super::rig::{Rig, compare, shared_link, stored};
use super::{Part, Results, Run};
use crate::account::drop_caches;
use crate::failure::Result;
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::server::Profile;
use crate::subjects::headrace_with;
use crate::worker::{Fsync, Job, Section, Work};

/// Million bytes per second until fsync has returned, or the last PUT has.
pub const RATE: &str = "rate";
/// The same until the volume is unmounted.
pub const STORED: &str = "stored";
/// Processor seconds for a GiB: of the daemon, or of the bare client.
pub const CPU: &str = "cpu";
/// The same of the program that writes.
pub const WRITER: &str = "writer";
/// Who is compared.
pub const OURS: &str = "headrace";
/// What the bare client has in flight.
const CONNECTIONS: [usize; 4] = [2, 4, 8, 16];
/// Numbers of connections that are measured again after the first time.
const FINALISTS: usize = 2;
/// What a network that is slower than this machine's processors lets through in each direction, bytes per second.
const SHARED: u64 = 250_000_000;
const GIB: f64 = (1 << 30) as f64;

/// What is measured on: the profiles, and a link that is the limit. On the others client, server and network take turns on the
/// processors, and a daemon that takes any of them is slower than a client that takes less.
fn networks() -> [(&'static str, Conditions); 3] {
    let named = |profile: Profile| (profile.name(), profile.conditions());
    [named(Profile::Loopback), named(Profile::Slow), ("shared", shared_link(SHARED))]
}

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let rows = networks().into_iter().flat_map(|network| [(network.clone(), 1), (network, 4)]);
    let rows: Vec<(String, Conditions, u64)> = rows
        .map(|((name, network), streams)| (format!("{name}/{streams}"), network, streams))
        .filter(|(row, ..)| run.wants(row))
        .collect();
    for repetition in run.repetitions(Part::Sequential) {
        for (n, (row, network, streams)) in rows.iter().enumerate() {
            let mut bares: Vec<usize> = finalists(run.results(), row);
            if bares.is_empty() {
                bares = CONNECTIONS.to_vec();
            }
            let mut contenders = vec![(OURS.to_owned(), None)];
            contenders
                .extend(bares.into_iter().map(|connections| (bare_name(connections), Some(connections))));
            contenders.retain(|(name, _)| run.wants_contender(name));
            run.in_turns(&mut contenders, repetition as usize + n);
            for (contender, connections) in contenders {
                let place = Place { part: Part::Sequential, row, contender: &contender, repetition };
                run.take(place, || match connections {
                    None => ours(rig, network.clone(), *streams),
                    Some(connections) => bare(rig, network.clone(), connections),
                });
            }
        }
    }
}

fn bare_name(connections: usize) -> String {
    format!("{connections} PUTs at once")
}

/// The bare client that was fastest in a row, with its rate.
pub fn best<'a>(results: &'a Results, row: &str) -> Option<&'a str> {
    ranked(results, row).into_iter().next().map(|(_, name)| name)
}

fn ranked<'a>(results: &'a Results, row: &str) -> Vec<(f64, &'a str)> {
    let bares = results.contenders(Part::Sequential, row).into_iter().filter(|name| *name != OURS);
    let mut all: Vec<(f64, &str)> = bares
        .filter_map(|name| Some((results.value(Part::Sequential, row, name, RATE)?.median, name)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

fn finalists(results: &Results, row: &str) -> Vec<usize> {
    let all = ranked(results, row).into_iter().take(FINALISTS);
    all.filter_map(|(_, name)| CONNECTIONS.into_iter().find(|one| bare_name(*one) == name)).collect()
}

fn ours(rig: &Rig, network: Conditions, streams: u64) -> Result<Figure> {
    let subject = headrace_with(Vec::new());
    rig.fresh(subject.as_ref())?;
    let mount = rig.mount(subject.as_ref())?;
    drop_caches()?;
    let file = |n| {
        let (path, len) = (mount.path().join(format!("written-{n}")), rig.sizes().written / streams);
        Section { path, id: 0x3000 + n, from: 0, len }
    };
    let files: Vec<Section> = (0..streams).map(file).collect();
    let work = Work::WriteEach { files: files.clone(), block: 1 << 20, sync: Fsync::End };
    let (outcome, cost) = rig.measured(&mount, network, &Job { work, limit: UNMEASURED })?;
    let settled = rig.settle(mount, subject.as_ref())?;
    let (back, _) = rig.back(subject.as_ref(), Profile::Loopback.conditions(), compare(files))?;
    let (gib, megabytes) = (outcome.bytes as f64 / GIB, outcome.bytes as f64 / 1e6);
    let (puts, put_bytes) = stored(&[&cost.passed, &settled.passed]);
    let values = BTreeMap::from([
        (RATE, megabytes / outcome.seconds),
        (STORED, megabytes / (outcome.seconds + settled.seconds)),
        (CPU, cost.cpu.as_secs_f64() / gib),
        (WRITER, outcome.cpu.as_secs_f64() / gib),
        ("unmount_cpu", settled.cpu.as_secs_f64()),
        ("memory", cost.memory as f64),
        ("puts", puts as f64),
        ("put_bytes", put_bytes as f64 / outcome.bytes as f64),
        ("back", back.bytes as f64 / 1e6 / back.seconds),
    ]);
    Ok((values, Vec::new()))
}

fn bare(rig: &Rig, network: Conditions, connections: usize) -> Result<Figure> {
    let objects = rig.objects()?;
    let work = Work::Put { objects: objects.clone(), connections };
    let outcome = rig.bare(network, work)?;
    rig.check(objects)?;
    let values = BTreeMap::from([
        (RATE, outcome.bytes as f64 / 1e6 / outcome.seconds),
        (CPU, outcome.cpu.as_secs_f64() / (outcome.bytes as f64 / GIB)),
    ]);
    Ok((values, Vec::new()))
}
