//! One page of a table.

/// Bytes of a page's own header: number (8), unused (2), kind (2), then two ends of its free space (2 each), or the number
/// of pages of a long value (4).
pub(super) const HEADER: usize = 16;
const NODE: usize = 8;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const LONG: u16 = 0x04;
pub(super) const META: u16 = 0x08;

/// The value is in pages of its own.
const NODE_LONG: u16 = 0x01;
/// The value describes a table.
const NODE_TABLE: u16 = 0x02;

/// Numbers one after the other.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl<'b> Fields<'b> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u16::from_le_bytes(*head))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u32::from_le_bytes(*head))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u64::from_le_bytes(*head))
    }
}

/// An entry of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node<'p> {
    pub(super) key: &'p [u8],
    pub(super) content: Content<'p>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content<'p> {
    /// In a branch: the page with the keys from this one on.
    Child(u64),
    /// A value, and where in the page it is.
    Value { bytes: &'p [u8], at: usize },
    /// A value of `len` bytes in pages of its own, from this one on.
    Long { page: u64, len: u32 },
    /// A table's description.
    Table(&'p [u8]),
}

/// A branch or leaf page whose entries are all within it and do not overlap.
pub(super) struct Page<'p> {
    bytes: &'p [u8],
    pub(super) is_leaf: bool,
    entries: usize,
}

impl<'p> Page<'p> {
    /// Checks a page. `scratch` is for reuse.
    pub(super) fn parse(bytes: &'p [u8], number: u64, scratch: &mut Vec<(usize, usize)>) -> Option<Page<'p>> {
        let mut fields = Fields(bytes);
        let (own_number, _pad, flags) = (fields.u64()?, fields.u16()?, fields.u16()?);
        let (lower, upper) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
        let right = own_number == number
            && matches!(flags, BRANCH | LEAF)
            && lower % 2 == 0
            && lower > HEADER
            && lower <= upper
            && upper <= bytes.len();
        if !right {
            return None;
        }
        let page = Page { bytes, is_leaf: flags == LEAF, entries: (lower - HEADER) / 2 };
        scratch.clear();
        for i in 0..page.entries {
            let (start, len, _) = page.locate(i)?;
            scratch.push((start, len.next_multiple_of(2)));
        }
        // They fill the page from `upper` to its end.
        scratch.sort_unstable();
        let end = scratch.iter().try_fold(upper, |at, &(start, len)| (start == at).then_some(at + len));
        (end == Some(bytes.len())).then_some(page)
    }

    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Where entry `i` begins, its length, and what it holds; `None` if it leaves the page.
    fn locate(&self, i: usize) -> Option<(usize, usize, Node<'p>)> {
        let start = usize::from(Fields(self.bytes.get(HEADER + 2 * i..)?).u16()?);
        if start % 2 != 0 {
            return None;
        }
        let mut fields = Fields(self.bytes.get(start..)?);
        let (low, high) = (fields.u16()?, fields.u16()?);
        let (flags, key_len) = (fields.u16()?, usize::from(fields.u16()?));
        let key = fields.take(key_len)?;
        let at = start + NODE + key_len;
        let number = u32::from(low) | u32::from(high) << 16;
        if !self.is_leaf {
            let child = u64::from(number) | u64::from(flags) << 32;
            return Some((start, NODE + key_len, Node { key, content: Content::Child(child) }));
        }
        let (content, len) = match flags {
            0 => {
                let len = usize::try_from(number).ok()?;
                (Content::Value { bytes: fields.take(len)?, at }, len)
            }
            NODE_LONG => (Content::Long { page: fields.u64()?, len: number }, 8),
            NODE_TABLE => {
                let len = usize::try_from(number).ok()?;
                (Content::Table(fields.take(len)?), len)
            }
            _ => return None,
        };
        Some((start, NODE + key_len + len, Node { key, content }))
    }

    /// Entry `i`, in the order of keys.
    pub(super) fn node(&self, i: usize) -> Option<Node<'p>> {
        self.locate(i).map(|(_, _, node)| node)
    }
}

/// How many pages a long value takes, from the header of its first; `None` if that is not one, or too short.
pub(super) fn long_pages(header: &[u8], number: u64, len: u32, page_size: usize) -> Option<u64> {
    let mut fields = Fields(header);
    let (own_number, _pad, flags, pages) = (fields.u64()?, fields.u16()?, fields.u16()?, fields.u32()?);
    let bytes = u64::from(pages) * page_size as u64;
    (own_number == number && flags == LONG && bytes >= u64::from(len) + HEADER as u64)
        .then_some(u64::from(pages))
}
