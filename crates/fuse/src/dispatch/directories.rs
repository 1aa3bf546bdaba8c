//! Reading directories.

use zerocopy::{FromZeros as _, IntoBytes as _};

use super::answer::{Answer, Failure, Outcome};
use super::{Call, encode};
use crate::abi::{DirentHeader, EntryOut, InitFlags, OpenReply, RECORD_ALIGN, ReadIn, ReleaseIn};
use crate::session::View;
use crate::{DirEntry, Errno};

pub(super) fn opendir(call: &Call<'_>) -> Outcome {
    if call.shared.view.exclusive && call.shared.agreed.contains(InitFlags::NO_OPENDIR_SUPPORT) {
        // Directories are read by cookie, so that an open one has no state here. Told so, the kernel opens and closes
        // them by itself, and keeps listings until it changes the directory, as it may: it sees all changes.
        return Err(Failure::NotImplemented);
    }
    let file = call.fs().opendir(call.node())?;
    Ok(Answer::of(&OpenReply { fh: file.0, open_flags: 0, backing_id: 0 }))
}

pub(super) fn readdir(call: &Call<'_>, plus: bool) -> Outcome {
    let arg: ReadIn = call.args().take()?;
    let mut stream = Stream::new(arg.size as usize, plus, &call.shared.view);
    let mut full = false;
    call.fs().readdir(call.node(), arg.offset, plus, &mut |entry| {
        let taken = stream.push(&entry);
        full |= !taken;
        taken
    })?;
    if full && stream.bytes.is_empty() {
        // Nothing at all would mean the end of the directory.
        return Err(Errno::EINVAL.into());
    }
    Ok(Answer::Owned(stream.bytes))
}

pub(super) fn releasedir(call: &Call<'_>) -> Outcome {
    call.args().take::<ReleaseIn>()?;
    Ok(Answer::Empty)
}

pub(super) fn fsyncdir(call: &Call<'_>) -> Outcome {
    Answer::later(call.fs().fsyncdir(call.node()), true, |()| Answer::Empty)
}

/// A reply to READDIR or READDIRPLUS under construction.
struct Stream<'a> {
    bytes: Vec<u8>,
    limit: usize,
    plus: bool,
    view: &'a View,
}

impl<'a> Stream<'a> {
    fn new(limit: usize, plus: bool, view: &'a View) -> Self {
        // The kernel asks for as much as a request holds; most directories need little of it.
        Stream { bytes: Vec::with_capacity(limit.min(4096)), limit, plus, view }
    }

    /// Appends an entry; false if there is no room for it.
    fn push(&mut self, entry: &DirEntry<'_>) -> bool {
        let Ok(namelen) = u32::try_from(entry.name.len()) else { return false };
        let prefix = if self.plus { size_of::<EntryOut>() } else { 0 };
        let len = (prefix + size_of::<DirentHeader>() + entry.name.len()).next_multiple_of(RECORD_ALIGN);
        if len > self.limit - self.bytes.len() {
            return false;
        }
        let end = self.bytes.len() + len;
        if self.plus {
            // Node 0 says that no reference was counted: the kernel takes none for "." and "..".
            let out = match &entry.attr {
                Some(attr) if !is_dot(entry.name) => encode::entry(attr, self.view),
                _ => EntryOut::new_zeroed(),
            };
            self.bytes.extend_from_slice(out.as_bytes());
        }
        // The upper bits of a mode are what d_type is.
        let kind = encode::type_bits(entry.kind) >> 12;
        let header = DirentHeader { ino: entry.ino.0, off: entry.cookie, namelen, kind };
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(entry.name);
        self.bytes.resize(end, 0);
        true
    }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use zerocopy::FromBytes as _;

    use super::*;
    use crate::{InodeNo, Kind};

    proptest! {
        #[test]
        fn what_is_packed_is_found_again(
            names in proptest::collection::vec(proptest::collection::vec(1..=255_u8, 1..=255), 0..40),
            limit in 0..6000_usize,
            plus: bool,
        ) {
            let view = View::new(true, Duration::ZERO);
            let mut stream = Stream::new(limit, plus, &view);
            let mut taken = 0;
            for (index, name) in names.iter().enumerate() {
                let cookie = index as u64 + 1;
                let entry = DirEntry { cookie, ino: InodeNo(cookie + 9), kind: Kind::Fifo, name, attr: None };
                if !stream.push(&entry) {
                    break;
                }
                taken += 1;
            }
            prop_assert!(stream.bytes.len() <= limit);
            let mut rest = stream.bytes.as_slice();
            for (index, name) in names.iter().take(taken).enumerate() {
                if plus {
                    let (entry, after) = EntryOut::read_from_prefix(rest).unwrap();
                    prop_assert_eq!(entry.nodeid, 0);
                    rest = after;
                }
                let (header, after) = DirentHeader::read_from_prefix(rest).unwrap();
                prop_assert_eq!((header.off, header.kind), (index as u64 + 1, 1));
                prop_assert_eq!(&after[..header.namelen as usize], name.as_slice());
                rest = &after[(header.namelen as usize).next_multiple_of(RECORD_ALIGN)..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
