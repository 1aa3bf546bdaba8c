//! Names: finding, making, moving and removing them; and references.

use std::sync::Arc;

use headrace_vfs::is_shown;

use super::answer::{Answer, Outcome};
use super::opened::Opened;
use super::{Call, encode};
use crate::abi::{
    Args, BatchForgetIn, CreateIn, ForgetIn, ForgetOne, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn, rename,
};
use crate::session::Shared;
use crate::{Attr, Caller, Errno, FileId, InodeNo, Kind, OpenMode, RenameMode};

fn entry(call: &Call<'_>, found: &Attr) -> Answer {
    Answer::of(&encode::entry(found, &call.shared.view))
}

fn caller(call: &Call<'_>, umask: u32) -> Caller {
    Caller { uid: call.header.uid, gid: call.header.gid, umask: permissions(umask) }
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

pub(super) fn lookup(call: &Call<'_>) -> Outcome {
    let name = call.args().name()?;
    match call.fs().lookup(call.node(), name) {
        Ok(found) => Ok(entry(call, &found)),
        Err(Errno::ENOENT) if !call.shared.view.negative(call.node()).is_zero() => {
            Ok(Answer::of(&encode::no_entry(call.shared.view.negative(call.node()))))
        }
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn forget(shared: &Shared, node: u64, mut args: Args<'_>) {
    if let Ok(forget) = args.take::<ForgetIn>() {
        shared.fs.forget(InodeNo(node), forget.nlookup);
    }
}

pub(super) fn batch_forget(shared: &Shared, mut args: Args<'_>) {
    let Ok(batch) = args.take::<BatchForgetIn>() else { return };
    for _ in 0..batch.count {
        let Ok(one) = args.take::<ForgetOne>() else { return };
        shared.fs.forget(InodeNo(one.nodeid), one.nlookup);
    }
}

pub(super) fn readlink(call: &Call<'_>) -> Outcome {
    Ok(Answer::Owned(call.fs().readlink(call.node())?))
}

pub(super) fn symlink(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let name = args.name()?;
    let target = args.name()?;
    let made = call.fs().symlink(call.node(), name, target, &caller(call, 0))?;
    Ok(entry(call, &made))
}

pub(super) fn mknod(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: MknodIn = args.take()?;
    let name = args.name()?;
    let kind = encode::kind_of(arg.mode).ok_or(Errno::EINVAL)?;
    let rdev = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { arg.rdev } else { 0 };
    let made =
        call.fs().mknod(call.node(), name, kind, permissions(arg.mode), rdev, &caller(call, arg.umask))?;
    Ok(entry(call, &made))
}

pub(super) fn mkdir(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: MkdirIn = args.take()?;
    let name = args.name()?;
    let caller = caller(call, arg.umask);
    let made = call.fs().mknod(call.node(), name, Kind::Directory, permissions(arg.mode), 0, &caller)?;
    Ok(entry(call, &made))
}

pub(super) fn create(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: CreateIn = args.take()?;
    let name = args.name()?;
    let caller = caller(call, arg.umask);
    // The kernel holds the directory and has just looked the name up, so there is nothing here to truncate or to
    // clear setuid from, whatever the flags say.
    let (made, file, mode) =
        call.fs().create(call.node(), name, permissions(arg.mode), arg.flags.cast_signed(), &caller)?;
    created(call, &made, file, mode)
}

pub(super) fn tmpfile(call: &Call<'_>) -> Outcome {
    // A placeholder for a name follows, which means nothing.
    let arg: CreateIn = call.args().take()?;
    let caller = caller(call, arg.umask);
    let (made, file, mode) =
        call.fs().tmpfile(call.node(), permissions(arg.mode), arg.flags.cast_signed(), &caller)?;
    created(call, &made, file, mode)
}

/// An entry and an open file in one answer.
fn created(call: &Call<'_>, made: &Attr, file: FileId, mode: OpenMode) -> Outcome {
    let open = Opened { ino: made.ino, file, entry: true };
    let reply = open.tell(call.shared, mode)?;
    Ok(Answer::pair(&encode::entry(made, &call.shared.view), &reply).telling_of(open))
}

pub(super) fn unlink(call: &Call<'_>) -> Outcome {
    call.fs().unlink(call.node(), call.args().name()?)?;
    Ok(Answer::Empty)
}

pub(super) fn rmdir(call: &Call<'_>) -> Outcome {
    call.fs().rmdir(call.node(), call.args().name()?)?;
    Ok(Answer::Empty)
}

pub(super) fn link(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: LinkIn = args.take()?;
    let name = args.name()?;
    let linked = call.fs().link(InodeNo(arg.oldnodeid), call.node(), name)?;
    Ok(entry(call, &linked))
}

pub(super) fn rename(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: RenameIn = args.take()?;
    rename_to(call, args, arg.newdir, RenameMode::Replace)
}

pub(super) fn rename2(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: Rename2In = args.take()?;
    let mode = match arg.flags {
        0 => RenameMode::Replace,
        rename::NOREPLACE => RenameMode::NoReplace,
        rename::EXCHANGE => RenameMode::Exchange,
        // RENAME_WHITEOUT among them: a whiteout is a device that only an overlay's upper layer needs.
        _ => return Err(Errno::EINVAL.into()),
    };
    rename_to(call, args, arg.newdir, mode)
}

fn rename_to(call: &Call<'_>, mut args: Args<'_>, new_parent: u64, mode: RenameMode) -> Outcome {
    let name = args.name()?;
    let new_name = args.name()?;
    let renamed = call.fs().rename(call.node(), name, InodeNo(new_parent), new_name, mode);
    let moved_out = is_shown(call.node()).then(|| Arc::clone(call.shared));
    Answer::later(renamed, true, move |()| {
        if let Some(shared) = moved_out {
            shared.fs.take_renewed().into_iter().for_each(|ino| shared.view.renew(ino));
        }
        Answer::Empty
    })
}
