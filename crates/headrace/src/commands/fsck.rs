//! `headrace fsck`

use headrace_volume::{Finding, FsckOptions, FsckReport, Level};

use super::{Call, open, progress};
use crate::failure::{Exit, Failure};
use crate::output::progress::Progress;
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, url: &str, data: bool, json: bool) -> Result<(), Failure> {
    let settings = call.begin(Some(url))?;
    let bar = Progress::new("opening the volume");
    let report = super::block_on(async {
        let volume = open::volume(url, &settings, true).await?;
        let shown = bar.clone();
        let mut sink = move |finding: &Finding| {
            if !json {
                // If standard output is gone, the exit code still tells.
                let _ = shown.print(&line(finding));
            }
        };
        let step = progress::on_bar(&bar);
        let report = headrace_volume::fsck(&volume, FsckOptions { data }, &step, &mut sink).await?;
        volume.close()?;
        Ok(report)
    })?;
    drop(bar);
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&summary(&report))?;
    }
    if report.errors + report.warnings > 0 {
        // Everything has been said: only the exit code is left.
        return Err(Failure::new("").exit(Exit::Problems));
    }
    Ok(())
}

fn line(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    format!("{level}: {}\n  {}\n", output::name(finding.message.as_bytes()), finding.remedy)
}

fn summary(report: &FsckReport) -> String {
    let mut text = format!(
        "{}, {}, {} in {}",
        human::plural(report.inodes, "inode", "inodes"),
        human::plural(report.extents, "extent", "extents"),
        human::bytes(report.bytes),
        human::plural(report.segments, "segment", "segments"),
    );
    if report.data_checked {
        text.push_str(&format!("; {} read and verified", human::bytes(report.bytes_read)));
    }
    text.push('\n');
    if report.orphans > 0 {
        text.push_str(&format!(
            "{} ({}) in the store that no file uses: \"headrace gc\" deletes them in time\n",
            human::plural(report.orphans, "object", "objects"),
            human::bytes(report.orphan_bytes)
        ));
    }
    text.push_str(&match (report.errors, report.warnings) {
        (0, 0) if report.data_checked => "No problems found.\n".to_owned(),
        (0, 0) => "No problems found (contents not read: use --data for that).\n".to_owned(),
        (errors, warnings) => format!(
            "{} and {} found.\n",
            human::plural(errors, "error", "errors"),
            human::plural(warnings, "warning", "warnings")
        ),
    });
    text
}
