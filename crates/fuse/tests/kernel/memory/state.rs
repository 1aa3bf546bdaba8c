//! What is in the file system: nodes, their names, and who refers to them.

use std::collections::{BTreeMap, HashMap};

use headrace_fuse::{Attr, Caller, Errno, InodeNo, Kind, Result, Time};

use super::contents::Contents;
use super::opens::Opens;

/// What a file does when it is read, decided by its name when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Plain,
    /// "hang*": never answers.
    Hang,
    /// "slow*": answers after half a second.
    Slow,
    /// "panic-at-once".
    Panic,
    /// "panic-later": after it has waited.
    PanicLater,
}

impl Manner {
    pub fn of(name: &[u8]) -> Manner {
        match name {
            b"panic-at-once" => Manner::Panic,
            b"panic-later" => Manner::PanicLater,
            _ if name.starts_with(b"hang") => Manner::Hang,
            _ if name.starts_with(b"slow") => Manner::Slow,
            _ => Manner::Plain,
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub attr: Attr,
    pub manner: Manner,
    /// Opened in direct mode: the name ends in ".direct".
    pub direct: bool,
    pub data: Contents,
    pub opens: Opens,
    pub entries: BTreeMap<u64, (Vec<u8>, InodeNo)>,
    pub names: HashMap<Vec<u8>, u64>,
    pub parent: InodeNo,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub references: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub nodes: HashMap<InodeNo, Node>,
    pub next: u64,
}

impl Node {
    pub fn touch(&mut self, data: bool) {
        let now = Time::now();
        self.attr.ctime = now;
        if data {
            self.attr.mtime = now;
        }
        self.measure();
    }

    /// Its size, which the kernel may have changed by itself.
    pub fn measure(&mut self) {
        if self.attr.kind == Kind::File {
            self.attr.size = self.data.len() as u64;
            self.attr.allocated = self.data.len() as u64;
        }
    }

    pub fn kill_suid(&mut self) {
        self.attr.mode &= !0o4000;
        if self.attr.mode & 0o010 != 0 {
            self.attr.mode &= !0o2000;
        }
    }
}

impl State {
    pub fn node(&mut self, ino: InodeNo) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::ENOENT)
    }

    pub fn add(&mut self, kind: Kind, mode: u16, parent: InodeNo, name: &[u8], caller: &Caller) -> InodeNo {
        let ino = InodeNo(self.next);
        self.next += 1;
        let now = Time::now();
        let attr = Attr {
            ino,
            kind,
            mode: mode & !caller.umask,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            uid: caller.uid,
            gid: caller.gid,
            rdev: 0,
            size: 0,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        };
        let node = Node {
            attr,
            manner: Manner::of(name),
            direct: name.ends_with(b".direct"),
            data: Contents::Memory(Vec::new()),
            opens: Opens::new(name),
            entries: BTreeMap::new(),
            names: HashMap::new(),
            parent,
            xattrs: BTreeMap::new(),
            references: 0,
        };
        self.nodes.insert(ino, node);
        ino
    }

    pub fn find(&mut self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        let dir = self.node(parent)?;
        if dir.attr.kind != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let cookie = dir.names.get(name).ok_or(Errno::ENOENT)?;
        Ok(dir.entries[cookie].1)
    }

    pub fn enter(&mut self, parent: InodeNo, name: &[u8], ino: InodeNo) -> Result<()> {
        let cookie = self.next;
        self.next += 1;
        let dir = self.node(parent)?;
        dir.entries.insert(cookie + 2, (name.to_vec(), ino));
        dir.names.insert(name.to_vec(), cookie + 2);
        dir.touch(true);
        self.node(ino)?.parent = parent;
        Ok(())
    }

    pub fn remove(&mut self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        let dir = self.node(parent)?;
        let cookie = dir.names.remove(name).ok_or(Errno::ENOENT)?;
        let (_, ino) = dir.entries.remove(&cookie).unwrap();
        dir.touch(true);
        Ok(ino)
    }

    pub fn drop_name(&mut self, ino: InodeNo) -> Result<()> {
        let node = self.node(ino)?;
        node.attr.nlink = if node.attr.kind == Kind::Directory { 0 } else { node.attr.nlink - 1 };
        node.touch(false);
        self.reap(ino);
        Ok(())
    }

    pub fn reap(&mut self, ino: InodeNo) {
        if self.nodes.get(&ino).is_some_and(|node| node.attr.nlink == 0 && node.references == 0) {
            self.nodes.remove(&ino);
        }
    }

    pub fn referenced(&mut self, ino: InodeNo) -> Result<Attr> {
        let node = self.node(ino)?;
        node.references += 1;
        Ok(node.attr.clone())
    }

    pub fn make(
        &mut self,
        kind: Kind,
        mode: u16,
        parent: InodeNo,
        name: &[u8],
        caller: &Caller,
    ) -> Result<InodeNo> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let ino = self.add(kind, mode, parent, name, caller);
        self.enter(parent, name, ino)?;
        Ok(ino)
    }
}
