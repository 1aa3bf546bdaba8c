//! Reading and writing of the primitive fields all binary structures share.

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what}: {detail}")]
pub struct DecodeError {
    /// What was being decoded.
    pub what: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

/// Appends `value` as a LEB128 varint: 7 bits a byte, lowest first, the top bit set on all but the last.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes fields off the front of a byte string; every failure names the structure being read.
pub struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over `bytes`, which are meant to be a `what`.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Reader { what, rest: bytes }
    }

    /// A reader over `bytes` less their last four, which must be the crc32c of what precedes them.
    pub fn checked(what: &'static str, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(what, bytes);
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(reader.error("too short"));
        };
        if crate::checksum::crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(reader.error("checksum mismatch"));
        }
        Ok(Reader { what, rest: body })
    }

    /// An error of the structure being read.
    pub fn error(&self, detail: impl Into<String>) -> DecodeError {
        DecodeError { what: self.what, detail: detail.into() }
    }

    /// Bytes not yet taken.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.error("ends too early"));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Everything not yet taken.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error("ends too early"));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// What [`put_varint`] wrote; at most 64 bits.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a number exceeds 64 bits"))
    }

    /// A varint of at most 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, DecodeError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.error("a number exceeds 32 bits"))
    }

    /// A count of items of at least `min_len` (not 0) bytes each: refused when they cannot all be there, so that a caller may
    /// allocate for them.
    pub fn count(&mut self, min_len: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        if count > (self.remaining() / min_len.max(1)) as u64 {
            return Err(self.error("a count exceeds the data"));
        }
        Ok(count as usize)
    }

    /// Succeeds if everything was taken.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("bytes left over at the end")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new("number", &bytes);
            prop_assert_eq!(reader.varint().unwrap(), value);
            prop_assert!(reader.finish().is_ok());
        }
    }

    #[test]
    fn endless_and_oversized_varints_are_refused() {
        assert!(Reader::new("number", &[0xff; 20]).varint().is_err());
        assert!(Reader::new("number", &[0x80; 3]).varint().is_err());
        // 2^64: the tenth byte may only hold one bit.
        let mut too_big = [0x80u8; 10];
        too_big[9] = 2;
        assert!(Reader::new("number", &too_big).varint().is_err());
    }

    #[test]
    fn counts_are_bounded_by_the_data() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        bytes.extend_from_slice(&[0; 100]);
        assert!(Reader::new("list", &bytes).count(1).is_err());
    }
}
