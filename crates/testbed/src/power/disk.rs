//! The disk: a small file system in memory that remembers what is durable.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::{Errno, Result};

use super::file::FileContent;
use super::image::{Image, Node as ImageNode};
use super::names::Names;
use super::state::{Content, Node, State};
use crate::Rng;

/// Number of a file or directory.
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 1;

/// No file of a test is larger.
const MAX_FILE: u64 = 1 << 30;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// What `stat` shows, as far as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names it has; for a directory 2 plus its subdirectories.
    pub nlink: u32,
    /// Length, bytes.
    pub size: u64,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Position; 3 or more, never used again.
    pub cookie: u64,
    /// The name.
    pub name: Vec<u8>,
    /// What it names.
    pub attributes: Attributes,
}

/// What a rename does with a name that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// Replaces it.
    Yes,
    /// Fails with `EEXIST`.
    No,
}

/// A disk in memory. After [`Disk::cut`], or when the count of [`Disk::cut_after`] is used up, every call answers `EIO`.
#[derive(Debug)]
pub struct Disk {
    state: Mutex<State>,
    power_gone: Condvar,
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Disk {
        let mut nodes = HashMap::new();
        nodes.insert(
            ROOT,
            Node::new(Content::Directory { names: BTreeMap::new(), parent: ROOT }, 0o755, 0, 0),
        );
        let state =
            State { nodes, names: Names::default(), next: ROOT + 1, left: None, operations: 0, off: false };
        Disk { state: Mutex::new(state), power_gone: Condvar::new() }
    }

    /// A disk on which the tree below `dir` is, durably. Hard links become files of their own.
    ///
    /// # Errors
    /// What reading the tree answers, and `Unsupported` for anything but files, directories and symbolic links.
    pub fn load(dir: &Path) -> std::io::Result<Disk> {
        let disk = Disk::new();
        {
            let mut state = disk.state();
            state.root_mut().mode = fs::metadata(dir)?.mode() & 0o7777;
            state.load(dir, ROOT)?;
            let directories: Vec<_> = state.nodes.keys().copied().collect();
            for directory in directories {
                state.names.sync(directory);
            }
        }
        Ok(disk)
    }

    /// Cuts the power after that many further changes and syncs.
    pub fn cut_after(&self, operations: u64) {
        self.state().left = Some(operations);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state().off = true;
        self.power_gone.notify_all();
    }

    /// Waits until the power has gone, at most `limit`; whether it has.
    pub fn wait_until_cut(&self, limit: Duration) -> bool {
        let state = self.state();
        let (state, _) = self
            .power_gone
            .wait_timeout_while(state, limit, |state| !state.off)
            .unwrap_or_else(PoisonError::into_inner);
        state.off
    }

    /// Changes and syncs carried out so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// One of the trees that may be found after a power cut at this moment: the same one for the same seed.
    pub fn image(&self, seed: u64) -> Image {
        let state = self.state();
        let mut rng = Rng::new(seed);
        let mut directories = state.names.after_cut(&mut rng);
        let mut inos: Vec<_> = state.nodes.keys().copied().collect();
        inos.sort_unstable();
        let nodes = inos.into_iter().map(|ino| {
            let node = &state.nodes[&ino];
            let left = match &node.content {
                Content::File(file) => ImageNode::File(file.after_cut(&mut rng)),
                Content::Directory { .. } => {
                    ImageNode::Directory(directories.remove(&ino).unwrap_or_default())
                }
                Content::Symlink(target) => ImageNode::Symlink(target.clone()),
            };
            (ino, (node.mode, left))
        });
        Image { nodes: nodes.collect(), root: ROOT }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a call that changes nothing.
    fn look(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.off { Err(Errno::IO) } else { Ok(state) }
    }

    /// The state, for a change or a sync.
    fn change(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.look()?;
        match &mut state.left {
            Some(0) => {
                state.off = true;
                self.power_gone.notify_all();
                return Err(Errno::IO);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state.operations += 1;
        Ok(state)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk::new()
    }
}

/// The calls of a file system. A reference is counted for each inode that `lookup`, `make`, `make_unnamed` and `link`
/// answer; [`Disk::forget`] gives them back. Errors are those of the system calls, and `EIO` once the power has gone.
#[allow(missing_docs, reason = "they are what their names say")]
impl Disk {
    pub fn lookup(&self, directory: Ino, name: &[u8]) -> Result<Attributes> {
        let mut state = self.look()?;
        let ino = match name {
            b"." => directory,
            b".." => state.parent(directory)?,
            _ => state.find(directory, name)?,
        };
        state.node(ino)?.references += 1;
        state.attributes(ino)
    }

    pub fn forget(&self, ino: Ino, count: u64) {
        let mut state = self.state();
        if let Ok(node) = state.node(ino) {
            node.references = node.references.saturating_sub(count);
        }
        state.reap(ino);
    }

    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        self.look()?.attributes(ino)
    }

    pub fn set_mode(&self, ino: Ino, mode: u32) -> Result<()> {
        self.change()?.node(ino)?.mode = mode & 0o7777;
        Ok(())
    }

    pub fn set_owner(&self, ino: Ino, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let mut state = self.change()?;
        let node = state.node(ino)?;
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        Ok(())
    }

    pub fn make(&self, directory: Ino, name: &[u8], kind: Kind, mode: u32) -> Result<Attributes> {
        let mut state = self.change()?;
        if state.find(directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        let content = match kind {
            Kind::File => Content::File(FileContent::default()),
            Kind::Directory => Content::Directory { names: BTreeMap::new(), parent: directory },
            Kind::Symlink => return Err(Errno::INVAL),
        };
        state.make(directory, name, content, mode)
    }

    pub fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> Result<Attributes> {
        let mut state = self.change()?;
        if state.find(directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        state.make(directory, name, Content::Symlink(target.to_vec()), 0o777)
    }

    pub fn make_unnamed(&self, mode: u32) -> Result<Attributes> {
        let mut state = self.change()?;
        let ino = state.add(Content::File(FileContent::default()), mode);
        let node = state.node(ino)?;
        node.links = 0;
        node.references += 1;
        state.attributes(ino)
    }

    pub fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<Attributes> {
        let mut state = self.change()?;
        if state.find(directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        let node = state.node(ino)?;
        if matches!(node.content, Content::Directory { .. }) {
            return Err(Errno::PERM);
        }
        node.links += 1;
        node.references += 1;
        state.enter(directory, name, ino)?;
        state.names.record(vec![(directory, name.to_vec(), Some(ino))]);
        state.attributes(ino)
    }

    pub fn unlink(&self, directory: Ino, name: &[u8]) -> Result<()> {
        self.change()?.remove_name(directory, name)
    }

    pub fn rmdir(&self, directory: Ino, name: &[u8]) -> Result<()> {
        let mut state = self.change()?;
        let ino = state.find(directory, name)?;
        if !state.names_of(ino)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        state.remove_name(directory, name)
    }

    pub fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], replace: Replace) -> Result<()> {
        let mut state = self.change()?;
        let moved = state.find(from, name)?;
        let replaced = state.find(to, new_name).ok();
        match replaced {
            Some(_) if replace == Replace::No => return Err(Errno::EXIST),
            Some(same) if same == moved => return Ok(()),
            Some(other) if state.names_of(other).is_ok_and(|names| !names.is_empty()) => {
                return Err(Errno::NOTEMPTY);
            }
            _ => {}
        }
        state.names_of(from)?.remove(name);
        state.names_of(to)?.remove(new_name);
        state.enter(to, new_name, moved)?;
        if let Content::Directory { parent, .. } = &mut state.node(moved)?.content {
            *parent = to;
        }
        state.names.record(vec![(from, name.to_vec(), None), (to, new_name.to_vec(), Some(moved))]);
        replaced.map_or(Ok(()), |other| state.drop_link(other))
    }

    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        match &self.look()?.node(ino)?.content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    pub fn list(&self, directory: Ino) -> Result<Vec<Entry>> {
        let mut state = self.look()?;
        let names: Vec<_> = state
            .names_of(directory)?
            .iter()
            .map(|(name, (cookie, ino))| (*cookie, name.clone(), *ino))
            .collect();
        let mut entries = Vec::with_capacity(names.len());
        for (cookie, name, ino) in names {
            entries.push(Entry { cookie, name, attributes: state.attributes(ino)? });
        }
        entries.sort_unstable_by_key(|entry| entry.cookie);
        Ok(entries)
    }

    pub fn parent(&self, directory: Ino) -> Result<Ino> {
        self.look()?.parent(directory)
    }

    pub fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>> {
        let mut state = self.look()?;
        let start = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        Ok(state.file(ino)?.read(start..start.saturating_add(len as usize)).to_vec())
    }

    pub fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        let (start, _) = span(offset, data.len() as u64)?;
        self.change()?.file(ino)?.write(start, data);
        Ok(())
    }

    pub fn truncate(&self, ino: Ino, len: u64) -> Result<()> {
        let (_, end) = span(0, len)?;
        self.change()?.file(ino)?.resize(end);
        Ok(())
    }

    /// Gives a range its space: with `grow`, extends the file to its end.
    pub fn allocate(&self, ino: Ino, offset: u64, len: u64, grow: bool) -> Result<()> {
        let (_, end) = span(offset, len)?;
        let mut state = self.change()?;
        let file = state.file(ino)?;
        if grow && end > file.len() {
            file.resize(end);
        }
        Ok(())
    }

    /// Makes a range a hole.
    pub fn punch(&self, ino: Ino, offset: u64, len: u64) -> Result<()> {
        let (start, end) = span(offset, len)?;
        self.change()?.file(ino)?.zero(start..end);
        Ok(())
    }

    pub fn sync_file(&self, ino: Ino) -> Result<()> {
        self.change()?.file(ino)?.sync();
        Ok(())
    }

    pub fn sync_directory(&self, directory: Ino) -> Result<()> {
        let mut state = self.change()?;
        state.names_of(directory)?;
        state.names.sync(directory);
        let unnamed: Vec<_> =
            state.nodes.iter().filter(|(_, node)| node.links == 0).map(|(ino, _)| *ino).collect();
        for ino in unnamed {
            state.reap(ino);
        }
        Ok(())
    }
}

/// Start and end of a range, which must stay small enough for memory.
fn span(offset: u64, len: u64) -> Result<(usize, usize)> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_FILE => Ok((offset as usize, end as usize)),
        _ => Err(Errno::FBIG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(disk: &Disk, name: &str) -> Ino {
        disk.make(ROOT, name.as_bytes(), Kind::File, 0o600).expect("new file").ino
    }

    fn written(image: &Image) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        image.write_to(dir.path()).expect("writing an image");
        dir
    }

    #[test]
    fn a_file_replaced_by_the_book_is_old_or_new_and_new_once_synced() {
        for seed in 0..300 {
            let disk = Disk::new();
            let old = file(&disk, "file");
            disk.write(old, 0, b"old").expect("write");
            disk.sync_file(old).expect("sync");
            disk.sync_directory(ROOT).expect("sync");
            let new = file(&disk, "file.new");
            disk.write(new, 0, b"new").expect("write");
            disk.sync_file(new).expect("sync");
            disk.rename(ROOT, b"file.new", ROOT, b"file", Replace::Yes).expect("rename");
            let left = written(&disk.image(seed));
            let content = fs::read(left.path().join("file")).expect("it has one of its states");
            assert!(content == b"old" || content == b"new", "seed {seed}: {content:?}");
            disk.sync_directory(ROOT).expect("sync");
            let left = written(&disk.image(seed));
            assert_eq!(fs::read(left.path().join("file")).expect("durable"), b"new");
            assert!(!left.path().join("file.new").exists());
        }
    }

    #[test]
    fn a_file_replaced_without_a_sync_may_be_empty() {
        let empty = (0..300).any(|seed| {
            let disk = Disk::new();
            let new = file(&disk, "file.new");
            disk.write(new, 0, b"new").expect("write");
            disk.rename(ROOT, b"file.new", ROOT, b"file", Replace::Yes).expect("rename");
            disk.sync_directory(ROOT).expect("sync");
            fs::read(written(&disk.image(seed)).path().join("file")).expect("durable name").is_empty()
        });
        assert!(empty, "the model must show what careless programs lose");
    }

    #[test]
    fn the_power_goes_after_the_count_and_nothing_is_answered_any_more() {
        let disk = Disk::new();
        let ino = file(&disk, "file");
        disk.cut_after(1);
        disk.write(ino, 0, b"last").expect("one more");
        assert!(!disk.wait_until_cut(Duration::ZERO));
        assert_eq!(disk.sync_file(ino), Err(Errno::IO));
        assert!(disk.wait_until_cut(Duration::ZERO));
        assert_eq!(disk.read(ino, 0, 4), Err(Errno::IO));
    }

    #[test]
    fn a_tree_comes_back_as_it_was_loaded() {
        let source = tempfile::tempdir().expect("temporary directory");
        fs::create_dir_all(source.path().join("a/b")).expect("mkdir");
        fs::write(source.path().join("a/b/file"), b"content").expect("write");
        std::os::unix::fs::symlink("a/b", source.path().join("link")).expect("symlink");
        let disk = Disk::load(source.path()).expect("load");
        for seed in 0..20 {
            let left = written(&disk.image(seed));
            assert_eq!(fs::read(left.path().join("link/file")).expect("durable"), b"content");
        }
    }
}
