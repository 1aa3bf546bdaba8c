//! After the tree: what is kept of what was deleted is found by its names again.

use super::overlay::Overlay;
use super::{Repairer, text};
use crate::key::Key;
use crate::record::KeptRecord;
use crate::{Result, key};

impl Repairer<'_> {
    pub(super) fn repair_trash(&mut self) -> Result<()> {
        let mut range = Overlay::all(key::TRASHED);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                break;
            }
            for (key, _) in page {
                let Some(Key::Trashed(dir, name, ino)) = Key::parse(&key) else { continue };
                let kept = KeptRecord::load(&self.kv, ino)?;
                if kept.is_none_or(|kept| kept.parent != dir || kept.name != name) {
                    self.kv.delete(&key)?;
                    let name = text(name).into_owned();
                    self.fixed(
                        "trash",
                        format!(
                            "{name:?} is no longer listed as deleted in directory {dir}: inode {ino} is not"
                        ),
                    );
                }
            }
        }
        let mut range = Overlay::all(key::ORPHAN);
        loop {
            let page = self.kv.page(&mut range)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, value) in page {
                let Some(Key::Orphan(ino)) = Key::parse(&key) else { continue };
                let Some(kept) = KeptRecord::decode(&value)? else { continue };
                if self.kv.put(&key::trashed(kept.parent, &kept.name, ino), &[])? {
                    let name = text(&kept.name).into_owned();
                    self.fixed("trash", format!("inode {ino} is found again as {name:?}, which was deleted"));
                }
            }
        }
    }
}
