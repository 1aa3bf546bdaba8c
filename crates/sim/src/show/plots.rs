//! Plots, printed and written.

use clap::Args;
use headrace_sim::plot::{Figure, WriteError};
use std::path::PathBuf;

/// Where plots go.
#[derive(Debug, Clone, Default, Args)]
pub struct Plots {
    /// Draw plots in the terminal, 80 characters wide
    #[arg(long, conflicts_with = "json")]
    plot: bool,
    /// Write plots into this directory, as SVG
    #[arg(long, value_name = "DIR")]
    plot_dir: Option<PathBuf>,
}

impl Plots {
    /// Whether there is anything to draw at all.
    pub fn are_wanted(&self) -> bool {
        self.plot || self.plot_dir.is_some()
    }

    /// Draws it wherever it is wanted, and says where it was written.
    pub fn show(&self, figure: &Figure) -> Result<(), WriteError> {
        if self.plot {
            say!("{}", figure.text());
        }
        if let Some(directory) = &self.plot_dir {
            let path = figure.write(directory)?;
            eprintln!("wrote {}", path.display());
        }
        Ok(())
    }
}
