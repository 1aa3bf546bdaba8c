//! Charts that belong together, and the file they are kept in.

use super::{Chart, svg, text};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Of its file, without an ending: letters, digits and dashes.
    pub name: String,
    /// What all of it shows.
    pub title: String,
    /// From top to bottom.
    pub charts: Vec<Chart>,
}

impl Figure {
    /// For a terminal.
    pub fn text(&self) -> String {
        let charts: Vec<String> = self.charts.iter().map(text::draw).collect();
        format!("{}\n\n{}", self.title, charts.join("\n"))
    }

    /// Writes it into a directory, which is made if there is none. Returns the file's path.
    ///
    /// # Errors
    ///
    /// What could not be made or written, and why.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |why| WriteError { path, why }
        };
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(format!("{}.svg", self.name));
        std::fs::write(&path, svg::draw(self)).map_err(failed(&path))?;
        Ok(path)
    }
}

/// A plot could not be written.
#[derive(Debug)]
pub struct WriteError {
    path: PathBuf,
    why: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(
            to,
            "cannot write the plot {path}: {}; --plot-dir takes a directory that you may write to",
            self.why
        )
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Line};
    use super::*;

    fn figure() -> Figure {
        let chart = Chart::new("Speeds", Axis::linear("seconds"), Axis::linear("MB/s"));
        let chart = chart.with(Line::through("all", [(0.0, 1.0), (1.0, 2.0)]));
        Figure { name: "run-7".to_owned(), title: "A run".to_owned(), charts: vec![chart] }
    }

    #[test]
    fn it_is_written_into_a_new_directory_and_over_an_older_one() {
        let root = std::env::temp_dir().join(format!("headrace-plot-{}", std::process::id()));
        let directory = root.join("of/today");
        for _ in 0..2 {
            let path = figure().write(&directory).expect("written");
            assert_eq!(path, directory.join("run-7.svg"));
            assert_eq!(std::fs::read_to_string(path).expect("readable"), svg::draw(&figure()));
        }
        std::fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn who_cannot_write_is_told_what_and_why() {
        // No directory, whoever one is.
        let directory = Path::new("/dev/null/plots");
        let error = figure().write(directory).expect_err("no directory").to_string();
        for part in ["/dev/null/plots", "Not a directory", "--plot-dir"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
