//! The commands and their own flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::bench::BenchCommand;
use super::cache::FillRate;
use super::objbench::ObjbenchCommand;
use super::settings::{
    CacheSettings, FormatSettings, MountSettings, ProcessSettings, StoreSettings, VolumeSettings,
};
use super::trash::{RestoreFileCommand, TrashCommand};
use super::values::{BadValue, Moment, Span};
use crate::commands::profile::totals::{By, Sort};

/// A POSIX file system for Linux whose data lives in object storage
///
/// A volume lives at a URL: a local directory (/srv/vol) or a prefix in an object store (s3://bucket/prefix). Create one
/// with "headrace format", mount it with "headrace mount"; then it is a directory like any other.
#[derive(Parser, Debug)]
#[command(name = "headrace", version, max_term_width = 100, after_long_help = AFTER_HELP)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    /// Configuration file to use instead of ~/.config/headrace/config.toml and /etc/headrace/config.toml
    #[arg(long, global = true, value_name = "FILE", help_heading = "General options")]
    pub config: Option<PathBuf>,

    /// The process itself.
    #[command(flatten)]
    pub process: ProcessSettings,

    /// Set by the program itself for the process it leaves in the background.
    #[arg(long = BACKGROUND_CHILD, global = true, hide = true)]
    pub background_child: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The flag of the process in the background.
pub const BACKGROUND_CHILD: &str = "background-child";

const AFTER_HELP: &str = "\
First steps:
  headrace mount --create /srv/vol /mnt/vol   create a volume in a directory, mount it
  headrace status                             what is mounted, and how it is doing
  headrace umount /mnt/vol                    write everything out and unmount

Settings:
  Flags under headings other than \"Options\" are settings: each is also a key of the
  configuration file, an environment variable (--read-only is HEADRACE_READ_ONLY)
  and a mount option (-o read-only). A flag counts before the environment, that
  before the file's [volume.\"URL\"] section, that before its [defaults] section.

Exit status:
  0  done
  1  failed
  2  the command line, the environment or the configuration file is wrong
  3  fsck found problems
  4  the volume or the mount point is in use
  5  there is no such volume, mount or file
  6  the store, the key or the operating system refused
  As a helper of mount(8): 0 done, 1 wrong usage, 32 mount failed.";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create a volume
    ///
    /// Checks first what the store can do, and refuses one that would lose data. Refuses a place that is not empty.
    Format(FormatCommand),
    /// Mount a volume on a directory
    ///
    /// Returns when the file system is there; a process in the background serves it from then on. End it with "headrace
    /// umount" (or umount(8)). A dead mount left behind by a crash on the same directory is cleaned up first.
    Mount(Box<MountCommand>),
    /// Write everything out, unmount, and wait until that is done
    #[command(visible_alias = "unmount")]
    Umount(UmountCommand),
    /// Show mounted volumes and how they are doing
    Status(StatusCommand),
    /// Show what a mount does now, layer by layer: requests of the kernel, metadata, caches, store, memory, writers, log
    ///
    /// On a terminal, live; else a line each interval. Latencies and rates are those of the last interval.
    Stats(StatsCommand),
    /// Show which operations, by which process, take the time on a mount
    ///
    /// On a terminal, live; else a table each interval. Each request of the kernel counts as an operation: what its page cache
    /// answers never gets here. With --record, each operation is written to a file, which --read reads again.
    Profile(ProfileCommand),
    /// Show where a file's data is: its inode, extents and segments
    Info(InfoCommand),
    /// Show the totals of directories, from the metadata alone: fast, however large they are
    Du(DuCommand),
    /// Bring files into the cache before they are needed, or see how much of them is there
    ///
    /// Fetches what is missing of each file, directories with everything below them. Neither symbolic links are followed nor
    /// other file systems entered; a file with several names is fetched once. Files that you may not read are left alone. What
    /// fails is said and does not stop the rest; the exit status is 1 then.
    Warmup(WarmupCommand),
    /// Write out everything that waits in a mount, and wait until it is durable
    Flush(FlushCommand),
    /// Bring back files and directories that were deleted on a volume mounted with --trash
    ///
    /// Directories come back with everything that was deleted in them, and the directories above that are missing as well. Nothing that is
    /// there is touched: if the name is taken, choose another with --to.
    RestoreFile(RestoreFileCommand),
    /// Show what was deleted and is still kept, or delete it for good
    #[command(subcommand)]
    Trash(TrashCommand),
    /// Check a volume: its metadata, and that the data it names is there
    ///
    /// The volume must not be mounted. Changes nothing. Exits with 3 when problems are found.
    Fsck(FsckCommand),
    /// Delete data in the store that no file uses any more
    ///
    /// A mounted volume collects its garbage by itself; this does it now.
    Gc(GcCommand),
    /// Rebuild a volume's metadata on this machine from the bucket, on request as it was at an earlier time
    ///
    /// A mount does this by itself when the metadata is not here, or is older than the bucket; this does it in any case: when
    /// the metadata here is damaged, or to go back in time. With --at, the volume continues from that moment for everybody:
    /// says what is undone and asks. The volume must not be mounted.
    Restore(RestoreCommand),
    /// Delete a volume with all its data
    ///
    /// Says what goes and asks. The volume must not be mounted.
    Destroy(DestroyCommand),
    /// Measure how fast a directory is, on whatever file system
    ///
    /// Writes, reads, lists, renames and deletes large and small files, with several threads; checks everything it reads. With
    /// --against, a second directory is measured in turns with the first, and both are compared.
    Bench(BenchCommand),
    /// Measure an object store, and check whether it does what it should
    ///
    /// Puts, gets (whole and ranged), lists, deletes and heads of large and small objects, by requests at a time; checks everything it
    /// reads. Needs no volume: works within a fresh prefix of its own below URL, and removes what it wrote, also when interrupted.
    Objbench(Box<ObjbenchCommand>),
    /// Show the version of this program and of the volume format
    Version(VersionCommand),
    /// Print a completion script for a shell
    ///
    /// For bash: headrace completions bash > /usr/share/bash-completion/completions/headrace
    Completions(CompletionsCommand),
    /// Print the manual page, or write the pages of all commands
    Man(ManCommand),
}

impl Command {
    /// The names of all commands, aliases too.
    pub fn names() -> Vec<String> {
        let command = <Cli as clap::CommandFactory>::command();
        command
            .get_subcommands()
            .flat_map(|c| c.get_all_aliases().chain([c.get_name()]).map(str::to_owned).collect::<Vec<_>>())
            .chain(["help".to_owned()])
            .collect()
    }
}

/// The volume a command is about.
#[derive(Args, Debug)]
pub struct VolumeUrl {
    /// Where the volume is: a directory (/srv/vol) or an object store (s3://bucket/prefix)
    #[arg(value_name = "URL")]
    pub url: String,
}

/// Taking a volume from an owner that is gone.
#[derive(Args, Debug)]
pub struct TakeoverFlag {
    /// Take the volume over from another machine that holds it and gives no sign of life; what that machine had not yet
    /// shipped to the object store is lost
    ///
    /// Refused while that machine is alive. Not needed after a crash of this machine.
    #[arg(long)]
    pub takeover: bool,
}

/// `headrace format`
#[derive(Args, Debug)]
pub struct FormatCommand {
    #[command(flatten)]
    pub volume: VolumeUrl,
    #[command(flatten)]
    pub format: FormatSettings,
    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,
    /// Print what was created as JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace mount`
#[derive(Args, Debug)]
pub struct MountCommand {
    #[command(flatten)]
    pub volume: VolumeUrl,

    /// The directory on which the volume appears
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,

    /// Create the volume if there is none at URL, and the mount point if it does not exist
    #[arg(long)]
    pub create: bool,

    /// Stay in the foreground and log to standard error
    #[arg(short = 'f', long)]
    pub foreground: bool,

    #[command(flatten)]
    pub takeover: TakeoverFlag,

    #[command(flatten)]
    pub mount: MountSettings,
    #[command(flatten)]
    pub cache: CacheSettings,
    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,
    #[command(flatten)]
    pub format: FormatSettings,
}

/// `headrace umount`
#[derive(Args, Debug)]
pub struct UmountCommand {
    /// The directory the volume is mounted on
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,

    /// Detach at once even where files are still open; waits until what was written so far is in the store
    #[arg(short = 'l', long)]
    pub lazy: bool,

    /// Do not wait for the store: what is only on this machine's disk is stored by the next mount here, and until then no
    /// other machine can mount the volume without --takeover
    #[arg(long, conflicts_with = "lazy")]
    pub leave: bool,
}

/// `headrace status`
#[derive(Args, Debug)]
pub struct StatusCommand {
    /// A mount point or the URL of a mounted volume [default: everything that is mounted]
    #[arg(value_name = "MOUNTPOINT|URL")]
    pub target: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace stats`
#[derive(Args, Debug)]
pub struct StatsCommand {
    /// A mount point or the URL of a mounted volume
    #[arg(value_name = "MOUNTPOINT|URL")]
    pub target: String,

    /// How often to show new figures
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Span,

    /// Show what happens in one interval, and end
    #[arg(long)]
    pub once: bool,

    /// Print JSON: an object each interval, a line each
    #[arg(long)]
    pub json: bool,
}

/// `headrace profile`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["target", "read"]))]
pub struct ProfileCommand {
    /// A mount point or the URL of a mounted volume
    #[arg(value_name = "MOUNTPOINT|URL")]
    pub target: Option<String>,

    /// Read what --record wrote instead of watching a mount
    #[arg(long, value_name = "FILE")]
    pub read: Option<PathBuf>,

    /// Watch for so long, then print what happened in all
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "read")]
    pub duration: Option<Span>,

    /// How often to show new figures
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Span,

    /// What to tell apart: any of process, command and operation, with commas between; command adds up all processes of one name
    #[arg(long, value_name = "WHAT", default_value = "process,operation")]
    pub by: By,

    /// What comes first
    #[arg(long, value_name = "WHAT", default_value = "time")]
    pub sort: Sort,

    /// Write an access log to this new file: one operation a line, as JSON, until --for is over or Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with = "read")]
    pub record: Option<PathBuf>,

    /// Print JSON: an object each interval, a line each; with --for, --record and --read, one object
    #[arg(long)]
    pub json: bool,
}

/// How often something is shown: 100 ms to an hour.
fn interval(text: &str) -> Result<Span, BadValue> {
    let span: Span = text.parse()?;
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(3600));
    if (least..=most).contains(&span.0) {
        return Ok(span);
    }
    Err(BadValue("an interval is at least 100ms and at most 1h".to_owned()))
}

/// `headrace info`
#[derive(Args, Debug)]
pub struct InfoCommand {
    /// Files or directories on a mounted volume
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// Print JSON: an array with one object a path
    #[arg(long)]
    pub json: bool,
}

/// `headrace du`
#[derive(Args, Debug)]
pub struct DuCommand {
    /// Files or directories on a mounted volume
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// Print exact bytes rather than rounded units
    #[arg(short = 'b', long)]
    pub bytes: bool,

    /// Print JSON: an array with one object a path
    #[arg(long)]
    pub json: bool,
}

/// `headrace warmup`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("files").required(true).multiple(true).args(["paths", "files_from"]))]
pub struct WarmupCommand {
    /// Files or directories on mounted volumes
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Take more paths from this file, one a line; "-" is standard input
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,

    /// What ends a path in --files-from is a zero byte, as "find -print0" writes it
    #[arg(short = '0', long, requires = "files_from")]
    pub null: bool,

    /// Fetch nothing, only say how much is cached; the exit status is 1 if that is not everything
    #[arg(long, conflicts_with_all = ["evict", "pin", "rate"])]
    pub check: bool,

    /// Drop from the cache what is there, pinned or not; files that are open are left alone
    #[arg(long, conflicts_with_all = ["pin", "rate"])]
    pub evict: bool,

    /// Keep the files in the cache until --evict, or until they are changed or deleted
    #[arg(long)]
    pub pin: bool,

    /// Fetch at most so many bytes a second, such as 20M
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<FillRate>,

    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace flush`
#[derive(Args, Debug)]
pub struct FlushCommand {
    /// The directory the volume is mounted on
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
}

/// `headrace fsck`
#[derive(Args, Debug)]
pub struct FsckCommand {
    #[command(flatten)]
    pub volume: VolumeUrl,

    /// Read all file data as well and check it against its checksums
    #[arg(long)]
    pub data: bool,

    /// Put the metadata in order, then check again
    ///
    /// Counts, lists and names that disagree are corrected; files without a name get one in lost+found. Data that is lost
    /// stays lost, and reading it stays an error: the files are named. What cannot be kept is told, with its bytes.
    #[arg(long, conflicts_with = "rebuild")]
    pub repair: bool,

    /// With --repair: only say what would be done
    #[arg(short = 'n', long, requires = "repair")]
    pub dry_run: bool,

    /// Make the metadata anew from the stored data alone, when it and its log are lost
    ///
    /// Files come back with their data and, as far as that is known, their names. Refused while there is metadata here or a
    /// log to restore from. Interrupted, it goes on where it was.
    #[arg(long, conflicts_with = "data")]
    pub rebuild: bool,

    /// With --rebuild: even if there is metadata here (it is set aside) or a log to restore from
    #[arg(long, requires = "rebuild")]
    pub force: bool,

    #[command(flatten)]
    pub takeover: TakeoverFlag,

    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,

    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace gc`
#[derive(Args, Debug)]
pub struct GcCommand {
    /// The URL of a volume, or the directory it is mounted on
    #[arg(value_name = "URL|MOUNTPOINT")]
    pub target: String,

    /// Only say what would be deleted
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Leave alone what became garbage more recently than this, or than the retention if that is longer
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub grace: Span,

    #[command(flatten)]
    pub takeover: TakeoverFlag,

    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,

    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace restore`
#[derive(Args, Debug)]
pub struct RestoreCommand {
    #[command(flatten)]
    pub volume: VolumeUrl,

    /// Go back to this moment: RFC 3339 (2026-11-22T10:00:00Z), or how long ago (30m, 2h)
    ///
    /// Reaches as far back as the retention. The volume continues from there: later changes are undone, for everybody.
    #[arg(long, value_name = "TIME")]
    pub at: Option<Moment>,

    /// Do not ask
    #[arg(short = 'y', long)]
    pub yes: bool,

    #[command(flatten)]
    pub takeover: TakeoverFlag,

    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,

    /// Print what was restored as JSON; with --at, needs --yes
    #[arg(long)]
    pub json: bool,
}

/// `headrace destroy`
#[derive(Args, Debug)]
pub struct DestroyCommand {
    #[command(flatten)]
    pub volume: VolumeUrl,

    /// Do not ask
    #[arg(short = 'y', long)]
    pub yes: bool,

    #[command(flatten)]
    pub takeover: TakeoverFlag,

    /// Go on although nothing can tell whether another machine has the volume mounted: its key is lost, or what is in the
    /// store is damaged
    #[arg(long)]
    pub force: bool,

    /// Directory in which it was cached, if the configuration does not name it; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Vec<PathBuf>,

    #[command(flatten)]
    pub open: VolumeSettings,
    #[command(flatten)]
    pub store: StoreSettings,

    /// Print what was deleted as JSON; needs --yes
    #[arg(long, requires = "yes")]
    pub json: bool,
}

/// `headrace version`
#[derive(Args, Debug)]
pub struct VersionCommand {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace completions`
#[derive(Args, Debug)]
pub struct CompletionsCommand {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `headrace man`
#[derive(Args, Debug)]
pub struct ManCommand {
    /// Write headrace.1 and a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
