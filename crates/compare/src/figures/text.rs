//! What was found, as tables with what is asked of it: Markdown.

use std::fmt::Write;
use std::path::Path;

use headrace_bench::report::{Align, Spread, Table, human};

use super::PartName;
use super::results::Results;
use crate::failure::{Context, Result};

/// All of it: `describe` says what there is to say of a part.
pub fn render<P: PartName>(results: &Results<P>, parts: &[P], describe: impl Fn(P, &mut Section)) -> String {
    let mut out = String::new();
    let machine = &results.machine;
    let _ = writeln!(
        out,
        "{}; {}, {}, {} cores; {}; store: {}. Took {:.0} minutes. Medians, least and greatest in brackets.\n",
        results.date,
        machine.kernel,
        machine.processor,
        machine.cores,
        results.headrace,
        results.server,
        (results.took_seconds / 60.0).ceil()
    );
    for part in parts.iter().copied().filter(|part| !results.rows(*part).is_empty()) {
        let mut section = Section::default();
        describe(part, &mut section);
        out += &section.text;
        let failed = results.samples.iter().filter(|one| one.part == part);
        for sample in failed {
            if let Some(why) = &sample.failed {
                section.misses.push(format!("{} {}: {why}", sample.row, sample.contender));
            }
        }
        if section.misses.is_empty() {
            out += "All as asked.\n\n";
        } else {
            let _ = writeln!(out, "Not as asked:\n\n- {}\n", section.misses.join("\n- "));
        }
    }
    if !results.not_measured.is_empty() {
        let _ = writeln!(out, "Not measured:\n\n- {}\n", results.not_measured.join("\n- "));
    }
    out
}

/// Writes the JSON (`results.json`) and the report to `dir`. Gives the report.
pub fn save<P: PartName>(
    results: &Results<P>,
    dir: &Path,
    render: impl Fn(&Results<P>) -> String,
) -> Result<String> {
    std::fs::create_dir_all(dir).context(|| format!("creating {}", dir.display()))?;
    results.save(&dir.join("results.json"))?;
    let text = render(results);
    let path = dir.join("report.md");
    std::fs::write(&path, &text).context(|| format!("writing {}", path.display()))?;
    Ok(text)
}

/// What is said of a part.
#[derive(Debug, Default)]
pub struct Section {
    text: String,
    misses: Vec<String>,
}

impl Section {
    /// A heading.
    pub fn begin(&mut self, title: &str) {
        let _ = writeln!(self.text, "### {title}\n");
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        let _ = writeln!(self.text, "{}", table.markdown());
    }

    /// A paragraph.
    pub fn say(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}\n");
    }

    /// Takes down what is not as asked.
    pub fn ask(&mut self, good: bool, what: impl FnOnce() -> String) {
        if !good {
            self.misses.push(what());
        }
    }
}

/// Median, least and greatest.
pub fn spread(value: Option<Spread>) -> String {
    match value {
        None => "-".into(),
        Some(one) if one.samples == 1 => human::measured(one.median),
        Some(one) => {
            let all = [one.median, one.min, one.max].map(human::measured);
            format!("{} ({}-{})", all[0], all[1], all[2])
        }
    }
}

/// Of two medians.
pub fn ratio(of: Option<Spread>, to: Option<Spread>) -> Option<f64> {
    Some(of?.median / to?.median)
}

/// A ratio, as a person reads it.
pub fn shown(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"))
}

/// A table with these columns, numbers but for the first.
pub fn columns(names: &[&'static str]) -> Table {
    let mut columns: Vec<(&str, Align)> = names.iter().map(|name| (*name, Align::Right)).collect();
    if let Some(first) = columns.first_mut() {
        first.1 = Align::Left;
    }
    Table::new(&columns)
}
