//! The device's two calls that are about backing files.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};

use super::BackingId;

/// `struct fuse_backing_map`.
#[repr(C)]
struct Map {
    fd: i32,
    flags: u32,
    padding: u64,
}

const _: () = assert!(size_of::<Map>() == 16);

/// `FUSE_DEV_IOC_BACKING_OPEN`.
const OPEN: Opcode = opcode::write::<Map>(229, 1);
/// `FUSE_DEV_IOC_BACKING_CLOSE`.
const CLOSE: Opcode = opcode::write::<u32>(229, 2);

/// Answers the number of the backing file, which is the call's result.
struct Open(Map);

// SAFETY: FUSE_DEV_IOC_BACKING_OPEN reads one `Map` from the address it is given, which is that of a live one, and writes
// nothing there. The result is an integer.
#[allow(unsafe_code)]
unsafe impl Ioctl for Open {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPEN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _map: *mut c_void) -> rustix::io::Result<i32> {
        Ok(number)
    }
}

fn call_open(device: BorrowedFd<'_>, fd: i32) -> rustix::io::Result<i32> {
    // SAFETY: see `Open`. A descriptor that is none makes the call fail and does no harm.
    #[allow(unsafe_code)]
    unsafe {
        ioctl::ioctl(device, Open(Map { fd, flags: 0, padding: 0 }))
    }
}

/// Gives the kernel a backing file, of which it keeps a reference of its own.
pub(in crate::session) fn open(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<BackingId> {
    Ok(BackingId(call_open(device, file.as_raw_fd())?))
}

/// Takes a backing file back.
pub(in crate::session) fn close(device: BorrowedFd<'_>, id: BackingId) -> io::Result<()> {
    let id = u32::try_from(id.0).map_err(|_| Errno::INVAL)?;
    // SAFETY: FUSE_DEV_IOC_BACKING_CLOSE reads one u32 from the address it is given.
    #[allow(unsafe_code)]
    unsafe {
        ioctl::ioctl(device, ioctl::Setter::<CLOSE, u32>::new(id))?;
    }
    Ok(())
}

/// Whether this thread may give the kernel backing files: it is asked to take one that does not exist, which it looks for
/// only after it has looked at everything else.
pub(in crate::session) fn allowed(device: BorrowedFd<'_>) -> io::Result<()> {
    match call_open(device, -1) {
        Err(Errno::BADF) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(Errno::PROTO.into()),
    }
}
