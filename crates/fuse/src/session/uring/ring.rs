//! One ring and the thread that serves it.
//!
//! The kernel hands a request to the ring of the processor that its caller runs on, and runs what it has to do for an entry in the thread that
//! submitted the entry's last command. So that thread alone submits, and stays on its processor: a request and its reply wake nobody
//! elsewhere. Replies from other threads are written into their entries there and then, and *posted* for the ring's thread to submit.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use io_uring::squeue::{Entry, Entry128};
use io_uring::{IoUring, cqueue, opcode, types};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::entries::{Claim, Entries};
use crate::abi::{OutHeader, RingCommand, ring_command};
use crate::session::affinity::{BULKY, Standing};
use crate::session::device::Device;
use crate::session::transport::{Received, Transport};

/// Marks the completion that tells of posted replies; entries are numbered from 0.
const POSTED: u64 = u64::MAX;
/// Commands that fail in a way not foreseen before the ring is given up.
const FAILURES: u32 = 64;

/// A ring, and the requests that came by it.
pub(crate) struct Ring {
    // Before the entries, so that the kernel has none of them when their memory goes.
    io: Mutex<Io>,
    entries: Entries,
    /// Of each entry.
    queues: Vec<u16>,
    processor: usize,
    /// Any descriptor of the connection.
    device: Arc<Device>,
    owner: OnceLock<ThreadId>,
    /// Entries with replies of other threads.
    posted: Mutex<Vec<Claim>>,
    /// Readable when `posted` is to be looked at.
    event: OwnedFd,
    signalled: AtomicBool,
    closed: AtomicBool,
}

/// What only the ring's thread uses.
struct Io {
    ring: IoUring<Entry128, cqueue::Entry>,
    started: bool,
    failures: u32,
    /// From the start of the thread on.
    standing: Option<Standing>,
    /// The request that was taken last, or its reply, has much data.
    bulky: bool,
}

impl Ring {
    /// A ring whose entries are of these queues, to be served on `processor`. Nothing is submitted yet.
    pub fn new(device: Arc<Device>, processor: usize, queues: Vec<u16>, payload: usize) -> io::Result<Ring> {
        let entries = Entries::new(queues.len(), payload)?;
        // One command for each entry is under way at most, and one for what is posted.
        let commands = u32::try_from(queues.len() + 1).unwrap_or(u32::MAX).next_power_of_two();
        let ring = IoUring::<Entry128, cqueue::Entry>::builder()
            .setup_submit_all()
            .setup_cqsize(2 * commands)
            .build(commands)?;
        Ok(Ring {
            io: Mutex::new(Io { ring, started: false, failures: 0, standing: None, bulky: false }),
            entries,
            queues,
            processor,
            device,
            owner: OnceLock::new(),
            posted: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            signalled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// In the ring's thread, once.
    fn start(&self, io: &mut Io) -> io::Result<()> {
        io.started = true;
        io.standing = Some(Standing::new());
        let _ = self.owner.set(std::thread::current().id());
        let mut here = rustix::thread::CpuSet::new();
        if self.processor < rustix::thread::CpuSet::MAX_CPU {
            here.set(self.processor);
            // Where that is not allowed it is a little slower.
            if let Err(error) = rustix::thread::sched_setaffinity(None, &here) {
                tracing::debug!(%error, processor = self.processor, "the thread of a ring stays nowhere in particular");
            }
        }
        for entry in 0..self.entries.count() {
            self.register(io, entry)?;
        }
        self.watch(io)
    }

    fn register(&self, io: &mut Io, entry: usize) -> io::Result<()> {
        let vectors = self.entries.vectors(entry).ok_or(io::ErrorKind::InvalidInput)?;
        self.command(io, entry, ring_command::REGISTER, 0, Some(vectors))
    }

    fn command(
        &self,
        io: &mut Io,
        entry: usize,
        what: u32,
        commit_id: u64,
        vectors: Option<u64>,
    ) -> io::Result<()> {
        let qid = self.queues.get(entry).copied().unwrap_or_default();
        let arguments = RingCommand { flags: 0, commit_id, qid, padding: [0; 6] };
        let mut cmd = [0; 80];
        if let Some(room) = cmd.get_mut(..size_of::<RingCommand>()) {
            room.copy_from_slice(arguments.as_bytes());
        }
        let command = opcode::UringCmd80::new(types::Fd(self.device.as_fd().as_raw_fd()), what)
            .cmd(cmd)
            .addr(vectors)
            .build()
            .user_data(entry as u64);
        push(io, if vectors.is_some() { with_two_vectors(command) } else { command })
    }

    /// Asks to be woken when something is posted.
    fn watch(&self, io: &mut Io) -> io::Result<()> {
        let readable = u32::from(rustix::event::PollFlags::IN.bits());
        let poll =
            opcode::PollAdd::new(types::Fd(self.event.as_raw_fd()), readable).build().user_data(POSTED);
        push(io, Entry128::from(poll))
    }

    fn submit_posted(&self, io: &mut Io) -> io::Result<()> {
        if !self.signalled.load(Ordering::Acquire) {
            return Ok(());
        }
        // Before looking: what is posted from here on signals again.
        self.signalled.store(false, Ordering::SeqCst);
        for claim in std::mem::take(&mut *self.posted.lock()) {
            self.command(io, claim.entry, ring_command::COMMIT_AND_FETCH, claim.commit_id(), None)?;
        }
        Ok(())
    }

    fn signal(&self) {
        if !self.signalled.swap(true, Ordering::SeqCst)
            // A full counter is readable as well.
            && let Err(error) = rustix::io::write(&self.event, &1_u64.to_ne_bytes())
            && error != rustix::io::Errno::AGAIN
        {
            tracing::error!("the thread of a ring cannot be woken: {error}");
        }
    }

    /// What the command for an entry came to.
    fn completed(&self, io: &mut Io, completion: &cqueue::Entry, space: &mut [u8]) -> io::Result<Received> {
        let data = completion.user_data();
        if data == POSTED {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            self.watch(io)?;
            return Ok(Received::Nothing);
        }
        let entry = data as usize;
        match -completion.result() {
            0 => match self.entries.take(entry, space) {
                Ok(len) => {
                    io.bulky = len >= BULKY;
                    Ok(Received::Request(len))
                }
                Err(unique) => {
                    tracing::error!(unique, "the kernel put a request into a ring that makes no sense");
                    let header = OutHeader { len: size_of::<OutHeader>() as u32, error: -libc::EIO, unique };
                    if let Some(claim) = self.entries.claim(unique) {
                        self.entries.write(&claim, &header, &[])?;
                        self.command(io, entry, ring_command::COMMIT_AND_FETCH, unique, None)?;
                    }
                    Ok(Received::Nothing)
                }
            },
            libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED => Ok(Received::Ended),
            // Its request is over: the entry takes another.
            error => {
                io.failures += 1;
                if io.failures > FAILURES || error == libc::EOPNOTSUPP || error == libc::EINVAL {
                    return Err(io::Error::from_raw_os_error(error));
                }
                tracing::debug!(error, entry, "a command to the kernel failed: registering its entry again");
                self.register(io, entry)?;
                Ok(Received::Nothing)
            }
        }
    }

    fn is_owner(&self) -> bool {
        self.owner.get().is_some_and(|owner| *owner == std::thread::current().id())
    }
}

impl Transport for Ring {
    fn receive(&self, space: &mut [u8]) -> io::Result<Received> {
        let io = &mut *self.io.lock();
        if !io.started {
            self.start(io)?;
        }
        if self.closed.load(Ordering::Acquire) {
            return Ok(Received::Ended);
        }
        self.submit_posted(io)?;
        if !io.ring.submission().is_empty() {
            let Io { ring, standing, bulky, .. } = &mut *io;
            // With much to copy on both sides, two processors are better than one.
            match standing {
                Some(standing) if !std::mem::take(bulky) => standing.lowered(|| submit(ring, 0))?,
                _ => submit(ring, 0)?,
            }
        }
        if io.ring.completion().is_empty() {
            submit(&mut io.ring, 1)?;
        }
        let completion = io.ring.completion().next();
        completion.map_or(Ok(Received::Nothing), |completion| self.completed(io, &completion, space))
    }

    fn replaceable(&self) -> bool {
        false
    }

    fn connected(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.device.connected()
    }

    fn flush(&self) {
        let io = &mut *self.io.lock();
        if io.started
            && let Err(error) = self.submit_posted(io).and_then(|()| submit(&mut io.ring, 0))
        {
            tracing::error!("replies in a ring cannot be submitted: {error}");
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal();
    }

    fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        let Some((first, parts)) = message.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let header = OutHeader::read_from_bytes(first).map_err(|_| io::ErrorKind::InvalidInput)?;
        // As the device says it of requests that it does not know.
        let unknown = || io::Error::from_raw_os_error(libc::ENOENT);
        let claim = self.entries.claim(header.unique).ok_or_else(unknown)?;
        self.entries.write(&claim, &header, parts)?;
        if self.is_owner() {
            let io = &mut *self.io.lock();
            io.bulky |= header.len as usize >= BULKY;
            return self.command(io, claim.entry, ring_command::COMMIT_AND_FETCH, claim.commit_id(), None);
        }
        self.posted.lock().push(claim);
        self.signal();
        Ok(())
    }
}

/// Submits what is to be submitted, and waits until so many commands are complete.
fn submit(ring: &mut IoUring<Entry128, cqueue::Entry>, complete: usize) -> io::Result<()> {
    match ring.submit_and_wait(complete) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn push(io: &mut Io, command: Entry128) -> io::Result<()> {
    // SAFETY: a command refers to entries, which live until the ring is gone, or to nothing.
    #[allow(unsafe_code)]
    let pushed = unsafe { io.ring.submission().push(&command) };
    // There is room for one command of each entry.
    pushed.map_err(|_| io::Error::other("a ring has no room for a command"))
}

/// The command with its `len` set, which the library leaves at 0: how many vectors `addr` points at.
fn with_two_vectors(mut command: Entry128) -> Entry128 {
    const LEN: usize = 24;
    const _: () =
        assert!(size_of::<Entry128>() == 128 && size_of::<Entry>() == 64 && align_of::<Entry128>() >= 4);
    // SAFETY: Entry128 is a `struct io_uring_sqe` with 64 bytes behind it, in which `len` is four bytes at 24.
    #[allow(unsafe_code)]
    unsafe {
        (&raw mut command).cast::<u8>().add(LEN).cast::<u32>().write(2);
    }
    command
}
