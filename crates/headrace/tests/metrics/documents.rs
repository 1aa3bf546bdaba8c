//! The page and the dashboard about metrics name those that there are.

use std::collections::BTreeSet;

use headrace_testbed::binary::repository;

use crate::exposition::Exposition;

/// Words that look like metrics: with the suffixes that a histogram's samples have.
fn named(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("headrace_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

fn document(path: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join("docs").join(path)).expect("a document");
    named(&text)
}

/// What there is and is not documented.
pub fn undocumented(found: &Exposition) -> Vec<String> {
    let page = document("metrics.md");
    found.families().filter(|name| !page.contains(*name)).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_asks_for_what_is_documented() {
    let page = document("metrics.md");
    let asked = document("grafana/headrace.json");
    assert!(asked.len() > 30, "{asked:?}");
    let unknown: Vec<_> =
        asked.iter().filter(|name| !page.contains(name.strip_suffix("_bucket").unwrap_or(name))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_dashboard_is_whole() {
    let text = std::fs::read_to_string(repository().join("docs/grafana/headrace.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its own number");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            let balanced =
                |open, close| expression.matches(open).count() == expression.matches(close).count();
            assert!(balanced('(', ')') && balanced('{', '}') && balanced('[', ']'), "{expression}");
        }
    }
}
