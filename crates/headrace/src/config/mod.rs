//! Settings from the command line, the environment and configuration files, under the same names, laid over one
//! another: flag, then environment, then the volume's section, then the defaults section, then what is built in.

pub mod environment;
pub mod file;
pub mod nearest;
pub mod options;
pub mod section;
pub mod settings;

pub(crate) use section::section;
pub use settings::Settings;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Merges every source. `flags` are those of the command line, `url` the volume they are about, `config` what `--config`
/// names.
pub fn resolve(
    flags: Settings,
    url: Option<&str>,
    config: Option<PathBuf>,
    environment: Environment<'_>,
) -> Result<Settings, Failure> {
    let mut merged = flags;
    options::expand(&mut merged, "-o")?;

    let mut from_environment = environment::settings(environment)?;
    options::expand(&mut from_environment, "HEADRACE_OPTIONS")?;
    merged.fill_from(from_environment);

    // A file nearer to the user is laid over one further away, section by section.
    let files = config_files(config, environment)?;
    for file in &files {
        for section in file.volume_sections(url) {
            merged.fill_from(section);
        }
    }
    for file in files {
        merged.fill_from(file.defaults);
    }
    Ok(merged)
}

/// The configuration files that count, nearest first.
fn config_files(
    named: Option<PathBuf>,
    environment: Environment<'_>,
) -> Result<Vec<file::ConfigFile>, Failure> {
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = named.or_else(|| variable("HEADRACE_CONFIG")) {
        return match file::ConfigFile::read(&path)? {
            Some(file) => Ok(vec![file]),
            None => {
                Err(Failure::new(format!("there is no configuration file {}", crate::output::path(&path)))
                    .advise("It was named by --config or HEADRACE_CONFIG.")
                    .exit(Exit::Usage))
            }
        };
    }
    let mut files = Vec::new();
    let home = variable("XDG_CONFIG_HOME")
        .filter(|p| p.is_absolute())
        .or_else(|| variable("HOME").map(|h| h.join(".config")));
    for path in
        home.map(|h| h.join("headrace/config.toml")).into_iter().chain(["/etc/headrace/config.toml".into()])
    {
        files.extend(file::ConfigFile::read(&path)?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
