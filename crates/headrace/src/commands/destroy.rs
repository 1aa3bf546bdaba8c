//! `headrace destroy`

use std::io::{self, BufRead, IsTerminal, Read};
use std::path::PathBuf;

use headrace_vfs::remove_cache;
use headrace_volume::{DestroyOptions, DestroyPlan, DestroyReport, Doomed};

use serde::Serialize;
use uuid::Uuid;

use super::{Call, open, progress};
use crate::cli::settings::CacheSettings;
use crate::daemon::cache_plan;
use crate::failure::{Context, Failure};
use crate::output::progress::Progress;
use crate::output::{self, human};

/// What was asked for beside the volume.
pub struct How {
    /// Do not ask.
    pub yes: bool,
    /// Do not look whether it is in use.
    pub force: bool,
    /// Answer in JSON.
    pub json: bool,
}

/// What was done.
#[derive(Serialize)]
struct Done {
    #[serde(flatten)]
    report: DestroyReport,
    /// What was cached of it on this machine.
    cache: Vec<Cached>,
}

/// A directory with a cache of the volume.
#[derive(Serialize)]
struct Cached {
    path: PathBuf,
    /// Bytes that its files took.
    bytes: u64,
    /// Why it is still there.
    left: Option<String>,
}

/// Runs the command.
pub fn run(call: &Call, url: &str, how: How) -> Result<(), Failure> {
    let How { yes, force, json } = how;
    let settings = call.begin(Some(url))?;
    let location = open::location(url)?;
    let options = DestroyOptions {
        store: open::store_options(&settings)?,
        state_dir: open::state_dir(&settings)?,
        key: open::master_key(&settings)?,
        force,
        takeover: settings.takeover,
        lease: settings.volume.lease.map(|lease| lease.0),
    };
    if !yes && !io::stdin().is_terminal() {
        return Err(Failure::usage("destroy asks before it deletes, and there is no terminal to ask on")
            .advise("Add --yes to delete without being asked."));
    }
    let (report, volume) = super::block_on(async {
        let bar = Progress::new("looking at the volume");
        let doomed = Doomed::survey(&location, &options, &progress::on_bar(&bar)).await?;
        drop(bar);
        if !yes {
            output::say(&describe(doomed.plan()));
            if let Err(failure) = confirm(&doomed.plan().name) {
                doomed.spare().await;
                return Err(failure);
            }
        }
        let volume = doomed.plan().uuid.clone();
        let bar = Progress::new("deleting");
        let report = doomed.destroy(&progress::on_bar(&bar)).await?;
        Ok((report, volume))
    })?;
    let done = Done { report, cache: uncached(&settings.cache, &volume) };
    if json { output::print_json(&done) } else { output::print(&summary(&done, &location.to_string())) }
}

/// Removes what is cached of a volume that is gone. That some stays is no failure: it takes space and nobody will believe it.
fn uncached(settings: &CacheSettings, volume: &str) -> Vec<Cached> {
    // As it stands in what is left of a volume: no name of any other directory.
    let Ok(volume) = volume.parse::<Uuid>() else { return Vec::new() };
    let directories = cache_plan::directories_of(settings, volume).into_iter();
    let removed = directories.filter_map(|path| match remove_cache(&path) {
        Ok(None) => None,
        Ok(Some(bytes)) => Some(Cached { path, bytes, left: None }),
        Err(error) => Some(Cached { path, bytes: 0, left: Some(error.to_string()) }),
    });
    removed.collect()
}

fn describe(plan: &DestroyPlan) -> String {
    let mut text = format!(
        "This deletes for good the volume \"{}\" ({}) in {}:\n  {} of data in {}\n",
        plan.name,
        plan.uuid,
        plan.url,
        human::bytes(plan.bytes),
        human::plural(plan.segments, "segment", "segments"),
    );
    text.push_str(&format!(
        "  its metadata in {} and on this machine in {}\n",
        human::plural(plan.log_objects, "object", "objects"),
        output::path(&plan.state_dir)
    ));
    if plan.foreign > 0 {
        text.push_str(&format!(
            "{} there that are not the volume's stay",
            human::plural(plan.foreign, "object", "objects")
        ));
        if let Some(example) = plan.foreign_examples.first() {
            text.push_str(&format!(" ({}, ...)", output::name(example.as_bytes())));
        }
        text.push_str(".\n");
    }
    text.push_str("Type the volume's name to go on:");
    text
}

/// Asks for the volume's name.
pub fn confirm(name: &str) -> Result<(), Failure> {
    let mut answer = String::new();
    io::stdin().lock().take(1024).read_line(&mut answer).context(|| "cannot read the answer".to_owned())?;
    if answer.trim_end_matches(['\r', '\n']) == name {
        return Ok(());
    }
    Err(Failure::new("that is not the volume's name: nothing was done"))
}

fn summary(done: &Done, url: &str) -> String {
    let report = &done.report;
    let mut text = format!(
        "Deleted the volume in {url}: {} of data in {}.\n",
        human::bytes(report.bytes),
        human::plural(report.segments, "segment", "segments")
    );
    if report.foreign > 0 {
        text.push_str(&format!(
            "{} that are not the volume's stay there.\n",
            human::plural(report.foreign, "object", "objects")
        ));
    }
    for path in &report.state_files_left {
        text.push_str(&format!("{} is not the volume's and stays.\n", output::path(path)));
    }
    for Cached { path, bytes, left } in &done.cache {
        let path = output::path(path);
        text.push_str(&match left {
            None => format!("Removed its cache {path}: {}.\n", human::bytes(*bytes)),
            Some(why) => format!("Its cache {path} stays: {why}. Remove it by hand.\n"),
        });
    }
    text
}
