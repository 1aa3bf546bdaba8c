//! Sockets in the runtime directory that only their owner and root may use.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

use crate::failure::{Context, Failure};

/// Longest path of a socket, bytes; the kernel's limit, with the end mark.
const MAX_PATH: usize = 108;

/// A bound socket; its file is removed when dropped.
#[derive(Debug)]
pub struct PrivateSocket {
    /// For messages: "control", "metrics".
    name: &'static str,
    listener: UnixListener,
    path: PathBuf,
    file: Option<(u64, u64)>,
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // The volume is free by now: the next daemon may have put its own socket there.
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

impl PrivateSocket {
    /// Binds `path`, replacing what a daemon that was killed left there: the caller holds the volume, so nobody else
    /// serves it. The directory is private.
    ///
    /// # Errors
    /// When it cannot be created. `otherwise` is advised where the path is too long.
    pub fn bind(name: &'static str, path: &Path, otherwise: &str) -> Result<PrivateSocket, Failure> {
        let what = || format!("cannot create the {name} socket {}", crate::output::path(path));
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Failure::new(what()).because(&e)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(|e| {
            let failure = Failure::new(what()).because(&e);
            if path.as_os_str().len() >= MAX_PATH {
                return failure.advise(format!("The path is too long for a socket: {otherwise}."));
            }
            failure
        })?;
        // Its directory is private already; who is on the other end is looked at as well.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context(what)?;
        Ok(PrivateSocket { name, listener, path: path.to_owned(), file: identity(path) })
    }

    /// The next connection of somebody who is allowed to, and their user id. Others are refused.
    pub async fn accept(&self) -> (UnixStream, u32) {
        let own = rustix::process::geteuid().as_raw();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if allowed(peer.uid(), own) => return (stream, peer.uid()),
                    peer => {
                        let uid = peer.ok().map(|peer| peer.uid());
                        tracing::warn!(uid, socket = self.name, "refused a connection");
                    }
                },
                Err(error) => cannot_accept(self.name, &error).await,
            }
        }
    }
}

/// Says so, and waits a little.
pub async fn cannot_accept(name: &str, error: &io::Error) {
    // Out of descriptors, most likely; they come back.
    tracing::warn!(%error, socket = name, "cannot accept a connection");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Whether a peer may use this daemon's sockets.
fn allowed(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_and_root_are_allowed() {
        assert!(allowed(1000, 1000) && allowed(0, 1000) && allowed(0, 0));
        assert!(!allowed(1001, 1000) && !allowed(1000, 0));
    }
}
