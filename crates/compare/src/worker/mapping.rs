//! A read-only mapping of a file, behind a safe interface.

use std::fs::File;

use rustix::mm::{MapFlags, ProtFlags};

/// A private mapping of the first bytes of a file.
///
/// Its bytes are only reached by copying, so that no reference to memory that may change ever exists.
#[derive(Debug)]
pub struct Mapping {
    address: *mut std::ffi::c_void,
    len: usize,
}

impl Mapping {
    /// Maps `[0, len)` of `file`, which must be at least that long.
    #[allow(unsafe_code)]
    pub fn new(file: &File, len: usize) -> std::io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choosing aliases nothing; it is unmapped once, in drop.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)?
        };
        Ok(Mapping { address, len })
    }

    /// Reads one byte of each page of `[at, at + len)`: the page faults are all that this costs.
    pub fn touch(&self, at: usize, len: usize) {
        let mut sum = 0u8;
        let mut page = at;
        while page < at + len {
            let mut byte = [0];
            self.copy(page, &mut byte);
            sum = sum.wrapping_add(byte[0]);
            page += 4096;
        }
        std::hint::black_box(sum);
    }

    /// Copies what is at `at` into `buffer`.
    #[allow(unsafe_code)]
    pub fn copy(&self, at: usize, buffer: &mut [u8]) {
        assert!(
            at.checked_add(buffer.len()).is_some_and(|end| end <= self.len),
            "read outside of the mapping"
        );
        // SAFETY: the range was checked to be inside the mapping; `buffer` is ours and cannot overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.address.cast::<u8>().add(at),
                buffer.as_mut_ptr(),
                buffer.len(),
            );
        }
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: address and length are those of a live mapping that nothing else refers to.
        let _ = unsafe { rustix::mm::munmap(self.address, self.len) };
    }
}
