//! Runs the comparison; see the library of this crate.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use headrace_compare::dataset::Scale;
use headrace_compare::failure::{Context, Failure, Result};
use headrace_compare::figures::{self, Pace};
use headrace_compare::report::{self, results::Results};
use headrace_compare::server::Profile;
use headrace_compare::{cases, reads, runner, subjects, worker, workspace, writes};

/// Headrace, its peers and the native file system side by side: same server, same data, in turns.
#[derive(Parser)]
#[command(name = "headrace-compare", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure. Needs root, to mount and to drop caches.
    Run(RunArgs),
    /// Measure cold reads by themselves: what is decided by measuring against settings by hand, and faults. Needs root.
    Reads(ReadsArgs),
    /// Measure writes by themselves: against bare clients, the native file system and JuiceFS, and what they do to reads. Needs root.
    Writes(WritesArgs),
    /// List subjects and cases.
    List,
    /// Make the report of recorded results; several files are put together.
    Report {
        /// What `run` wrote: results.json.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where the report goes.
        #[arg(long, default_value = "target/compare")]
        out: PathBuf,
        /// Also put it into the documentation in this directory.
        #[arg(long, value_name = "DOCS")]
        publish: Option<PathBuf>,
    },
    /// Does one job, from standard input.
    #[command(hide = true)]
    Worker,
    /// Waits for the end of a run and cleans up.
    #[command(hide = true)]
    Guard {
        /// The run's directory.
        dir: PathBuf,
    },
}

#[derive(Args)]
struct RunArgs {
    /// Subjects, separated by commas; all that are installed by default.
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// Beginnings of ids of cases, separated by commas; all by default.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Networks, separated by commas; all by default.
    #[arg(long, value_delimiter = ',')]
    profile: Vec<Profile>,
    /// How often each case is repeated, if time allows [default: 2; with --quick 1].
    #[arg(long)]
    repeat: Option<u32>,
    /// A first look: small sizes, and of each kind of case the one that tells most.
    #[arg(long)]
    quick: bool,
    /// Next to nothing, for tests of this program.
    #[arg(long, hide = true)]
    tiny: bool,
    /// Sizes, as results.json has them under "scale".
    #[arg(long, hide = true, value_name = "JSON")]
    scale: Option<String>,
    /// Minutes for all of it [default: 55; with --quick 9]. Cases that do not fit are left out, and the report says so.
    #[arg(long)]
    minutes: Option<u64>,
    /// Where the data goes: a disk, not a tmpfs.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    temporary: PathBuf,
    /// Where the report goes.
    #[arg(long, default_value = "target/compare")]
    out: PathBuf,
    /// Also write the results (JSON) to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct ReadsArgs {
    /// Parts, separated by commas; all but link by default.
    #[arg(long, alias = "only", value_delimiter = ',')]
    parts: Vec<reads::Part>,
    /// Where the report goes.
    #[arg(long, default_value = "target/reads")]
    out: PathBuf,
    /// A figure is taken again while others had more than so many processors, twice at most.
    #[arg(long, value_name = "CORES", default_value_t = 0.2)]
    noise: f64,
    /// Reading is stopped after so long, 1 to 60 [default: 2.5; with --quick 1.2]. Files are as large as it takes at 500 MB/s; the server
    /// keeps three times that, in memory where it can.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    #[command(flatten)]
    pace: PaceArgs,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=60.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 1 to 60 is needed".to_owned())
}

#[derive(Args)]
struct WritesArgs {
    /// Parts, separated by commas; all by default.
    #[arg(long, alias = "only", value_delimiter = ',')]
    parts: Vec<writes::Part>,
    /// Beginnings of names of who is measured, separated by commas: headrace, native, juicefs-writeback; all by default.
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<String>,
    /// Small files: JuiceFS makes as many as the others, not a 36th or a ninth. Takes more than an hour each time (see --minutes).
    #[arg(long)]
    all_files: bool,
    /// Where the report goes.
    #[arg(long, default_value = "target/writes")]
    out: PathBuf,
    /// A figure is taken again while others had more than so many processors, twice at most. What the kernel does to write to the disk
    /// counts as others.
    #[arg(long, value_name = "CORES", default_value_t = 0.5)]
    noise: f64,
    #[command(flatten)]
    pace: PaceArgs,
}

/// What `reads` and `writes` have in common.
#[derive(Args)]
struct PaceArgs {
    /// Beginnings of names of rows, separated by commas: 20ms/90MB, loopback/1, cp; all by default.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// How often each row is repeated, if time allows [default: 3; with --quick 1].
    #[arg(long)]
    repeat: Option<u32>,
    /// A first look: small sizes, each once.
    #[arg(long)]
    quick: bool,
    /// Next to nothing, for tests of this program.
    #[arg(long, hide = true)]
    tiny: bool,
    /// Minutes for all of it [default: 55, for writes 90; with --quick 15]. Rows that do not fit are left out, and the report says so.
    #[arg(long)]
    minutes: Option<u64>,
    /// Where the data goes: a disk, not a tmpfs.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    temporary: PathBuf,
    /// Also write the results (JSON) to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Go on where an earlier run ended: its results.json. Of settings by hand and bare clients only the best are measured again.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Measure nothing: put what earlier runs recorded (results.json) together, separated by commas.
    #[arg(long, value_delimiter = ',')]
    from: Vec<PathBuf>,
}

impl PaceArgs {
    fn pace(&self, contenders: Vec<String>, noise: f64, minutes: u64, out: &Path) -> Pace {
        Pace {
            rows: self.rows.clone(),
            contenders,
            repeat: self.repeat.unwrap_or(if self.quick { 1 } else { 3 }).max(1),
            budget: Duration::from_secs(60 * self.minutes.unwrap_or(if self.quick { 15 } else { minutes })),
            noise,
            partial: out.join("results.json"),
            temporary: self.temporary.clone(),
        }
    }

    /// One of three, as was asked for.
    fn sizes<S>(&self, tiny: S, quick: S, full: S) -> S {
        match (self.tiny, self.quick) {
            (true, _) => tiny,
            (false, true) => quick,
            (false, false) => full,
        }
    }

    /// What was found earlier, if nothing is to be measured.
    fn recorded<P: figures::PartName>(&self) -> Result<Option<figures::results::Results<P>>> {
        let mut loaded = self.from.iter().map(|path| figures::results::Results::load(path));
        let Some(first) = loaded.next().transpose()? else { return Ok(None) };
        loaded.try_fold(first, |mut all, next| next.map(|next| all.merge(next)).map(|()| all)).map(Some)
    }

    /// What is to be gone on with.
    fn earlier<P: figures::PartName>(&self) -> Result<Option<figures::results::Results<P>>> {
        self.resume.as_deref().map(figures::results::Results::load).transpose()
    }
}

fn main() -> ExitCode {
    match perform(Cli::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("compare: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn perform(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => return run(args),
        Command::Reads(args) => return cold_reads(args),
        Command::Writes(args) => return only_writes(args),
        Command::List => list(),
        Command::Report { files, out, publish } => {
            let results = together(&files)?;
            print(&report::save(&results, &out)?);
            if let Some(docs) = publish {
                report::publish(&results, &docs)?;
            }
        }
        Command::Worker => worker::serve()?,
        Command::Guard { dir } => workspace::watch(&dir),
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: RunArgs) -> Result<ExitCode> {
    let all = [Profile::Loopback, Profile::Slow];
    let options = runner::Options {
        subjects: args.subjects,
        cases: if args.quick && args.cases.is_empty() {
            cases::quick().iter().map(|case| case.id.to_owned()).collect()
        } else {
            args.cases
        },
        profiles: if args.profile.is_empty() { all.to_vec() } else { args.profile },
        repeat: args.repeat.unwrap_or(if args.quick { 1 } else { 2 }).max(1),
        scale: match (&args.scale, args.tiny, args.quick) {
            (Some(text), ..) => serde_json::from_str(text).context(|| "--scale".into())?,
            (None, true, _) => Scale::tiny(),
            (None, false, true) => Scale::quick(),
            (None, false, false) => Scale::full(),
        },
        budget: Duration::from_secs(60 * args.minutes.unwrap_or(if args.quick { 9 } else { 55 })),
        temporary: args.temporary,
    };
    let results = runner::run(&options)?;
    print(&report::save(&results, &args.out)?);
    if let Some(path) = &args.json {
        results.save(path)?;
    }
    let wrong = results.wrong_data();
    for figure in &wrong {
        let why = figure.failed.as_deref().unwrap_or_default();
        eprintln!("compare: {} on {}: {why}", figure.case, figure.subject);
    }
    // What a peer loses is a result; what we lose, or this program's own check, is a fault.
    let ours =
        wrong.iter().any(|figure| ["headrace", "native"].iter().any(|name| figure.subject.starts_with(name)));
    Ok(if ours { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn cold_reads(args: ReadsArgs) -> Result<ExitCode> {
    let sizes = args.pace.sizes(reads::Sizes::tiny(), reads::Sizes::quick(), reads::Sizes::full());
    let results = match args.pace.recorded()? {
        Some(results) => results,
        None => reads::run(&reads::Options {
            parts: if args.parts.is_empty() { reads::Part::USUAL.to_vec() } else { args.parts },
            earlier: args.pace.earlier()?,
            sizes: args.seconds.map_or(sizes, |seconds| sizes.lasting(seconds)),
            pace: args.pace.pace(Vec::new(), args.noise, 55, &args.out),
        })?,
    };
    let theirs = |part, contender: &str| part == reads::Part::Many && contender != "headrace";
    tell(&results, &reads::save(&results, &args.out)?, args.pace.json.as_deref(), theirs)
}

fn only_writes(args: WritesArgs) -> Result<ExitCode> {
    let sizes = args.pace.sizes(writes::Sizes::tiny(), writes::Sizes::quick(), writes::Sizes::full());
    let results = match args.pace.recorded()? {
        Some(results) => results,
        None => writes::run(&writes::Options {
            parts: if args.parts.is_empty() { writes::Part::ALL.to_vec() } else { args.parts },
            earlier: args.pace.earlier()?,
            sizes: if args.all_files { sizes.with_all_files() } else { sizes },
            pace: args.pace.pace(args.contenders, args.noise, 90, &args.out),
        })?,
    };
    let theirs = |_, contender: &str| contender.starts_with("juicefs");
    tell(&results, &writes::save(&results, &args.out)?, args.pace.json.as_deref(), theirs)
}

/// Prints the report. Wrong data is a fault, unless it is that of a peer: then it is a result.
fn tell<P: figures::PartName>(
    results: &figures::results::Results<P>,
    report: &str,
    json: Option<&Path>,
    theirs: impl Fn(P, &str) -> bool,
) -> Result<ExitCode> {
    print(report);
    if let Some(path) = json {
        results.save(path)?;
    }
    let wrong = results.wrong_data();
    for sample in &wrong {
        let why = sample.failed.as_deref().unwrap_or_default();
        eprintln!("compare: {} {}: {why}", sample.row, sample.contender);
    }
    let ours = wrong.iter().any(|sample| !theirs(sample.part, &sample.contender));
    Ok(if ours { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn list() {
    let mut text = String::new();
    for subject in subjects::all() {
        let missing = subjects::missing(subject.as_ref()).map_or(String::new(), |why| format!(" ({why})"));
        text += &format!("{:<16} {}{missing}\n", subject.name(), subject.settings());
    }
    text.push('\n');
    for case in cases::all() {
        text += &format!("{:<24} {}: {}\n", case.id, cases::group_title(case.group()), case.title);
    }
    print(&text);
}

/// Whoever reads this may have seen enough and closed the pipe.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn together(files: &[PathBuf]) -> Result<Results> {
    let mut loaded = files.iter().map(|path| Results::load(path));
    let mut results = loaded.next().unwrap_or_else(|| Err(Failure::new("no results")))?;
    loaded.try_for_each(|next| results.merge(next?))?;
    Ok(results)
}
