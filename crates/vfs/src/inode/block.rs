//! One block of pending bytes.

use bytes::Bytes;

/// Bytes of file range that share one block: bounds what an overwrite may have to copy.
pub const BLOCK: u64 = 64 << 10;

/// What a block takes beside its bytes: its share of a tree node, its list of ranges, what its data is shared by.
const OVERHEAD: u64 = 256;

/// The pending bytes of one block: a hull of memory, and which ranges of it hold data.
#[derive(Debug, Default)]
pub struct Block {
    /// Offset within the block of the hull's first byte.
    base: u32,
    hull: Hull,
    /// Ranges that hold data, relative to the block; sorted, neither touching nor overlapping.
    valid: Vec<(u32, u32)>,
}

#[derive(Debug)]
enum Hull {
    /// As it was written: no copy was made.
    Shared(Bytes),
    /// Our own memory, which may be written to in place.
    Owned(Vec<u8>),
}

impl Default for Hull {
    fn default() -> Self {
        Hull::Shared(Bytes::new())
    }
}

impl Hull {
    fn len(&self) -> usize {
        match self {
            Hull::Shared(b) => b.len(),
            Hull::Owned(v) => v.len(),
        }
    }
}

impl Block {
    /// Bytes of memory it stands for in the write budget beside what the written data itself is charged with for as long as
    /// anything refers to it.
    pub fn charge(&self) -> u64 {
        if self.valid.is_empty() {
            return 0;
        }
        let own = match &self.hull {
            Hull::Shared(_) => 0,
            Hull::Owned(bytes) => bytes.capacity() as u64,
        };
        own + OVERHEAD
    }

    /// Bytes of data.
    pub fn len(&self) -> u64 {
        self.valid.iter().map(|(s, e)| u64::from(e - s)).sum()
    }

    /// Where its first byte is, relative to the block.
    pub fn start(&self) -> Option<u64> {
        self.valid.first().map(|(start, _)| u64::from(*start))
    }

    /// Writes `data` at `at`; the caller keeps `at + data.len()` within [`BLOCK`].
    pub fn write(&mut self, at: u32, data: Bytes) {
        let end = at + data.len() as u32;
        let hull_end = self.base + self.hull.len() as u32;
        if self.valid.is_empty() || (at <= self.base && end >= hull_end) {
            self.base = at;
            self.hull = Hull::Shared(data);
            self.valid.clear();
            self.valid.push((at, end));
            return;
        }
        let mut bytes = match std::mem::take(&mut self.hull) {
            Hull::Owned(v) => v,
            Hull::Shared(b) => {
                let mut v =
                    Vec::with_capacity((b.len() + data.len()).next_power_of_two().min(BLOCK as usize));
                v.extend_from_slice(&b);
                v
            }
        };
        if at < self.base {
            let grow = (self.base - at) as usize;
            bytes.splice(0..0, std::iter::repeat_n(0, grow));
            self.base = at;
        }
        let from = (at - self.base) as usize;
        if from == bytes.len() {
            bytes.extend_from_slice(&data);
        } else {
            let needed = from + data.len();
            if bytes.len() < needed {
                bytes.resize(needed, 0);
            }
            bytes[from..needed].copy_from_slice(&data);
        }
        self.hull = Hull::Owned(bytes);
        self.add_valid(at, end);
    }

    fn add_valid(&mut self, start: u32, end: u32) {
        let first = self.valid.partition_point(|&(_, e)| e < start);
        let last = self.valid.partition_point(|&(s, _)| s <= end);
        let (mut from, mut to) = (start, end);
        if first < last {
            from = from.min(self.valid[first].0);
            to = to.max(self.valid[last - 1].1);
        }
        self.valid.splice(first..last, [(from, to)]);
    }

    /// Appends what it has of file range `[start, end)` to `out`, in order; `block_start` is the block's file offset.
    pub fn pieces(&self, block_start: u64, start: u64, end: u64, out: &mut Vec<(u64, Bytes)>) {
        for &(s, e) in &self.valid {
            let from = (block_start + u64::from(s)).max(start);
            let to = (block_start + u64::from(e)).min(end);
            if from < to {
                let a = (from - block_start) as usize - self.base as usize;
                let b = (to - block_start) as usize - self.base as usize;
                let bytes = match &self.hull {
                    Hull::Shared(shared) => shared.slice(a..b),
                    Hull::Owned(own) => Bytes::copy_from_slice(&own[a..b]),
                };
                out.push((from, bytes));
            }
        }
    }

    /// Everything it has, without a copy.
    pub fn freeze(self, block_start: u64, out: &mut Vec<(u64, Bytes)>) {
        let bytes = match self.hull {
            Hull::Shared(b) => b,
            Hull::Owned(v) => Bytes::from(v),
        };
        for (s, e) in self.valid {
            let slice = bytes.slice((s - self.base) as usize..(e - self.base) as usize);
            out.push((block_start + u64::from(s), slice));
        }
    }
}
