//! `headrace gc`

use std::time::Duration;

use serde_json::Value;

use super::{Call, open, progress};
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::failure::{Context, Failure};
use crate::output::progress::Progress;
use crate::output::{self, human};

/// What to do.
pub struct What {
    /// URL or mount point.
    pub target: String,
    /// Only say what would go.
    pub dry_run: bool,
    /// Spare what is younger.
    pub grace: Duration,
    /// Print JSON.
    pub json: bool,
}

/// Runs the command.
pub fn run(call: &Call, what: &What) -> Result<(), Failure> {
    let settings = call.begin(Some(&what.target))?;
    let bar = Progress::new("collecting garbage");
    let report = match find::by_target(&what.target, settings.process.runtime_dir.as_deref())? {
        Some(record) => {
            let request = Request::Gc { dry_run: what.dry_run, grace_secs: what.grace.as_secs() };
            Client::connect(&record)?.call::<Value>(&request, &mut progress::of_daemon(&bar))?
        }
        None => super::block_on(async {
            // To look is not to change: no need to claim the volume for that.
            let volume = open::volume(&what.target, &settings, what.dry_run).await?;
            if !what.dry_run {
                volume.reclaim_orphans()?;
            }
            let step = progress::on_bar(&bar);
            let report = headrace_volume::gc(&volume, what.grace, what.dry_run, &step).await?;
            volume.close().await?;
            serde_json::to_value(report).context(|| "cannot encode the report".to_owned())
        })?,
    };
    drop(bar);
    if what.json { output::print_json(&report) } else { output::print(&summary(&report)) }
}

fn summary(report: &Value) -> String {
    let figure = |name: &str| report.get(name).and_then(Value::as_u64).unwrap_or(0);
    let verb =
        if report.get("dry_run").and_then(Value::as_bool) == Some(true) { "Would delete" } else { "Deleted" };
    let mut summary = format!(
        "{verb} {} ({}) that no file uses any more and {} ({}) from uploads that were given up.\n",
        human::plural(figure("dead_segments"), "segment", "segments"),
        human::bytes(figure("dead_bytes")),
        human::plural(figure("orphans"), "object", "objects"),
        human::bytes(figure("orphan_bytes")),
    );
    for object in report.get("objects").and_then(Value::as_array).into_iter().flatten() {
        let text =
            |name: &str| output::name(object.get(name).and_then(Value::as_str).unwrap_or("-").as_bytes());
        let why = match object.get("why").and_then(Value::as_str) {
            Some("dead") => "no file uses it since",
            _ => "unknown to the metadata, written",
        };
        let bytes = human::bytes(object.get("bytes").and_then(Value::as_u64).unwrap_or(0));
        summary.push_str(&format!("  {}  {bytes}, {why} {}\n", text("key"), text("since")));
    }
    if figure("waiting") > 0 {
        summary.push_str(&format!(
            "Left alone {} ({}) that no file uses: younger than the grace or the retention.\n",
            human::plural(figure("waiting"), "segment", "segments"),
            human::bytes(figure("waiting_bytes")),
        ));
    }
    if figure("young") > 0 {
        summary.push_str(&format!(
            "Left alone {} ({}) that may belong to uploads under way.\n",
            human::plural(figure("young"), "object", "objects"),
            human::bytes(figure("young_bytes")),
        ));
    }
    summary
}
