//! Models of what stands behind a mount.

pub mod backend;
pub mod fuse;
pub mod lustre;
pub mod network;
pub mod s3;
pub mod store;
