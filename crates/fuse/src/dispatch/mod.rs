//! One request: decode, call the file system, encode the answer.

mod answer;
mod attributes;
mod data;
mod directories;
mod encode;
mod gate;
mod names;
mod opened;
mod reply;
mod xattrs;

#[cfg(any(test, fuzzing, feature = "harness"))]
pub(crate) mod harness;
#[cfg(any(test, fuzzing, feature = "harness"))]
#[allow(dead_code, missing_docs)]
#[path = "../../tests/kernel/memory.rs"]
mod memory;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::{AbortHandle, Abortable};

use crate::abi::{Args, InHeader, InterruptIn, Opcode};
use crate::session::{Observation, RequestBuffer, Shared, Waiting, Worker, give_up_if_dying};
use crate::{Errno, FileSystem, InodeNo};
use answer::{Answer, Failure, Later, Outcome};
use reply::Reply;

/// A request that is being decoded.
struct Call<'a> {
    header: InHeader,
    /// Where its arguments are in `buffer`.
    body: Range<usize>,
    buffer: &'a mut RequestBuffer,
    shared: &'a Arc<Shared>,
}

impl Call<'_> {
    fn args(&self) -> Args<'_> {
        Args::new(self.buffer.request(self.body.end).get(self.body.start..).unwrap_or_default())
    }

    fn fs(&self) -> &dyn FileSystem {
        &*self.shared.fs
    }

    /// The inode it is about.
    fn node(&self) -> InodeNo {
        InodeNo(self.header.nodeid)
    }
}

/// Handles the request of `len` bytes in `buffer`. It is answered exactly once, now or from the runtime, even if
/// its handler panics; unless it is of a kind that has no answer.
pub(crate) fn serve(worker: &Worker, buffer: &mut RequestBuffer, len: usize) {
    let shared = &worker.shared;
    let request = buffer.request(len);
    let mut args = Args::new(request);
    let Ok(header) = args.take::<InHeader>() else {
        tracing::error!(len, "a request from the kernel is shorter than its header");
        return;
    };
    let opcode = Opcode::from_raw(header.opcode);
    let extensions = usize::from(header.total_extlen) * 8;
    let body = size_of::<InHeader>()..len.saturating_sub(extensions).max(size_of::<InHeader>());
    let whole = header.len as usize == len;
    tracing::trace!(?opcode, unique = header.unique, node = header.nodeid, len, "request");

    let observation = opcode.map(|opcode| shared.observer.begin(&header, opcode, args));
    if let Some(observation) = &observation
        && observation.opcode.silent()
    {
        note(shared, observation, &header, args);
        return shared.observer.end(observation, None, 0);
    }

    shared.interrupts.begin(worker.index, header.unique);
    let reply = Reply::new(Arc::clone(&worker.connection), header.unique, observation);
    let Some(opcode) = opcode else {
        return reply.error(Errno::ENOSYS);
    };
    if !whole {
        tracing::error!(?opcode, said = header.len, len, "a request from the kernel has the wrong length");
        return reply.error(Errno::EIO);
    }
    let mut call = Call { header, body, buffer, shared };
    match gate::admitted(opcode, &mut call) {
        Ok(Answer::Later(later)) => settle(worker, &header, later, reply),
        outcome => reply.finish(outcome),
    }
}

/// Takes in what the kernel wants no answer to.
fn note(shared: &Arc<Shared>, observation: &Observation, header: &InHeader, mut args: Args<'_>) {
    match observation.opcode {
        Opcode::Interrupt => {
            if let Ok(interrupt) = args.take::<InterruptIn>() {
                shared.interrupts.interrupt(shared, interrupt.unique);
            }
        }
        Opcode::Forget => names::forget(shared, header.nodeid, args),
        Opcode::BatchForget => names::batch_forget(shared, args),
        _ => {}
    }
}

fn route(opcode: Opcode, call: &mut Call<'_>) -> Outcome {
    match opcode {
        Opcode::Lookup => names::lookup(call),
        Opcode::Getattr => attributes::getattr(call),
        Opcode::Setattr => attributes::setattr(call),
        Opcode::Statx => attributes::statx(call),
        Opcode::Statfs => attributes::statfs(call),
        Opcode::Readlink => names::readlink(call),
        Opcode::Symlink => names::symlink(call),
        Opcode::Mknod => names::mknod(call),
        Opcode::Mkdir => names::mkdir(call),
        Opcode::Unlink => names::unlink(call),
        Opcode::Rmdir => names::rmdir(call),
        Opcode::Rename => names::rename(call),
        Opcode::Rename2 => names::rename2(call),
        Opcode::Link => names::link(call),
        Opcode::Create => names::create(call),
        Opcode::Tmpfile => names::tmpfile(call),
        Opcode::Open => data::open(call),
        Opcode::Read => data::read(call),
        Opcode::Write => data::write(call),
        Opcode::Flush => data::flush(call),
        Opcode::Fsync => data::fsync(call),
        Opcode::Release => data::release(call),
        Opcode::Fallocate => data::fallocate(call),
        Opcode::Lseek => data::lseek(call),
        Opcode::CopyFileRange => data::copy_file_range(call),
        Opcode::CopyFileRange64 => data::copy_file_range_64(call),
        Opcode::Syncfs => data::syncfs(call),
        Opcode::Opendir => directories::opendir(call),
        Opcode::Readdir => directories::readdir(call, false),
        Opcode::Readdirplus => directories::readdir(call, true),
        Opcode::Releasedir => directories::releasedir(call),
        Opcode::Fsyncdir => directories::fsyncdir(call),
        Opcode::Setxattr => xattrs::setxattr(call),
        Opcode::Getxattr => xattrs::getxattr(call),
        Opcode::Listxattr => xattrs::listxattr(call),
        Opcode::Removexattr => xattrs::removexattr(call),
        Opcode::Destroy => Ok(Answer::Empty),
        // No ioctl is known; programs that try one (lsattr) expect this and not ENOSYS.
        Opcode::Ioctl => Err(Errno::ENOTTY.into()),
        // Once told, the kernel does these by itself: it checks permissions, polls as for any regular file, and
        // keeps the locks.
        Opcode::Access
        | Opcode::Poll
        | Opcode::Bmap
        | Opcode::Getlk
        | Opcode::Setlk
        | Opcode::Setlkw
        | Opcode::Setupmapping
        | Opcode::Removemapping => Err(Failure::NotImplemented),
        // INIT comes once, and was answered. The others have no answer and never get here.
        Opcode::Init | Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::NotifyReply => {
            Err(Errno::EIO.into())
        }
    }
}

/// Polls a call that may have to wait once, here; what is not ready moves to the runtime with its reply.
fn settle(worker: &Worker, header: &InHeader, later: Later, reply: Reply) {
    let Later { mut future, interruptible } = later;
    // The real waker is given when the task polls for the first time, which it does at once.
    if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return reply.finish(outcome);
    }
    let shared = &worker.shared;
    let (abort, registration) = AbortHandle::new_pair();
    let waiting = Waiting { tid: header.pid, abort };
    let moved = Moved::new(Arc::clone(shared), header.unique);
    let interrupted = interruptible && shared.interrupts.enter(worker.index, header.unique, waiting.clone());
    shared.runtime.spawn(async move {
        let _moved = moved;
        let outcome = Abortable::new(future, registration).await;
        match outcome {
            Ok(outcome) => reply.finish(outcome),
            Err(_aborted) => reply.error(Errno::EINTR),
        }
    });
    if interrupted {
        give_up_if_dying(shared, header.unique, &waiting);
    }
}

/// Accounts for a request on the runtime, however it ends.
struct Moved {
    shared: Arc<Shared>,
    unique: u64,
}

impl Moved {
    fn new(shared: Arc<Shared>, unique: u64) -> Self {
        shared.in_flight.begin();
        Moved { shared, unique }
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        self.shared.interrupts.leave(self.unique);
        self.shared.in_flight.end();
    }
}
