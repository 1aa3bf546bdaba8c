//! `headrace man`

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::command::{Cli, ManCommand};
use crate::failure::{Context, Failure};
use crate::output;

/// Runs the command.
pub fn run(command: &ManCommand) -> Result<(), Failure> {
    let pages = pages()?;
    match &command.out {
        None => match pages.first() {
            Some((_, text)) => output::print(&String::from_utf8_lossy(text)),
            None => Ok(()),
        },
        Some(dir) => write(dir, &pages),
    }
}

/// File name and text of every page, the program's own first.
fn pages() -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut root = Cli::command();
    root.build();
    let mut pages = vec![("headrace.1".to_owned(), render(root.clone())?)];
    for sub in root.get_subcommands().filter(|c| c.get_name() != "help") {
        // clap wants names that live for ever; there are a dozen, once.
        let name: &'static str = format!("headrace-{}", sub.get_name()).leak();
        pages.push((format!("{name}.1"), render(sub.clone().name(name).version(env!("CARGO_PKG_VERSION")))?));
    }
    Ok(pages)
}

fn render(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text).context(|| "cannot render the manual page".to_owned())?;
    Ok(text)
}

fn write(dir: &Path, pages: &[(String, Vec<u8>)]) -> Result<(), Failure> {
    let what = || format!("cannot write manual pages into {}", output::path(dir));
    std::fs::create_dir_all(dir).context(what)?;
    for (name, text) in pages {
        std::fs::write(dir.join(name), text).context(what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command::Command;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().unwrap();
        for command in Command::names().iter().filter(|n| *n != "help" && *n != "unmount") {
            let page = pages.iter().find(|(name, _)| *name == format!("headrace-{command}.1"));
            let text = String::from_utf8_lossy(&page.unwrap().1).into_owned();
            assert!(text.contains(".SH SYNOPSIS"), "{command}");
        }
        assert!(String::from_utf8_lossy(&pages[0].1).contains("Exit status"));
    }
}
