//! Progress bars for long work, on a terminal only.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// What is being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Objects, files, problems.
    Items,
}

/// A bar on standard error; silent where that is no terminal. All clones drive the same bar, which goes when the last is
/// dropped.
#[derive(Clone)]
pub struct Progress(Arc<Shared>);

struct Shared {
    bar: ProgressBar,
    phase: Mutex<Phase>,
}

#[derive(PartialEq, Eq)]
struct Phase {
    what: String,
    unit: Unit,
    bounded: bool,
    counted: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress {
    /// A bar that only turns until it is told more.
    pub fn new(what: &str) -> Progress {
        // Shown only when it looks as it should: a bar is drawn with each change.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{spinner} {msg}"));
        bar.set_message(what.to_owned());
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let phase = Phase { what: what.to_owned(), unit: Unit::Items, bounded: false, counted: false };
        Progress(Arc::new(Shared { bar, phase: Mutex::new(phase) }))
    }

    /// Sets what is being done (if that is empty, what was) and how far it is; `total` is 0 where that is not known.
    pub fn set_phase(&self, what: &str, unit: Unit, done: u64, total: u64) {
        let bar = &self.0.bar;
        if bar.is_hidden() {
            return;
        }
        let mut phase = self.0.phase.lock();
        let what = if what.is_empty() { phase.what.clone() } else { what.to_owned() };
        let new = Phase { what: what.clone(), unit, bounded: total > 0, counted: done > 0 };
        if *phase != new {
            bar.set_message(what);
            bar.set_style(style(match (new.bounded, new.counted, unit) {
                (true, _, Unit::Bytes) => {
                    "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}"
                }
                (true, _, Unit::Items) => "{msg} [{bar:30}] {human_pos}/{human_len} eta {eta}",
                (false, true, Unit::Bytes) => "{spinner} {msg} {binary_bytes}",
                (false, true, Unit::Items) => "{spinner} {msg} {human_pos}",
                (false, false, _) => "{spinner} {msg}",
            }));
            if phase.what != new.what {
                bar.reset_eta();
            }
            *phase = new;
        }
        if total > 0 {
            bar.set_length(total);
        }
        bar.set_position(done);
    }

    /// Says otherwise what is being done; how fast it goes is not measured anew.
    pub fn rename(&self, what: &str) {
        let bar = &self.0.bar;
        if bar.is_hidden() {
            return;
        }
        let mut phase = self.0.phase.lock();
        if phase.what != what {
            what.clone_into(&mut phase.what);
            bar.set_message(what.to_owned());
        }
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        self.0.bar.finish_and_clear();
    }

    /// Lets `work` write to the terminal, above the bar.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.bar.suspend(work)
    }

    /// Writes a line of the result to standard output, above the bar.
    pub fn print(&self, line: &str) -> Result<(), crate::failure::Failure> {
        self.0.bar.suspend(|| super::print(line))
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are the constants above; a mistake in one must not stop the work it reports on.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_understood() {
        for template in [
            "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
            "{msg} [{bar:30}] {human_pos}/{human_len} eta {eta}",
            "{spinner} {msg} {binary_bytes}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
