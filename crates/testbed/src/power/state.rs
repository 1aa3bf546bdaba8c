//! What is on the disk now, node by node.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::{Errno, Result};

use super::disk::{Attributes, Ino, Kind, ROOT};
use super::file::FileContent;
use super::names::{Change, Names};

#[derive(Debug)]
pub(super) enum Content {
    File(FileContent),
    Directory { names: BTreeMap<Vec<u8>, (u64, Ino)>, parent: Ino },
    Symlink(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Node {
    pub content: Content,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Names of a file; a directory has one until it is removed.
    pub links: u32,
    pub references: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub nodes: HashMap<Ino, Node>,
    pub names: Names,
    pub next: u64,
    /// Changes and syncs that are still carried out before the power goes.
    pub left: Option<u64>,
    /// Changes and syncs so far.
    pub operations: u64,
    pub off: bool,
}

impl Node {
    pub fn new(content: Content, mode: u32, uid: u32, gid: u32) -> Node {
        Node { content, mode: mode & 0o7777, uid, gid, links: 1, references: 0 }
    }
}

impl State {
    pub fn node(&mut self, ino: Ino) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::NOENT)
    }

    pub fn root_mut(&mut self) -> &mut Node {
        self.nodes.get_mut(&ROOT).expect("the root is never removed")
    }

    pub fn file(&mut self, ino: Ino) -> Result<&mut FileContent> {
        match &mut self.node(ino)?.content {
            Content::File(file) => Ok(file),
            Content::Directory { .. } => Err(Errno::ISDIR),
            Content::Symlink(_) => Err(Errno::INVAL),
        }
    }

    pub fn names_of(&mut self, directory: Ino) -> Result<&mut BTreeMap<Vec<u8>, (u64, Ino)>> {
        match &mut self.node(directory)?.content {
            Content::Directory { names, .. } => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub fn parent(&mut self, directory: Ino) -> Result<Ino> {
        match &self.node(directory)?.content {
            Content::Directory { parent, .. } => Ok(*parent),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub fn find(&mut self, directory: Ino, name: &[u8]) -> Result<Ino> {
        self.names_of(directory)?.get(name).map(|(_, ino)| *ino).ok_or(Errno::NOENT)
    }

    pub fn attributes(&mut self, ino: Ino) -> Result<Attributes> {
        let node = self.nodes.get(&ino).ok_or(Errno::NOENT)?;
        let (kind, size, nlink) = match &node.content {
            Content::File(file) => (Kind::File, file.len() as u64, node.links),
            Content::Symlink(target) => (Kind::Symlink, target.len() as u64, node.links),
            Content::Directory { names, .. } => {
                let is_directory = |(_, ino): &&(u64, Ino)| {
                    self.nodes.get(ino).is_some_and(|node| matches!(node.content, Content::Directory { .. }))
                };
                (Kind::Directory, 4096, 2 + names.values().filter(is_directory).count() as u32)
            }
        };
        Ok(Attributes { ino, kind, mode: node.mode, uid: node.uid, gid: node.gid, nlink, size })
    }

    pub fn add(&mut self, content: Content, mode: u32) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, Node::new(content, mode, 0, 0));
        ino
    }

    pub fn make(&mut self, directory: Ino, name: &[u8], content: Content, mode: u32) -> Result<Attributes> {
        self.names_of(directory)?;
        let ino = self.add(content, mode);
        self.enter(directory, name, ino)?;
        self.names.record(vec![(directory, name.to_vec(), Some(ino))]);
        self.node(ino)?.references += 1;
        self.attributes(ino)
    }

    pub fn enter(&mut self, directory: Ino, name: &[u8], ino: Ino) -> Result<()> {
        // 1 and 2 are "." and "..".
        let cookie = self.next + 2;
        self.next += 1;
        self.names_of(directory)?.insert(name.to_vec(), (cookie, ino));
        Ok(())
    }

    pub fn remove_name(&mut self, directory: Ino, name: &[u8]) -> Result<()> {
        let (_, ino) = self.names_of(directory)?.remove(name).ok_or(Errno::NOENT)?;
        let change: Change = vec![(directory, name.to_vec(), None)];
        self.names.record(change);
        self.drop_link(ino)
    }

    pub fn drop_link(&mut self, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        node.links = node.links.saturating_sub(1);
        self.reap(ino);
        Ok(())
    }

    /// Lets go of a node that neither a user nor a power cut can bring back.
    pub fn reap(&mut self, ino: Ino) {
        let unused = self.nodes.get(&ino).is_some_and(|node| node.links == 0 && node.references == 0);
        if unused && !self.names.may_show(ino) {
            self.nodes.remove(&ino);
        }
    }

    pub fn load(&mut self, dir: &Path, ino: Ino) -> std::io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (metadata, path) = (entry.metadata()?, entry.path());
            let content = if metadata.is_dir() {
                Content::Directory { names: BTreeMap::new(), parent: ino }
            } else if metadata.is_symlink() {
                Content::Symlink(fs::read_link(&path)?.into_os_string().into_vec())
            } else if metadata.is_file() {
                Content::File(FileContent::durable(fs::read(&path)?))
            } else {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::Unsupported,
                    format!("{}: neither file, directory nor symbolic link", path.display()),
                ));
            };
            let child = self.make(ino, entry.file_name().as_bytes(), content, metadata.mode())?;
            let node = self.node(child.ino)?;
            (node.uid, node.gid, node.references) = (metadata.uid(), metadata.gid(), 0);
            if metadata.is_dir() {
                self.load(&path, child.ino)?;
            }
        }
        Ok(())
    }
}
