//! Compression of frames: which method a volume uses, and the methods themselves.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use lz4_flex::block::CompressTable;
use serde::{Deserialize, Serialize};

/// How a volume compresses what it stores; chosen when it is formatted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Compression {
    /// Stored as it is.
    #[default]
    None,
    /// LZ4, block format.
    Lz4,
    /// Zstandard.
    Zstd {
        /// 1 (fast) to 22 (small).
        level: i32,
    },
}

impl Compression {
    /// Level of "zstd" without one.
    pub const DEFAULT_ZSTD_LEVEL: i32 = 3;

    /// Levels of [`Compression::Zstd`].
    pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=22;
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.pad("none"),
            Compression::Lz4 => f.pad("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl From<Compression> for String {
    fn from(compression: Compression) -> String {
        compression.to_string()
    }
}

/// Text that names no compression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression {0:?}: use none, lz4, zstd, or zstd:LEVEL with a level from 1 to 22")]
pub struct ParseCompressionError(String);

impl FromStr for Compression {
    type Err = ParseCompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || ParseCompressionError(text.chars().take(40).collect());
        match text {
            "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Ok(Compression::Zstd { level: Self::DEFAULT_ZSTD_LEVEL }),
            _ => {
                let level = text.strip_prefix("zstd:").and_then(|level| level.parse().ok());
                let level = level.filter(|level| Self::ZSTD_LEVELS.contains(level)).ok_or_else(unknown)?;
                Ok(Compression::Zstd { level })
            }
        }
    }
}

impl TryFrom<String> for Compression {
    type Error = ParseCompressionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// How one payload is stored; the byte before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Raw = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Method {
    pub(crate) fn from_byte(byte: u8) -> Option<Method> {
        [Method::Raw, Method::Lz4, Method::Zstd].into_iter().find(|m| *m as u8 == byte)
    }
}

/// A compressor with its working memory, for many payloads.
pub(crate) struct Compressor {
    state: State,
    /// The last payload's compressed form.
    out: Vec<u8>,
}

enum State {
    None,
    Lz4(CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Compressor {
        let state = match compression {
            Compression::None => State::None,
            Compression::Lz4 => State::Lz4(CompressTable::default()),
            // Without memory for a context payloads stay raw: a worse ratio, no failure.
            Compression::Zstd { level } => {
                zstd::bulk::Compressor::new(level).map_or(State::None, State::Zstd)
            }
        };
        Compressor { state, out: Vec::new() }
    }

    /// How to store `plain`, and the payload. What compression does not shrink by a sixteenth stays raw: reading it back
    /// compressed would cost more than it saves.
    pub(crate) fn compress<'a>(&'a mut self, plain: &'a [u8]) -> (Method, &'a [u8]) {
        let limit = plain.len() - plain.len() / 16;
        let (method, len) = match &mut self.state {
            State::None => return (Method::Raw, plain),
            State::Lz4(table) => {
                self.out.resize(lz4_flex::block::get_maximum_output_size(plain.len()), 0);
                let len = lz4_flex::block::compress_into_with_table(plain, &mut self.out, table);
                (Method::Lz4, len.ok())
            }
            State::Zstd(context) => {
                self.out.resize(limit, 0);
                let len = context.compress_to_buffer(plain, self.out.as_mut_slice());
                (Method::Zstd, len.ok())
            }
        };
        match len.filter(|len| *len < limit).and_then(|len| self.out.get(..len)) {
            Some(payload) => (method, payload),
            None => (Method::Raw, plain),
        }
    }
}

thread_local! {
    /// A zstd context costs more to make than a small payload to decompress.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The `plain_len` bytes that `payload` stands for. `None` if it is not exactly that many: no stored length is trusted,
/// and never more than `plain_len` bytes are written.
pub(crate) fn decompress(method: Method, payload: &[u8], plain_len: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    match method {
        Method::Raw => plain.extend_from_slice(payload),
        Method::Lz4 => {
            plain.resize(plain_len, 0);
            let len = lz4_flex::block::decompress_into(payload, &mut plain).ok()?;
            plain.truncate(len);
        }
        Method::Zstd => ZSTD
            .with_borrow_mut(|context| {
                if context.is_none() {
                    *context = zstd::bulk::Decompressor::new().ok();
                }
                plain.reserve_exact(plain_len);
                context.as_mut()?.decompress_to_buffer(payload, &mut plain).ok()
            })
            .map(drop)?,
    }
    (plain.len() == plain_len).then_some(plain)
}

#[cfg(test)]
mod tests;
