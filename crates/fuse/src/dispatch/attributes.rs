//! Attributes of inodes, and of the file system.

use std::sync::Arc;

use super::answer::{Answer, Outcome};
use super::{Call, encode};
use crate::abi::{SetattrIn, SetattrValid, StatfsOut};
use crate::{Errno, SetAttr, Time};

const NANOS: u32 = 1_000_000_000;

pub(super) fn getattr(call: &Call<'_>) -> Outcome {
    let found = call.fs().getattr(call.node())?;
    Ok(Answer::of(&encode::attributes(&found, &call.shared.view)))
}

pub(super) fn statx(call: &Call<'_>) -> Outcome {
    let found = call.fs().getattr(call.node())?;
    Ok(Answer::of(&encode::statx(&found, &call.shared.view)))
}

pub(super) fn setattr(call: &Call<'_>) -> Outcome {
    let arg: SetattrIn = call.args().take()?;
    let valid = SetattrValid::from_bits_truncate(arg.valid);
    let (change, size) = requested(&arg, valid)?;
    let shared = Arc::clone(call.shared);
    Answer::later(call.fs().setattr(call.node(), change, size), true, move |changed| {
        Answer::of(&encode::attributes(&changed, &shared.view))
    })
}

/// What a request can ask to change. One that asks for nothing is `chown(path, -1, -1)`: with HANDLE_KILLPRIV_V2 the kernel
/// leaves it to us that even this takes set-id bits away.
const CHANGES: SetattrValid = SetattrValid::MODE
    .union(SetattrValid::UID)
    .union(SetattrValid::GID)
    .union(SetattrValid::SIZE)
    .union(SetattrValid::ATIME)
    .union(SetattrValid::MTIME)
    .union(SetattrValid::CTIME);

fn requested(arg: &SetattrIn, valid: SetattrValid) -> Result<(SetAttr, Option<u64>), Errno> {
    let time = |bit, now_bit: Option<SetattrValid>, secs, nanos| {
        if now_bit.is_some_and(|bit| valid.contains(bit)) {
            Ok(Some(Time::now()))
        } else if !valid.contains(bit) {
            Ok(None)
        } else if nanos < NANOS {
            Ok(Some(Time { secs, nanos }))
        } else {
            Err(Errno::EINVAL)
        }
    };
    let change = SetAttr {
        mode: valid.contains(SetattrValid::MODE).then_some((arg.mode & 0o7777) as u16),
        uid: valid.contains(SetattrValid::UID).then_some(arg.uid),
        gid: valid.contains(SetattrValid::GID).then_some(arg.gid),
        atime: time(SetattrValid::ATIME, Some(SetattrValid::ATIME_NOW), arg.atime, arg.atimensec)?,
        mtime: time(SetattrValid::MTIME, Some(SetattrValid::MTIME_NOW), arg.mtime, arg.mtimensec)?,
        ctime: time(SetattrValid::CTIME, None, arg.ctime, arg.ctimensec)?,
        kill_suid: valid.contains(SetattrValid::KILL_SUIDGID) || !valid.intersects(CHANGES),
    };
    let size = valid.contains(SetattrValid::SIZE).then_some(arg.size);
    if size.is_some_and(|size| i64::try_from(size).is_err()) {
        return Err(Errno::new(libc::EFBIG));
    }
    Ok((change, size))
}

pub(super) fn statfs(call: &Call<'_>) -> Outcome {
    let stat = call.fs().statfs()?;
    Ok(Answer::of(&StatfsOut {
        blocks: stat.blocks,
        bfree: stat.bfree,
        bavail: stat.bavail,
        files: stat.files,
        ffree: stat.ffree,
        bsize: stat.bsize,
        namelen: stat.namelen,
        frsize: stat.bsize,
        padding: 0,
        spare: [0; 6],
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn now_wins_and_ctime_needs_its_bit() {
        let arg = SetattrIn { atime: 5, mtime: 6, ctime: 7, ..SetattrIn::new_zeroed() };
        let valid = SetattrValid::ATIME | SetattrValid::ATIME_NOW | SetattrValid::MTIME;
        let (change, size) = requested(&arg, valid).unwrap();
        assert!(change.atime.unwrap().secs > 1_000_000_000);
        assert_eq!(change.mtime, Some(Time { secs: 6, nanos: 0 }));
        assert_eq!((change.ctime, size), (None, None));
    }

    #[test]
    fn a_chown_that_names_nobody_takes_set_id_bits_away() {
        let (change, _) = requested(&SetattrIn::new_zeroed(), SetattrValid::empty()).unwrap();
        assert_eq!(change, SetAttr { kill_suid: true, ..SetAttr::default() });
        let (change, _) = requested(&SetattrIn::new_zeroed(), SetattrValid::MODE).unwrap();
        assert!(!change.kill_suid, "chmod keeps what it sets");
    }

    proptest! {
        #[test]
        fn only_what_is_marked_is_changed(bits: u32, mode: u32, size: u64, nanos: u32) {
            let arg =
                SetattrIn { mode, size, atimensec: nanos, mtimensec: nanos, ..SetattrIn::new_zeroed() };
            let valid = SetattrValid::from_bits_truncate(bits);
            if let Ok((change, new_size)) = requested(&arg, valid) {
                prop_assert_eq!(change.mode.is_some(), valid.contains(SetattrValid::MODE));
                prop_assert!(change.mode.unwrap_or(0) <= 0o7777);
                prop_assert_eq!(new_size, valid.contains(SetattrValid::SIZE).then_some(size));
                let kill = valid.contains(SetattrValid::KILL_SUIDGID) || !valid.intersects(CHANGES);
                prop_assert_eq!(change.kill_suid, kill);
                prop_assert!(change.atime.is_none_or(|time| time.nanos < NANOS));
            }
        }
    }
}
