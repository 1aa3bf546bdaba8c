//! Knowing that what was written is on the disk.
//!
//! The kernel writes a file's pages when it likes. When the disk refuses them they are dropped, and the file reads as if it had never been
//! written: zeros, and no error to whoever reads. So the kernel reads nothing by itself that was not synced, and the daemon compares
//! what it reads until then.

use super::{Entry, State};

/// [`State::written`] of an entry that was there before.
pub(super) const INHERITED: u64 = 1;
/// The same of a new one, once something was written to it.
pub(super) const ANEW: u64 = 2;

impl State {
    /// Whether all that was written is on the disk.
    pub(super) fn is_synced(&self) -> bool {
        self.synced == self.written
    }
}

impl Entry {
    /// How often something was written: so that it can be told whether something was written since.
    pub(in crate::disk) fn written(&self) -> u64 {
        self.state.lock().written
    }

    /// Syncs it if all that is in it is of an earlier time, and so on the disk most likely. Blocks.
    pub(in crate::disk) fn sync_inherited(&self) {
        let inherited = self.state.lock().written == INHERITED;
        if inherited {
            self.sync();
        }
    }

    /// Brings what was written to the disk; if the disk has refused some of it, its directory is done without. Blocks.
    pub fn sync(&self) {
        let written = {
            let state = self.state.lock();
            if state.is_synced() || state.dead {
                return;
            }
            state.written
        };
        match self.file.sync_data() {
            Ok(()) => {
                let mut state = self.state.lock();
                state.synced = state.synced.max(written);
            }
            Err(error) => self.broken("write", &error),
        }
    }
}
