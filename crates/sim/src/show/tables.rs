//! The founding tables.

use super::plots::Plots;
use headrace_sim::models::lustre::Effort;
use headrace_sim::tables;
use serde_json::json;
use std::process::ExitCode;

const TABLES: [&str; 4] = ["mountpoint", "juicefs", "lustre", "crucible"];

/// All tables, or one. Fails if a bound is broken.
pub fn run(only: Option<&str>, json: bool, plots: &Plots) -> ExitCode {
    if let Some(unknown) = only.filter(|only| !TABLES.contains(only)) {
        return super::fail(&format!("there is no table {unknown}; there are: {}", TABLES.join(", ")));
    }
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut holds = true;
    let mut values = serde_json::Map::new();
    let mut figures = Vec::new();
    type Simulate = fn() -> tables::Founding;
    let simple: [(&str, Simulate); 2] =
        [("mountpoint", tables::mountpoint::table), ("juicefs", tables::juicefs::table)];
    for (name, table) in simple {
        if !wanted(name) {
            continue;
        }
        let table = table();
        holds &= table.holds();
        figures.push(table.figure(name));
        if json {
            values.insert(name.to_owned(), json!(table));
        } else {
            say!("{}", table.text());
        }
    }
    if wanted("lustre") {
        let report = tables::lustre::report(Effort::SHOWN);
        let best = |prefetch| {
            report.tables.iter().find(|table| table.prefetch == prefetch).map_or(0.0, |table| table.best)
        };
        let default = tables::file_server::table(best(true), best(false));
        holds &= default.holds();
        figures.push(report.figure(&default));
        if json {
            values.insert("lustre".to_owned(), json!({ "grids": report, "default": default }));
        } else {
            say!("{}\n{}", report.text(), default.text());
        }
    }
    if wanted("crucible") {
        let (rates, queues) = (tables::crucible::table(), tables::crucible::queue_table());
        holds &= rates.holds() && queues.holds();
        figures.extend([
            rates.figure("crucible"),
            queues.figure("crucible-queue"),
            tables::crucible::figure(),
        ]);
        if json {
            values.insert("crucible".to_owned(), json!({ "writes": rates, "queue": queues }));
        } else {
            say!("{}\n{}", rates.text(), queues.text());
        }
    }
    if json {
        say!("{:#}", serde_json::Value::Object(values));
    }
    if let Some(error) = figures.iter().find_map(|figure| plots.show(figure).err()) {
        return super::fail(&error);
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
