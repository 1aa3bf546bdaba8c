//! All settings together.

use super::section::{Section, SetError};
use crate::cli::settings::{
    CacheSettings, FormatSettings, MountSettings, ProcessSettings, StoreSettings, VolumeSettings,
};

/// One layer of settings, or all layers merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The process itself.
    pub process: ProcessSettings,
    /// How the object store is reached.
    pub store: StoreSettings,
    /// How a volume is opened.
    pub volume: VolumeSettings,
    /// What is fixed when a volume is created.
    pub format: FormatSettings,
    /// How a volume is mounted.
    pub mount: MountSettings,
    /// What a mount keeps on local disks.
    pub cache: CacheSettings,
    /// Take the volume over from an owner that is gone. Only ever a flag: in a file it would be an accident waiting.
    pub takeover: bool,
}

impl Settings {
    /// Every name.
    pub fn keys() -> Vec<String> {
        let mut keys = ProcessSettings::keys();
        keys.extend(StoreSettings::keys());
        keys.extend(VolumeSettings::keys());
        keys.extend(FormatSettings::keys());
        keys.extend(MountSettings::keys());
        keys.extend(CacheSettings::keys());
        keys
    }

    /// Whether `name` is a setting. Dashes and underscores are the same.
    pub fn is_key(name: &str) -> bool {
        let name = name.replace('_', "-");
        Self::keys().contains(&name)
    }

    /// Sets one by name.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SetError> {
        let mut result = self.process.set(key, text);
        if result == Err(SetError::Unknown) {
            result = self.store.set(key, text);
        }
        if result == Err(SetError::Unknown) {
            result = self.volume.set(key, text);
        }
        if result == Err(SetError::Unknown) {
            result = self.format.set(key, text);
        }
        if result == Err(SetError::Unknown) {
            result = self.mount.set(key, text);
        }
        if result == Err(SetError::Unknown) {
            result = self.cache.set(key, text);
        }
        result
    }

    /// Takes from `lower` what is not set here.
    pub fn fill_from(&mut self, lower: Settings) {
        self.process.fill_from(lower.process);
        self.store.fill_from(lower.store);
        self.volume.fill_from(lower.volume);
        self.format.fill_from(lower.format);
        self.mount.fill_from(lower.mount);
        self.cache.fill_from(lower.cache);
        self.takeover |= lower.takeover;
    }
}

/// The known key someone probably meant, as advice.
pub fn did_you_mean(key: &str) -> Option<String> {
    let keys = Settings::keys();
    super::nearest::nearest(key, keys.iter().map(String::as_str)).map(|k| format!("Did you mean \"{k}\"?"))
}
