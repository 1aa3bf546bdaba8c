//! `headrace info`

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Call, progress};
use crate::cli::command::InfoCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::table::{Align, Fields, Table};
use crate::output::{self, human};

/// Extents shown in the table; JSON has more.
const EXTENTS_SHOWN: usize = 40;

/// Runs the command.
pub fn run(call: &Call, command: &InfoCommand) -> Result<(), Failure> {
    let settings = call.begin(None)?;
    let mut all = Vec::new();
    for path in &command.paths {
        let (record, ino) = find::by_path(path, settings.process.runtime_dir.as_deref())?;
        let bar = Progress::new("asking");
        let mut info: Value =
            Client::connect(&record)?.call(&Request::Info { ino }, &mut progress::of_daemon(&bar))?;
        if let Value::Object(info) = &mut info {
            info.insert("path".into(), path.to_string_lossy().into());
            info.insert("volume".into(), record.url.into());
        }
        all.push(info);
    }
    if command.json {
        return output::print_json(&all);
    }
    let text: Vec<String> =
        all.iter().zip(&command.paths).map(|(info, path)| render(info, &output::path(path))).collect();
    output::print(&text.join("\n"))
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("-")
}

fn render(info: &Value, path: &str) -> String {
    let mut fields = Fields::default();
    fields
        .add("volume", text(info, "volume"))
        .add("inode", number(info, "ino").to_string())
        .add("kind", text(info, "kind"))
        .add("mode", text(info, "mode"))
        .add("links", number(info, "nlink").to_string())
        .add("owner", format!("{}:{}", number(info, "uid"), number(info, "gid")))
        .add("size", size(number(info, "size")))
        .add("held", size(number(info, "allocated")))
        .add("accessed", text(info, "atime"))
        .add("modified", text(info, "mtime"))
        .add("changed", text(info, "ctime"))
        .add("created", text(info, "btime"));
    let cache = &info["cache"];
    if cache.is_object() {
        fields.add("cached", cached(number(cache, "cached"), number(cache, "bytes")));
    }
    let mut out = format!("{path}\n{}", fields.render(2));
    let extents = info.get("extents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if extents.is_empty() {
        return out;
    }
    out.push_str(&extent_table(extents).render(2));
    let truncated = info.get("truncated").and_then(Value::as_bool) == Some(true);
    let more = extents.len().saturating_sub(EXTENTS_SHOWN);
    if more > 0 || truncated {
        let and = if truncated { " and more" } else { "" };
        out.push_str(&format!("  ... {more}{and} not shown\n"));
    }
    out.push_str(&segments(extents, truncated));
    out
}

/// How much of a file is in the cache on local disks.
fn cached(cached: u64, bytes: u64) -> String {
    match cached {
        all if all >= bytes => "all of it".to_owned(),
        0 => "nothing".to_owned(),
        part => format!("{} of {}", human::bytes(part), human::bytes(bytes)),
    }
}

/// Rounded, and exact where that differs.
fn size(bytes: u64) -> String {
    if bytes < 1024 { human::bytes(bytes) } else { format!("{} ({bytes} bytes)", human::bytes(bytes)) }
}

fn extent_table(extents: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("FILE OFFSET", Align::Right),
        ("LENGTH", Align::Right),
        ("STORED AT", Align::Right),
        ("STORED", Align::Right),
        ("IN", Align::Left),
    ]);
    for extent in extents.iter().take(EXTENTS_SHOWN) {
        let (at, stored, place) = match extent.get("key").and_then(Value::as_str) {
            Some(key) => (
                number(extent, "stored_offset").to_string(),
                number(extent, "stored_len").to_string(),
                key.to_owned(),
            ),
            None => ("-".to_owned(), "-".to_owned(), "metadata, until it is packed".to_owned()),
        };
        table.row(vec![
            number(extent, "offset").to_string(),
            number(extent, "len").to_string(),
            at,
            stored,
            place,
        ]);
    }
    table
}

fn segments(extents: &[Value], truncated: bool) -> String {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for extent in extents {
        if let Some(key) = extent.get("key").and_then(Value::as_str) {
            let sum = bytes.entry(key).or_default();
            *sum = sum.saturating_add(number(extent, "len"));
        }
    }
    let at_least = if truncated { "at least " } else { "" };
    let extents = human::plural(extents.len() as u64, "extent", "extents");
    format!("  {at_least}{extents} in {}\n", human::plural(bytes.len() as u64, "segment", "segments"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extents_and_their_segments_are_shown() {
        let info = json!({
            "volume": "/v", "ino": 7, "kind": "file", "mode": "0644", "nlink": 1, "uid": 0, "gid": 0, "size": 5000,
            "allocated": 5000, "atime": "-", "mtime": "-", "ctime": "-", "btime": "-", "truncated": false,
            "extents": [
                { "offset": 0, "len": 4096, "in": "segment", "key": "segments/ab/X", "stored_offset": 0, "stored_len": 4100 },
                { "offset": 4096, "len": 904, "in": "inline", "id": 1, "skip": 0 },
            ],
        });
        let text = render(&info, "/mnt/f");
        assert!(text.contains("segments/ab/X") && text.contains("until it is packed"), "{text}");
        assert!(text.contains("4.9 KiB (5000 bytes)") && text.contains("2 extents in 1 segment"), "{text}");
    }

    #[test]
    fn how_much_is_cached_is_shown_where_there_is_a_cache() {
        let text = |cached: u64| render(&json!({ "cache": { "bytes": 4096, "cached": cached } }), "p");
        assert!(text(4096).contains("all of it") && text(0).contains("nothing"));
        assert!(text(1024).contains("1.0 KiB of 4.0 KiB"), "{}", text(1024));
        assert!(!render(&json!({ "cache": null }), "p").contains("cached"));
    }

    #[test]
    fn an_answer_that_lacks_everything_does_no_harm() {
        assert!(render(&json!({}), "p").starts_with("p\n"));
        assert!(render(&json!({ "extents": [1, {}] }), "p").contains("2 extents"));
    }
}
