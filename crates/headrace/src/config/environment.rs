//! `HEADRACE_<SETTING>` variables.

use super::section::SetError;
use super::{Environment, Settings};
use crate::failure::Failure;

/// The variable of a setting: `read-only` is `HEADRACE_READ_ONLY`.
pub fn variable(key: &str) -> String {
    format!("HEADRACE_{}", key.replace('-', "_").to_ascii_uppercase())
}

/// Every setting the environment holds. An empty variable counts as unset.
pub fn settings(environment: Environment<'_>) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    for key in Settings::keys() {
        let name = variable(&key);
        let Some(value) = environment(&name).filter(|v| !v.is_empty()) else { continue };
        let Some(text) = value.to_str() else {
            return Err(Failure::usage(format!("the environment variable {name} is not valid UTF-8")));
        };
        let parts: Vec<&str> = match key.as_str() {
            "store-option" => text.split(',').filter(|p| !p.trim().is_empty()).collect(),
            // As in PATH.
            "cache-dir" => text.split(':').filter(|p| !p.is_empty()).collect(),
            _ => vec![text],
        };
        for part in parts {
            settings.set(&key, part).map_err(|e| {
                let reason = match e {
                    SetError::Bad(reason) => reason,
                    SetError::Unknown => "no such setting".to_owned(),
                };
                Failure::usage(format!("the environment variable {name}: {reason}"))
            })?;
        }
    }
    Ok(settings)
}
