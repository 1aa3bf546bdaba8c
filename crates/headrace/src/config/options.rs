//! `-o` options: settings of this program, and those that mount(8) and the kernel know.

use super::Settings;
use super::nearest::nearest;
use super::section::SetError;
use crate::failure::Failure;

/// Options without meaning here, that mount(8), libfuse and /etc/fstab put there.
const IGNORED: [&str; 5] = ["nonempty", "silent", "loud", "uhelper", "helper"];

/// Words of mount(8) that a misspelled option may have been meant to be.
const WORDS: [&str; 17] = [
    "ro",
    "rw",
    "atime",
    "noatime",
    "relatime",
    "strictatime",
    "nodiratime",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "sync",
    "dirsync",
    "fsname",
    "subtype",
];

/// Splits at commas. A backslash takes the next character as it is, so that values may hold commas.
pub fn split(options: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => part.extend(chars.next()),
            ',' => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    parts.push(part);
    parts.retain(|p| !p.trim().is_empty());
    parts
}

/// Moves what `layer`'s mount options say about settings into the settings themselves, where a flag of the same layer
/// wins. What remains in `layer.mount.options` is one option an item, all of them known to the front end.
pub fn expand(layer: &mut Settings, source: &str) -> Result<(), Failure> {
    let mut settings = Settings::default();
    let mut kept = Vec::new();
    for option in layer.mount.options.iter().flat_map(|o| split(o)) {
        let option = option.trim();
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("ro", None) => set(&mut settings, "read-only", "true", source)?,
            ("rw", None) => set(&mut settings, "read-only", "false", source)?,
            ("options", _) => {
                return Err(Failure::usage(format!("{source}: \"options\" cannot stand within options")));
            }
            (name, _) if IGNORED.contains(&name) || name.starts_with("X-") => {}
            // A switch without a value is switched on; any other setting says itself that it needs one.
            (name, value) if Settings::is_key(name) => {
                set(&mut settings, name, value.unwrap_or("true"), source)?
            }
            _ if headrace_fuse::MountOptions::default().apply(option).map_err(|e| bad(source, &e))? => {
                kept.push(option.to_owned());
            }
            (name, value) => set(&mut settings, name, value.unwrap_or("true"), source)?,
        }
    }
    layer.mount.options.clear();
    layer.fill_from(settings);
    layer.mount.options = kept;
    Ok(())
}

fn bad(source: &str, error: &headrace_fuse::MountError) -> Failure {
    Failure::usage(source).because(error)
}

fn set(settings: &mut Settings, name: &str, value: &str, source: &str) -> Result<(), Failure> {
    settings.set(name, value).map_err(|e| match e {
        SetError::Bad(reason) => Failure::usage(format!("{source}: {name}: {reason}")),
        SetError::Unknown => {
            let shown = crate::output::name(name.as_bytes());
            let failure = Failure::usage(format!("{source}: unknown option \"{shown}\""));
            let keys = Settings::keys();
            match nearest(name, WORDS.into_iter().chain(keys.iter().map(String::as_str))) {
                Some(word) => failure.advise(format!("Did you mean \"{word}\"?")),
                None => failure.advise("\"headrace mount --help\" lists the options."),
            }
        }
    })
}
