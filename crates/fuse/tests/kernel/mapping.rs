//! Mapped files.

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of a file from its start.
pub struct Mapping {
    start: *mut c_void,
    len: usize,
    writable: bool,
}

// SAFETY: what is behind the pointer is a file's, is not moved, and is read and written as bytes without any order between them.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn shared(file: &File, len: usize) -> io::Result<Mapping> {
        Self::new(file, len, MapFlags::SHARED, ProtFlags::READ)
    }

    pub fn private(file: &File, len: usize) -> io::Result<Mapping> {
        Self::new(file, len, MapFlags::PRIVATE, ProtFlags::READ)
    }

    /// Shared, and may be written to.
    pub fn writable(file: &File, len: usize) -> io::Result<Mapping> {
        Self::new(file, len, MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(file: &File, len: usize, flags: MapFlags, protection: ProtFlags) -> io::Result<Mapping> {
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        #[allow(unsafe_code)]
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, file, 0)? };
        Ok(Mapping { start, len, writable: protection.contains(ProtFlags::WRITE) })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the file has at the moment: others end the process.
    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len);
        let mut bytes = vec![0; len];
        // SAFETY: the range is within the mapping, which lives while `self` does; the copy is not a part of it. That others change the
        // file while it is read is seen as one byte or another, never as anything else.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.cast::<u8>().add(at), bytes.as_mut_ptr(), len);
        }
        bytes
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.writable && at + bytes.len() <= self.len);
        // SAFETY: as for reading; and nothing has a reference to the mapped memory.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.cast::<u8>().add(at), bytes.len());
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of the mapping, of which nothing is left.
        #[allow(unsafe_code)]
        unsafe {
            rustix::mm::munmap(self.start, self.len).unwrap();
        }
    }
}
