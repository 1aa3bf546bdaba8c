//! The flags of `headrace bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use headrace_bench::files::Options;

use super::values::{ByteSize, Span};

/// `headrace bench`
#[derive(Args, Debug)]
pub struct BenchCommand {
    /// The directory to measure; everything is made in a fresh one below it, and deleted at the end
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Measure this directory too, in turns with the first, and print what the first is compared with it
    #[arg(long, value_name = "OTHER_DIR")]
    pub against: Option<PathBuf>,

    /// Less of everything: an impression in seconds [defaults then: 32 MiB, 100 files, 1s]
    #[arg(long)]
    pub quick: bool,

    /// Do all of it so often, and give medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    pub repeat: u32,

    /// Threads, each with files of its own [default: 4]
    #[arg(short = 'p', long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=256))]
    pub threads: Option<u32>,

    /// Size of each thread's large file, 0 for none [default: 256 MiB]
    #[arg(long, value_name = "SIZE")]
    pub big_size: Option<ByteSize>,

    /// Size of each read and write of the large files [default: 1 MiB]
    #[arg(long, value_name = "SIZE")]
    pub block_size: Option<ByteSize>,

    /// Size of each small file [default: 128 KiB]
    #[arg(long, value_name = "SIZE")]
    pub small_size: Option<ByteSize>,

    /// Small files of each thread, 0 for none [default: 500]
    #[arg(long, value_name = "N")]
    pub small_count: Option<u32>,

    /// How long to read, and to write, at random; less if every page had its turn [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub random_time: Option<Span>,

    /// Sync each small file before it is closed
    #[arg(long)]
    pub fsync: bool,

    /// Leave the kernel's caches alone; else they are dropped before each phase that reads for the first time, which takes root
    #[arg(long)]
    pub keep_caches: bool,

    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    pub json: bool,

    /// Draw the figures into this file, .svg or .png
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

impl BenchCommand {
    /// What is asked for, and the defaults for the rest.
    pub fn options(&self) -> Options {
        let preset = if self.quick { Options::quick() } else { Options::standard() };
        let size = |flag: Option<ByteSize>, preset: u64| flag.map_or(preset, |size| size.0);
        Options {
            threads: self.threads.unwrap_or(preset.threads),
            big_size: size(self.big_size, preset.big_size),
            block_size: size(self.block_size, preset.block_size),
            small_size: size(self.small_size, preset.small_size),
            small_count: self.small_count.unwrap_or(preset.small_count),
            random_time: self.random_time.map_or(preset.random_time, |span| span.0),
            fsync: self.fsync,
            keep_caches: self.keep_caches,
            repeat: self.repeat,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::command::{Cli, Command};
    use super::*;

    fn options(flags: &[&str]) -> Options {
        let args = ["headrace", "bench", "/tmp"].iter().chain(flags);
        match Cli::try_parse_from(args).unwrap().command {
            Command::Bench(command) => command.options(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_count_before_the_preset() {
        assert_eq!(options(&[]), Options::standard());
        assert_eq!(options(&["--quick"]), Options::quick());
        let asked =
            options(&["--quick", "--big-size=1G", "-p", "2", "--random-time=3s", "--small-count", "0"]);
        assert_eq!((asked.big_size, asked.threads, asked.small_count), (1 << 30, 2, 0));
        assert_eq!(asked.random_time.as_secs(), 3);
        assert_eq!(asked.small_size, Options::quick().small_size);
    }

    #[test]
    fn the_defaults_are_those_the_help_tells() {
        use crate::output::human::bytes;
        let short = |size: u64| bytes(size).replace(".0", "");
        let help = <Cli as clap::CommandFactory>::command()
            .find_subcommand_mut("bench")
            .unwrap()
            .render_long_help()
            .to_string();
        let standard = Options::standard();
        for size in [standard.big_size, standard.block_size, standard.small_size] {
            assert!(help.contains(&format!("[default: {}]", short(size))), "{help}");
        }
        assert!(help.contains(&format!("[default: {}]", standard.threads)));
        assert!(help.contains(&format!("[default: {}]", standard.small_count)));
        let quick = Options::quick();
        let all = format!(
            "{}, {} files, {}s]",
            short(quick.big_size),
            quick.small_count,
            quick.random_time.as_secs()
        );
        assert!(help.replace("\n          ", " ").contains(&all), "{all}: {help}");
    }
}
