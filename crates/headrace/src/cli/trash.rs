//! The flags of `headrace restore-file` and `headrace trash`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `headrace restore-file`
#[derive(Args, Debug)]
pub struct RestoreFileCommand {
    /// The path that the file or directory had on the mounted volume; a directory that is there gets back what was deleted in it
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Which one, if several were deleted under that path: its number in "headrace trash list" [default: the one deleted last]
    #[arg(long, value_name = "N")]
    pub version: Option<u64>,

    /// Give it this name on the same volume instead of the one that it had
    #[arg(long, value_name = "NEWPATH")]
    pub to: Option<PathBuf>,

    /// Print what came back as JSON
    #[arg(long)]
    pub json: bool,
}

/// `headrace trash`
#[derive(Subcommand, Debug)]
pub enum TrashCommand {
    /// List what was deleted at or below a path
    List(TrashListCommand),
    /// Delete for good what was deleted, and free the space that it takes
    Empty(TrashEmptyCommand),
}

/// `headrace trash list`
#[derive(Args, Debug)]
pub struct TrashListCommand {
    /// The directory the volume is mounted on, or a path below it, which need not exist any more
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Print JSON: an object a line
    #[arg(long)]
    pub json: bool,
}

/// `headrace trash empty`
#[derive(Args, Debug)]
pub struct TrashEmptyCommand {
    /// The directory the volume is mounted on
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,

    /// Do not ask
    #[arg(short = 'y', long)]
    pub yes: bool,

    /// Print what went as JSON
    #[arg(long)]
    pub json: bool,
}
