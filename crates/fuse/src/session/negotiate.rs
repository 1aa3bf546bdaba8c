//! INIT: agreeing with the kernel on what both can do.

use std::io::{self, IoSlice};

use zerocopy::IntoBytes as _;

use super::config::{MAX_BACKGROUND, MAX_WRITE, NEVER_CONGESTED};
use super::transport::{Received, Transport};
use crate::abi::{self, Args, InHeader, InitFlags, InitIn, InitOut, MIN_READ_BUFFER, Opcode, OutHeader};
use crate::mount::MountError;

const PAGE: u32 = 4096;
/// What a file that is passed through may lie on: a file system over nothing but disks or memory. At 2, overlayfs could be below
/// this mount, but nothing could be mounted over it.
const STACK_DEPTH: u32 = 1;

/// What to answer to an INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// This is agreed.
    Agreed {
        minor: u32,
        flags: InitFlags,
        max_readahead: u32,
        /// File systems one upon the other below a file that is passed through; 0 without passthrough.
        max_stack_depth: u32,
    },
    /// The kernel's major version is newer: it will ask again with ours.
    AskAgain,
    /// No agreement is possible.
    TooOld,
}

/// Decides from what the kernel offers.
pub(super) fn decide(offer: &InitIn, flags2: u32, exclusive: bool, rings: bool) -> Answer {
    if offer.major > abi::MAJOR {
        return Answer::AskAgain;
    }
    if offer.major < abi::MAJOR || offer.minor < abi::MINOR_MIN {
        return Answer::TooOld;
    }
    let mut offered = InitFlags::from_bits_truncate(u64::from(offer.flags));
    if offered.contains(InitFlags::INIT_EXT) {
        offered |= InitFlags::from_bits_truncate(u64::from(flags2) << 32);
    }
    // Left out on purpose: WRITEBACK_CACHE (excludes passthrough, hides sizes), ATOMIC_O_TRUNC (a SETATTR comes
    // instead), POSIX_LOCKS and FLOCK_LOCKS (one kernel sees all users: it keeps the locks).
    let mut wanted = InitFlags::ASYNC_READ
        | InitFlags::BIG_WRITES
        | InitFlags::EXPORT_SUPPORT
        | InitFlags::DONT_MASK
        | InitFlags::DO_READDIRPLUS
        | InitFlags::READDIRPLUS_AUTO
        | InitFlags::ASYNC_DIO
        | InitFlags::PARALLEL_DIROPS
        | InitFlags::POSIX_ACL
        | InitFlags::ABORT_ERROR
        | InitFlags::MAX_PAGES
        | InitFlags::CACHE_SYMLINKS
        | InitFlags::HANDLE_KILLPRIV_V2
        | InitFlags::SETXATTR_EXT
        | InitFlags::NO_OPENDIR_SUPPORT
        | InitFlags::INIT_EXT
        | InitFlags::HAS_EXPIRE_ONLY
        | InitFlags::PASSTHROUGH
        | InitFlags::DIRECT_IO_ALLOW_MMAP;
    wanted |= if exclusive { InitFlags::EXPLICIT_INVAL_DATA } else { InitFlags::AUTO_INVAL_DATA };
    wanted.set(InitFlags::OVER_IO_URING, rings);
    let flags = offered & wanted;
    Answer::Agreed {
        minor: offer.minor.min(abi::MINOR),
        flags,
        max_readahead: offer.max_readahead,
        max_stack_depth: if flags.contains(InitFlags::PASSTHROUGH) { STACK_DEPTH } else { 0 },
    }
}

/// Answers the INIT that is waiting on a fresh connection; gives what was agreed. `rings`: there are some, for which readahead may have so many
/// requests under way.
pub(super) fn exchange(
    transport: &dyn Transport,
    exclusive: bool,
    rings: Option<u16>,
) -> Result<InitFlags, MountError> {
    let mut space = vec![0; (MAX_WRITE as usize + PAGE as usize).max(MIN_READ_BUFFER)];
    loop {
        let len = match transport.receive(&mut space).map_err(MountError::Init)? {
            Received::Request(len) => len,
            Received::Nothing => continue,
            Received::Ended => {
                return Err(MountError::Init(io::Error::other("the kernel closed the connection")));
            }
        };
        let mut args = Args::new(space.get(..len).unwrap_or_default());
        let protocol = |_| MountError::Init(io::Error::other("the kernel's first request is malformed"));
        let header: InHeader = args.take().map_err(protocol)?;
        if Opcode::from_raw(header.opcode) != Some(Opcode::Init) {
            return Err(MountError::Init(io::Error::other(format!(
                "the kernel's first request is {} and not INIT",
                header.opcode
            ))));
        }
        let offer: InitIn = args.take().map_err(protocol)?;
        let flags2 = args.take::<[u8; 4]>().map_or(0, u32::from_ne_bytes);
        match decide(&offer, flags2, exclusive, rings.is_some()) {
            Answer::Agreed { minor, flags, max_readahead, max_stack_depth } => {
                tracing::debug!(kernel_minor = offer.minor, minor, ?flags, max_readahead, "FUSE session");
                let bits = flags.bits();
                let out = InitOut {
                    major: abi::MAJOR,
                    minor,
                    max_readahead,
                    flags: bits as u32,
                    flags2: (bits >> 32) as u32,
                    max_background: rings
                        .filter(|_| flags.contains(InitFlags::OVER_IO_URING))
                        .unwrap_or(MAX_BACKGROUND),
                    congestion_threshold: NEVER_CONGESTED,
                    max_write: MAX_WRITE,
                    time_gran: 1,
                    max_pages: (MAX_WRITE / PAGE) as u16,
                    map_alignment: 0,
                    max_stack_depth,
                    request_timeout: 0,
                    unused: [0; 11],
                };
                answer(transport, header.unique, 0, out.as_bytes())?;
                return Ok(flags);
            }
            Answer::AskAgain => {
                let out = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..zeroed() };
                answer(transport, header.unique, 0, out.as_bytes())?;
            }
            Answer::TooOld => {
                answer(transport, header.unique, -libc::EPROTO, &[])?;
                return Err(MountError::KernelTooOld { major: offer.major, minor: offer.minor });
            }
        }
    }
}

fn zeroed() -> InitOut {
    use zerocopy::FromZeros as _;
    InitOut::new_zeroed()
}

fn answer(transport: &dyn Transport, unique: u64, error: i32, body: &[u8]) -> Result<(), MountError> {
    let len = (size_of::<OutHeader>() + body.len()) as u32;
    let header = OutHeader { len, error, unique };
    transport.send(&[IoSlice::new(header.as_bytes()), IoSlice::new(body)]).map_err(MountError::Init)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer(major: u32, minor: u32, flags: u32) -> InitIn {
        InitIn { major, minor, max_readahead: 131_072, flags }
    }

    #[test]
    fn old_and_new_kernels() {
        assert_eq!(decide(&offer(8, 0, 0), 0, true, false), Answer::AskAgain);
        assert_eq!(decide(&offer(6, 99, 0), 0, true, false), Answer::TooOld);
        assert_eq!(decide(&offer(7, 30, 0), 0, true, false), Answer::TooOld);
        assert!(matches!(decide(&offer(7, 31, 0), 0, true, false), Answer::Agreed { minor: 31, .. }));
        assert!(matches!(decide(&offer(7, 90, 0), 0, true, false), Answer::Agreed { minor: abi::MINOR, .. }));
    }

    #[test]
    fn only_an_owner_keeps_pages_across_changes_of_size() {
        for exclusive in [true, false] {
            let Answer::Agreed { flags, .. } = decide(&offer(7, 45, u32::MAX), u32::MAX, exclusive, false)
            else {
                panic!("no agreement");
            };
            assert_eq!(flags.contains(InitFlags::EXPLICIT_INVAL_DATA), exclusive);
            assert_eq!(flags.contains(InitFlags::AUTO_INVAL_DATA), !exclusive);
            assert!(flags.contains(InitFlags::HANDLE_KILLPRIV_V2 | InitFlags::HAS_EXPIRE_ONLY));
            assert!(!flags.intersects(InitFlags::WRITEBACK_CACHE | InitFlags::POSIX_LOCKS));
        }
    }

    #[test]
    fn passthrough_with_kernels_that_have_it() {
        let agreed = |flags: InitFlags| {
            let bits = flags.bits();
            match decide(&offer(7, 45, bits as u32), (bits >> 32) as u32, true, false) {
                Answer::Agreed { flags, max_stack_depth, .. } => {
                    (flags.contains(InitFlags::PASSTHROUGH), max_stack_depth)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(agreed(InitFlags::all()), (true, 1));
        assert_eq!(agreed(InitFlags::all() - InitFlags::PASSTHROUGH), (false, 0));
        // Before the upper half of the flags there was none of it.
        assert_eq!(agreed(InitFlags::all() - InitFlags::INIT_EXT), (false, 0));
    }

    proptest! {
        #[test]
        fn never_more_than_was_offered(flags: u32, flags2: u32, exclusive: bool) {
            let Answer::Agreed { flags: agreed, .. } = decide(&offer(7, 45, flags), flags2, exclusive, false) else {
                return Err(TestCaseError::fail("no agreement"));
            };
            let offered = u64::from(flags) | u64::from(flags2) << 32;
            prop_assert_eq!(agreed.bits() & !offered, 0);
        }
    }
}
