//! Error numbers as the kernel wants them.

use std::fmt;

/// A positive Linux error number, always one that the protocol can carry (1..=511).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

/// The kernel refuses replies whose error is at or beyond its internal ERESTARTSYS.
const LIMIT: i32 = 512;

impl Errno {
    /// No such file or directory.
    pub const ENOENT: Errno = Errno(libc::ENOENT);
    /// Interrupted.
    pub const EINTR: Errno = Errno(libc::EINTR);
    /// Input/output error.
    pub const EIO: Errno = Errno(libc::EIO);
    /// Try again.
    pub const EAGAIN: Errno = Errno(libc::EAGAIN);
    /// File exists.
    pub const EEXIST: Errno = Errno(libc::EEXIST);
    /// Not a directory.
    pub const ENOTDIR: Errno = Errno(libc::ENOTDIR);
    /// Is a directory.
    pub const EISDIR: Errno = Errno(libc::EISDIR);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(libc::EINVAL);
    /// Inappropriate ioctl for device.
    pub const ENOTTY: Errno = Errno(libc::ENOTTY);
    /// Result too large for the buffer given.
    pub const ERANGE: Errno = Errno(libc::ERANGE);
    /// Directory not empty.
    pub const ENOTEMPTY: Errno = Errno(libc::ENOTEMPTY);
    /// No such data (extended attribute).
    pub const ENODATA: Errno = Errno(libc::ENODATA);
    /// No such device or address.
    pub const ENXIO: Errno = Errno(libc::ENXIO);
    /// Argument list too long, or extended attribute too long to be listed.
    pub const E2BIG: Errno = Errno(libc::E2BIG);
    /// Operation not supported.
    pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
    /// Protocol error.
    pub const EPROTO: Errno = Errno(libc::EPROTO);
    /// Function not implemented. The kernel remembers this per operation and never asks again.
    pub const ENOSYS: Errno = Errno(libc::ENOSYS);

    /// From a raw number; one the protocol cannot carry becomes EIO.
    pub fn new(raw: i32) -> Errno {
        if (1..LIMIT).contains(&raw) { Errno(raw) } else { Errno::EIO }
    }

    /// The positive number.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// Its symbol, `ENOENT`; for a number that has none, `other`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(raw, _)| *raw == self.0).map_or("other", |(_, name)| name)
    }

    /// The error with this symbol.
    pub fn from_name(name: &str) -> Option<Errno> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(raw, _)| Errno(*raw))
    }
}

macro_rules! names {
    ($($name:ident)*) => {
        /// All of Linux, in the order of their numbers.
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name)),)*];
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK
    EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE
    EROFS EMLINK EPIPE EDOM ERANGE EDEADLOCK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM
    ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT
    EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP
    EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ
    ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
    ESOCKTNOSUPPORT ENOTSUP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH
    ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM
    EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED
    EOWNERDEAD ENOTRECOVERABLE ERFKILL
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rustix::io::Errno::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rustix::io::Errno::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn only_numbers_the_protocol_can_carry() {
        for raw in [i32::MIN, -5, 0, 512, 600, i32::MAX] {
            assert_eq!(Errno::new(raw), Errno::EIO, "{raw}");
        }
        assert_eq!(Errno::new(libc::ENOSPC).raw(), libc::ENOSPC);
    }

    #[test]
    fn names_are_found_again() {
        assert_eq!(Errno::ENOENT.name(), "ENOENT");
        assert_eq!(Errno::new(510).name(), "other");
        for raw in 1..512 {
            let errno = Errno::new(raw);
            assert!(errno.name() == "other" || Errno::from_name(errno.name()) == Some(errno), "{raw}");
        }
    }
}
