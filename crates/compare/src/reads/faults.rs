//! Throughput while the network misbehaves, and after.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use headrace_netlab::{Conditions, Fault, Latency, Rate, Tail};

use super::rig::Rig;
use super::{Part, Run, recovery};
use crate::failure::{Failure, Result};
use crate::figures::run::{Figure, Place};
use crate::server::Server;
use crate::worker::{Job, Work, monotonic};

/// Million bytes per second before the fault, and while it lasts.
pub const BEFORE: &str = "before";
pub const DURING: &str = "during";
/// Seconds from its end until throughput is back.
pub const BACK: &str = "back";
/// 1 if it was not back in the time that was watched: then [`BACK`] is that time.
pub const NEVER: &str = "never";
/// Longest single read before and during the fault, milliseconds.
pub const LONGEST_BEFORE: &str = "longest_before";
pub const LONGEST_DURING: &str = "longest_during";
/// Requests that met a fault.
pub const FAULTS: &str = "faults";
/// Who is measured.
pub const OURS: &str = "headrace";
/// Rows in which answers stand still: in 1 of 20, or in single ones.
const STALL: &str = "stall";
const HANG: &str = "hang";
/// Bytes of a read.
const BLOCK: u64 = 256 << 10;
/// Bytes of an answer before it hangs.
const HANGS_AFTER: u64 = 256 << 10;

/// Whether the fault of a row leaves connections that are open and dead.
pub fn is_dead_connection(row: &str) -> bool {
    [STALL, HANG].into_iter().any(|name| row.split('/').next() == Some(name))
}

#[derive(Debug, Clone)]
enum Trouble {
    /// The network is like this for some time.
    Network(Conditions),
    /// One request is never answered, and later another one not to its end.
    Hang,
}

/// Bytes per second of all connections together.
pub const TOTAL: u64 = 120_000_000;

/// 20 ms and 90 MB/s per connection, and a cap on all together that leaves the processors idle: what is measured is who waits for what.
fn network() -> Conditions {
    Conditions { total: Rate::per_second(TOTAL), ..Conditions::slow() }
}

fn troubles() -> Vec<(&'static str, Trouble)> {
    let with = |change: fn(&mut Conditions)| {
        let mut conditions = network();
        change(&mut conditions);
        Trouble::Network(conditions)
    };
    vec![
        ("503", with(|network| network.error_503 = 0.5)),
        ("503-all", with(|network| network.error_503 = 1.0)),
        ("reset", with(|network| network.reset = 0.3)),
        ("truncate", with(|network| network.truncate = 0.3)),
        (STALL, with(|network| network.stall = 0.05)),
        (
            "slow-tail",
            with(|network| {
                let tail = Tail::Pareto { shape: 1.2 };
                network.first_byte = Latency { base: Duration::from_millis(20), tail };
            }),
        ),
        (HANG, Trouble::Hang),
    ]
}

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    for repetition in run.repetitions(Part::Faults) {
        for (name, trouble) in troubles() {
            for streams in [1, 4] {
                let row = format!("{name}/{streams}");
                if !run.wants(&row) {
                    continue;
                }
                run.expect(1);
                let place = Place { part: Part::Faults, row: &row, contender: OURS, repetition };
                run.take(place, || read(rig, &trouble, streams));
            }
        }
    }
}

fn read(rig: &Rig, trouble: &Trouble, streams: u64) -> Result<Figure> {
    let [before, lasts, after] = rig.sizes().fault;
    let work = Work::Watch { threads: rig.sections(streams)?, block: BLOCK };
    let job = Job { work, limit: before + lasts + after };
    let (outcome, cost, fault) =
        rig.cold_while(&[], network(), &job, |server| cause(server, trouble, before, lasts))?;
    let moments = &outcome.moments;
    let found = recovery::recovery(moments, &fault)
        .ok_or_else(|| Failure::new("nothing was read before the fault"))?;
    // What ended before: a read that the fault caught is none of the calm ones.
    let calm = moments.get(..moments.partition_point(|moment| moment.at < fault.start)).unwrap_or_default();
    let lately = fault.start - before.as_secs_f64() / 2.0..fault.start;
    let mut values = BTreeMap::from([
        (BEFORE, found.before),
        (DURING, found.during),
        (BACK, found.seconds.unwrap_or(after.as_secs_f64())),
        (NEVER, f64::from(u8::from(found.seconds.is_none()))),
        (FAULTS, cost.passed.faults as f64),
    ]);
    values.insert(LONGEST_BEFORE, recovery::longest(calm, &lately) * 1e3);
    values.insert(LONGEST_DURING, recovery::longest(moments, &fault) * 1e3);
    Ok((values, recovery::series(moments, 0.1)))
}

/// Makes trouble. Gives when it began and ended.
fn cause(server: &Server, trouble: &Trouble, before: Duration, lasts: Duration) -> Result<Range<f64>> {
    std::thread::sleep(before);
    let start = monotonic();
    match trouble {
        Trouble::Network(conditions) => {
            server.set_conditions(conditions.clone())?;
            std::thread::sleep(lasts);
            server.set_conditions(network())?;
        }
        Trouble::Hang => {
            server.spoil_next(&[Fault::Hang]);
            std::thread::sleep(lasts / 2);
            server.spoil_next(&[Fault::StallAnswer(HANGS_AFTER)]);
            std::thread::sleep(lasts / 2);
        }
    }
    Ok(start..monotonic())
}
