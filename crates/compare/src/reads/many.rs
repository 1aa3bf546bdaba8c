//! 32 files at once by 256 KiB, with the peers: a case of the comparison, with larger files.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::{Part, Run, Sizes};
use crate::dataset::Scale;
use crate::failure::{Context, Failure, Result};
use crate::figures::run::Place;
use crate::report::results::Results;
use crate::server::Profile;
use crate::subjects;

/// Million bytes per second.
pub const RATE: &str = "rate";
/// Of all its subjects.
pub const OURS: &str = "headrace";
const CASE: &str = "sequential/32-by-256k";

pub fn measure(run: &mut Run<'_>, sizes: &Sizes) {
    let profiles: Vec<Profile> =
        [Profile::Loopback, Profile::Slow].into_iter().filter(|profile| run.wants(profile.name())).collect();
    if profiles.is_empty() {
        return;
    }
    let names = names();
    run.expect(names.len() * profiles.len() * run.pace.repeat as usize);
    let first = run.repetitions(Part::Many).start;
    let found = match compare(run, sizes, &names, &profiles) {
        Ok(found) => found,
        Err(failure) => return run.leave_out(format!("{:?}: {failure}", Part::Many)),
    };
    let ours = found.subjects.iter().find(|subject| subject.name == OURS);
    let version = ours.map_or(String::new(), |ours| ours.version.clone());
    run.describe(&run.pace.temporary, found.server, version);
    for figure in found.figures {
        let place = Place {
            part: Part::Many,
            row: figure.profile.name(),
            contender: &figure.subject,
            repetition: first + figure.repetition,
        };
        let rate = figure.measured.map(|measured| (RATE.to_owned(), measured.value));
        run.add(place, figure.failed, rate.into_iter().collect::<BTreeMap<_, _>>(), Vec::new());
    }
    for why in found.not_measured {
        run.leave_out(why);
    }
}

/// Headrace at its defaults, and the peers that are installed.
fn names() -> Vec<String> {
    let all = subjects::all();
    let wanted = all.iter().filter(|subject| {
        let variant = subject.name().starts_with("headrace-");
        subject.family().remote() && !variant && subjects::missing(subject.as_ref()).is_none()
    });
    wanted.map(|subject| subject.name().to_owned()).collect()
}

/// Little of all but of what is read.
fn scale(sizes: &Sizes) -> Scale {
    Scale { part: (sizes.big / 32).next_multiple_of(1 << 18), limit: sizes.limit, ..Scale::tiny() }
}

/// The comparison in a process of its own: it has its own server, data and directory, and a process has one.
fn compare(run: &Run<'_>, sizes: &Sizes, names: &[String], profiles: &[Profile]) -> Result<Results> {
    let program = std::env::current_exe().context(|| "finding this program".into())?;
    let out = tempfile::tempdir_in(&run.pace.temporary).context(|| "a directory for results".into())?;
    let profiles: Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
    let scale = serde_json::to_string(&scale(sizes)).context(|| "describing sizes".into())?;
    let status = Command::new(program)
        .args(["run", "--cases", CASE, "--scale", &scale])
        .args(["--subjects", &names.join(","), "--profile", &profiles.join(",")])
        .args(["--repeat", &run.pace.repeat.to_string()])
        .args(["--minutes", &(run.left().as_secs().div_ceil(60)).max(1).to_string()])
        .arg("--temporary")
        .arg(&run.pace.temporary)
        .arg("--out")
        .arg(out.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context(|| "starting the comparison".into())?;
    let results = Results::load(&out.path().join("results.json"));
    results.map_err(|failure| Failure::new(format!("the comparison ended with {status}: {failure}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_text() {
        let scale = scale(&Sizes::quick());
        let text = serde_json::to_string(&scale).unwrap();
        assert_eq!(serde_json::from_str::<Scale>(&text).unwrap(), scale);
        assert_eq!(scale.part % (256 << 10), 0);
    }
}
