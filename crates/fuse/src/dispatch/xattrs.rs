//! Extended attributes, POSIX ACLs among them.

use super::Call;
use super::answer::{Answer, Outcome};
use crate::abi::{GetxattrIn, GetxattrOut, InitFlags, SetxattrFlags, SetxattrIn};
use crate::{Errno, XattrMode};

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`: the kernel takes no more.
const MAX: usize = 65_536;

pub(super) fn setxattr(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: SetxattrIn = if call.shared.agreed.contains(InitFlags::SETXATTR_EXT) {
        args.take()?
    } else {
        // Before 7.33 only the size and the flags of setxattr(2) came.
        let [size, flags] = args.take::<[u32; 2]>()?;
        SetxattrIn { size, flags, setxattr_flags: 0, padding: 0 }
    };
    let name = args.name()?;
    let value = args.bytes(arg.size as usize)?;
    let mode = match arg.flags.cast_signed() {
        0 => XattrMode::Set,
        libc::XATTR_CREATE => XattrMode::CreateOnly,
        libc::XATTR_REPLACE => XattrMode::ReplaceOnly,
        _ => return Err(Errno::EINVAL.into()),
    };
    let kill_sgid =
        SetxattrFlags::from_bits_truncate(arg.setxattr_flags).contains(SetxattrFlags::ACL_KILL_SGID);
    call.fs().setxattr(call.node(), name, value, mode, kill_sgid)?;
    Ok(Answer::Empty)
}

pub(super) fn getxattr(call: &Call<'_>) -> Outcome {
    let mut args = call.args();
    let arg: GetxattrIn = args.take()?;
    let value = call.fs().getxattr(call.node(), args.name()?)?;
    sized(value, arg.size)
}

pub(super) fn listxattr(call: &Call<'_>) -> Outcome {
    let arg: GetxattrIn = call.args().take()?;
    let mut list = Vec::new();
    for name in call.fs().listxattr(call.node())? {
        list.extend_from_slice(&name);
        list.push(0);
    }
    sized(list, arg.size)
}

pub(super) fn removexattr(call: &Call<'_>) -> Outcome {
    call.fs().removexattr(call.node(), call.args().name()?)?;
    Ok(Answer::Empty)
}

/// The length alone if there is no room at all; an error if there is too little.
fn sized(value: Vec<u8>, room: u32) -> Outcome {
    if value.len() > MAX {
        return Err(Errno::E2BIG.into());
    }
    if room == 0 {
        return Ok(Answer::of(&GetxattrOut { size: value.len() as u32, padding: 0 }));
    }
    if value.len() > room as usize {
        return Err(Errno::ERANGE.into());
    }
    Ok(Answer::Owned(value))
}
