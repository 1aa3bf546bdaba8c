//! Programs as people run them.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headrace_testbed::process;

use super::job::Outcome;
use super::read::WRONG_DATA;
use crate::failure::{Context, Failure, Result};

/// Most characters of a program's last words in a report.
const WORDS: usize = 160;

/// Runs a script to its end, which must be a good one.
pub fn run(script: &str, dir: &Path, prints: Option<&str>, limit: Duration) -> Result<Outcome> {
    let mut out = tempfile::tempfile().context(|| "creating a file for output".into())?;
    let mut err = tempfile::tempfile().context(|| "creating a file for output".into())?;
    let copy = |file: &std::fs::File| file.try_clone().context(|| "dup of a file".into());
    let started = Instant::now();
    let mut child = Command::new("bash")
        .args(["-c", &format!("set -euo pipefail\n{script}")])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(copy(&out)?)
        .stderr(copy(&err)?)
        .process_group(0)
        .spawn()
        .context(|| "starting bash".into())?;
    let status = process::wait_for(&mut child, limit);
    let seconds = started.elapsed().as_secs_f64();
    let Some(status) = status else {
        process::kill_group(&mut child);
        return Err(Failure::new(format!("not done after {} s", limit.as_secs())));
    };
    let printed = contents(&mut out)?;
    if !status.success() {
        let said = contents(&mut err)?;
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(Failure::new(format!("{status}: {}", last.chars().take(WORDS).collect::<String>())));
    }
    let last = printed.lines().next_back().unwrap_or_default().trim();
    if let Some(expected) = prints.filter(|expected| *expected != last) {
        return Err(Failure::new(format!("{WRONG_DATA}: printed {last:?}, not {expected:?}")));
    }
    Ok(Outcome { seconds, operations: 1, ..Outcome::default() })
}

fn contents(file: &mut std::fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context(|| "reading a program's output".into())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_must_end_well_and_print_what_it_should() {
        let run = |script, prints, limit| run(script, Path::new("/"), prints, Duration::from_millis(limit));
        assert_eq!(run("echo a; echo 7", Some("7"), 9_000).unwrap().operations, 1);
        assert!(run("echo 8", Some("7"), 9_000).unwrap_err().to_string().contains(WRONG_DATA));
        assert!(run("echo why >&2; false", None, 9_000).unwrap_err().to_string().contains("why"));
        assert!(run("sleep 60", None, 50).unwrap_err().to_string().contains("not done"));
    }
}
