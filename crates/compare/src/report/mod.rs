//! What was found: as JSON, as tables, as plots, and in the documentation.

mod details;
pub mod file;
mod markdown;
mod plots;
mod publish;
pub mod results;
mod summary;
mod view;

use std::path::Path;

use crate::failure::{Context, Result};
use results::Results;
use view::View;

/// Writes the JSON (`results.json`), both reports and the plots to `dir`. Gives the short report.
pub fn save(results: &Results, dir: &Path) -> Result<String> {
    std::fs::create_dir_all(dir).context(|| format!("creating {}", dir.display()))?;
    results.save(&dir.join("results.json"))?;
    let view = View::of(results);
    let plots = plots::save(&view, dir)?;
    write(&dir.join("details.md"), &details::render(&view))?;
    let report = markdown::render(&view, &plots, "");
    write(&dir.join("report.md"), &report)?;
    Ok(report)
}

/// Puts the report into the documentation: `benchmarks.md` in `docs` between its markers, the rest into `docs/benchmarks/`.
pub fn publish(results: &Results, docs: &Path) -> Result<()> {
    let beside = docs.join("benchmarks");
    std::fs::create_dir_all(&beside).context(|| format!("creating {}", beside.display()))?;
    let view = View::of(results);
    let plots = plots::save(&view, &beside)?;
    write(&beside.join("details.md"), &details::render(&view))?;
    results.save(&beside.join("results.json"))?;
    let page = docs.join("benchmarks.md");
    let old = std::fs::read_to_string(&page).context(|| format!("reading {}", page.display()))?;
    let report = markdown::render(&view, &plots, "benchmarks/");
    let new = publish::replace(&old, &report).context(|| page.display().to_string())?;
    write(&page, &new)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).context(|| format!("writing {}", path.display()))
}
