//! The cache on local disks, for a person.

use serde_json::Value;

use crate::output::{self, human};

/// Names and texts: a line for each directory, then what holds for all.
pub fn cached(cache: &Value) -> Vec<(&'static str, String)> {
    if !cache.is_object() {
        return Vec::new();
    }
    let directories =
        cache.get("directories").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<(&'static str, String)> =
        directories.iter().map(|directory| ("cache", described(directory))).collect();
    let passed = number(cache, "passed_through");
    lines.push((
        "passthrough",
        match cache["passthrough"].get("state").and_then(Value::as_str) {
            Some("on") => format!("on, {}", human::plural(passed, "open file", "open files")),
            _ => format!("off: {}", text(&cache["passthrough"], "why")),
        },
    ));
    lines
}

fn described(directory: &Value) -> String {
    let path = text(directory, "path");
    if directory.get("failed").is_some_and(Value::is_string) {
        return format!("{path}: not used: {}", text(directory, "failed"));
    }
    let limit = match directory.get("limit").and_then(Value::as_u64) {
        Some(limit) => format!(" of {}", human::bytes(limit)),
        None => String::new(),
    };
    let pinned = match number(directory, "pinned") {
        0 => String::new(),
        pinned => format!(", {} of it pinned", human::bytes(pinned)),
    };
    format!(
        "{path}: {}{limit} in {}{pinned}; {} of its disk free, {} kept free",
        human::bytes(number(directory, "bytes")),
        human::plural(number(directory, "entries"), "entry", "entries"),
        human::bytes(number(directory, "disk_free")),
        human::bytes(number(directory, "keep_free")),
    )
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn text(value: &Value, name: &str) -> String {
    output::name(value.get(name).and_then(Value::as_str).unwrap_or("-").as_bytes())
}

#[cfg(test)]
mod tests {
    use headrace_vfs::{CacheDirectoryStatus, CacheStatus, Passthrough};

    use super::*;

    fn directory(path: &str) -> CacheDirectoryStatus {
        CacheDirectoryStatus {
            path: path.to_owned(),
            failed: None,
            bytes: 3 << 20,
            pinned: 0,
            limit: None,
            disk_free: 20 << 30,
            keep_free: 5 << 30,
            entries: 1,
        }
    }

    #[test]
    fn each_directory_and_who_reads() {
        let status = CacheStatus {
            directories: vec![
                directory("/a"),
                CacheDirectoryStatus { limit: Some(1 << 30), pinned: 1 << 20, entries: 7, ..directory("/b") },
                CacheDirectoryStatus { failed: Some("no\nspace".to_owned()), ..directory("/c") },
            ],
            passthrough: Passthrough::On,
            passed_through: 2,
        };
        let lines = cached(&serde_json::to_value(&status).unwrap());
        assert_eq!(
            lines,
            [
                ("cache", "/a: 3.0 MiB in 1 entry; 20.0 GiB of its disk free, 5.0 GiB kept free".to_owned()),
                (
                    "cache",
                    "/b: 3.0 MiB of 1.0 GiB in 7 entries, 1.0 MiB of it pinned; 20.0 GiB of its disk free, 5.0 GiB kept free"
                        .to_owned()
                ),
                ("cache", "/c: not used: no\\nspace".to_owned()),
                ("passthrough", "on, 2 open files".to_owned()),
            ]
        );
        let off = CacheStatus { passthrough: Passthrough::Off("the kernel is too old".into()), ..status };
        let lines = cached(&serde_json::to_value(&off).unwrap());
        assert_eq!(lines[3].1, "off: the kernel is too old");
    }

    #[test]
    fn no_cache_has_no_lines_and_nonsense_does_no_harm() {
        assert_eq!(cached(&Value::Null), []);
        assert_eq!(cached(&serde_json::json!({ "directories": [1] })).len(), 2);
    }
}
