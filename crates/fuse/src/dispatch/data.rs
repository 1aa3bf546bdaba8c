//! Open files and their bytes.

use std::sync::Arc;

use bytes::Bytes;

use super::Call;
use super::answer::{Answer, Outcome};
use super::opened::Opened;
use crate::abi::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, FlushIn, FsyncFlags, FsyncIn, LseekIn, LseekOut,
    OpenRequest, ReadIn, ReleaseIn, WriteFlags, WriteIn, WriteOut,
};
use crate::{Errno, FileId, InodeNo, Pending, ReadReply, SetAttr};

/// Answers that do not fit `COPY_FILE_RANGE`'s 32 bits are kept within whole pages of it.
const COPY_MAX_32: u64 = 0xffff_f000;

pub(super) fn open(call: &Call<'_>) -> Outcome {
    let arg: OpenRequest = call.args().take()?;
    let (file, mode) = call.fs().open(call.node(), arg.flags.cast_signed())?;
    let open = Opened { ino: call.node(), file, entry: false };
    let reply = open.tell(call.shared, mode)?;
    Ok(Answer::of(&reply).telling_of(open))
}

pub(super) fn read(call: &Call<'_>) -> Outcome {
    let arg: ReadIn = call.args().take()?;
    let pending = call.fs().read(call.node(), FileId(arg.fh), arg.offset, arg.size);
    let size = arg.size as usize;
    Answer::later(pending, true, move |pieces| Answer::Pieces(at_most(pieces, size)))
}

/// The kernel refuses more than it asked for.
fn at_most(mut pieces: ReadReply, size: usize) -> ReadReply {
    let mut room = size;
    for piece in &mut pieces {
        piece.truncate(room);
        room -= piece.len();
    }
    pieces.retain(|piece: &Bytes| !piece.is_empty());
    pieces
}

pub(super) fn write(call: &mut Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: WriteIn = args.take()?;
    let size = arg.size as usize;
    args.bytes(size)?;
    if arg.offset.checked_add(u64::from(arg.size)).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Errno::new(libc::EFBIG).into());
    }
    let start = call.body.start + size_of::<WriteIn>();
    let data = call.buffer.detach(start..start + size);
    let kill_suid = WriteFlags::from_bits_truncate(arg.write_flags).contains(WriteFlags::KILL_SUIDGID);
    let pending = call.fs().write(call.node(), FileId(arg.fh), arg.offset, data, kill_suid);
    let asked = arg.size;
    let ino = call.node();
    let shared = Arc::clone(call.shared);
    Answer::later(pending, true, move |written| {
        // The kernel does not look at the mode again after a write. Before the writer goes on it must, or it would
        // run the changed program with the privilege of the old one.
        if kill_suid && shared.view.is_privileged(ino) {
            shared.notifier.attributes_changed(ino);
        }
        Answer::of(&WriteOut { size: written.min(asked), padding: 0 })
    })
}

pub(super) fn flush(call: &Call<'_>) -> Outcome {
    let arg: FlushIn = call.args().take()?;
    Answer::later(call.fs().flush(call.node(), FileId(arg.fh)), true, |()| Answer::Empty)
}

pub(super) fn fsync(call: &Call<'_>) -> Outcome {
    let arg: FsyncIn = call.args().take()?;
    let datasync = FsyncFlags::from_bits_truncate(arg.fsync_flags).contains(FsyncFlags::DATASYNC);
    Answer::later(call.fs().fsync(call.node(), FileId(arg.fh), datasync), true, |()| Answer::Empty)
}

pub(super) fn release(call: &Call<'_>) -> Outcome {
    let arg: ReleaseIn = call.args().take()?;
    // In this order, as the file system may give the inode another backing file at once.
    call.shared.backings.release(call.node(), FileId(arg.fh));
    call.shared.readahead.closed();
    Answer::later(call.fs().release(call.node(), FileId(arg.fh)), false, |()| Answer::Empty)
}

pub(super) fn fallocate(call: &Call<'_>) -> Outcome {
    let arg: FallocateIn = call.args().take()?;
    let mode = arg.mode.cast_signed();
    let pending = call.fs().fallocate(call.node(), FileId(arg.fh), arg.offset, arg.length, mode);
    let pending = without_privilege(call, call.node(), pending);
    Answer::later(pending, true, |()| Answer::Empty)
}

pub(super) fn lseek(call: &Call<'_>) -> Outcome {
    let arg: LseekIn = call.args().take()?;
    let pending = call.fs().lseek(call.node(), arg.offset, arg.whence.cast_signed());
    Answer::later(pending, true, |offset| Answer::of(&LseekOut { offset }))
}

pub(super) fn copy_file_range(call: &Call<'_>) -> Outcome {
    let mut arg: CopyFileRangeIn = call.args().take()?;
    arg.len = arg.len.min(COPY_MAX_32);
    copy(call, &arg, |copied| {
        Answer::of(&WriteOut { size: u32::try_from(copied).unwrap_or(u32::MAX), padding: 0 })
    })
}

pub(super) fn copy_file_range_64(call: &Call<'_>) -> Outcome {
    let arg: CopyFileRangeIn = call.args().take()?;
    copy(call, &arg, |bytes_copied| Answer::of(&CopyFileRangeOut { bytes_copied }))
}

fn copy(
    call: &Call<'_>,
    arg: &CopyFileRangeIn,
    encode: impl FnOnce(u64) -> Answer + Send + 'static,
) -> Outcome {
    if arg.flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let target = InodeNo(arg.nodeid_out);
    let pending = call.fs().copy_file_range(call.node(), arg.off_in, target, arg.off_out, arg.len);
    let pending = without_privilege(call, target, pending);
    let asked = arg.len;
    Answer::later(pending, true, move |copied| encode(copied.min(asked)))
}

/// Clears setuid and setgid after a change by a caller other than root that comes without a flag to say so.
fn without_privilege<T: Send + 'static>(call: &Call<'_>, ino: InodeNo, pending: Pending<T>) -> Pending<T> {
    if call.header.uid == 0 || !call.shared.view.is_privileged(ino) {
        return pending;
    }
    let shared = Arc::clone(call.shared);
    Box::pin(async move {
        let done = pending.await?;
        let change = SetAttr { kill_suid: true, ..SetAttr::default() };
        shared.fs.setattr(ino, change, None).await?;
        shared.notifier.attributes_changed(ino);
        Ok(done)
    })
}

pub(super) fn syncfs(call: &Call<'_>) -> Outcome {
    Answer::later(call.fs().flush_all(), true, |()| Answer::Empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_than_asked_for(lens in proptest::collection::vec(0..100_usize, 0..20), size in 0..1500_usize) {
            let pieces: ReadReply = lens.iter().map(|len| Bytes::from(vec![1; *len])).collect();
            let all = pieces.concat();
            let cut = at_most(pieces, size);
            prop_assert_eq!(cut.concat(), &all[..size.min(all.len())]);
            prop_assert!(cut.iter().all(|piece| !piece.is_empty()));
        }
    }
}
