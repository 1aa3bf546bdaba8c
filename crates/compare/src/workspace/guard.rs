//! The process that outlives a run that was killed.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::failure::{Context, Failure, Result};

/// What a run that is over tells its guard.
const DONE: u8 = b'.';

/// A guard, as its run sees it.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    // Closed by the kernel when this process ends, however it ends.
    line: ChildStdin,
}

impl Guard {
    /// Starts a guard for the run in `dir`: this program again.
    pub fn start(dir: &Path) -> Result<Guard> {
        let program = std::env::current_exe().context(|| "finding this program".into())?;
        let mut child = Command::new(program)
            .arg("guard")
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own: ^C in the terminal is not for it.
            .process_group(0)
            .spawn()
            .context(|| "starting the guard".into())?;
        let line = child.stdin.take().ok_or_else(|| Failure::new("the guard has no standard input"))?;
        Ok(Guard { child, line })
    }

    /// All is clean: it can go.
    pub fn dismiss(mut self) {
        let _ = self.line.write_all(&[DONE]);
        drop(self.line);
        let _ = self.child.wait();
    }
}

/// What the guard does: waits for the end of the run, and cleans up unless it is told that nothing is left.
pub fn watch(dir: &Path) {
    let mut told = [0];
    // An error is the end of the line as well.
    let said = std::io::stdin().read(&mut told).unwrap_or(0);
    if said == 0 || told != [DONE] {
        eprintln!("compare: the run was ended: unmounting and removing {}", dir.display());
        super::clean(dir);
        eprintln!("compare: nothing is left of it");
    }
}
