//! Identifiers that appear in the format.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An inode number. 1 is the root; numbers are never reused within a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The root directory.
    pub const ROOT: InodeNo = InodeNo(1);
}

impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A segment's identity: 48 bits of Unix milliseconds, then 80 random bits (the ULID layout), so that ids are
/// unique for ever without an allocator, sort by age, and are never reused, even after a restore.
///
/// Uniqueness carries weight: an encrypted volume derives a segment's key from its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u128);

/// Folder of all segments in the store.
const FOLDER: &str = "segments/";

/// Crockford's base 32: no I, L, O or U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Digits in the text form: 26 x 5 bits hold 128 bits, so the first digit is at most 7.
const TEXT_LEN: usize = 26;

const RANDOM_BITS: u32 = 80;
const RANDOM_MASK: u128 = (1 << RANDOM_BITS) - 1;

impl SegmentId {
    /// Bytes of the binary form (big endian, so that byte order is age order).
    pub const LEN: usize = 16;

    /// A fresh id. `now` outside 1970 to 10889 is brought into that range.
    ///
    /// # Panics
    /// If the operating system cannot give random bytes: ids that repeat would destroy data.
    pub fn new(now: SystemTime) -> SegmentId {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).expect("the operating system gives no random bytes");
        let millis = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
        let millis = millis.min((1 << 48) - 1);
        SegmentId((millis << RANDOM_BITS) | (u128::from_be_bytes(random) & RANDOM_MASK))
    }

    /// When the id was made, to the millisecond.
    pub fn created(self) -> SystemTime {
        // 48 bits of milliseconds fit both u64 and SystemTime.
        UNIX_EPOCH + Duration::from_millis((self.0 >> RANDOM_BITS) as u64)
    }

    /// The object's key: `segments/<xx>/<text form>`, `xx` being the last random byte in hex, so that stores which
    /// partition by prefix see 256 evenly loaded prefixes.
    pub fn object_key(self) -> String {
        format!("{FOLDER}{:02x}/{self}", self.0 as u8)
    }

    /// The inverse of [`Self::object_key`]; `None` for any other key.
    pub fn from_object_key(key: &str) -> Option<SegmentId> {
        let (_, text) = key.strip_prefix(FOLDER)?.split_once('/')?;
        let id: SegmentId = text.parse().ok()?;
        (id.object_key() == key).then_some(id)
    }

    /// Binary form.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        self.0.to_be_bytes()
    }

    /// From the binary form.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> SegmentId {
        SegmentId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(TEXT_LEN);
        for position in (0..TEXT_LEN).rev() {
            let digit = (self.0 >> (5 * position)) as usize & 31;
            text.push(char::from(DIGITS[digit]));
        }
        f.pad(&text)
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no segment id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a segment id: 26 digits 0-9 A-Z without I, L, O, U are expected, the first at most 7")]
pub struct ParseIdError;

impl FromStr for SegmentId {
    type Err = ParseIdError;

    /// Takes upper and lower case.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.len() != TEXT_LEN {
            return Err(ParseIdError);
        }
        let mut value: u128 = 0;
        for (position, byte) in text.bytes().enumerate() {
            let digit = DIGITS.iter().position(|d| *d == byte.to_ascii_uppercase()).ok_or(ParseIdError)?;
            if position == 0 && digit > 7 {
                return Err(ParseIdError);
            }
            value = (value << 5) | digit as u128;
        }
        Ok(SegmentId(value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_and_key_are_pinned() {
        let id = SegmentId(0x0190_0000_0000_0123_4567_89ab_cdef_fedc);
        assert_eq!(id.to_string(), "01J000000004HMASW9NF6YZZPW");
        assert_eq!(id.object_key(), "segments/dc/01J000000004HMASW9NF6YZZPW");
        assert_eq!(SegmentId(u128::MAX).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    }

    #[test]
    fn ids_sort_by_age_and_tell_it() {
        let early = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let late = early + Duration::from_millis(1);
        let (a, b) = (SegmentId::new(early), SegmentId::new(late));
        assert!(a < b);
        assert!(a.to_string() < b.to_string());
        assert_eq!(a.created(), early);
        assert_ne!(SegmentId::new(early), a);
    }

    #[test]
    fn times_out_of_range_do_not_spoil_the_random_part() {
        assert_eq!(SegmentId::new(UNIX_EPOCH - Duration::from_secs(5)).created(), UNIX_EPOCH);
    }

    #[test]
    fn foreign_keys_are_refused() {
        let key = SegmentId(7).object_key();
        assert_eq!(SegmentId::from_object_key(&key), Some(SegmentId(7)));
        for foreign in [
            "",
            "segments/",
            "headrace.json",
            "segments/00/00000000000000000000000007",
            "segments/07/0000000000000000000000000U",
            "segments/07/00000000000000000000000007.tmp",
            "segments/07/x/00000000000000000000000007",
            "x/segments/07/00000000000000000000000007",
        ] {
            assert_eq!(SegmentId::from_object_key(foreign), None, "{foreign}");
        }
        assert_eq!(SegmentId::from_object_key(&key.to_lowercase().replace('z', "Z")), Some(SegmentId(7)));
        assert!("8ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<SegmentId>().is_err());
    }

    proptest! {
        #[test]
        fn round_trips(value: u128) {
            let id = SegmentId(value);
            prop_assert_eq!(id.to_string().parse::<SegmentId>(), Ok(id));
            prop_assert_eq!(id.to_string().to_lowercase().parse::<SegmentId>(), Ok(id));
            prop_assert_eq!(SegmentId::from_object_key(&id.object_key()), Some(id));
            prop_assert_eq!(SegmentId::from_bytes(id.to_bytes()), id);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = text.parse::<SegmentId>();
            let _ = SegmentId::from_object_key(&text);
        }
    }
}
