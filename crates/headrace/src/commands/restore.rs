//! `headrace restore`

use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime};

use headrace_volume::restore::{Restore, RestorePlan, RestoreReport};

use super::{Call, destroy, open, progress};
use crate::cli::values::Moment;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::{self, human};

/// What to restore.
pub struct What {
    /// The volume.
    pub url: String,
    /// When to go back to; `None` for the newest state there is.
    pub at: Option<Moment>,
    /// Do not ask.
    pub yes: bool,
    /// Answer in JSON.
    pub json: bool,
}

/// Runs the command.
pub fn run(call: &Call, what: What) -> Result<(), Failure> {
    let settings = call.begin(Some(&what.url))?;
    let location = open::location(&what.url)?;
    let options = open::open_options(&settings, None, false)?;
    let ask = what.at.is_some() && !what.yes;
    if ask && what.json {
        return Err(Failure::usage("--json with --at needs --yes: it leaves no place for a question"));
    }
    if ask && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "restore --at asks before it undoes changes, and there is no terminal to ask on",
        )
        .advise("Add --yes to restore without being asked."));
    }
    let now = SystemTime::now();
    let at = what.at.map(|at| at.before(now));
    let report = super::block_on(async {
        let bar = Progress::new("looking at the volume");
        let restore = Restore::prepare(&location, &options, at, &progress::on_bar(&bar)).await?;
        drop(bar);
        if ask {
            output::say(&question(restore.plan(), now));
            if let Err(failure) = destroy::confirm(&restore.plan().name) {
                restore.give_up().await?;
                return Err(failure);
            }
        }
        let bar = Progress::new("restoring");
        Ok(restore.run(&progress::on_bar(&bar)).await?)
    })?;
    if what.json { output::print_json(&report) } else { output::print(&summary(&report)) }
}

fn stamp(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn question(plan: &RestorePlan, now: SystemTime) -> String {
    let ago = now.duration_since(plan.at).unwrap_or_default();
    format!(
        "This takes the volume \"{}\" ({}) in {} back to {}, {} ago:\n  {} after that are undone, for everybody who \
         uses the volume\nType the volume's name to go on:",
        plan.name,
        plan.uuid,
        plan.url,
        stamp(plan.at),
        human::duration(Duration::from_secs(ago.as_secs())),
        human::plural(plan.undone, "transaction", "transactions"),
    )
}

fn summary(report: &RestoreReport) -> String {
    let mut text = format!(
        "Restored the volume \"{}\" as of {}: {} in {}.\n",
        report.name,
        stamp(report.at),
        human::bytes(report.bytes),
        human::plural(report.inodes, "inode", "inodes"),
    );
    if report.undone > 0 {
        text.push_str(&format!(
            "{} later are undone.\n",
            human::plural(report.undone, "transaction", "transactions")
        ));
    }
    for note in &report.notes {
        text.push_str(&format!("{note}.\n"));
    }
    text.push_str(&format!("Its metadata is in {}.\n", output::path(&report.state_dir)));
    text
}
