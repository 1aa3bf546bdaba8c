//! A table of a document beside a model's.

use crate::plot::{Chart, Figure};
use serde::Serialize;
use std::fmt::Write as _;

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The setting, as a person would say it.
    pub setting: String,
    /// What the document measured, if it did.
    pub document: Option<f64>,
    /// What the model makes of it.
    pub model: Option<f64>,
    /// What the default controller reaches there; it is told nothing.
    pub default: Option<f64>,
}

/// Something that must hold.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
}

/// See the [module](self).
#[derive(Debug, Clone, Serialize)]
pub struct Founding {
    /// What was measured.
    pub title: &'static str,
    /// Of the figures.
    pub unit: &'static str,
    /// All settings.
    pub rows: Vec<Row>,
    /// What must hold.
    pub checks: Vec<Check>,
    /// The same, drawn.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

impl Founding {
    /// Nothing is in it yet.
    pub fn new(title: &'static str, unit: &'static str) -> Founding {
        Founding { title, unit, rows: Vec::new(), checks: Vec::new(), charts: Vec::new() }
    }

    /// Its plot, in a file of this name.
    pub fn figure(&self, name: &str) -> Figure {
        Figure { name: format!("table-{name}"), title: self.title.to_owned(), charts: self.charts.clone() }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let width = self.rows.iter().map(|row| row.setting.chars().count()).max().unwrap_or(0);
        let _ = writeln!(out, "{}, {}", self.title, self.unit);
        let _ = writeln!(out, "{:width$}{:>12}{:>12}{:>12}", "", "document", "model", "default");
        for row in &self.rows {
            let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), show);
            let _ = writeln!(
                out,
                "{:width$}{:>12}{:>12}{:>12}",
                row.setting,
                figure(row.document),
                figure(row.model),
                figure(row.default)
            );
        }
        for check in &self.checks {
            let _ = writeln!(out, "{}  {}", if check.holds { "holds " } else { "BROKEN" }, check.what);
        }
        out
    }

    /// Whether everything holds that must.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// Adds something that must hold.
    pub fn check(&mut self, holds: bool, what: impl Into<String>) {
        self.checks.push(Check { what: what.into(), holds });
    }
}

fn show(value: f64) -> String {
    if value < 200.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// The lines of a CSV below its heading, as numbers; what is none is not a number.
pub(super) fn csv(text: &str) -> Vec<Vec<f64>> {
    text.lines()
        .skip(1)
        .map(|line| line.split(',').map(|field| field.trim().parse().unwrap_or(f64::NAN)).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_its_figures_and_what_is_broken() {
        let row =
            Row { setting: "window 3".to_owned(), document: Some(99.0), model: Some(1234.5), default: None };
        let mut table = Founding { rows: vec![row], ..Founding::new("Speeds", "Gbps") };
        assert!(table.holds());
        table.check(false, "the sky is green");
        assert!(!table.holds());
        let text = table.text();
        assert!(
            text.contains("99.00") && text.contains("1234") && text.contains("BROKEN  the sky is green"),
            "{text}"
        );
    }

    #[test]
    fn csv_skips_its_heading() {
        assert_eq!(csv("a,b\n1,2.5\n3,4\n"), [[1.0, 2.5], [3.0, 4.0]]);
    }
}
