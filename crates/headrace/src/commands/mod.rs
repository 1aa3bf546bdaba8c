//! One module a command: from its flags to its result.

mod bench;
mod completions;
mod destroy;
pub mod du;
mod errors;
mod flush;
mod format;
mod fsck;
mod gc;
mod info;
mod man;
mod mount;
mod objbench;
mod open;
pub mod profile;
pub mod progress;
mod restore;
mod restore_file;
mod stats;
mod status;
mod stop;
mod trash;
mod umount;
mod version;
mod warmup;
mod watched;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;

use tokio::runtime::{Builder, Runtime};

use crate::cli::command::{Cli, Command, TakeoverFlag};
use crate::cli::settings::{StoreSettings, VolumeSettings};
use crate::config::Settings;
use crate::failure::{Context, Failure};
use crate::logging::{self, Target, Verbosity};

/// What every command gets.
pub struct Call {
    /// The command line as it was recognised, for commands that start themselves anew.
    pub args: Vec<OsString>,
    /// Whether this is the process that a mount leaves in the background.
    pub background_child: bool,
    /// Settings among the flags.
    flags: Settings,
    config: Option<PathBuf>,
}

impl Call {
    /// All settings, merged; `url` is the volume they are about.
    pub fn settings(&self, url: Option<&str>) -> Result<Settings, Failure> {
        crate::config::resolve(self.flags.clone(), url, self.config.clone(), &|name| std::env::var_os(name))
    }

    /// All settings, and logging to standard error started, as a command needs it that is no daemon.
    pub fn begin(&self, url: Option<&str>) -> Result<Settings, Failure> {
        let settings = self.settings(url)?;
        logging::start(&settings.process, Verbosity::Command, Target::Stderr)?;
        Ok(settings)
    }

    fn with_flags(mut self, open: VolumeSettings, store: StoreSettings) -> Call {
        self.flags.volume = open;
        self.flags.store = store;
        self
    }

    fn taking_over(mut self, flag: &TakeoverFlag) -> Call {
        self.flags.takeover = flag.takeover;
        self
    }
}

/// Runs a command.
pub fn run(cli: Cli, args: &[OsString]) -> Result<(), Failure> {
    let flags = Settings { process: cli.process, ..Settings::default() };
    let mut call =
        Call { args: args.to_vec(), background_child: cli.background_child, flags, config: cli.config };
    match cli.command {
        Command::Format(c) => {
            call.flags.format = c.format;
            format::run(&call.with_flags(c.open, c.store), &c.volume.url, c.json)
        }
        Command::Mount(c) => {
            call.flags.format = c.format;
            call.flags.mount = c.mount;
            call.flags.cache = c.cache;
            let what = mount::What {
                url: c.volume.url,
                mountpoint: c.mountpoint,
                create: c.create,
                foreground: c.foreground,
            };
            mount::run(&call.with_flags(c.open, c.store).taking_over(&c.takeover), what)
        }
        Command::Umount(c) => umount::run(&call, &c),
        Command::Status(c) => status::run(&call, &c),
        Command::Stats(c) => stats::run(&call, &c),
        Command::Profile(c) => profile::run(&call, &c),
        Command::Info(c) => info::run(&call, &c),
        Command::Du(c) => du::run(&call, &c),
        Command::Warmup(c) => warmup::run(&call, &c),
        Command::Flush(c) => flush::run(&call, &c),
        Command::RestoreFile(c) => restore_file::run(&call, &c),
        Command::Trash(c) => trash::run(&call, &c),
        Command::Fsck(c) => {
            let mode = match (c.repair, c.rebuild) {
                (true, _) => fsck::Mode::Repair { data: c.data, dry_run: c.dry_run },
                (_, true) => fsck::Mode::Rebuild { force: c.force },
                _ => fsck::Mode::Check { data: c.data },
            };
            fsck::run(&call.with_flags(c.open, c.store).taking_over(&c.takeover), &c.volume.url, mode, c.json)
        }
        Command::Gc(c) => {
            let what = gc::What { target: c.target, dry_run: c.dry_run, grace: c.grace.0, json: c.json };
            gc::run(&call.with_flags(c.open, c.store).taking_over(&c.takeover), &what)
        }
        Command::Restore(c) => {
            let what = restore::What { url: c.volume.url, at: c.at, yes: c.yes, json: c.json };
            restore::run(&call.with_flags(c.open, c.store).taking_over(&c.takeover), what)
        }
        Command::Destroy(c) => {
            let how = destroy::How { yes: c.yes, force: c.force, json: c.json };
            call.flags.cache.cache_dir = c.cache_dir;
            destroy::run(&call.with_flags(c.open, c.store).taking_over(&c.takeover), &c.volume.url, how)
        }
        Command::Bench(c) => bench::run(&call, &c),
        Command::Objbench(mut c) => {
            call.flags.store = std::mem::take(&mut c.store);
            objbench::run(&call, &c)
        }
        Command::Version(c) => version::run(&c),
        Command::Completions(c) => completions::run(&c),
        Command::Man(c) => man::run(&c),
    }
}

/// The runtime of a command or a daemon: a thread a core, two at least so that one that is busy does not stop the other.
pub fn runtime() -> Result<Runtime, Failure> {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get()).max(2);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("headrace")
        .enable_all()
        .build()
        .context(|| "cannot start threads".to_owned())
}

/// Runs `work` to its end on a runtime of its own.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}
