//! Operations.

macro_rules! opcodes {
    ($($name:ident = $value:literal $text:literal,)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        #[allow(missing_docs)]
        pub enum Opcode {
            $($name = $value,)*
        }

        impl Opcode {
            /// Every operation known.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// From the wire; `None` when the kernel is newer than this list.
            pub fn from_raw(raw: u32) -> Option<Opcode> {
                match raw {
                    $($value => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// What it is called in metrics and logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => $text,)*
                }
            }
        }
    };
}

opcodes! {
    Lookup = 1 "lookup",
    Forget = 2 "forget",
    Getattr = 3 "getattr",
    Setattr = 4 "setattr",
    Readlink = 5 "readlink",
    Symlink = 6 "symlink",
    Mknod = 8 "mknod",
    Mkdir = 9 "mkdir",
    Unlink = 10 "unlink",
    Rmdir = 11 "rmdir",
    Rename = 12 "rename",
    Link = 13 "link",
    Open = 14 "open",
    Read = 15 "read",
    Write = 16 "write",
    Statfs = 17 "statfs",
    Release = 18 "release",
    Fsync = 20 "fsync",
    Setxattr = 21 "setxattr",
    Getxattr = 22 "getxattr",
    Listxattr = 23 "listxattr",
    Removexattr = 24 "removexattr",
    Flush = 25 "flush",
    Init = 26 "init",
    Opendir = 27 "opendir",
    Readdir = 28 "readdir",
    Releasedir = 29 "releasedir",
    Fsyncdir = 30 "fsyncdir",
    Getlk = 31 "getlk",
    Setlk = 32 "setlk",
    Setlkw = 33 "setlkw",
    Access = 34 "access",
    Create = 35 "create",
    Interrupt = 36 "interrupt",
    Bmap = 37 "bmap",
    Destroy = 38 "destroy",
    Ioctl = 39 "ioctl",
    Poll = 40 "poll",
    NotifyReply = 41 "notify_reply",
    BatchForget = 42 "batch_forget",
    Fallocate = 43 "fallocate",
    Readdirplus = 44 "readdirplus",
    Rename2 = 45 "rename2",
    Lseek = 46 "lseek",
    CopyFileRange = 47 "copy_file_range",
    Setupmapping = 48 "setupmapping",
    Removemapping = 49 "removemapping",
    Syncfs = 50 "syncfs",
    Tmpfile = 51 "tmpfile",
    Statx = 52 "statx",
    CopyFileRange64 = 53 "copy_file_range_64",
}

impl Opcode {
    /// Whether the kernel expects no answer.
    pub fn silent(self) -> bool {
        matches!(self, Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::NotifyReply)
    }
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    #[test]
    fn names_are_distinct_and_found_again() {
        let mut names: Vec<_> = Opcode::ALL.iter().map(|opcode| opcode.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Opcode::ALL.len());
        assert!(Opcode::ALL.iter().all(|opcode| Opcode::from_raw(*opcode as u32) == Some(*opcode)));
    }
}
