//! Total parsing of a request's arguments.

use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A request that is not what its opcode says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the fixed part needs.
    #[error("the request is too short")]
    Short,
    /// A name has no terminating NUL.
    #[error("a name is not terminated")]
    Unterminated,
    /// A name of no characters.
    #[error("a name is empty")]
    EmptyName,
    /// Lengths that contradict each other.
    #[error("lengths in the request contradict each other")]
    Length,
}

/// A cursor over a request's bytes after its header.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Args<'a> {
    /// Over `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Args { rest: bytes }
    }

    /// The next fixed structure. Copied out, so alignment does not matter.
    pub fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Malformed> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| Malformed::Short)?;
        self.rest = rest;
        Ok(value)
    }

    /// The next NUL-terminated name, without its NUL. Never empty.
    pub fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let name = self.text()?;
        if name.is_empty() { Err(Malformed::EmptyName) } else { Ok(name) }
    }

    /// The next NUL-terminated string, which may be empty.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(Malformed::Unterminated)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Length)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// What has not been taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
