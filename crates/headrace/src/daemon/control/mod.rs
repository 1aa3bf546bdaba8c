//! The control socket: how commands speak to the daemon of a mount.

pub mod client;
pub mod protocol;
#[cfg(test)]
pub mod served;
pub mod server;
