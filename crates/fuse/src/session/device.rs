//! /dev/fuse.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, opcode};

use super::affinity;
use super::backing::{self, BackingId};
use super::transport::{Received, Transport};

/// A descriptor of the device, attached to a connection.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
}

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: ioctl::Opcode = opcode::read::<u32>(229, 0);

impl Device {
    pub fn new(fd: OwnedFd) -> Self {
        Device { fd }
    }

    /// One device per worker. Each clone has its own queue in the kernel for requests being worked on, so that
    /// replies from different threads do not contend. Where cloning is not allowed they share one.
    pub fn into_workers(self, count: usize) -> Vec<Device> {
        let mut clones = Vec::with_capacity(count);
        for _ in 1..count {
            let clone = self.cloned().or_else(|error| {
                tracing::debug!(%error, "the FUSE connection cannot be cloned: workers share a descriptor");
                self.fd.try_clone()
            });
            match clone {
                Ok(fd) => clones.push(Device { fd }),
                Err(error) => tracing::warn!("fewer FUSE worker threads: {error}"),
            }
        }
        clones.push(self);
        clones
    }

    /// The same descriptor once more.
    pub fn again(&self) -> io::Result<Device> {
        Ok(Device { fd: self.fd.try_clone()? })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn cloned(&self) -> io::Result<OwnedFd> {
        let fd = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let mut source = u32::try_from(self.fd.as_raw_fd()).map_err(|_| Errno::BADF)?;
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, the descriptor to join, from the address it is given.
        #[allow(unsafe_code)]
        unsafe {
            ioctl::ioctl(&fd, ioctl::Updater::<CLONE, u32>::new(&mut source))?;
        }
        Ok(fd)
    }
}

impl Transport for Device {
    fn receive(&self, space: &mut [u8]) -> io::Result<Received> {
        match rustix::io::read(&self.fd, space) {
            Ok(0) => Ok(Received::Ended),
            Ok(len) => Ok(Received::Request(len)),
            // ENOENT: the request was interrupted before it could be handed over.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Nothing),
            // Unmounted, or aborted (ABORT_ERROR).
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::Ended),
            Err(errno) => Err(errno.into()),
        }
    }

    fn by_turns(&self) -> bool {
        true
    }

    fn connected(&self) -> bool {
        let mut asked = [PollFd::new(&self.fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match rustix::event::poll(&mut asked, Some(&now)) {
            Ok(_) => !asked.iter().any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP)),
            Err(_) => true,
        }
    }

    fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        // A message is taken whole or not at all.
        loop {
            match affinity::hand_over(|| rustix::io::writev(&self.fd, message)) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn backing_allowed(&self) -> io::Result<()> {
        backing::allowed(self.fd.as_fd())
    }

    fn open_backing(&self, file: BorrowedFd<'_>) -> io::Result<BackingId> {
        backing::open(self.fd.as_fd(), file)
    }

    fn close_backing(&self, id: BackingId) -> io::Result<()> {
        backing::close(self.fd.as_fd(), id)
    }
}
