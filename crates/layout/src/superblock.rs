//! The superblock: one small JSON object at the root of a volume that says how everything else is to be read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::CHUNK_SIZE;
use crate::checksum::crc32c;
pub use crate::compression::Compression;

/// Version of the format this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The superblock's key in the store.
pub const OBJECT_KEY: &str = "headrace.json";

/// The longest superblock read, bytes; a real one has about 1 KiB.
pub const MAX_LEN: usize = 64 << 10;

/// Plain bytes of a frame unless chosen otherwise.
pub const DEFAULT_FRAME_SIZE: u32 = 32 << 10;

/// Target length of a segment unless chosen otherwise.
pub const DEFAULT_SEGMENT_SIZE: u32 = 16 << 20;

/// Largest inline value, and the default.
pub const MAX_INLINE_MAX: u32 = 64 << 10;

/// What the "format" field says.
const MAGIC: &str = "headrace";

/// The checksum's field.
const CRC_FIELD: &str = "crc32c";

/// Features this build knows. A volume with any other is refused.
const KNOWN_FEATURES: &[&str] = &[];

const FRAME_SIZES: std::ops::RangeInclusive<u32> = 4 << 10..=1 << 20;
const SEGMENT_SIZES: std::ops::RangeInclusive<u32> = 1 << 20..=256 << 20;
const MAX_NAME_LEN: usize = 255;

/// How a volume is laid out. Written once, when the volume is formatted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Superblock {
    /// [`FORMAT_VERSION`] of the build that formatted the volume.
    pub version: u32,
    /// The volume's identity.
    pub uuid: Uuid,
    /// The volume's name for people: 1 to 255 bytes, no control characters.
    pub name: String,
    /// When the volume was formatted, Unix seconds.
    pub created: u64,
    /// Plain bytes of a frame, the unit of checksum, compression and encryption: a power of two from 4 KiB to 1 MiB.
    pub frame_size: u32,
    /// Target length of a segment object: 1 MiB to 256 MiB.
    pub segment_size: u32,
    /// Bytes of file range under one extent map; always [`CHUNK_SIZE`].
    pub chunk_size: u64,
    /// Longest write that may be kept inside the metadata: 0 to 64 KiB.
    pub inline_max: u32,
    /// How frames are compressed.
    pub compression: Compression,
    /// How frames are encrypted, if they are.
    pub encryption: Option<Encryption>,
    /// Where the metadata is.
    pub metadata: Metadata,
    /// Names of what a reader must understand beyond this version.
    pub features: Vec<String>,
    /// The store cannot create an object only if it is absent, and the volume was formatted in spite of that.
    pub weak_conditional_put: bool,
}

/// Where a volume's metadata is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metadata {
    /// In the embedded engine, on the machine that mounts the volume.
    #[default]
    Embedded,
}

/// How a volume is encrypted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Encryption {
    /// [`Encryption::ALGORITHM`].
    pub algorithm: String,
    /// The data key, wrapped under the master key: see [`crate::DataKey::wrap`].
    pub wrapped_key: String,
}

impl Encryption {
    /// The one algorithm of this version.
    pub const ALGORITHM: &str = "aes-256-gcm";

    /// Encryption under `wrapped_key`, which [`crate::DataKey::wrap`] gave.
    pub fn new(wrapped_key: String) -> Encryption {
        Encryption { algorithm: Self::ALGORITHM.to_owned(), wrapped_key }
    }
}

/// Why bytes are not a superblock this build can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Something else is there.
    #[error("not a Headrace volume: its {OBJECT_KEY} is something else ({detail})")]
    NotAVolume {
        /// What shows it.
        detail: String,
    },
    /// It was a superblock once.
    #[error("the superblock ({OBJECT_KEY}) is corrupt: {detail}; restore the object from a copy")]
    Corrupt {
        /// What is wrong.
        detail: String,
    },
    /// A newer build wrote it.
    #[error(
        "the volume has format version {found}, this build reads up to {supported}: use a newer Headrace"
    )]
    NewerVersion {
        /// The volume's version.
        found: u64,
        /// [`FORMAT_VERSION`].
        supported: u32,
    },
    /// It needs something this build does not have.
    #[error("the volume needs the feature {name:?}, which this build does not know: use a newer Headrace")]
    UnknownFeature {
        /// The feature.
        name: String,
    },
    /// A field is out of its range.
    #[error("superblock field {field}: {detail}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it must be, and what it is.
        detail: String,
    },
}

/// The stored form: fields in the order a person wants to read them.
#[derive(Serialize)]
struct Stored<'a> {
    format: &'static str,
    #[serde(flatten)]
    superblock: &'a Superblock,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
}

impl Superblock {
    /// A superblock with every default, for a volume formatted at `created` (Unix seconds).
    pub fn new(uuid: Uuid, name: impl Into<String>, created: u64) -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            uuid,
            name: name.into(),
            created,
            frame_size: DEFAULT_FRAME_SIZE,
            segment_size: DEFAULT_SEGMENT_SIZE,
            chunk_size: CHUNK_SIZE,
            inline_max: MAX_INLINE_MAX,
            compression: Compression::None,
            encryption: None,
            metadata: Metadata::Embedded,
            features: Vec::new(),
            weak_conditional_put: false,
        }
    }

    /// Checks every field's range; what a front end calls before it formats.
    pub fn validate(&self) -> Result<(), SuperblockError> {
        let invalid = |field, detail: String| Err(SuperblockError::Invalid { field, detail });
        if self.version != FORMAT_VERSION {
            return invalid("version", format!("must be {FORMAT_VERSION}, is {}", self.version));
        }
        if self.uuid.is_nil() {
            return invalid("uuid", "must not be nil".to_owned());
        }
        if self.name.is_empty() || self.name.len() > MAX_NAME_LEN || self.name.contains(char::is_control) {
            let detail = format!("must have 1 to {MAX_NAME_LEN} bytes and no control characters");
            return invalid("name", detail);
        }
        if i64::try_from(self.created).is_err() {
            return invalid("created", format!("is no time: {}", self.created));
        }
        if !self.frame_size.is_power_of_two() || !FRAME_SIZES.contains(&self.frame_size) {
            let detail = format!("must be a power of two from 4 KiB to 1 MiB, is {} bytes", self.frame_size);
            return invalid("frame_size", detail);
        }
        if !SEGMENT_SIZES.contains(&self.segment_size) {
            let detail = format!("must be from 1 MiB to 256 MiB, is {} bytes", self.segment_size);
            return invalid("segment_size", detail);
        }
        if self.chunk_size != CHUNK_SIZE {
            return invalid("chunk_size", format!("must be {CHUNK_SIZE}, is {}", self.chunk_size));
        }
        if self.inline_max > MAX_INLINE_MAX {
            return invalid("inline_max", format!("must be at most 64 KiB, is {} bytes", self.inline_max));
        }
        if let Compression::Zstd { level } = self.compression
            && !Compression::ZSTD_LEVELS.contains(&level)
        {
            return invalid("compression", format!("zstd levels are 1 to 22, is {level}"));
        }
        if let Some(encryption) = &self.encryption {
            if encryption.algorithm != Encryption::ALGORITHM {
                return Err(SuperblockError::UnknownFeature { name: short(&encryption.algorithm) });
            }
            if encryption.wrapped_key.len() != 80 {
                return invalid("wrapped_key", "must have 80 characters of base64".to_owned());
            }
        }
        match self.features.iter().find(|f| !KNOWN_FEATURES.contains(&f.as_str())) {
            Some(unknown) => Err(SuperblockError::UnknownFeature { name: short(unknown) }),
            None => Ok(()),
        }
    }

    /// The stored form: indented JSON, readable and with a checksum over its values (not its spacing).
    pub fn encode(&self) -> Vec<u8> {
        let mut stored = Stored { format: MAGIC, superblock: self, crc32c: None };
        let value = serde_json::to_value(&stored).expect("a superblock has string keys only");
        stored.crc32c = Some(format!("{:08x}", value_crc(&value)));
        let mut bytes = serde_json::to_vec_pretty(&stored).expect("a superblock has string keys only");
        bytes.push(b'\n');
        bytes
    }

    /// Parses and validates [`Self::encode`]'s output. Fields that are not known are ignored: what a reader must not ignore
    /// is announced in `features`.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let not_ours = |detail: &str| SuperblockError::NotAVolume { detail: detail.to_owned() };
        let corrupt = |detail: String| SuperblockError::Corrupt { detail };
        if bytes.len() > MAX_LEN {
            return Err(not_ours("it is too large"));
        }
        let mut value: Value = serde_json::from_slice(bytes).map_err(|e| {
            let text = String::from_utf8_lossy(bytes);
            if text.contains("\"format\"") && text.contains("\"headrace\"") {
                corrupt(format!("not JSON any more: {e}"))
            } else {
                not_ours("it is not JSON")
            }
        })?;
        let fields = value.as_object_mut().ok_or_else(|| not_ours("it is not a JSON object"))?;
        if fields.get("format").and_then(Value::as_str) != Some(MAGIC) {
            return Err(not_ours("it has no \"format\": \"headrace\""));
        }
        match fields.get("version").and_then(Value::as_u64) {
            None => return Err(corrupt("it has no version".to_owned())),
            Some(found) if found > u64::from(FORMAT_VERSION) => {
                return Err(SuperblockError::NewerVersion { found, supported: FORMAT_VERSION });
            }
            Some(_) => {}
        }
        let Some(Value::String(crc)) = fields.remove(CRC_FIELD) else {
            return Err(corrupt("it has no checksum".to_owned()));
        };
        if crc != format!("{:08x}", value_crc(&value)) {
            return Err(corrupt("checksum mismatch".to_owned()));
        }
        // Whole and of this version, so anything else it cannot express is a wish this build does not know.
        if let Some(Value::Array(features)) = value.get("features") {
            let known = |f: &&Value| f.as_str().is_some_and(|f| KNOWN_FEATURES.contains(&f));
            if let Some(unknown) = features.iter().find(|f| !known(f)) {
                return Err(SuperblockError::UnknownFeature { name: short(&unknown.to_string()) });
            }
        }
        if let Some(Value::String(metadata)) = value.get("metadata")
            && metadata != "embedded"
        {
            return Err(SuperblockError::UnknownFeature { name: short(&format!("metadata {metadata}")) });
        }
        let superblock: Superblock = serde_json::from_value(value).map_err(|e| corrupt(e.to_string()))?;
        superblock.validate()?;
        Ok(superblock)
    }
}

/// The checksum of a JSON value: the crc32c of its compact form with every object's keys in byte order.
fn value_crc(value: &Value) -> u32 {
    fn put(value: &Value, out: &mut String) {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| *name);
                out.push('{');
                for (position, (name, field)) in fields.into_iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push(':');
                    put(field, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    put(item, out);
                }
                out.push(']');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut text = String::new();
    put(value, &mut text);
    crc32c(text.as_bytes())
}

/// Enough of a foreign text for a message.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
