//! The memory that requests and replies are exchanged in.
//!
//! An entry is the kernel's from the moment a command for it is submitted until that command is complete. From then on it belongs to whoever
//! answers the request that came in it: [`Entries::take`] writes down which request that is, and [`Entries::claim`] gives it to one
//! caller only.

use std::io::{self, IoSlice};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::abi::{InHeader, OutHeader, RingHeaders};

const PAGE: usize = 4096;

/// The kernel has it.
const KERNEL: u64 = 0;
/// Somebody is writing the reply into it.
const CLAIMED: u64 = u64::MAX;

/// The entries of one ring.
pub(super) struct Entries {
    memory: NonNull<u8>,
    count: usize,
    payload: usize,
    /// For each, the request in it.
    requests: Box<[AtomicU64]>,
    /// What the kernel is told of where they are.
    vectors: Box<[[libc::iovec; 2]]>,
}

// SAFETY: the memory is reached by raw pointers only, through an entry that is not the kernel's, by the one who took or claimed it; the vectors are
// never changed.
#[allow(unsafe_code)]
unsafe impl Send for Entries {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Entries {}

/// An entry whose reply is the caller's to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub entry: usize,
    unique: u64,
}

impl Entries {
    /// `count` of them, for payloads of up to `payload` bytes. Memory is taken as it is used.
    pub fn new(count: usize, payload: usize) -> io::Result<Entries> {
        let payload = payload.next_multiple_of(PAGE);
        let len = count.max(1) * (PAGE + payload);
        // SAFETY: a new mapping of our own, at no address in particular.
        #[allow(unsafe_code)]
        let memory = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut entries = Entries {
            memory,
            count: count.max(1),
            payload,
            requests: (0..count).map(|_| AtomicU64::new(KERNEL)).collect(),
            vectors: Box::default(),
        };
        entries.vectors = (0..count)
            .map(|entry| {
                let vector = |base: *mut u8, len| libc::iovec { iov_base: base.cast(), iov_len: len };
                [
                    vector(entries.headers(entry), size_of::<RingHeaders>()),
                    vector(entries.payload(entry), payload),
                ]
            })
            .collect();
        Ok(entries)
    }

    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// The address of the two vectors (headers, payload) of an entry; valid as long as the entries are.
    pub fn vectors(&self, entry: usize) -> Option<u64> {
        self.vectors.get(entry).map(|vectors| vectors.as_ptr() as u64)
    }

    /// Headers are on a page of their own before their payload, which so is page-aligned.
    fn headers(&self, entry: usize) -> *mut u8 {
        debug_assert!(entry < self.count);
        // SAFETY: within the mapping, whose length is that of `count` entries.
        #[allow(unsafe_code)]
        unsafe {
            self.memory.as_ptr().add(entry.min(self.count - 1) * (PAGE + self.payload))
        }
    }

    fn payload(&self, entry: usize) -> *mut u8 {
        // SAFETY: as above; the payload follows the headers' page.
        #[allow(unsafe_code)]
        unsafe {
            self.headers(entry).add(PAGE)
        }
    }

    /// The command for `entry` is complete: puts the request in it at the start of `space`, as the device would have given it, and returns its
    /// length.
    ///
    /// # Errors
    /// The unique number of a request that makes no sense; it is to be answered all the same.
    pub fn take(&self, entry: usize, space: &mut [u8]) -> Result<usize, u64> {
        let Some(request) = self.requests.get(entry) else { return Err(0) };
        // SAFETY: RingHeaders are at the start of their page, any bytes are valid ones, and the kernel is done with the entry.
        #[allow(unsafe_code)]
        let headers = unsafe { self.headers(entry).cast::<RingHeaders>().read() };
        let Ok((header, _)) = InHeader::read_from_prefix(&headers.in_out) else { return Err(0) };
        request.store(headers.commit_id, Ordering::Release);
        let (len, payload) = (header.len as usize, headers.payload_sz as usize);
        let fixed = size_of::<InHeader>();
        let first = len.checked_sub(fixed + payload).and_then(|len| headers.op_in.get(..len));
        let (Some(first), Some(space)) = (first, space.get_mut(..len)) else { return Err(headers.commit_id) };
        if payload > self.payload || headers.commit_id == KERNEL || headers.commit_id == CLAIMED {
            return Err(headers.commit_id);
        }
        let (head, rest) = space.split_at_mut(fixed);
        head.copy_from_slice(header.as_bytes());
        let (op, data) = rest.split_at_mut(first.len());
        op.copy_from_slice(first);
        // SAFETY: `data` is what is left of `len`, `payload` bytes, which are within the entry's payload; they are not the same memory.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(self.payload(entry), data.as_mut_ptr(), payload);
        }
        Ok(len)
    }

    /// The entry that request `unique` came in, once.
    pub fn claim(&self, unique: u64) -> Option<Claim> {
        if unique == KERNEL || unique == CLAIMED {
            return None;
        }
        let is = |request: &AtomicU64| {
            request.load(Ordering::Acquire) == unique
                && request.compare_exchange(unique, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.requests.iter().position(is).map(|entry| Claim { entry, unique })
    }

    /// Writes a reply; the entry is ready to be submitted then.
    ///
    /// # Errors
    /// `EINVAL`: it is longer than any may be. The request can be claimed again.
    pub fn write(&self, claim: &Claim, header: &OutHeader, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let Some(request) = self.requests.get(claim.entry) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let Some(size) = u32::try_from(len).ok().filter(|_| len <= self.payload) else {
            request.store(claim.unique, Ordering::Release);
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let mut at = self.payload(claim.entry);
        for part in parts {
            // SAFETY: all parts together fit the payload, which is the claim's alone and no part of theirs.
            #[allow(unsafe_code)]
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
        }
        let headers = self.headers(claim.entry).cast::<RingHeaders>();
        // SAFETY: the headers are the claim's alone; OutHeader is smaller than the bytes it is put into, which are at the start of a page.
        #[allow(unsafe_code)]
        unsafe {
            headers.cast::<OutHeader>().write(*header);
            (&raw mut (*headers).payload_sz).write(size);
        }
        request.store(KERNEL, Ordering::Release);
        Ok(())
    }
}

impl Claim {
    /// What the kernel knows the request by.
    pub fn commit_id(&self) -> u64 {
        self.unique
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        // SAFETY: our own mapping of this length; the ring, by which the kernel knew of it, is gone before its entries are.
        #[allow(unsafe_code)]
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.count * (PAGE + self.payload)) };
        if let Err(error) = unmapped {
            tracing::error!("the memory of a ring cannot be given back: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: usize = 8192;

    /// What the kernel would put there.
    fn fill(entries: &Entries, entry: usize, len: usize, unique: u64, first: &[u8], payload: &[u8]) {
        let mut headers = RingHeaders {
            in_out: [0; 128],
            op_in: [0; 128],
            flags: 0,
            commit_id: unique,
            payload_sz: payload.len() as u32,
            padding: 0,
            reserved: 0,
        };
        let header = InHeader {
            len: len as u32,
            opcode: 1,
            unique,
            nodeid: 1,
            uid: 0,
            gid: 0,
            pid: 0,
            total_extlen: 0,
            padding: 0,
        };
        headers.in_out[..40].copy_from_slice(header.as_bytes());
        headers.op_in[..first.len()].copy_from_slice(first);
        #[allow(unsafe_code)]
        // SAFETY: the test is alone with the entries.
        unsafe {
            entries.headers(entry).cast::<RingHeaders>().write(headers);
            let room = payload.len().min(PAYLOAD);
            std::ptr::copy_nonoverlapping(payload.as_ptr(), entries.payload(entry), room);
        }
    }

    fn reply(entries: &Entries, unique: u64, body: &[u8]) -> io::Result<usize> {
        let claim = entries.claim(unique).ok_or(io::ErrorKind::NotFound)?;
        let header = OutHeader { len: 16 + body.len() as u32, error: 0, unique };
        entries.write(&claim, &header, &[IoSlice::new(body)])?;
        Ok(claim.entry)
    }

    #[test]
    fn a_request_is_put_together_as_the_device_gives_it() {
        let entries = Entries::new(2, PAYLOAD).unwrap();
        fill(&entries, 1, 40 + 8 + 5, 6, &[1; 8], b"name\0");
        let mut space = [9; 100];
        assert_eq!(entries.take(1, &mut space), Ok(53));
        assert_eq!(InHeader::read_from_prefix(&space).unwrap().0.unique, 6);
        assert_eq!((&space[40..48], &space[48..53], space[53]), (&[1; 8][..], &b"name\0"[..], 9));
    }

    #[test]
    fn a_request_is_answered_once_and_in_its_entry() {
        let entries = Entries::new(3, PAYLOAD).unwrap();
        let mut space = [0; 100];
        for (entry, unique) in [(2, 8), (0, 10)] {
            fill(&entries, entry, 40, unique, &[], &[]);
            entries.take(entry, &mut space).unwrap();
        }
        assert!(entries.claim(12).is_none() && entries.claim(0).is_none());
        assert_eq!(reply(&entries, 8, b"answer").unwrap(), 2);
        assert!(entries.claim(8).is_none(), "once");
        let claim = entries.claim(10).unwrap();
        assert_eq!(claim.entry, 0);
        assert!(entries.claim(10).is_none(), "by one only");
    }

    #[test]
    fn a_reply_that_is_too_long_can_be_replaced() {
        let entries = Entries::new(1, PAYLOAD).unwrap();
        fill(&entries, 0, 40, 8, &[], &[]);
        entries.take(0, &mut [0; 64]).unwrap();
        let error = reply(&entries, 8, &[0; PAYLOAD + 1]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(reply(&entries, 8, &[0; PAYLOAD]).unwrap(), 0);
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_says_stays_within_the_entry_and_the_space(
            len in prop_oneof![0..300_usize, any::<u32>().prop_map(|len| len as usize)],
            payload in prop_oneof![0..300_u32, any::<u32>()],
            unique: u64,
            room in 0..400_usize,
        ) {
            let entries = Entries::new(1, PAYLOAD).unwrap();
            fill(&entries, 0, len, unique, &[7; 128], &[]);
            #[allow(unsafe_code)]
            // SAFETY: the test is alone with the entries.
            unsafe {
                (&raw mut (*entries.headers(0).cast::<RingHeaders>()).payload_sz).write(payload);
            }
            let mut space = vec![0; room];
            match entries.take(0, &mut space) {
                Ok(taken) => prop_assert!(taken == len && len <= room && len >= 40 + payload as usize),
                Err(named) => prop_assert!(named == unique),
            }
        }
    }

    #[test]
    fn nonsense_is_found_and_can_be_answered() {
        let entries = Entries::new(1, PAYLOAD).unwrap();
        let mut space = [0; PAYLOAD + 200];
        for (len, first, payload) in
            [(39, 0, 0), (40 + 129, 0, 0), (40, 0, 1), (40 + PAYLOAD + 1, 0, PAYLOAD + 1), (1 << 30, 0, 0)]
        {
            fill(&entries, 0, len, 8, &[0; 128][..first], &vec![0; payload]);
            assert_eq!(entries.take(0, &mut space), Err(8), "{len} {payload}");
            reply(&entries, 8, b"").unwrap();
        }
        assert_eq!(entries.take(7, &mut space), Err(0));
    }
}
