//! Reads with many requests in flight, by fio: libaio with O_DIRECT, as databases do it.
//!
//! fio cannot check what it did not write: the case reads the whole file with our own reader afterwards.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::job::Outcome;
use crate::failure::{Context, Failure, Result};

/// Random reads anywhere in `file`.
pub fn run(file: &Path, block: u64, depth: u32, operations: u64, limit: Duration) -> Result<Outcome> {
    let finished = Command::new("fio")
        .args([
            "--name=random",
            "--rw=randread",
            "--ioengine=libaio",
            "--direct=1",
            "--readonly",
            "--norandommap",
        ])
        .args(["--randrepeat=1", "--allow_file_create=0", "--fallocate=none", "--invalidate=0", "--thread"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--bs={block}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--io_size={}", operations * block))
        .arg(format!("--runtime={}", limit.as_secs().max(1)))
        .args(["--output-format=json", "--percentile_list=50:99"])
        .stdin(Stdio::null())
        .output()
        .context(|| "starting fio (scripts/install-test-tools bench)".into())?;
    let text = String::from_utf8_lossy(&finished.stdout);
    if !finished.status.success() {
        let why = String::from_utf8_lossy(&finished.stderr);
        let line =
            why.lines().chain(text.lines()).find(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(Failure::new(format!("fio: {line}")));
    }
    // Notes may come before the report itself.
    let report = text.find('{').and_then(|start| text.get(start..)).unwrap_or_default();
    let report: Value = serde_json::from_str(report).context(|| "reading fio's report".into())?;
    parse(&report, operations).ok_or_else(|| Failure::new("fio's report lacks what was measured"))
}

fn parse(report: &Value, operations: u64) -> Option<Outcome> {
    let read = report.get("jobs")?.get(0)?.get("read")?;
    let done = read.get("total_ios")?.as_u64()?;
    let percentile = |which: &str| {
        let nanoseconds = read.get("clat_ns")?.get("percentile")?.get(which)?.as_f64()?;
        Some(nanoseconds / 1e9)
    };
    Some(Outcome {
        seconds: read.get("runtime")?.as_f64()? / 1e3,
        operations: done,
        bytes: read.get("io_bytes")?.as_u64()?,
        stopped: done < operations,
        p50: percentile("50.000000"),
        p99: percentile("99.000000"),
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_understood() {
        let report = serde_json::json!({"jobs": [{"read": {
            "total_ios": 10, "io_bytes": 40960, "runtime": 250, "clat_ns": {"percentile": {"50.000000": 2e6}},
        }}]});
        let outcome = parse(&report, 20).unwrap();
        assert_eq!((outcome.seconds, outcome.operations, outcome.stopped), (0.25, 10, true));
        assert_eq!((outcome.p50, outcome.p99), (Some(0.002), None));
        assert_eq!(parse(&serde_json::json!({}), 1), None);
    }
}
