//! The command line: definitions, the forms in which it comes, and the way from there to a command.

pub mod argv;
pub mod bench;
pub mod cache;
pub mod command;
pub mod objbench;
pub mod settings;
pub mod trash;
pub mod url;
pub mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use self::argv::{Caller, Invocation};
use self::command::Cli;
use crate::failure::{Exit, Failure};

/// What mount(8) expects of a helper that was called wrongly, and of one that failed.
const MOUNT_USAGE: u8 = 1;
const MOUNT_FAILED: u8 = 32;

/// Runs the program.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (args, caller) = match argv::recognise(args.collect()) {
        Invocation::Run(args, caller) => (args, caller),
        Invocation::Fake => return ExitCode::SUCCESS,
        Invocation::Wrong(message) => {
            crate::output::say(&format!("headrace: {message}"));
            return ExitCode::from(MOUNT_USAGE);
        }
    };
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too. Nothing can be done if they cannot be printed.
            let _ = e.print();
            return match (e.use_stderr(), caller) {
                (false, _) => ExitCode::SUCCESS,
                (true, Caller::Direct) => ExitCode::from(Exit::Usage.code()),
                (true, Caller::MountHelper) => ExitCode::from(MOUNT_USAGE),
            };
        }
    };
    match crate::commands::run(cli, &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message().is_empty() {
                crate::output::say_failure(&failure);
            }
            ExitCode::from(exit_status(&failure, caller))
        }
    }
}

fn exit_status(failure: &Failure, caller: Caller) -> u8 {
    match (caller, failure.exit_code()) {
        (Caller::Direct, exit) => exit.code(),
        (Caller::MountHelper, Exit::Usage) => MOUNT_USAGE,
        (Caller::MountHelper, _) => MOUNT_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_says_what_it_is() {
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            for arg in sub.get_arguments().filter(|a| !a.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{} {}", sub.get_name(), arg.get_id());
            }
        }
    }

    #[test]
    fn warmup_does_one_thing_to_something() {
        let parse = |args: &str| {
            Cli::try_parse_from(["headrace", "warmup"].into_iter().chain(args.split_whitespace()))
        };
        for args in ["a b", "--check a", "--pin --rate 1M a", "--files-from - -0", "--files-from x --evict a"]
        {
            assert!(parse(args).is_ok(), "{args}");
        }
        for args in [
            "",
            "--check",
            "-0 a",
            "--check --pin a",
            "--evict --pin a",
            "--check --evict a",
            "--check --rate 1M a",
            "--rate 0 a",
        ] {
            assert!(parse(args).is_err(), "{args}");
        }
    }

    #[test]
    fn mount_8_gets_the_codes_it_expects() {
        let failure = Failure::new("x").exit(Exit::InUse);
        assert_eq!(exit_status(&failure, Caller::Direct), 4);
        assert_eq!(exit_status(&failure, Caller::MountHelper), 32);
        assert_eq!(exit_status(&Failure::usage("x"), Caller::MountHelper), 1);
    }
}
