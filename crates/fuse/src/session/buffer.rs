//! Where requests are read into.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use headrace_vfs::Keeper;
use parking_lot::Mutex;

use crate::abi::{InHeader, MIN_READ_BUFFER, WriteIn};

const PAGE: usize = 4096;
/// Where a WRITE's data begins in a request.
pub(crate) const WRITE_PAYLOAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();
/// Free buffers kept for later unless the session knows better.
const SPARE: usize = 16;
/// A buffer that was not needed for so long is given back.
const UNUSED: Duration = Duration::from_secs(5);

/// Memory for requests, reused.
///
/// A large WRITE is handed to the file system in the buffer it arrived in, and the worker takes another buffer. How many are
/// out with the file system is for the file system to bound, which counts the bytes it holds.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Mutex<Free>,
    lent: AtomicUsize,
    max_write: usize,
    /// Free buffers kept for later, whatever else is in memory.
    spare: usize,
    /// So many more are kept where written data leaves room for them.
    room: AtomicUsize,
    /// Free buffers.
    kept: AtomicUsize,
}

/// Buffers that nobody uses.
#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Memory>,
    /// As few as there were since the last [`BufferPool::release_unused`].
    least: usize,
}

/// A buffer whose WRITE data is page-aligned.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl BufferPool {
    pub fn new(max_write: usize) -> Arc<Self> {
        Self::with_spare(max_write, SPARE)
    }

    /// Keeps at most `spare` free buffers.
    pub fn with_spare(max_write: usize, spare: usize) -> Arc<Self> {
        Arc::new(BufferPool {
            free: Mutex::default(),
            lent: AtomicUsize::new(0),
            max_write,
            spare,
            room: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
        })
    }

    /// A buffer for one worker.
    pub fn request_buffer(self: &Arc<Self>) -> RequestBuffer {
        RequestBuffer { memory: self.take(), pool: Arc::clone(self) }
    }

    fn take(&self) -> Memory {
        self.change(|free| free.buffers.pop()).unwrap_or_else(|| {
            let bytes = vec![0; self.len()];
            // The first page holds the headers, pushed against its end.
            let first_page = bytes.as_ptr().align_offset(PAGE).min(PAGE - 1);
            Memory { start: first_page + PAGE - WRITE_PAYLOAD, bytes }
        })
    }

    /// What a buffer takes, bytes, with what the allocator adds.
    fn takes(&self) -> usize {
        self.len() + PAGE
    }

    /// Bytes of a buffer.
    fn len(&self) -> usize {
        (PAGE + self.max_write).max(MIN_READ_BUFFER) + PAGE
    }

    fn give_back(&self, memory: Memory) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
        // Seen by whoever takes room away from here on; what was taken before is seen by `shrink`.
        self.change(|free| free.buffers.push(memory));
        self.shrink();
    }

    /// Every change of the free buffers: how many there are is known without the lock.
    fn change<T>(&self, how: impl FnOnce(&mut Free) -> T) -> T {
        let mut free = self.free.lock();
        let answer = how(&mut free);
        free.least = free.least.min(free.buffers.len());
        self.kept.store(free.buffers.len(), Ordering::SeqCst);
        answer
    }

    /// Free buffers that may be kept.
    fn most(&self) -> usize {
        self.spare.saturating_add(self.room.load(Ordering::SeqCst))
    }

    /// Gives back the memory of those that nobody has needed since the last call.
    pub fn release_unused(&self) {
        let unused = self.change(|free| {
            let needed = free.buffers.len().saturating_sub(free.least);
            free.least = needed;
            free.buffers.split_off(needed)
        });
        drop(unused);
    }
}

impl Keeper for BufferPool {
    fn allow(&self, bytes: u64) {
        let buffers = bytes / self.takes() as u64;
        self.room.store(usize::try_from(buffers).unwrap_or(usize::MAX), Ordering::SeqCst);
    }

    fn shrink(&self) {
        if self.kept.load(Ordering::SeqCst) <= self.most() {
            return;
        }
        let beyond = self.change(|free| free.buffers.split_off(self.most().min(free.buffers.len())));
        drop(beyond);
    }
}

/// Gives unused buffers back now and then, until the pool is gone.
pub(crate) async fn keep_few(pool: Weak<BufferPool>) {
    loop {
        tokio::time::sleep(UNUSED).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.release_unused();
    }
}

/// The buffer a worker reads requests into.
#[derive(Debug)]
pub(crate) struct RequestBuffer {
    memory: Memory,
    pool: Arc<BufferPool>,
}

impl RequestBuffer {
    /// A buffer with a copy of `request`, just as large.
    pub fn copy_of(request: &[u8]) -> RequestBuffer {
        // No data is large enough for such a pool to lend it out.
        RequestBuffer {
            memory: Memory { bytes: request.to_vec(), start: 0 },
            pool: BufferPool::new(usize::MAX),
        }
    }

    /// The whole buffer, to be read into.
    pub fn space(&mut self) -> &mut [u8] {
        self.memory.bytes.get_mut(self.memory.start..).unwrap_or_default()
    }

    /// The first `len` bytes.
    pub fn request(&self, len: usize) -> &[u8] {
        let filled = self.memory.bytes.get(self.memory.start..).unwrap_or_default();
        filled.get(..len).unwrap_or(filled)
    }

    /// The bytes at `range`, which must lie within the request, in a form that outlives it.
    ///
    /// Large ones are not copied: the buffer goes along, and another takes its place.
    pub fn detach(&mut self, range: Range<usize>) -> Bytes {
        let whole = self.memory.start + range.start..self.memory.start + range.end;
        // A buffer counts as the data in it, so it is handed over nearly full only.
        if range.len() < self.pool.max_write - self.pool.max_write / 8 {
            return Bytes::copy_from_slice(self.memory.bytes.get(whole).unwrap_or_default());
        }
        self.pool.lent.fetch_add(1, Ordering::Relaxed);
        let memory = std::mem::replace(&mut self.memory, self.pool.take());
        Bytes::from_owner(Lent { memory: Some(memory), range: whole, pool: Arc::clone(&self.pool) })
    }
}

/// A buffer that is out with the file system.
struct Lent {
    memory: Option<Memory>,
    range: Range<usize>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_ref().and_then(|memory| memory.bytes.get(self.range.clone())).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_vfs::REQUEST_BUFFER;

    use super::*;

    #[test]
    fn room_for_the_largest_write_whose_data_is_aligned() {
        let pool = BufferPool::new(1 << 20);
        let mut buffer = pool.request_buffer();
        let space = buffer.space();
        assert!(space.len() >= WRITE_PAYLOAD + (1 << 20));
        assert_eq!(space[WRITE_PAYLOAD..].as_ptr().align_offset(PAGE), 0);
    }

    #[test]
    fn detached_data_survives_the_next_request_and_memory_comes_back() {
        let pool = BufferPool::new(1 << 20);
        let mut buffer = pool.request_buffer();
        for len in [1_usize, PAGE, 1 << 19, 15 << 16, 1 << 20] {
            buffer.space()[WRITE_PAYLOAD..WRITE_PAYLOAD + len].fill(7);
            let data = buffer.detach(WRITE_PAYLOAD..WRITE_PAYLOAD + len);
            buffer.space()[WRITE_PAYLOAD..WRITE_PAYLOAD + len].fill(9);
            assert!(data.len() == len && data.iter().all(|&b| b == 7), "{len}");
        }
        assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
        assert_eq!(pool.free.lock().buffers.len(), 1, "taken by the first that was lent, used by the second");
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let pool = BufferPool::with_spare(1 << 20, 3);
        let mut buffer = pool.request_buffer();
        let held: Vec<Bytes> =
            (0..8).map(|_| buffer.detach(WRITE_PAYLOAD..WRITE_PAYLOAD + (1 << 20))).collect();
        assert_eq!(pool.lent.load(Ordering::Relaxed), 8);
        drop(held);
        assert_eq!(pool.free.lock().buffers.len(), 3);
        pool.release_unused();
        assert_eq!(pool.free.lock().buffers.len(), 3, "they were needed since the beginning");
        drop(buffer.detach(WRITE_PAYLOAD..WRITE_PAYLOAD + (1 << 20)));
        pool.release_unused();
        assert_eq!(pool.free.lock().buffers.len(), 1, "two were not needed since then");
        pool.release_unused();
        assert_eq!(pool.free.lock().buffers.len(), 0);
    }

    #[test]
    fn more_are_kept_where_written_data_leaves_room_and_go_when_it_does_not() {
        let pool = BufferPool::with_spare(1 << 20, 2);
        let mut buffer = pool.request_buffer();
        let mut write = |count: usize| -> Vec<Bytes> {
            (0..count).map(|_| buffer.detach(WRITE_PAYLOAD..WRITE_PAYLOAD + (1 << 20))).collect()
        };
        pool.allow(3 * REQUEST_BUFFER + 1);
        drop(write(8));
        assert_eq!(pool.free.lock().buffers.len(), 5);
        pool.allow(2 * REQUEST_BUFFER);
        pool.shrink();
        assert_eq!(pool.free.lock().buffers.len(), 4);
        drop(write(6));
        assert_eq!(pool.free.lock().buffers.len(), 4, "no more than were allowed last");
        pool.allow(0);
        pool.shrink();
        assert_eq!(pool.free.lock().buffers.len(), 2);
        pool.allow(u64::MAX);
        pool.shrink();
        pool.release_unused();
        pool.release_unused();
        assert_eq!(
            pool.free.lock().buffers.len(),
            0,
            "what nobody needs is not kept, however much room there is"
        );
    }

    #[test]
    fn a_buffer_takes_what_the_memory_plan_says() {
        assert_eq!(BufferPool::new(1 << 20).takes() as u64, REQUEST_BUFFER);
    }
}
