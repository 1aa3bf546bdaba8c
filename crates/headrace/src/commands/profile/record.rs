//! Writing an access log.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::totals::Totals;
use super::{How, listen, log};
use crate::commands::stop::Stop;
use crate::daemon::find;
use crate::daemon::operations::Part;
use crate::daemon::registry::Record;
use crate::failure::{Context, Failure};
use crate::output::{self, human};

/// How often operations come: soon, for they wait in the daemon's memory.
const INTERVAL: Duration = Duration::from_millis(100);

/// Writes each operation to a new file as a line of JSON. What happened, in sums, and whether the mount ended.
pub fn run(
    daemon: &Record,
    path: &Path,
    until: Option<Duration>,
    stop: &Stop,
) -> Result<(Totals, bool), Failure> {
    let shown = output::path(path);
    let file = create(daemon, path)?;
    let mut writer = BufWriter::new(file);
    let mut sums = log::Sums::default();
    if until.is_none() {
        output::say(&format!("headrace: recording to {shown}; Ctrl-C ends it"));
    }
    let mut count = 0_u64;
    let mut part = |part: Part| {
        for entry in &part.entries {
            serde_json::to_writer(&mut writer, entry)
                .map_err(std::io::Error::from)
                .and_then(|()| writer.write_all(b"\n"))
                .context(|| format!("cannot write to {shown}"))?;
            sums.add(entry);
        }
        count += part.entries.len() as u64;
        sums.passed(part.seconds, part.dropped);
        // Whoever follows the file sees what is in it.
        writer.flush().context(|| format!("cannot write to {shown}"))?;
        Ok(ControlFlow::Continue(()))
    };
    let how = How { interval: INTERVAL, until, each: true };
    let ended = listen(daemon, how, &mut part, stop)?;
    let totals = sums.totals();
    let lost = match totals.dropped {
        0 => String::new(),
        dropped => format!("; {} more came too fast and are not in it", human::count(dropped)),
    };
    output::say(&format!(
        "headrace: recorded {} in {shown}{lost}",
        human::plural(count, "operation", "operations")
    ));
    Ok((totals, ended))
}

/// A new file, for its owner only: names of processes and who read what when are nobody else's business.
fn create(daemon: &Record, path: &Path) -> Result<File, Failure> {
    let shown = output::path(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if let Ok(meta) = std::fs::metadata(directory)
        && find::device(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())) == daemon.dev
    {
        return Err(Failure::usage(format!(
            "{shown} is on the mount that is watched: each line written there would be recorded, too"
        )));
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|e| {
        let failure = Failure::new(format!("cannot create {shown}")).because(&e);
        match e.kind() {
            std::io::ErrorKind::AlreadyExists => failure
                .advise("Remove it first, or choose another name: what was recorded is not overwritten."),
            _ => failure,
        }
    })
}
