//! Shared memory mappings of files, behind a safe interface.

use std::os::fd::AsFd;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// A `MAP_SHARED` mapping of a whole file range, readable and writable.
///
/// The mapped bytes are only reached by copying in and out, so that no reference to memory that another process may
/// change ever exists.
#[derive(Debug)]
pub struct SharedMapping {
    address: *mut std::ffi::c_void,
    len: usize,
}

impl SharedMapping {
    /// Maps `[0, len)` of `file`, which must be open for reading and writing and at least `len` bytes long.
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn new(file: impl AsFd, len: usize) -> std::io::Result<SharedMapping> {
        SharedMapping::with(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same of a file that need only be open for reading; writing to it is a mistake that ends the process.
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn read_only(file: impl AsFd, len: usize) -> std::io::Result<SharedMapping> {
        SharedMapping::with(file, len, ProtFlags::READ)
    }

    #[allow(unsafe_code)]
    fn with(file: impl AsFd, len: usize, access: ProtFlags) -> std::io::Result<SharedMapping> {
        // SAFETY: a new mapping at an address of the kernel's choosing aliases nothing; it is unmapped once, in drop.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        Ok(SharedMapping { address, len })
    }

    /// Stores `bytes` at `offset`. The file must still reach that far (a page past its end is a SIGBUS).
    #[allow(unsafe_code)]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len),
            "write outside of the mapping"
        );
        // SAFETY: the range was checked to be inside the mapping; `bytes` is ours and cannot overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address.cast::<u8>().add(offset), bytes.len())
        }
    }

    /// Copies `len` bytes at `offset` out. The file must still reach that far.
    #[allow(unsafe_code)]
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "read outside of the mapping");
        let mut bytes = vec![0; len];
        // SAFETY: the range was checked to be inside the mapping; `bytes` is ours and cannot overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.address.cast::<u8>().add(offset), bytes.as_mut_ptr(), len)
        }
        bytes
    }

    /// `msync(MS_SYNC)` of the whole mapping.
    ///
    /// # Errors
    /// What `msync` answers.
    #[allow(unsafe_code)]
    pub fn sync(&self) -> std::io::Result<()> {
        // SAFETY: address and length are those of a live mapping.
        unsafe { rustix::mm::msync(self.address, self.len, MsyncFlags::SYNC)? }
        Ok(())
    }
}

impl Drop for SharedMapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: address and length are those of a live mapping that nothing else refers to.
        let unmapped = unsafe { rustix::mm::munmap(self.address, self.len) };
        if let Err(error) = unmapped {
            eprintln!("munmap failed: {error}");
        }
    }
}

// SAFETY: the mapping is reached only by copies through a raw pointer; the kernel keeps it valid in every thread.
#[allow(unsafe_code)]
unsafe impl Send for SharedMapping {}
