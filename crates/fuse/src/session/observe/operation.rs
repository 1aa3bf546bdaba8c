//! An operation, as it is told.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::processes::Process;
use crate::Errno;
use crate::abi::{Args, CopyFileRangeIn, FallocateIn, LseekIn, Opcode, ReadIn, WriteIn};

/// A request that has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it was read from the kernel.
    pub started: SystemTime,
    /// From then until its answer was sent.
    pub duration: Duration,
    /// What was asked for.
    pub opcode: Opcode,
    /// The thread that asked; 0 where it is the kernel's own doing (writing back, forgetting, closing).
    pub tid: u32,
    /// Its process; 0 for the kernel.
    pub pid: u32,
    /// What that process was called.
    pub process: ProcessName,
    /// The user it ran as.
    pub uid: u32,
    /// The inode it was about; for names, that of the directory.
    pub node: u64,
    /// Where in the file, for operations that say so.
    pub offset: Option<u64>,
    /// File data read, written or copied, bytes.
    pub bytes: u64,
    /// Why it failed, if it did.
    pub error: Option<Errno>,
}

/// The command name of a process, as in `/proc/PID/comm`: at most 15 bytes, empty if it is not known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ProcessName {
    bytes: [u8; 15],
    len: u8,
}

impl ProcessName {
    /// The first 15 bytes of `name`.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 15];
        let len = name.len().min(bytes.len());
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        ProcessName { bytes, len: u8::try_from(len).unwrap_or_default() }
    }

    /// Its bytes: any but NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// What must be found out while whoever asked waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// When it was read from the kernel. Reckoned back from its end it would be late by what lies between looking at two clocks.
    pub started: SystemTime,
    pub process: Process,
    pub offset: Option<u64>,
}

/// Where in its file an operation works.
pub(super) fn offset(opcode: Opcode, mut body: Args<'_>) -> Option<u64> {
    match opcode {
        Opcode::Read => body.take::<ReadIn>().ok().map(|arg| arg.offset),
        Opcode::Write => body.take::<WriteIn>().ok().map(|arg| arg.offset),
        Opcode::Fallocate => body.take::<FallocateIn>().ok().map(|arg| arg.offset),
        Opcode::Lseek => body.take::<LseekIn>().ok().map(|arg| arg.offset),
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            body.take::<CopyFileRangeIn>().ok().map(|arg| arg.off_in)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessName;

    #[test]
    fn names_of_any_length_and_bytes() {
        assert_eq!(ProcessName::new(b"").as_bytes(), b"");
        assert_eq!(ProcessName::new(b"cat").as_bytes(), b"cat");
        assert_eq!(ProcessName::new(b"0123456789abcdefgh").as_bytes(), b"0123456789abcde");
        assert_eq!(format!("{:?}", ProcessName::new(b"a\x1b\xff")), r#""a\x1b\xff""#);
    }
}
