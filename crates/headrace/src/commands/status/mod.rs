//! `headrace status`

mod cache;

use std::time::{Duration, SystemTime};

use serde_json::Value;

use self::cache::cached;
use super::Call;
use crate::cli::command::StatusCommand;
use crate::daemon::control::client::Client;
use crate::daemon::control::protocol::Request;
use crate::daemon::find;
use crate::failure::{Exit, Failure};
use crate::output::table::Fields;
use crate::output::{self, human};

/// Runs the command.
pub fn run(call: &Call, command: &StatusCommand) -> Result<(), Failure> {
    let settings = call.begin(command.target.as_deref())?;
    let runtime_dir = settings.process.runtime_dir.as_deref();
    let records = match &command.target {
        None => find::living(runtime_dir),
        Some(target) => match find::by_target(target, runtime_dir)? {
            Some(record) => vec![record],
            None => {
                let target = output::name(target.as_bytes());
                return Err(Failure::new(format!("{target} is neither mounted nor a mount point"))
                    .advise("\"headrace status\" without an argument lists what is mounted.")
                    .exit(Exit::NotFound));
            }
        },
    };
    let mut all = Vec::new();
    for record in &records {
        match Client::connect(record).and_then(|c| c.call::<Value>(&Request::Status, &mut |_| {})) {
            Ok(status) => all.push(status),
            Err(failure) if command.target.is_some() => return Err(failure),
            // It may have ended this moment, or belong to somebody else: say so, and go on with the others.
            Err(failure) => output::say_failure(&failure),
        }
    }
    if command.json {
        return match (&command.target, all.as_slice()) {
            (Some(_), [one]) => output::print_json(one),
            _ => output::print_json(&all),
        };
    }
    if all.is_empty() {
        return output::print("No volume is mounted.\n");
    }
    output::print(&all.iter().map(render).collect::<Vec<_>>().join("\n"))
}

fn render(status: &Value) -> String {
    let text = |name: &str| output::name(status.get(name).and_then(Value::as_str).unwrap_or("-").as_bytes());
    let number = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or(0);
    let figures = &status["figures"];
    let figure = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let store = |operation: &str, name: &str| {
        status["store"][operation].get(name).and_then(Value::as_u64).unwrap_or(0)
    };
    let errors =
        ["get", "put", "put_if_absent", "head", "delete", "list"].iter().map(|o| store(o, "errors")).sum();
    let yes = |name: &str| status.get(name).and_then(Value::as_bool) == Some(true);

    let mut fields = Fields::default();
    fields
        .add("volume", format!("{} ({})", text("name"), text("uuid")))
        .add("at", text("url"))
        .add("state", text("state"))
        .add("mode", if yes("read_only") { "read-only" } else { "read and write" })
        .add(
            "data",
            format!(
                "{} in {}{}{}",
                human::bytes(figure("bytes")),
                human::plural(figure("inodes"), "inode", "inodes"),
                match text("compression").as_str() {
                    "none" => String::new(),
                    method => format!(", compressed with {method}"),
                },
                if yes("encrypted") { ", encrypted" } else { "" },
            ),
        )
        .add("free", free(&status["space"]))
        .add(
            "served by",
            format!(
                "process {} (version {}) for {}",
                number("pid"),
                text("version"),
                human::duration(Duration::from_secs(number("uptime_secs")))
            ),
        )
        .add(
            "memory",
            format!(
                "{} resident, {} for data",
                human::bytes(number("memory_resident")),
                human::bytes(number("memory_limit"))
            ),
        )
        .add("requests", requests(&status["requests"]))
        .add("open files", human::count(figure("open_files")))
        .add(
            "to be written",
            format!(
                "{} (limit {})",
                human::bytes(figure("dirty_bytes")),
                human::bytes(figure("dirty_limit"))
            ),
        )
        .add("on its way", on_its_way(&status["figures"]["write_queue"]))
        .add("written back", written_back(&status["figures"]["writeback"]))
        .add("to be packed", human::bytes(figure("inline_bytes")))
        .add(
            "metadata",
            format!(
                "{} on disk, {}, {}",
                human::bytes(figure("metadata_disk_bytes")),
                human::plural(figure("metadata_transactions"), "transaction", "transactions"),
                human::plural(figure("metadata_syncs"), "sync", "syncs"),
            ),
        )
        .add(
            "store",
            format!(
                "{} read in {}, {} written in {}, {}",
                human::bytes(store("get", "bytes")),
                human::plural(store("get", "requests"), "request", "requests"),
                human::bytes(store("put", "bytes")),
                human::plural(store("put", "requests"), "request", "requests"),
                human::plural(errors, "error", "errors"),
            ),
        )
        .add("log", text("log_file"))
        .add("metrics", metrics(&status["metrics"]));
    for (name, text) in cached(&status["cache"]) {
        fields.add(name, text);
    }
    let log = &status["log"];
    if log.is_object() {
        fields.add("in the bucket", shipped(log)).add("epoch", epoch(log));
    }
    let trash = &status["figures"]["trash"];
    if trash["keep_secs"].is_number() || trash["files"].as_u64() > Some(0) {
        fields.add("trash", trashed(trash));
    }
    let scrub = &status["figures"]["scrub"];
    if scrub.is_object() {
        fields.add("scrub", scrubbed(scrub));
        for problem in damage(scrub) {
            fields.add("damage", problem);
        }
    }
    if let Some(problem) = problem(log) {
        fields.add("problem", problem);
    }
    if let Some(error) = status.get("last_error").and_then(Value::as_str) {
        fields.add("last error", output::name(error.as_bytes()));
    }
    format!("{}\n{}", text("mountpoint"), fields.render(2))
}

/// What was written and is not in the store yet.
fn on_its_way(queue: &Value) -> String {
    let bytes = |name: &str| human::bytes(queue[name].as_u64().unwrap_or_default());
    let mut text = format!("{} of at most {} at a time", bytes("in_flight"), bytes("window"));
    if let Some(drain) = queue["drain"].as_u64() {
        text.push_str(&format!("; the store takes {}/s", human::bytes(drain)));
    }
    match queue["waiting"].as_u64().unwrap_or_default() {
        0 => {}
        waiting => {
            text.push_str(&format!("; {} for it", human::plural(waiting, "write waits", "writes wait")))
        }
    }
    text
}

/// New files on this machine's disk that are not in the store.
/// How requests come from the kernel.
fn requests(requests: &Value) -> String {
    let text = |name: &str| requests[name].as_str();
    match (text("by"), text("why")) {
        (Some("io_uring"), _) => "by io_uring".to_owned(),
        (_, Some(why)) => format!("by /dev/fuse, not by io_uring: {why}"),
        _ => "by /dev/fuse".to_owned(),
    }
}

fn written_back(writeback: &Value) -> String {
    let number = |name: &str| writeback[name].as_u64();
    if !writeback.is_object() {
        return "no: files go to the store directly".to_owned();
    }
    let mut text = format!(
        "{} in {} on this machine's disk, not stored yet",
        human::bytes(number("bytes").unwrap_or_default()),
        human::plural(number("files").unwrap_or_default(), "file", "files")
    );
    if let Some(limit) = number("limit") {
        text.push_str(&format!(" (limit {})", human::bytes(limit)));
    }
    if let Some(rate) = number("rate") {
        text.push_str(&format!("; at most {}/s are stored", human::bytes(rate)));
    }
    match (writeback["on"].as_bool(), writeback["has_room"].as_bool()) {
        (Some(true), Some(false)) => text.push_str("; full: new files go to the store directly"),
        (Some(false), _) => text.push_str("; left by an earlier mount, new files go to the store directly"),
        _ => {}
    }
    text
}

/// Where metrics can be asked for.
fn metrics(places: &Value) -> String {
    let text =
        |name: &str| places.get(name).and_then(Value::as_str).map(|text| output::name(text.as_bytes()));
    let address = text("address").map(|address| format!("http://{address}/metrics"));
    let places: Vec<String> = address.into_iter().chain(text("socket")).collect();
    if places.is_empty() { "-".to_owned() } else { places.join(" and ") }
}

/// How far the metadata in the bucket is behind: what the loss of this machine would take.
fn shipped(log: &Value) -> String {
    let number = |name: &str| log.get(name).and_then(Value::as_u64).unwrap_or(0);
    let transactions = number("lag_transactions");
    let behind = match transactions {
        0 => "everything".to_owned(),
        n => format!(
            "all but {} ({}{})",
            human::plural(n, "transaction", "transactions"),
            human::bytes(number("lag_bytes")),
            match number("lag_ms") {
                0 => String::new(),
                ms => format!(", the oldest {} ago", human::duration(Duration::from_millis(ms))),
            }
        ),
    };
    let waits = match log.get("durability").and_then(Value::as_str) {
        Some("bucket") => "; fsync waits for it",
        _ => "; fsync waits for this machine's disk only",
    };
    let snapshot = match log.get("last_snapshot_ms").and_then(Value::as_u64) {
        Some(ms) => {
            let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
            let ago = at.and_then(|at| at.elapsed().ok()).unwrap_or_default();
            format!("; last snapshot {} ago", human::duration(Duration::from_secs(ago.as_secs())))
        }
        None => String::new(),
    };
    format!("{behind}{waits}{snapshot}")
}

/// How far reading everything again is.
/// What was deleted and is kept.
fn trashed(trash: &Value) -> String {
    let held = |name: &str| trash.get(name).and_then(Value::as_u64).unwrap_or(0);
    let keep = match trash.get("keep_secs").and_then(Value::as_f64).map(Duration::try_from_secs_f64) {
        Some(Ok(time)) => format!("kept for {}", humantime::format_duration(time)),
        _ => "off now, kept from before".to_owned(),
    };
    let files = human::plural(held("files"), "file or directory", "files and directories");
    format!("{files}, {}, {keep}", human::bytes(held("bytes")))
}

fn scrubbed(scrub: &Value) -> String {
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    let ago = |secs: u64| {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(secs));
        let ago = at.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        human::duration(Duration::from_secs(ago.as_secs()))
    };
    let now = match number(scrub, "began") {
        0 => "nothing under way".to_owned(),
        began => format!(
            "{} read and verified since {} ago, {}",
            human::bytes(number(scrub, "bytes")),
            ago(began),
            human::plural(number(scrub, "damaged"), "damaged segment", "damaged segments"),
        ),
    };
    let last = &scrub["last_pass"];
    if !last.is_object() {
        return format!("{now}; never been through everything yet");
    }
    format!(
        "{now}; last through everything {} ago ({}, {})",
        ago(number(last, "ended")),
        human::bytes(number(last, "bytes")),
        human::plural(number(last, "damaged"), "damaged segment", "damaged segments"),
    )
}

/// What it found, the first few.
fn damage(scrub: &Value) -> Vec<String> {
    let found = |of: &Value| of.get("found").and_then(Value::as_array).cloned().unwrap_or_default();
    let metadata = scrub.get("metadata").and_then(Value::as_str);
    let metadata = metadata.map(|detail| format!("the metadata on this machine is damaged: {detail}"));
    let segments = found(scrub).into_iter().chain(found(&scrub["last_pass"]));
    let segments = segments.filter_map(|text| text.as_str().map(str::to_owned));
    metadata.into_iter().chain(segments).take(5).map(|text| output::name(text.as_bytes())).collect()
}

fn epoch(log: &Value) -> String {
    let number = |name: &str| log.get(name).and_then(Value::as_u64).unwrap_or(0);
    format!("{}, log object {}, transaction {}", number("epoch"), number("log_number"), number("position"))
}

/// What is wrong with the log, if something is.
fn problem(log: &Value) -> Option<String> {
    let says = match log.get("state").and_then(Value::as_str)? {
        "lagging" => "metadata cannot be shipped to the bucket, it is tried again",
        "lapsed" => "the lease could not be renewed: nothing is acknowledged as durable until it is",
        "fenced" => "the volume was taken over by another owner",
        _ => return None,
    };
    Some(match log.get("error").and_then(Value::as_str) {
        Some(error) => format!("{says}: {}", output::name(error.as_bytes())),
        None => says.to_owned(),
    })
}

fn free(space: &Value) -> String {
    let number = |name: &str| space.get(name).and_then(Value::as_u64).unwrap_or(0);
    let total = number("blocks").saturating_mul(number("bsize"));
    // A store without a size of its own is given one of 1 EiB.
    if total >= 1 << 60 {
        return "as much as the store takes".to_owned();
    }
    format!("{} of {}", human::bytes(number("bavail").saturating_mul(number("bsize"))), human::bytes(total))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_shown_for_people() {
        let text = render(&json!({
            "mountpoint": "/mnt/v", "name": "v", "uuid": "u", "url": "/v", "pid": 7, "version": "0.1.0",
            "uptime_secs": 3725, "read_only": false, "encrypted": true, "compression": "lz4",
            "figures": { "dirty_bytes": 1536, "dirty_limit": 2048, "open_files": 1234, "bytes": 1024, "inodes": 1 },
            "space": { "blocks": 1 << 30, "bavail": 1 << 20, "bsize": 4096 },
            "log": {
                "epoch": 3, "durability": "local", "position": 100, "shipped_position": 90, "lag_transactions": 10,
                "lag_bytes": 2048, "lag_ms": 1500, "log_number": 12, "last_snapshot_ms": null, "state": "lagging",
                "error": "connection refused",
            },
        }));
        for part in [
            "process 7 (version 0.1.0) for 1h 2m",
            "1.5 KiB (limit 2.0 KiB)",
            "1,234",
            "compressed with lz4, encrypted",
            "4.0 GiB of 4.0 TiB",
            "all but 10 transactions (2.0 KiB, the oldest",
            "this machine's disk only",
            "3, log object 12",
            "tried again: connection refused",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn an_answer_that_lacks_everything_does_no_harm() {
        assert!(render(&json!({})).contains("volume"));
    }
}
