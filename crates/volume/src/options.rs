//! How a volume is opened.

use std::path::PathBuf;
use std::time::Duration;

use headrace_layout::crypto::MasterKey;
use headrace_store::StoreOptions;

use crate::log::Durability;

/// How long ownership lasts without being renewed, unless another time is asked for.
pub const DEFAULT_LEASE: Duration = headrace_metalog::ownership::DEFAULT_LEASE;

/// How far back a volume can be restored, unless another time is asked for.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(3600);

/// The memory ceiling of who names none.
pub const DEFAULT_MEMORY: u64 = 512 << 20;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Base of the state directory instead of the default one; see [`crate::state_dir`].
    pub state_dir: Option<PathBuf>,
    /// Credentials, endpoint, timeouts.
    pub store: StoreOptions,
    /// The master key of an encrypted volume.
    pub key: Option<MasterKey>,
    /// Where it is to be mounted, for those who find it in use; `None` for other commands.
    pub mountpoint: Option<String>,
    /// Change nothing: neither in the store nor, but for the engine's own recovery and for what is rebuilt from the bucket, in
    /// metadata. Claims nothing, so that credentials which only read are enough.
    pub read_only: bool,
    /// Memory the process may use, bytes; divided by [`headrace_flow::memory::MemoryPlan`]. `None`: [`DEFAULT_MEMORY`].
    pub memory: Option<u64>,
    /// What an answered fsync survives.
    pub durability: Durability,
    /// How long ownership lasts without being renewed: 2 s to 10 min.
    pub lease: Duration,
    /// How far back the volume can be restored; what was deleted is kept in the store for so long.
    pub retention: Duration,
    /// Take the volume over from an owner that shows no sign of life. What that owner had not shipped is lost.
    pub takeover: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            state_dir: None,
            store: StoreOptions::default(),
            key: None,
            mountpoint: None,
            read_only: false,
            memory: None,
            durability: Durability::default(),
            lease: DEFAULT_LEASE,
            retention: DEFAULT_RETENTION,
            takeover: false,
        }
    }
}
