//! What the cache says of itself.

use serde::Serialize;

/// Whether the kernel reads complete files from the cache by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum Passthrough {
    /// It does.
    On,
    /// It does not, for this reason.
    Off(String),
}

/// One directory of the cache.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheDirectoryStatus {
    /// Where it is.
    pub path: String,
    /// Why it is not used; `None` while it is.
    pub failed: Option<String>,
    /// Bytes cached.
    pub bytes: u64,
    /// Those of them that are pinned.
    pub pinned: u64,
    /// Bytes that may be; `None` for as many as leave enough of the disk free.
    pub limit: Option<u64>,
    /// Bytes of its disk that are free.
    pub disk_free: u64,
    /// Bytes of its disk that are kept free.
    pub keep_free: u64,
    /// Files and segments of which something is cached.
    pub entries: u64,
}

/// The cache on disks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheStatus {
    /// Its directories.
    pub directories: Vec<CacheDirectoryStatus>,
    /// Who reads complete files.
    pub passthrough: Passthrough,
    /// Open files that the kernel reads from the cache by itself.
    pub passed_through: u64,
}
