//! What happens to names: making, removing, linking, renaming.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::{Expect, Id, Kind, Reference, Step, done};
use crate::op::{Op, RenameMode};
use crate::real::{Outcome, target_name};

impl Reference {
    pub(super) fn name_step(&mut self, op: &Op) -> Step<Expect> {
        match *op {
            Op::Mkdir { path, .. } | Op::Symlink { path, .. } | Op::Fifo { path, .. } => {
                let (parent, name) = self.parent(path)?;
                if self.child(parent, name).is_some() {
                    return Err(Errno::EXIST);
                }
                let (kind, mode) = match *op {
                    Op::Mkdir { mode, .. } => (Kind::Dir(BTreeMap::new()), mode & 0o1777),
                    Op::Symlink { target, .. } => (Kind::Symlink(target_name(target)), 0o777),
                    Op::Fifo { mode, .. } => (Kind::Fifo, mode),
                    _ => return Ok(Expect::Skip),
                };
                self.add(parent, name, kind, mode);
                done()
            }
            Op::Rmdir { path } => {
                let (parent, name) = self.parent(path)?;
                let id = self.child(parent, name).ok_or(Errno::NOENT)?;
                match &self.node(id).kind {
                    Kind::Dir(entries) if entries.is_empty() => {}
                    Kind::Dir(_) => return Err(Errno::NOTEMPTY),
                    _ => return Err(Errno::NOTDIR),
                }
                self.leave(parent, name);
                done()
            }
            Op::Unlink { path } => {
                let (parent, name) = self.parent(path)?;
                let id = self.child(parent, name).ok_or(Errno::NOENT)?;
                if matches!(self.node(id).kind, Kind::Dir(_)) {
                    return Err(Errno::ISDIR);
                }
                self.leave(parent, name);
                self.node_mut(id).links -= 1;
                done()
            }
            Op::Rename { from, to, mode } => self.rename(from, to, mode),
            Op::Link { from, to } => {
                let id = self.lookup(from)?;
                let (parent, name) = self.parent(to)?;
                if self.child(parent, name).is_some() {
                    return Err(Errno::EXIST);
                }
                if matches!(self.node(id).kind, Kind::Dir(_)) {
                    return Err(Errno::PERM);
                }
                self.node_mut(id).links += 1;
                self.enter(parent, name, id);
                done()
            }
            Op::Readlink { path } => {
                let id = self.lookup(path)?;
                self.accessed(id);
                match &self.node(id).kind {
                    Kind::Symlink(target) => Ok(Expect::Exactly(Outcome::Bytes(target.clone().into_bytes()))),
                    _ => Err(Errno::INVAL),
                }
            }
            _ => Ok(Expect::Skip),
        }
    }

    fn rename(&mut self, from: usize, to: usize, mode: RenameMode) -> Step<Expect> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        let source = self.child(from_parent, from_name).ok_or(Errno::NOENT)?;
        let target = self.child(to_parent, to_name);
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (RenameMode::Exchange, None) => return Err(Errno::NOENT),
            _ => {}
        }
        if self.is_below(to_parent, source) {
            return Err(Errno::INVAL);
        }
        if let Some(target) = target {
            if self.is_below(from_parent, target) {
                return Err(if mode == RenameMode::Exchange { Errno::INVAL } else { Errno::NOTEMPTY });
            }
            if target == source {
                return done();
            }
        }
        let source_is_dir = matches!(self.node(source).kind, Kind::Dir(_));
        match (mode, target) {
            (RenameMode::Exchange, Some(target)) => {
                self.enter(from_parent, from_name, target);
                self.enter(to_parent, to_name, source);
                return done();
            }
            (_, Some(target)) => {
                match (&self.node(target).kind, source_is_dir) {
                    (Kind::Dir(entries), true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
                    (Kind::Dir(_), false) => return Err(Errno::ISDIR),
                    (Kind::Dir(_), true) => {}
                    (_, true) => return Err(Errno::NOTDIR),
                    (_, false) => self.node_mut(target).links -= 1,
                }
                self.leave(to_parent, to_name);
            }
            _ => {}
        }
        self.leave(from_parent, from_name);
        self.enter(to_parent, to_name, source);
        done()
    }

    /// True when `dir` is `ancestor` or somewhere below it.
    fn is_below(&self, dir: Id, ancestor: Id) -> bool {
        dir == ancestor
            || match &self.node(ancestor).kind {
                Kind::Dir(entries) => entries.values().any(|child| self.is_below(dir, *child)),
                _ => false,
            }
    }
}
