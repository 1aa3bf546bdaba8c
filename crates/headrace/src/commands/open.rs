//! From settings to stores, keys and volumes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headrace_layout::crypto::MasterKey;
use headrace_store::{Location, Secret, StoreOptions};
use headrace_volume::{Durability, FormatOptions, OpenOptions, Volume};
use zeroize::Zeroizing;

use crate::cli::url;
use crate::cli::values::{ByteSize, Durable, on};
use crate::config::Settings;
use crate::failure::{Context, Exit, Failure};

/// No key or secret is longer, bytes.
const MAX_SECRET: u64 = 64 << 10;

/// The volume's place. Mistakes in the URL are mistakes in usage.
pub fn location(text: &str) -> Result<Location, Failure> {
    text.parse().map_err(|e| Failure::from(e).exit(Exit::Usage))
}

/// How to reach the store.
pub fn store_options(settings: &Settings) -> Result<StoreOptions, Failure> {
    let store = &settings.store;
    let mut options = StoreOptions {
        endpoint: store.endpoint.clone(),
        region: store.region.clone(),
        virtual_host: store.virtual_host.map(|s| s.0),
        profile: store.profile.clone(),
        access_key_id: store.access_key_id.clone(),
        anonymous: on(store.anonymous),
        ..StoreOptions::default()
    };
    options.secret_access_key = secret(store.secret_access_key_file.as_deref(), "the secret access key")?;
    options.session_token = secret(store.session_token_file.as_deref(), "the session token")?;
    if options.access_key_id.is_some() != options.secret_access_key.is_some() {
        return Err(Failure::usage(
            "--access-key-id and --secret-access-key-file belong together: give both or neither",
        ));
    }
    for (value, to) in [
        (store.connect_timeout, &mut options.connect_timeout),
        (store.request_timeout, &mut options.request_timeout),
        (store.deadline, &mut options.deadline),
    ] {
        if let Some(span) = value {
            if span.0.is_zero() {
                return Err(Failure::usage("a timeout of the object store cannot be zero"));
            }
            *to = span.0;
        }
    }
    // Later ones, from nearer to the user, replace earlier ones.
    options.extra.extend(store.store_option.iter().map(|o| (o.key.clone(), o.value.clone())));
    Ok(options)
}

/// The master key: from `--key-file`, else from `HEADRACE_KEY`.
pub fn master_key(settings: &Settings) -> Result<Option<MasterKey>, Failure> {
    let advice = "A key is 32 bytes: raw, as 64 hexadecimal digits, or as base64. Make one with \
                  \"head -c 32 /dev/urandom | base64\".";
    if let Some(path) = &settings.volume.key_file {
        let bytes = read_secret(path, "the key")?;
        let what = || format!("the key in {} cannot be used", crate::output::path(path));
        return MasterKey::from_file_bytes(&bytes)
            .map(Some)
            .context(what)
            .map_err(|f| f.advise(advice).exit(Exit::Denied));
    }
    match std::env::var("HEADRACE_KEY").map(Zeroizing::new) {
        Ok(text) if !text.is_empty() => MasterKey::from_file_bytes(text.as_bytes())
            .map(Some)
            .context(|| "the key in HEADRACE_KEY cannot be used".to_owned())
            .map_err(|f| f.advise(advice).exit(Exit::Denied)),
        _ => Ok(None),
    }
}

/// How to open the volume.
pub fn open_options(
    settings: &Settings,
    mountpoint: Option<&Path>,
    read_only: bool,
) -> Result<OpenOptions, Failure> {
    let defaults = OpenOptions::default();
    let durability = match settings.mount.durable {
        Some(Durable::Bucket) => Durability::Bucket,
        Some(Durable::Local) | None => Durability::Local,
    };
    Ok(OpenOptions {
        durability,
        lease: settings.volume.lease.map_or(defaults.lease, |lease| lease.0),
        retention: settings.volume.retention.map_or(defaults.retention, |retention| retention.0),
        takeover: settings.takeover,
        memory: settings.mount.memory.map(|size| size.0),
        state_dir: state_dir(settings)?,
        store: store_options(settings)?,
        key: master_key(settings)?,
        mountpoint: mountpoint.map(crate::output::path),
        read_only,
    })
}

/// The state directory's base, absolute, so that a later change of directory does no harm.
pub fn state_dir(settings: &Settings) -> Result<Option<PathBuf>, Failure> {
    let absolute = |dir: &PathBuf| {
        std::path::absolute(dir)
            .context(|| format!("cannot use the state directory {}", crate::output::path(dir)))
    };
    settings.volume.state_dir.as_ref().map(absolute).transpose()
}

/// What a new volume is to be like.
pub fn format_options(settings: &Settings, url: &str) -> Result<FormatOptions, Failure> {
    let format = &settings.format;
    let mut options = FormatOptions {
        name: format.name.clone().unwrap_or_else(|| url::default_name(url)),
        ..FormatOptions::default()
    };
    if let Some(compression) = format.compression {
        options.compression = compression.0;
    }
    for (size, to, name) in [
        (format.frame_size, &mut options.frame_size, "--frame-size"),
        (format.segment_size, &mut options.segment_size, "--segment-size"),
        (format.inline_max, &mut options.inline_max, "--inline-max"),
    ] {
        if let Some(ByteSize(bytes)) = size {
            *to = u32::try_from(bytes)
                .map_err(|_| Failure::usage(format!("{name} is too large: {bytes} bytes")))?;
        }
    }
    let key = master_key(settings)?;
    match (format.encrypt.map(|s| s.0), key) {
        (Some(true), Some(key)) => options.encryption = Some(key),
        (Some(true), None) => {
            return Err(Failure::usage("--encrypt needs a key").advise(
                "Make one with \"head -c 32 /dev/urandom | base64 > FILE\" and give it with --key-file FILE.",
            ));
        }
        (None, Some(_)) => {
            return Err(Failure::usage("a key was given, but not --encrypt")
                .advise("Add --encrypt for an encrypted volume, or --encrypt=false for one that is not."));
        }
        (Some(false), _) | (None, None) => {}
    }
    Ok(options)
}

/// Opens a volume that is not mounted.
pub async fn volume(url: &str, settings: &Settings, read_only: bool) -> Result<Arc<Volume>, Failure> {
    let volume = Volume::open(&location(url)?, &open_options(settings, None, read_only)?).await?;
    for note in &volume.notes {
        crate::output::say(&format!("headrace: warning: {note}"));
    }
    Ok(volume)
}

fn secret(path: Option<&Path>, what: &str) -> Result<Option<Secret>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let bytes = read_secret(path, what)?;
    let named = || format!("{what} in {} cannot be used", crate::output::path(path));
    let text = std::str::from_utf8(&bytes).context(named)?.trim();
    if text.is_empty() {
        return Err(Failure::usage(format!("{}: the file is empty", named())));
    }
    Ok(Some(Secret::from(text)))
}

fn read_secret(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = || format!("cannot read {what} from {}", crate::output::path(path));
    let usage = |f: Failure| f.exit(Exit::Usage);
    let file = File::open(path).context(failed).map_err(usage)?;
    let meta = file.metadata().context(failed)?;
    if meta.is_file() && meta.mode() & 0o077 != 0 {
        crate::output::say(&format!(
            "headrace: warning: others can read {what} in {path}: run \"chmod 600 {path}\"",
            path = crate::output::path(path)
        ));
    }
    // Reserved at once: growing would leave copies of the secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET as usize + 1));
    let read = file.take(MAX_SECRET + 1).read_to_end(&mut bytes).context(failed)?;
    if read as u64 > MAX_SECRET {
        return Err(Failure::usage(format!("{}: it is longer than 64 KiB", failed())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in pairs {
            settings.set(key, value).unwrap();
        }
        settings
    }

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    #[test]
    fn secrets_come_from_files_without_their_newline() {
        let secret = file(b"s3cr3t\n");
        let path = secret.path().to_str().unwrap();
        let options =
            store_options(&settings(&[("access-key-id", "me"), ("secret-access-key-file", path)])).unwrap();
        assert_eq!(options.secret_access_key.as_ref().map(Secret::expose), Some("s3cr3t"));
        assert!(!format!("{options:?}").contains("s3cr3t"));
    }

    #[test]
    fn half_a_credential_is_refused() {
        let failure = store_options(&settings(&[("access-key-id", "me")])).unwrap_err();
        assert_eq!(failure.exit_code(), Exit::Usage);
    }

    #[test]
    fn keys_and_encryption_must_agree() {
        let key = file("ab".repeat(32).as_bytes());
        let path = key.path().to_str().unwrap();
        assert!(format_options(&settings(&[("key-file", path)]), "/v").is_err());
        assert!(format_options(&settings(&[("encrypt", "true")]), "/v").is_err());
        assert!(
            format_options(&settings(&[("encrypt", "true"), ("key-file", path)]), "/v")
                .unwrap()
                .encryption
                .is_some()
        );
        let bad = file(b"short");
        let failure =
            format_options(&settings(&[("key-file", bad.path().to_str().unwrap())]), "/v").unwrap_err();
        assert!(failure.advice().unwrap().contains("32 bytes") && !failure.message().contains("short"));
    }

    #[test]
    fn options_replace_those_from_further_away() {
        let options = store_options(&settings(&[("store-option", "a=1"), ("store-option", "a=2")])).unwrap();
        assert_eq!(options.extra.get("a").map(String::as_str), Some("2"));
    }

    #[test]
    fn sizes_beyond_all_reason_are_refused() {
        assert_eq!(
            format_options(&settings(&[("segment-size", "8G")]), "/v").unwrap_err().exit_code(),
            Exit::Usage
        );
    }
}
