//! Requests without a kernel: a worker whose answers are taken down and checked, or only counted.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::memory::MemFs;
use crate::FileSystem;
use crate::abi::{InHeader, InitFlags, Opcode, OutHeader};
use crate::session::{BufferPool, Received, RequestBuffer, Shared, Transport, View, Worker};

/// Room for one request, bytes.
const SPACE: usize = 1 << 20;

/// Takes down what is sent, or only that something was.
struct Recorder {
    keep: bool,
    /// Errors to give in place of taking what is sent.
    refuse: AtomicI32,
    sent: AtomicUsize,
    messages: Mutex<Vec<Vec<u8>>>,
}

impl Transport for Recorder {
    fn receive(&self, _space: &mut [u8]) -> io::Result<Received> {
        Ok(Received::Ended)
    }

    fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let refused = self.refuse.load(Ordering::Relaxed);
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        if self.keep {
            let pieces: Vec<&[u8]> = message.iter().map(|piece| &**piece).collect();
            self.messages.lock().push(pieces.concat());
        }
        Ok(())
    }
}

/// Stands for the kernel.
pub struct Kernel {
    worker: Worker,
    recorder: Arc<Recorder>,
    buffer: RequestBuffer,
    unique: u64,
    runtime: Runtime,
}

impl Default for Kernel {
    fn default() -> Self {
        Kernel::new(true)
    }
}

impl Kernel {
    /// A fresh file system in memory; `setxattr_ext`: what was agreed on the form of SETXATTR.
    ///
    /// # Panics
    /// When there is no runtime to be had.
    pub fn new(setxattr_ext: bool) -> Kernel {
        let mut agreed = InitFlags::NO_OPENDIR_SUPPORT;
        agreed.set(InitFlags::SETXATTR_EXT, setxattr_ext);
        Kernel::with(Arc::new(MemFs::new(true)), agreed, true)
    }

    /// One that takes down the answers of `fs`.
    #[cfg(test)]
    pub(super) fn of(fs: &MemFs) -> Kernel {
        Kernel::with(Arc::new(fs.clone()), InitFlags::SETXATTR_EXT, true)
    }

    /// `fs`, whose answers are counted and not looked at, so that what is measured is the front end and not this.
    ///
    /// # Panics
    /// When there is no runtime to be had.
    #[cfg(feature = "harness")]
    pub fn over(fs: Arc<dyn FileSystem>) -> Kernel {
        Kernel::with(fs, InitFlags::NO_OPENDIR_SUPPORT | InitFlags::SETXATTR_EXT, false)
    }

    fn with(fs: Arc<dyn FileSystem>, agreed: InitFlags, keep: bool) -> Kernel {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let recorder = Arc::new(Recorder {
            keep,
            refuse: AtomicI32::new(0),
            sent: AtomicUsize::new(0),
            messages: Mutex::default(),
        });
        let pool = BufferPool::new(SPACE);
        let transport: Arc<dyn Transport> = Arc::clone(&recorder) as Arc<dyn Transport>;
        let view = View::new(true, Duration::ZERO);
        let shared = Shared::new(fs, view, agreed, runtime.handle().clone(), &[Arc::clone(&transport)]);
        let buffer = pool.request_buffer();
        Kernel { worker: Worker::new(0, transport, shared, pool), recorder, buffer, unique: 0, runtime }
    }

    /// Sends a request whose header says `wrong_by` bytes more than there are. False: it waits (the file system has files that
    /// are slow or hang), so that this kernel is of no more use.
    ///
    /// # Panics
    /// Unless there is exactly one well-formed answer, or none where the opcode has none.
    pub fn request(
        &mut self,
        opcode: u32,
        nodeid: u64,
        total_extlen: u16,
        wrong_by: i32,
        body: &[u8],
    ) -> bool {
        self.unique += 2;
        let unique = self.unique;
        let body = &body[..body.len().min(SPACE - size_of::<InHeader>())];
        let len = size_of::<InHeader>() + body.len();
        let said = (len as u32).saturating_add_signed(wrong_by);
        let header =
            InHeader { len: said, opcode, unique, nodeid, uid: 1, gid: 1, pid: 1, total_extlen, padding: 0 };
        self.send(&[header.as_bytes(), body].concat());
        if !self.idle() {
            return false;
        }
        let mut answers = 0;
        for message in &std::mem::take(&mut *self.recorder.messages.lock()) {
            let (out, rest) = OutHeader::read_from_prefix(message).expect("an answer has a header");
            assert_eq!(out.len as usize, message.len());
            if out.unique == unique {
                answers += 1;
                assert!((-511..=0).contains(&out.error), "{}", out.error);
                assert!(out.error == 0 || rest.is_empty());
            } else {
                // A notification, or the answer to an INTERRUPT.
                assert!(out.unique == 0 || out.unique & 1 == 1);
            }
        }
        let silent = Opcode::from_raw(opcode).is_some_and(Opcode::silent);
        assert_eq!(answers, usize::from(!silent), "{:?}", Opcode::from_raw(opcode));
        true
    }

    /// Sends bytes as they are; how many answers came.
    pub fn send_raw(&mut self, bytes: &[u8]) -> usize {
        self.send(bytes);
        self.recorder.messages.lock().clear();
        self.recorder.sent.swap(0, Ordering::Relaxed)
    }

    /// A request whose answer this kernel does not take, with that error. What is done then has been done at the end.
    #[cfg(test)]
    pub(super) fn refused(&mut self, errno: i32, opcode: Opcode, nodeid: u64, body: &[u8]) {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let opcode = opcode as u32;
        let header =
            InHeader { len, opcode, unique: 2, nodeid, uid: 1, gid: 1, pid: 1, total_extlen: 0, padding: 0 };
        self.recorder.refuse.store(errno, Ordering::Relaxed);
        self.send(&[header.as_bytes(), body].concat());
        self.recorder.refuse.store(0, Ordering::Relaxed);
        let metrics = self.runtime.metrics();
        while metrics.num_alive_tasks() > 0 {
            self.runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Whether nothing is being worked on.
    pub fn idle(&self) -> bool {
        self.worker.shared.in_flight.wait_idle(Instant::now())
    }

    fn send(&mut self, bytes: &[u8]) {
        let _entered = self.runtime.enter();
        self.buffer.space()[..bytes.len()].copy_from_slice(bytes);
        super::serve(&self.worker, &mut self.buffer, bytes.len());
    }
}
