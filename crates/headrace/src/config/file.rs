//! The configuration file: TOML with a `[defaults]` section and one `[volume."URL"]` section a volume.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Settings;
use super::section::SetError;
use super::settings::did_you_mean;
use crate::cli::url;
use crate::failure::{Exit, Failure};

/// No sensible configuration comes near this.
const MAX_BYTES: u64 = 1 << 20;

/// A configuration file as read.
#[derive(Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// The `[defaults]` section.
    pub defaults: Settings,
    /// URL and settings of every `[volume."URL"]` section.
    volumes: Vec<(String, Settings)>,
}

impl ConfigFile {
    /// Reads `path`; `None` where there is no such file.
    pub fn read(path: &Path) -> Result<Option<ConfigFile>, Failure> {
        let shown = crate::output::path(path);
        let failed = |e: io::Error| {
            Failure::new(format!("cannot read the configuration file {shown}")).because(&e).exit(Exit::Usage)
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(failed(e)),
        };
        let mut text = String::new();
        let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if read as u64 > MAX_BYTES {
            return Err(Failure::usage(format!("the configuration file {shown} is larger than 1 MiB")));
        }
        Self::parse(&text, &shown).map(Some)
    }

    /// Parses a file's text; `name` is what messages call the file.
    pub fn parse(text: &str, name: &str) -> Result<ConfigFile, Failure> {
        let at = Place { text, name };
        let table =
            DeTable::parse(text).map_err(|e| at.failure(e.span().unwrap_or(0..0), e.message()))?.into_inner();
        let mut config = ConfigFile::default();
        for (key, value) in &table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(section)) => config.defaults = at.settings(section)?,
                ("volume", DeValue::Table(volumes)) => {
                    for (url, section) in volumes {
                        let DeValue::Table(section) = section.get_ref() else {
                            let message = "a volume's section is written [volume.\"URL\"]";
                            return Err(at.failure(section.span(), message));
                        };
                        let settings = at.settings(section)?;
                        config.volumes.push((url.get_ref().to_string(), settings));
                    }
                }
                ("defaults" | "volume", _) => {
                    return Err(at.failure(key.span(), "this is a section: [defaults] or [volume.\"URL\"]"));
                }
                (other, _) => {
                    let failure = at.failure(key.span(), &format!("unknown key \"{other}\""));
                    let advice = if Settings::keys().iter().any(|k| k == other) {
                        "Settings stand below [defaults] or [volume.\"URL\"]."
                    } else {
                        "There are two kinds of section: [defaults] and [volume.\"URL\"]."
                    };
                    return Err(failure.advise(advice));
                }
            }
        }
        Ok(config)
    }

    /// The settings of the sections for `wanted`, however the URL is spelled.
    pub fn volume_sections(&self, wanted: Option<&str>) -> impl Iterator<Item = Settings> {
        let wanted = wanted.map(url::normalise);
        self.volumes
            .iter()
            .filter(move |(url, _)| wanted.as_ref() == Some(&url::normalise(url)))
            .map(|(_, settings)| settings.clone())
    }
}

/// For messages that name file and line.
struct Place<'a> {
    text: &'a str,
    name: &'a str,
}

impl Place<'_> {
    fn failure(&self, span: Range<usize>, message: &str) -> Failure {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Failure::usage(format!("{} line {line}: {message}", self.name))
    }

    fn settings(&self, section: &DeTable<'_>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for (key, value) in section {
            for text in self.texts(key, value)? {
                settings.set(key.get_ref(), &text).map_err(|e| match e {
                    SetError::Bad(reason) => {
                        self.failure(value.span(), &format!("{}: {reason}", key.get_ref()))
                    }
                    SetError::Unknown => {
                        let failure = self.failure(key.span(), &format!("unknown key \"{}\"", key.get_ref()));
                        match did_you_mean(key.get_ref()) {
                            Some(advice) => failure.advise(advice),
                            None => failure.advise("docs/configuration.md lists the keys."),
                        }
                    }
                })?;
            }
        }
        super::options::expand(&mut settings, &format!("{}: options", self.name))?;
        Ok(settings)
    }

    /// A value as the text (or, for lists, the texts) that a flag would be given.
    fn texts(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, Failure> {
        let key = key.get_ref().replace('_', "-");
        let pairs = matches!(key.as_str(), "store-option" | "options");
        let list = pairs || key == "cache-dir";
        match value.get_ref() {
            DeValue::Array(items) if list => {
                items.iter().map(|item| self.scalar(item)).collect::<Result<_, _>>()
            }
            DeValue::Table(entries) if pairs => entries
                .iter()
                .map(|(k, v)| Ok(format!("{}={}", k.get_ref(), self.scalar(v)?)))
                .collect::<Result<_, _>>(),
            _ => Ok(vec![self.scalar(value)?]),
        }
    }

    fn scalar(&self, value: &Spanned<DeValue<'_>>) -> Result<String, Failure> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(b) => Ok(b.to_string()),
            DeValue::Integer(i) => i64::from_str_radix(&i.as_str().replace('_', ""), i.radix())
                .map(|n| n.to_string())
                .map_err(|_| self.failure(value.span(), "this number is too large")),
            DeValue::Float(f) => Ok(f.as_str().to_owned()),
            other => {
                let message =
                    format!("expected a string, a number or a boolean, found a {}", other.type_str());
                Err(self.failure(value.span(), &message))
            }
        }
    }
}
