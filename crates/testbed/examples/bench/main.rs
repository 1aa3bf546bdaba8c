//! Figures for docs/benchmarks.md: the same work on the native file system, on Headrace and on its peers, interleaved
//! and repeated. Every byte read is compared with what was written.
//!
//! Started by scripts/bench, which builds the release binary first.

mod place;
mod report;
mod work;

use std::path::PathBuf;

use place::Kind;
use report::Report;
use work::Sizes;

struct Options {
    targets: Vec<Kind>,
    runs: usize,
    sizes: Sizes,
    json: Option<PathBuf>,
}

const USAGE: &str = "usage: bench [--runs N] [--files N] [--gib N] [--json FILE] TARGET...
targets: native headrace-local headrace-s3 juicefs juicefs-s3; the first is what the others are compared with";

fn main() {
    let options = parse(std::env::args().skip(1)).unwrap_or_else(|why| {
        eprintln!("bench: {why}\n{USAGE}");
        std::process::exit(2);
    });
    let mut report = Report::new(&options.targets, &options.sizes);
    for run in 0..options.runs {
        // Each run starts with another target, so that none always comes first or last.
        for turn in 0..options.targets.len() {
            let target = options.targets[(run + turn) % options.targets.len()];
            eprintln!("run {} of {}: {target}", run + 1, options.runs);
            place::with(target, &mut |place| {
                work::all(place, &options.sizes, &mut |row, value| report.add(target, row, value));
            });
        }
    }
    print!("{}", report.markdown());
    if let Some(path) = options.json {
        let text = serde_json::to_string_pretty(&report.json()).expect("a report is valid JSON");
        std::fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { targets: Vec::new(), runs: 3, sizes: Sizes { files: 20_000, large: 4 << 30 }, json: None };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| {
            text.parse::<u64>().ok().filter(|n| *n > 0).ok_or(format!("{text:?} is not a number"))
        };
        match arg.as_str() {
            "--runs" => options.runs = number(value()?)? as usize,
            "--files" => options.sizes.files = number(value()?)?,
            "--gib" => options.sizes.large = number(value()?)? << 30,
            "--json" => options.json = Some(value()?.into()),
            target => options.targets.push(target.parse()?),
        }
    }
    // A peer that is not installed is left out, and the report says so by not having it.
    options.targets.retain(|target| match target.missing() {
        None => true,
        Some(what) => {
            eprintln!("bench: {target} is left out: {what} is not on PATH");
            false
        }
    });
    if options.targets.is_empty() { Err("no target".into()) } else { Ok(options) }
}
