//! What tests do to it, and see of it, behind the kernel's back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use headrace_fuse::InodeNo;

use super::MemFs;
use super::opens::{Choice, Passing};
use super::state::Node;

impl MemFs {
    /// Puts files that the kernel is to read by itself into `dir`.
    pub fn with_backing(dir: &Path) -> Self {
        let passing = Passing { dir: Some(dir.to_owned()), ..Passing::default() };
        MemFs { passing: Arc::new(passing), ..MemFs::new(true) }
    }

    /// How a file is opened from here on.
    pub fn choose(&self, name: &str, choice: Choice) {
        let mut state = self.state();
        let ino = state.find(InodeNo::ROOT, name.as_bytes()).unwrap();
        state.node(ino).unwrap().opens.choice = choice;
    }

    /// Where the backing file of a file is, or was.
    pub fn backing_path(&self, name: &str) -> PathBuf {
        let ino = self.state().find(InodeNo::ROOT, name.as_bytes()).unwrap();
        self.passing.dir.as_ref().unwrap().join(ino.0.to_string())
    }

    /// What a file holds.
    pub fn data(&self, name: &str) -> Vec<u8> {
        let mut state = self.state();
        let ino = state.find(InodeNo::ROOT, name.as_bytes()).unwrap();
        state.node(ino).unwrap().data.all()
    }

    /// Open files of one.
    pub fn opens(&self, name: &str) -> usize {
        let mut state = self.state();
        let ino = state.find(InodeNo::ROOT, name.as_bytes()).unwrap();
        state.node(ino).unwrap().opens.len()
    }

    /// Closes whatever is open: the front end is gone.
    pub fn close_all(&self) {
        self.state().nodes.values_mut().for_each(Node::close_all);
    }

    /// References the kernel holds on what is not the root.
    pub fn references(&self) -> u64 {
        self.state()
            .nodes
            .values()
            .filter(|node| node.attr.ino != InodeNo::ROOT)
            .map(|node| node.references)
            .sum()
    }

    /// Inodes, the root among them.
    pub fn inodes(&self) -> usize {
        self.state().nodes.len()
    }

    /// Changes a file behind the kernel's back.
    pub fn poke(&self, name: &[u8], data: &[u8]) {
        let mut state = self.state();
        let ino = state.find(InodeNo::ROOT, name).unwrap();
        let node = state.node(ino).unwrap();
        node.data.resize(data.len());
        node.data.write(0, data);
        node.touch(true);
    }
}
