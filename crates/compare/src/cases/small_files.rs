//! Thousands of files of 4 KiB, a thousand to a directory.

use super::{Case, Measure, Place, Plan, unmeasured};
use crate::dataset::PER_DIRECTORY;
use crate::worker::{Job, SmallAction, Work};

/// Where files of a case of its own are, below its scratch directory.
const UNDER: &str = "many";

/// Cold: in each a daemon that has just been started meets the files for the first time.
pub const CASES: &[Case] = &[
    case("small/create", "created, written, closed", create),
    case("small/list", "listed", |place| Plan::reads(place.small(SmallAction::List))),
    case("small/stat", "stat of each", |place| Plan::reads(place.small(SmallAction::Stat))),
    case("small/read", "read in order", |place| Plan::reads(place.small(SmallAction::Read))),
    case("small/read-shuffled", "read in random order", |place| {
        Plan::reads(place.small(SmallAction::ReadShuffled))
    }),
    case("small/delete", "deleted", delete),
];

const fn case(id: &'static str, title: &'static str, plan: fn(&Place) -> Plan) -> Case {
    Case { id, title, measure: Measure::Rate("files"), plan }
}

fn fresh(place: &Place, action: SmallAction, count: u64) -> Work {
    Work::Small { action, root: place.scratch.clone(), under: UNDER.into(), count, each: PER_DIRECTORY }
}

fn create(place: &Place) -> Plan {
    let (scratch, timed) =
        (place.scratch.clone(), place.measured(fresh(place, SmallAction::Create, place.scale.fresh)));
    Plan::writes(timed, move |outcome| {
        let (root, count) = (scratch.clone(), outcome.operations);
        vec![unmeasured(Work::Small {
            action: SmallAction::Read,
            root,
            under: UNDER.into(),
            count,
            each: PER_DIRECTORY,
        })]
    })
}

/// A tenth as many: making them is not what is measured.
fn delete(place: &Place) -> Plan {
    let count = place.scale.fresh.div_ceil(10);
    let timed = place.measured(fresh(place, SmallAction::Delete, count));
    let mut plan = Plan::writes(timed, |_| Vec::new());
    plan.setup = vec![Job { ..unmeasured(fresh(place, SmallAction::Create, count)) }];
    plan
}
