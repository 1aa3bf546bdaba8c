//! Comparing what is there with what came.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Entry, read_up_to};
use crate::disk::presence::{BLOCK, CHUNK, GROUP_BLOCKS, GROUPS, blocks_of, checksum};
use crate::disk::worker::Job;

impl Entry {
    /// Compares all that is there with its checksums and drops what differs; blocks. False: somebody else is at it.
    pub fn verify(self: &Arc<Self>) -> bool {
        if self.verifying.swap(1, Ordering::AcqRel) != 0 {
            return false;
        }
        // What is right now may be gone when the disk refuses it.
        self.sync();
        let chunks: Vec<u32> = self.state.lock().chunks.keys().copied().collect();
        let groups = chunks.into_iter().flat_map(|chunk| (0..GROUPS).map(move |group| (chunk, group)));
        for (chunk, group) in groups {
            if self.is_dead() || self.check_group(chunk, group, false).is_err() {
                break;
            }
        }
        self.verifying.store(0, Ordering::Release);
        true
    }

    /// Compares a group with its checksum, unless that was done and is not to be done `again`; false if it was wrong. Blocks.
    pub(in crate::disk) fn check_group(
        self: &Arc<Self>,
        number: u32,
        group: u32,
        again: bool,
    ) -> io::Result<bool> {
        let (blocks, wanted, _in_use) = {
            let state = self.state.lock();
            let Some(chunk) = state.chunks.get(&number) else { return Ok(false) };
            if chunk.is_verified(group) && !again {
                return Ok(true);
            }
            let blocks: Vec<u32> = blocks_of(group).filter(|block| chunk.presence.contains(*block)).collect();
            (blocks, chunk.presence.sum(group), Arc::clone(&chunk.in_use))
        };
        let mut sum = 0;
        let mut buffer = vec![0; BLOCK as usize];
        for block in blocks {
            let offset = u64::from(number) * CHUNK + u64::from(block) * BLOCK;
            let read = read_up_to(&self.file, &mut buffer, offset)
                .inspect_err(|error| self.broken("read", error))?;
            sum ^= checksum(block, &[&buffer[..read]]);
        }
        let mut state = self.state.lock();
        let Some(chunk) = state.chunks.get_mut(&number) else { return Ok(false) };
        if sum == wanted {
            chunk.verified[group as usize / 64] |= 1 << (group % 64);
            return Ok(true);
        }
        let removed = u64::from(chunk.presence.remove_group(group)) * BLOCK;
        chunk.verified[group as usize / 64] |= 1 << (group % 64);
        chunk.known.bytes = chunk.presence.bytes();
        state.whole = None;
        drop(state);
        tracing::warn!(
            directory = %self.lane.path.display(),
            entry = self.key.file_name(),
            offset = u64::from(number) * CHUNK + u64::from(group * GROUP_BLOCKS) * BLOCK,
            "cached bytes were damaged on their disk; they are fetched again"
        );
        self.lane.figures.damaged.increment();
        self.lane.release_held(removed);
        self.lane.send(Job::Dirty(Arc::clone(self), number));
        Ok(false)
    }

    /// What the group number `group` of the entry added up to when it came; `None` if nothing is known of it.
    pub fn sum_of_group(&self, group: u64) -> Option<u32> {
        let state = self.state.lock();
        let chunk = state.chunks.get(&u32::try_from(group / u64::from(GROUPS)).ok()?)?;
        Some(chunk.presence.sum((group % u64::from(GROUPS)) as u32))
    }
}
