//! Progress of the crates below, on bars and on the wire.

use headrace_volume::{Progress as Step, Unit};

use crate::daemon::control::protocol;
use crate::output::progress::{Progress, Unit as BarUnit};

/// Shows the progress of work that runs in this process.
pub fn on_bar(bar: &Progress) -> impl Fn(Step) + Send + Sync + use<> {
    let bar = bar.clone();
    move |step| bar.set_phase(step.phase, unit(step.unit), step.done, step.total)
}

/// Shows the progress of work that a daemon does.
pub fn of_daemon(bar: &Progress) -> impl FnMut(protocol::Step) + use<> {
    let bar = bar.clone();
    move |step| {
        let unit = if step.bytes { BarUnit::Bytes } else { BarUnit::Items };
        bar.set_phase(&step.what, unit, step.done, step.total);
    }
}

/// A step as it goes over the control socket.
pub fn on_wire(step: Step) -> protocol::Step {
    protocol::Step {
        what: step.phase.to_owned(),
        done: step.done,
        total: step.total,
        bytes: step.unit == Unit::Bytes,
    }
}

fn unit(unit: Unit) -> BarUnit {
    match unit {
        Unit::Items => BarUnit::Items,
        Unit::Bytes => BarUnit::Bytes,
    }
}
