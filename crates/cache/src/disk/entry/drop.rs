//! Letting go of what is there.

use std::io;
use std::sync::Arc;

use super::{Entry, State};
use crate::disk::mapped::is_open_elsewhere;
use crate::disk::presence::CHUNK;
use crate::disk::worker::Job;

impl Entry {
    /// Takes a chunk out, to be punched by the directory's thread.
    pub(super) fn drop_chunk(self: &Arc<Self>, state: &mut State, number: u32) {
        let Some(chunk) = state.chunks.remove(&number) else { return };
        state.whole = None;
        self.lane.release_held(chunk.presence.bytes());
        state.doomed.insert(number, Arc::clone(&chunk.in_use));
        self.lane.send(Job::Punch(Arc::clone(self), number));
    }

    /// Not wanted any more, whatever it was for; false if it has to stay.
    pub(in crate::disk) fn evict(self: &Arc<Self>, number: u32, pinned_too: bool) -> Option<u64> {
        let mut state = self.state.lock();
        if state.passes > 0 || state.dead {
            return None;
        }
        let chunk = state.chunks.get(&number).filter(|chunk| pinned_too || !chunk.pinned)?;
        let bytes = chunk.presence.bytes();
        self.drop_chunk(&mut state, number);
        Some(bytes)
    }

    /// Drops all of it, pinned or not, unless the kernel reads it; answers how many bytes that was.
    pub fn cool(self: &Arc<Self>) -> u64 {
        let chunks: Vec<u32> = {
            let mut state = self.state.lock();
            state.pinned = false;
            state.chunks.keys().copied().collect()
        };
        chunks.into_iter().filter_map(|chunk| self.evict(chunk, true)).sum()
    }

    /// Gives the space of a chunk back that was dropped; false while somebody reads it. Blocks.
    pub(in crate::disk) fn punch(self: &Arc<Self>, number: u32) -> io::Result<bool> {
        let in_use = {
            let state = self.state.lock();
            // A file without a name goes as a whole.
            match state.doomed.get(&number).filter(|_| !state.dead) {
                Some(in_use) => Arc::clone(in_use),
                None => return Ok(true),
            }
        };
        if Arc::strong_count(&in_use) > 2 {
            return Ok(false);
        }
        // A mapping outlives what it was made from: it would turn into zeros.
        if is_open_elsewhere(&self.file) {
            self.detach();
            return Ok(true);
        }
        use rustix::fs::{FallocateFlags, fallocate};
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&*self.file, punch, u64::from(number) * CHUNK, CHUNK);
        match punched.map_err(io::Error::from) {
            Ok(()) => {
                self.state.lock().doomed.remove(&number);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}
