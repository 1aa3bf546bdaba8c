//! The flags of `headrace objbench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use headrace_bench::objbench::{MAX_CONCURRENCY, MAX_OBJECTS, Options};

use super::settings::StoreSettings;
use super::values::{ByteSize, Span};

/// `headrace objbench`
#[derive(Args, Debug)]
pub struct ObjbenchCommand {
    /// The store: a directory (/srv/disk) or an object store (s3://bucket/prefix); no volume is needed
    #[arg(value_name = "URL")]
    pub url: String,

    /// A first impression in half a minute: 1, 10 and 50 requests at a time, fewer objects, fewer checks
    #[arg(long)]
    pub quick: bool,

    /// Requests at a time, one level after the other [default: 1,10,200,800]
    #[arg(
        short = 'c', long, value_name = "N,...", value_delimiter = ',',
        value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_CONCURRENCY as u64)
    )]
    pub concurrency: Vec<u64>,

    /// How long each measurement goes on [default: 3s]
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<Span>,

    /// Size of large objects [default: 4 MiB]
    #[arg(long, value_name = "SIZE")]
    pub big_size: Option<ByteSize>,

    /// Large objects written at most at each level [default: 256, or as many as there are requests at a time if those are more]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_OBJECTS as u64))]
    pub big_objects: Option<u64>,

    /// Size of small objects [default: 4 KiB]
    #[arg(long, value_name = "SIZE")]
    pub small_size: Option<ByteSize>,

    /// Small objects written at most at each level [default: 1000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_OBJECTS as u64))]
    pub small_objects: Option<u64>,

    /// Size of a ranged get of a large object [default: 128 KiB]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<ByteSize>,

    /// Memory for what is read; levels that need more are left out [default: half of what is available]
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,

    #[command(flatten)]
    pub store: StoreSettings,

    /// Print JSON (docs/objbench.md describes it)
    #[arg(long)]
    pub json: bool,

    /// Draw throughput and latency against requests at a time into this file, .svg or .png
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

impl ObjbenchCommand {
    /// What is asked for, and the defaults for the rest; `available` is memory that may be used up, in bytes, if that is known.
    pub fn options(&self, available: Option<u64>) -> Options {
        let preset = if self.quick { Options::quick() } else { Options::default() };
        let size = |flag: Option<ByteSize>, preset: u64| flag.map_or(preset, |size| size.0);
        // Whatever does not fit is out of bounds too, and refused as such.
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let levels: Vec<usize> = self.concurrency.iter().map(|level| number(*level)).collect();
        Options {
            concurrency: if levels.is_empty() { preset.concurrency } else { levels },
            big_size: size(self.big_size, preset.big_size),
            big_objects: self.big_objects.map_or(preset.big_objects, number),
            small_size: size(self.small_size, preset.small_size),
            small_objects: self.small_objects.map_or(preset.small_objects, number),
            block: self.block.map_or_else(
                || preset.block.min(size(self.big_size, preset.big_size).max(1)),
                |block| block.0,
            ),
            time: self.duration.map_or(preset.time, |span| span.0),
            memory: self
                .max_memory
                .map_or_else(|| available.map_or(preset.memory, |all| all / 2), |size| size.0),
            quick: preset.quick,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::super::command::{Cli, Command};
    use super::*;

    fn options(flags: &[&str]) -> Options {
        let args = ["headrace", "objbench", "/srv/vol"].iter().chain(flags);
        match Cli::try_parse_from(args).unwrap().command {
            Command::Objbench(command) => command.options(Some(8 << 30)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_count_before_the_preset() {
        assert_eq!(options(&[]), Options::default());
        assert_eq!(options(&["--quick"]), Options::quick());
        let asked = options(&[
            "-c",
            "1,16",
            "--for=10s",
            "--big-size=64K",
            "--small-objects",
            "5",
            "--max-memory=1G",
        ]);
        assert_eq!((asked.concurrency, asked.time), (vec![1, 16], Duration::from_secs(10)));
        assert_eq!((asked.big_size, asked.block, asked.memory), (64 << 10, 64 << 10, 1 << 30));
        assert_eq!((asked.small_objects, asked.big_objects), (5, 256));
        for wrong in ["--concurrency=0", "--concurrency=5000", "--big-objects=0"] {
            assert!(Cli::try_parse_from(["headrace", "objbench", "/srv/vol", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_are_those_the_help_tells() {
        use headrace_bench::report::human::size;
        let mut command = <Cli as clap::CommandFactory>::command();
        let help = command.find_subcommand_mut("objbench").unwrap().render_long_help().to_string();
        // Lines are broken where they happen to end.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let preset = Options::default();
        let levels: Vec<String> = preset.concurrency.iter().map(usize::to_string).collect();
        for default in [
            levels.join(","),
            format!("{}s", preset.time.as_secs()),
            size(preset.big_size),
            size(preset.small_size),
            size(preset.block),
            preset.small_objects.to_string(),
        ] {
            assert!(help.contains(&format!("[default: {default}]")), "{default}: {help}");
        }
        assert!(help.contains(&format!("[default: {}, or", preset.big_objects)), "{help}");
    }
}
