//! POSIX access control lists (POSIX 1003.1e draft 17, acl(5)) in the form of Linux's extended attributes, version 2:
//! a little-endian u32 version, then per entry u16 tag, u16 permissions, u32 id.

use crate::{MetaError, Result};

const VERSION: u32 = 2;
/// The id of entries that have none.
const UNDEFINED_ID: u32 = u32::MAX;
/// As many as fit the longest value of an attribute.
const MAX_ENTRIES: usize = (super::xattr::MAX_VALUE - 4) / 8;

/// Whom an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tag {
    UserObj,
    User(u32),
    GroupObj,
    Group(u32),
    Mask,
    Other,
}

impl Tag {
    fn decode(tag: u16, id: u32) -> Option<Tag> {
        Some(match tag {
            0x01 => Tag::UserObj,
            0x02 => Tag::User(id),
            0x04 => Tag::GroupObj,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return None,
        })
    }

    fn encode(self) -> (u16, u32) {
        match self {
            Tag::UserObj => (0x01, UNDEFINED_ID),
            Tag::User(id) => (0x02, id),
            Tag::GroupObj => (0x04, UNDEFINED_ID),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, UNDEFINED_ID),
            Tag::Other => (0x20, UNDEFINED_ID),
        }
    }

    /// The order in which entries stand.
    fn rank(self) -> u8 {
        match self {
            Tag::UserObj => 0,
            Tag::User(_) => 1,
            Tag::GroupObj => 2,
            Tag::Group(_) => 3,
            Tag::Mask => 4,
            Tag::Other => 5,
        }
    }

    fn is_named(self) -> bool {
        matches!(self, Tag::User(_) | Tag::Group(_))
    }
}

/// A valid list: in order, with an entry each for the owner, the group and others, and a mask if anyone is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acl {
    entries: Vec<(Tag, u16)>,
}

impl Acl {
    /// Parses and validates; `None` for a list without entries, which stands for no list.
    pub(crate) fn decode(value: &[u8]) -> Result<Option<Acl>> {
        let Some((version, rest)) = value.split_first_chunk::<4>() else {
            return Err(MetaError::Invalid("an ACL is too short"));
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(MetaError::Unsupported("an ACL of this version"));
        }
        let (raw, odd) = rest.as_chunks::<8>();
        if !odd.is_empty() || raw.len() > MAX_ENTRIES {
            return Err(MetaError::Invalid("an ACL has the wrong length"));
        }
        if raw.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(raw.len());
        for [t0, t1, p0, p1, id @ ..] in raw {
            let tag = Tag::decode(u16::from_le_bytes([*t0, *t1]), u32::from_le_bytes(*id))
                .ok_or(MetaError::Invalid("an ACL entry has an unknown tag"))?;
            let perm = u16::from_le_bytes([*p0, *p1]);
            if perm > 7 {
                return Err(MetaError::Invalid("an ACL entry has unknown permissions"));
            }
            entries.push((tag, perm));
        }
        let acl = Acl { entries };
        acl.validate()?;
        Ok(Some(acl))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for (tag, perm) in &self.entries {
            let (tag, id) = tag.encode();
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&perm.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        out
    }

    fn validate(&self) -> Result<()> {
        let mut rank = None;
        let mut named = false;
        for (tag, _) in &self.entries {
            let in_order = match rank {
                None => true,
                Some(before) => tag.rank() > before || (tag.rank() == before && tag.is_named()),
            };
            if !in_order {
                return Err(MetaError::Invalid("an ACL's entries are out of order"));
            }
            rank = Some(tag.rank());
            named |= tag.is_named();
        }
        let has = |wanted: Tag| self.entries.iter().any(|(tag, _)| *tag == wanted);
        if !(has(Tag::UserObj) && has(Tag::GroupObj) && has(Tag::Other)) {
            return Err(MetaError::Invalid("an ACL lacks the owner's, the group's or the others' entry"));
        }
        if named && !has(Tag::Mask) {
            return Err(MetaError::Invalid("an ACL that names someone lacks a mask"));
        }
        Ok(())
    }

    /// Whether permission bits say as much.
    pub(crate) fn is_minimal(&self) -> bool {
        self.entries.len() == 3
    }

    fn perm(&self, wanted: Tag) -> Option<u16> {
        self.entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, perm)| *perm)
    }

    /// The entry that the group's permission bits stand for.
    fn group_class(&self) -> Tag {
        if self.perm(Tag::Mask).is_some() { Tag::Mask } else { Tag::GroupObj }
    }

    /// The nine permission bits that go with the list.
    pub(crate) fn mode(&self) -> u16 {
        let perm = |tag| self.perm(tag).unwrap_or(0);
        perm(Tag::UserObj) << 6 | perm(self.group_class()) << 3 | perm(Tag::Other)
    }

    /// Takes the permissions over from nine bits, as chmod does.
    pub(crate) fn set_mode(&mut self, mode: u16) {
        let group_class = self.group_class();
        for (tag, perm) in &mut self.entries {
            match *tag {
                Tag::UserObj => *perm = mode >> 6 & 7,
                Tag::Other => *perm = mode & 7,
                tag if tag == group_class => *perm = mode >> 3 & 7,
                _ => {}
            }
        }
    }

    /// Makes a default list the access list of something created with `mode`: each may do what both allow. Answers the
    /// mode that goes with it.
    pub(crate) fn restrict(&mut self, mode: u16) -> u16 {
        let both = self.mode() & mode;
        self.set_mode(both);
        mode & !0o777 | both
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn acl(entries: &[(Tag, u16)]) -> Acl {
        Acl { entries: entries.to_vec() }
    }

    fn round(acl: &Acl) -> Result<Option<Acl>> {
        Acl::decode(&acl.encode())
    }

    const MINIMAL: [(Tag, u16); 3] = [(Tag::UserObj, 6), (Tag::GroupObj, 4), (Tag::Other, 0)];

    fn extended() -> Acl {
        acl(&[
            (Tag::UserObj, 7),
            (Tag::User(1000), 6),
            (Tag::User(1001), 4),
            (Tag::GroupObj, 5),
            (Tag::Group(7), 7),
            (Tag::Mask, 6),
            (Tag::Other, 1),
        ])
    }

    #[test]
    fn valid_lists_survive_encoding() {
        for list in [acl(&MINIMAL), extended()] {
            assert_eq!(round(&list).unwrap(), Some(list));
        }
        assert_eq!(Acl::decode(&2u32.to_le_bytes()).unwrap(), None);
    }

    #[test]
    fn the_encoding_is_the_kernels() {
        let encoded = acl(&MINIMAL).encode();
        let expected = [
            2, 0, 0, 0, //
            1, 0, 6, 0, 255, 255, 255, 255, //
            4, 0, 4, 0, 255, 255, 255, 255, //
            32, 0, 0, 0, 255, 255, 255, 255,
        ];
        assert_eq!(encoded, expected);
    }

    #[test]
    fn invalid_lists_are_refused() {
        let invalid = [
            acl(&[(Tag::UserObj, 7), (Tag::Other, 0)]),
            acl(&[(Tag::GroupObj, 7), (Tag::UserObj, 7), (Tag::Other, 0)]),
            acl(&[(Tag::UserObj, 7), (Tag::UserObj, 7), (Tag::GroupObj, 7), (Tag::Other, 0)]),
            acl(&[(Tag::UserObj, 7), (Tag::User(1), 7), (Tag::GroupObj, 7), (Tag::Other, 0)]),
            acl(&[(Tag::UserObj, 8), (Tag::GroupObj, 7), (Tag::Other, 0)]),
        ];
        for list in &invalid {
            assert!(matches!(round(list), Err(MetaError::Invalid(_))), "{list:?}");
        }
        assert!(Acl::decode(&[1, 0, 0, 0]).is_err());
        assert!(Acl::decode(&[2, 0, 0, 0, 1]).is_err());
        assert!(Acl::decode(&[]).is_err());
    }

    #[test]
    fn the_mask_stands_for_the_group_bits() {
        assert_eq!(extended().mode(), 0o761);
        assert_eq!(acl(&MINIMAL).mode(), 0o640);
        let mut list = extended();
        list.set_mode(0o610);
        assert_eq!(list.perm(Tag::Mask), Some(1));
        assert_eq!(list.perm(Tag::GroupObj), Some(5));
        assert_eq!(list.mode(), 0o610);
    }

    #[test]
    fn inheriting_keeps_what_both_allow() {
        let mut list = extended();
        assert_eq!(list.restrict(0o2644), 0o2640);
        assert_eq!(list.perm(Tag::Mask), Some(4));
        assert_eq!(list.perm(Tag::User(1000)), Some(6));
        let mut list = acl(&MINIMAL);
        assert_eq!(list.restrict(0o777), 0o640);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), headed: bool) {
            let mut value = if headed { VERSION.to_le_bytes().to_vec() } else { Vec::new() };
            value.extend(bytes);
            if let Ok(Some(list)) = Acl::decode(&value) {
                prop_assert_eq!(round(&list).unwrap(), Some(list));
            }
        }
    }
}
