//! Listing directories.

use std::ops::ControlFlow;

use headrace_layout::InodeNo;

use super::{FIRST_COOKIE, Namespace, lookup};
use crate::key::Key;
use crate::record::{Entry, Inode};
use crate::{DirEntry, MetaError, Result, key};

impl Namespace {
    /// Visits the names behind position `after` (0: all) in order of creation until `visit` answers `false`; "." and ".."
    /// are not among them. With `plus`, each comes with its attributes, of the same moment.
    pub fn readdir(
        &self,
        dir: InodeNo,
        after: u64,
        plus: bool,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let Some(first) = after.checked_add(1) else { return Ok(()) };
        self.view(|read| {
            lookup::directory(read, dir)?;
            let start = key::position(dir, first.max(FIRST_COOKIE));
            let end = key::all_of(key::POSITION, dir).end;
            let mut outcome = Ok(());
            read.scan(&start, &end, &mut |key, value| {
                let mut step = || {
                    let Some(Key::Position(_, cookie)) = Key::parse(key) else {
                        return Err(MetaError::Corrupt(format!("directory {dir} has a malformed position")));
                    };
                    let (Entry { ino, kind, .. }, name) = Entry::decode_position(value, cookie)?;
                    let attr = if plus {
                        // A name whose inode is lost is still listed, so that it can be seen and removed.
                        Inode::load(read, ino)?.map(|inode| inode.attr(ino))
                    } else {
                        None
                    };
                    Ok(visit(DirEntry { cookie, ino, kind, name, attr }))
                };
                match step() {
                    Ok(true) => ControlFlow::Continue(()),
                    Ok(false) => ControlFlow::Break(()),
                    Err(error) => {
                        outcome = Err(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            outcome
        })
    }
}
