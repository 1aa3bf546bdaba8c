//! `headrace fsck`

use headrace_volume::{
    Correction, Finding, FsckOptions, FsckReport, Level, RebuildReport, RepairOptions, RepairReport,
};

use super::{Call, open, progress};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::output::progress::Progress;
use crate::output::{self, human};

/// What to do.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Say what is wrong.
    Check {
        /// Read all data.
        data: bool,
    },
    /// Correct what is wrong with the metadata.
    Repair {
        /// Read all data afterwards.
        data: bool,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// Make the metadata anew.
    Rebuild {
        /// Even if there is something better.
        force: bool,
    },
}

/// Runs the command.
pub fn run(call: &Call, url: &str, mode: Mode, json: bool) -> Result<(), Failure> {
    let settings = call.begin(Some(url))?;
    let bar = Progress::new("opening the volume");
    match mode {
        Mode::Check { data } => check(url, &settings, data, bar, json),
        Mode::Repair { data, dry_run } => repair(url, &settings, RepairOptions { data, dry_run }, bar, json),
        Mode::Rebuild { force } => rebuild(url, &settings, force, bar, json),
    }
}

fn check(url: &str, settings: &Settings, data: bool, bar: Progress, json: bool) -> Result<(), Failure> {
    let report = super::block_on(async {
        let volume = open::volume(url, settings, true).await?;
        let mut sink = finding_printer(&bar, json);
        let step = progress::on_bar(&bar);
        let report = headrace_volume::fsck(&volume, FsckOptions { data }, &step, &mut sink).await?;
        volume.close().await?;
        Ok(report)
    })?;
    drop(bar);
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&summary(&report))?;
    }
    problems(report.errors + report.warnings > 0)
}

fn repair(
    url: &str,
    settings: &Settings,
    options: RepairOptions,
    bar: Progress,
    json: bool,
) -> Result<(), Failure> {
    let report = super::block_on(async {
        let volume = open::volume(url, settings, options.dry_run).await?;
        let shown = bar.clone();
        let mut corrected = move |correction: &Correction| {
            if !json {
                let _ = shown.print(&correction_line(correction, options.dry_run));
            }
        };
        let mut found = finding_printer(&bar, json);
        let step = progress::on_bar(&bar);
        let report = headrace_volume::repair(&volume, options, &step, &mut corrected, &mut found).await?;
        volume.close().await?;
        Ok(report)
    })?;
    drop(bar);
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&repair_summary(&report))?;
    }
    let left = report.after.as_ref().is_some_and(|after| after.errors + after.warnings > 0);
    problems(left || (report.dry_run && report.repairs > 0))
}

fn rebuild(url: &str, settings: &Settings, force: bool, bar: Progress, json: bool) -> Result<(), Failure> {
    let report = super::block_on(async {
        let options = open::open_options(settings, None, false)?;
        let step = progress::on_bar(&bar);
        Ok(headrace_volume::rebuild(&open::location(url)?, &options, force, &step).await?)
    })?;
    drop(bar);
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&rebuild_summary(&report, url))?;
    }
    problems(report.damaged_segments > 0)
}

/// Everything has been said: only the exit code is left.
fn problems(any: bool) -> Result<(), Failure> {
    if any { Err(Failure::new("").exit(Exit::Problems)) } else { Ok(()) }
}

fn finding_printer(bar: &Progress, json: bool) -> impl FnMut(&Finding) + Send + use<> {
    let shown = bar.clone();
    move |finding: &Finding| {
        if !json {
            // If standard output is gone, the exit code still tells.
            let _ = shown.print(&line(finding));
        }
    }
}

fn correction_line(correction: &Correction, dry_run: bool) -> String {
    let verb = match (dry_run, correction.loses) {
        (true, true) => "would lose",
        (true, false) => "would repair",
        (false, true) => "lost",
        (false, false) => "repaired",
    };
    format!("{verb}: {}\n", output::name(correction.message.as_bytes()))
}

fn repair_summary(report: &RepairReport) -> String {
    let verb = if report.dry_run { "would be made" } else { "made" };
    let mut text = match report.repairs {
        0 => "Nothing to repair in the metadata.\n".to_owned(),
        n => format!("{} {verb}", human::plural(n, "correction", "corrections")),
    };
    if report.repairs > 0 {
        text.push_str(&match report.losses {
            0 => "; nothing is lost by them.\n".to_owned(),
            n => format!("; {n} of them lose something, as said above.\n"),
        });
    }
    if let Some(after) = &report.after {
        text.push_str(&summary(after));
        if after.damaged_files > 0 {
            text.push_str(&format!(
                "{} lost data for good: restore them from a copy, or delete them. What is left of them can be read.\n",
                human::plural(after.damaged_files, "file", "files")
            ));
        }
    }
    text
}

fn rebuild_summary(report: &RebuildReport, url: &str) -> String {
    let mut text = format!(
        "Rebuilt {} with {} in {} from {}.\n",
        human::plural(report.files, "file", "files"),
        human::bytes(report.bytes),
        human::plural(report.directories, "directory", "directories"),
        human::plural(report.segments, "segment", "segments"),
    );
    if report.nameless > 0 {
        let files = human::plural(report.nameless, "file", "files");
        text.push_str(&format!("{files} without a known name: in /lost+found.\n"));
    }
    for damaged in &report.damaged {
        text.push_str(&format!("error: {}\n", output::name(damaged.as_bytes())));
    }
    if report.damaged_segments > 0 {
        text.push_str(&format!(
            "{} cannot be used: what only they held is not there. Copy them off if you want them examined: \"headrace gc\" \
             deletes them in time.\n",
            human::plural(report.damaged_segments, "segment", "segments")
        ));
    }
    for note in &report.notes {
        text.push_str(&format!("Note: {note}.\n"));
    }
    text.push_str("What cannot be known any more:\n");
    for unknown in &report.unknown {
        text.push_str(&format!("  - {unknown}\n"));
    }
    text.push_str(&format!("Next: \"headrace fsck --data {url}\", then mount it.\n"));
    text
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
    if let Some(at) = &report.restorable {
        text.push_str(&format!("The store alone can bring the metadata back, as of {at}.\n"));
    }
    if report.kept > 0 {
        let kept =
            human::plural(report.kept, "deleted file or directory is", "deleted files and directories are");
        text.push_str(&format!("{kept} kept in the trash\n"));
    }
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
