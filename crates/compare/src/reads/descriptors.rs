//! Streams in turns on one descriptor, against the same streams, in the same turns, on descriptors of their own.

use std::collections::BTreeMap;

use headrace_netlab::Conditions;

use super::rig::Rig;
use super::{Part, Run};
use crate::failure::Result;
use crate::figures::run::{Figure, Place};
use crate::worker::{Access, Job, Order, Work};

/// Million bytes per second.
pub const RATE: &str = "rate";
/// All streams on one.
pub const ONE: &str = "one descriptor";
/// Each on its own.
pub const APART: &str = "own descriptors";
/// Bytes of a read.
const BLOCK: u64 = 128 << 10;

pub fn measure(run: &mut Run<'_>, rig: &Rig) {
    let networks = [("loopback", Conditions::default()), ("20ms/90MB", Conditions::slow())];
    for repetition in run.repetitions(Part::Descriptors) {
        for (network, conditions) in &networks {
            for streams in [4, 16] {
                let row = format!("{network}/{streams}");
                if !run.wants(&row) {
                    continue;
                }
                let mut both = [(ONE, Access::Pread), (APART, Access::PreadApart)];
                run.in_turns(&mut both, repetition as usize);
                for (contender, access) in both {
                    let place = Place { part: Part::Descriptors, row: &row, contender, repetition };
                    run.take(place, || read(rig, conditions, streams, access));
                }
            }
        }
    }
}

fn read(rig: &Rig, network: &Conditions, streams: u64, access: Access) -> Result<Figure> {
    let order = Order::Interleaved { streams };
    let work = Work::Read { threads: vec![rig.sections(1)?], order, block: BLOCK, access };
    let job = Job { work, limit: rig.sizes().limit };
    let (outcome, _) = rig.cold(&[], network.clone(), &job)?;
    let values = BTreeMap::from([(RATE, outcome.bytes as f64 / 1e6 / outcome.seconds)]);
    Ok((values, Vec::new()))
}
