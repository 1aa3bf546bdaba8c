//! Mounting as an ordinary user: the setuid helper `fusermount3` mounts and passes the connection back.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketFlags,
    SocketType, recvmsg, socketpair,
};

use super::{MountError, MountOptions, UnmountError};

const PROGRAM: &str = "fusermount3";

/// Mounts through the helper.
pub(super) fn mount(path: &Path, options: &MountOptions, max_read: u32) -> Result<OwnedFd, MountError> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| MountError::Helper(errno.to_string()))?;
    // The helper's end travels as its standard input, so that no other child of this process can inherit it.
    let output = Command::new(PROGRAM)
        .arg("-o")
        .arg(options.helper_list(max_read))
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs))
        .output()
        .map_err(|error| MountError::Helper(cannot_run(&error)))?;
    if !output.status.success() {
        return Err(MountError::Helper(complaint(&output)));
    }
    receive(&ours).ok_or_else(|| MountError::Helper("it passed no connection back".to_owned()))
}

/// Unmounts through the helper.
pub(super) fn unmount(path: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let other = |reason| UnmountError::Other { path: path.to_owned(), reason };
    let output = command.arg("--").arg(path).output().map_err(|error| other(cannot_run(&error)))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = complaint(&output);
    // The helper has no exit codes to tell by.
    Err(if complaint.contains("busy") {
        UnmountError::Busy(path.to_owned())
    } else if complaint.contains("not found in") || complaint.contains("not mounted") {
        UnmountError::NotMounted(path.to_owned())
    } else {
        other(complaint)
    })
}

fn cannot_run(error: &std::io::Error) -> String {
    format!("cannot be run: {error}; an ordinary user needs it to mount (package fuse3)")
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.trim().trim_start_matches("fusermount3: ");
    if text.is_empty() { format!("failed ({})", output.status) } else { text.to_owned() }
}

fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut byte = [0_u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        match recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.ok()?,
        }
    };
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return None;
    }
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}
