//! A cold random read of 4 KiB against one GET of 32 KiB: what is fetched for it, and how much longer it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use headrace_netlab::{Conditions, Latency};

use super::rig::Rig;
use super::{Part, Run};
use crate::failure::Result;
use crate::figures::cost::UNMEASURED;
use crate::figures::run::{Figure, Place};
use crate::worker::{Access, Job, Objects, Order, Work};

/// Median of one, milliseconds.
pub const MEDIAN: &str = "median";
/// Bytes that the store sent for one.
pub const FETCHED: &str = "fetched";
/// A read through Headrace.
pub const OURS: &str = "read of 4 KiB";
/// A GET by the bare client.
pub const BARE: &str = "GET of 32 KiB";
/// The same through the HTTP library.
pub const LIBRARY: &str = "GET of 32 KiB by the HTTP library";
/// Bytes of a read, and of a GET.
const READ: u64 = 4 << 10;
const GET: u64 = 32 << 10;

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let far =
        Conditions { first_byte: Latency::constant(Duration::from_millis(20)), ..Conditions::default() };
    let rows = [("loopback", Conditions::default()), ("20ms", far)];
    for repetition in run.repetitions(Part::OneGet) {
        for (row, network) in rows.iter().filter(|(row, _)| run.wants(row)).collect::<Vec<_>>() {
            let mut all = [OURS, BARE, LIBRARY];
            run.in_turns(&mut all, repetition as usize);
            for contender in all {
                let place = Place { part: Part::OneGet, row, contender, repetition };
                let seed = 1 + u64::from(repetition);
                run.take(place, || match contender {
                    OURS => ours(rig, network, seed),
                    _ => bare(rig, network, seed, contender == LIBRARY),
                });
            }
        }
    }
}

fn ours(rig: &Rig, network: &Conditions, seed: u64) -> Result<Figure> {
    let order = Order::Random { seed, operations: rig.sizes().random };
    let work = Work::Read { threads: vec![rig.sections(1)?], order, block: READ, access: Access::Pread };
    let (outcome, cost) = rig.cold(&[], network.clone(), &Job { work, limit: UNMEASURED })?;
    let got = cost.passed.operations.get("GetObject").map_or(0, |traffic| traffic.bytes_sent);
    Ok((values(outcome.p50, got, outcome.operations), Vec::new()))
}

fn bare(rig: &Rig, network: &Conditions, seed: u64, by_library: bool) -> Result<Figure> {
    let order = Order::Random { seed, operations: rig.sizes().random };
    let objects = Objects { by_library, ..rig.objects() };
    let work = Work::GetEach { objects, block: GET, order };
    let outcome = rig.bare(network.clone(), work)?;
    Ok((values(outcome.p50, outcome.bytes, outcome.operations), Vec::new()))
}

fn values(p50: Option<f64>, fetched: u64, operations: u64) -> BTreeMap<&'static str, f64> {
    let each = fetched as f64 / operations.max(1) as f64;
    let mut values = BTreeMap::from([(FETCHED, each)]);
    values.extend(p50.map(|seconds| (MEDIAN, seconds * 1e3)));
    values
}
