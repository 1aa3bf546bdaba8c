//! Helpers for tests on real mounts: the program under test, object store servers, volumes, mounts that clean up
//! after themselves, and digests of whole trees.
//!
//! Everything here panics with a full explanation when the environment is not as it must be: this is a library for
//! tests, where that is the report a person wants. Nothing is mocked.

pub mod binary;
pub mod content;
pub mod direct;
pub mod disk;
pub mod hybrid;
pub mod lock;
pub mod mapping;
pub mod mount;
pub mod power;
pub mod process;
pub mod s3;
pub mod site;
pub mod tree;
pub mod uring;
pub mod volume;
pub mod writer;

pub use binary::{headrace, tool};
pub use content::{Rng, pattern, sha256_hex};
pub use disk::{Frozen, SmallDisk};
pub use headrace_netlab::{Fault, FaultProxy};
pub use hybrid::HybridServer;
pub use mount::{MountOptions, Mounted, mount_table_has};
pub use process::{Finished, Run, shell};
pub use s3::S3Server;
pub use site::Site;
pub use tree::{TreeDigest, tree_digest};
pub use volume::{Backing, TestVolume};

/// Number from the environment variable `name`, or `default` when it is unset. Panics when it is not a number.
pub fn env_number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}
