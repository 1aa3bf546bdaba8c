//! A file system that does nothing: names and attributes are in memory, what is written is forgotten, and a read gives bytes of one local
//! file. What something takes on it is what the kernel and a server's system calls take; no server takes less. For scripts/fuse-floor.
//!
//! usage: bare MOUNTPOINT FILE THREADS
//!
//! `MOUNTPOINT/file` is there from the beginning, as long as FILE. Serves until it is unmounted. Needs root.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use headrace_fuse::Opcode;
use headrace_fuse::abi::{
    Args, AttrOut, CreateIn, EntryOut, FuseAttr, InHeader, InitFlags, InitIn, InitOut, Malformed, MkdirIn,
    OpenOut, OpenReply, OutHeader, ReadIn, SetattrIn, SetattrValid, WriteIn, WriteOut,
};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use zerocopy::IntoBytes;

const ROOT: u64 = 1;
/// Bytes of the longest write and the longest read.
const LONGEST: u32 = 1 << 20;
/// Seconds for which the kernel may believe what it was told.
const VALID: u64 = 3600;

#[derive(Default)]
struct Tree {
    inodes: HashMap<u64, FuseAttr>,
    names: HashMap<(u64, Vec<u8>), u64>,
}

impl Tree {
    fn new(file: &File) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.add(ROOT, b"", libc::S_IFDIR | 0o755, (0, 0));
        let there = tree.add(ROOT, b"file", libc::S_IFREG | 0o644, (0, 0));
        let len = file.metadata()?.len();
        tree.inodes.entry(there.nodeid).and_modify(|attr| attr.size = len);
        Ok(tree)
    }

    fn add(&mut self, parent: u64, name: &[u8], mode: u32, (uid, gid): (u32, u32)) -> EntryOut {
        let ino = self.inodes.len() as u64 + ROOT;
        let attr = FuseAttr { ino, mode, uid, gid, nlink: 1, blksize: 4096, ..zeroed() };
        self.inodes.insert(ino, attr);
        self.names.insert((parent, name.to_vec()), ino);
        entry(attr)
    }

    fn attr(&self, ino: u64) -> Result<FuseAttr, Errno> {
        self.inodes.get(&ino).copied().ok_or(Errno::NOENT)
    }

    fn set(&mut self, ino: u64, new: &SetattrIn) -> Result<FuseAttr, Errno> {
        let attr = self.inodes.get_mut(&ino).ok_or(Errno::NOENT)?;
        let valid = SetattrValid::from_bits_truncate(new.valid);
        let set = |flag, field: &mut u32, value| {
            if valid.contains(flag) {
                *field = value;
            }
        };
        set(SetattrValid::MODE, &mut attr.mode, new.mode);
        set(SetattrValid::UID, &mut attr.uid, new.uid);
        set(SetattrValid::GID, &mut attr.gid, new.gid);
        if valid.contains(SetattrValid::SIZE) {
            attr.size = new.size;
        }
        if valid.contains(SetattrValid::MTIME) {
            (attr.mtime, attr.mtimensec) = (new.mtime, new.mtimensec);
        }
        Ok(*attr)
    }
}

fn zeroed<T: zerocopy::FromZeros>() -> T {
    T::new_zeroed()
}

fn entry(attr: FuseAttr) -> EntryOut {
    EntryOut { nodeid: attr.ino, entry_valid: VALID, attr_valid: VALID, attr, ..zeroed() }
}

struct Server {
    tree: Mutex<Tree>,
    file: File,
}

/// Pages stay good from one open to the next.
const OPENED: OpenReply = OpenReply { fh: 1, open_flags: OpenOut::KEEP_CACHE.bits(), backing_id: 0 };

impl Server {
    /// Puts the answer into `room`, and says how much of it.
    fn answer(&self, header: &InHeader, body: &[u8], room: &mut [u8]) -> Result<usize, Errno> {
        let malformed = |_: Malformed| Errno::INVAL;
        let mut args = Args::new(body);
        let owner = (header.uid, header.gid);
        let opcode = Opcode::from_raw(header.opcode).ok_or(Errno::NOSYS)?;
        match opcode {
            Opcode::Init => {
                let offer: InitIn = args.take().map_err(malformed)?;
                let wanted = InitFlags::ASYNC_READ
                    | InitFlags::BIG_WRITES
                    | InitFlags::PARALLEL_DIROPS
                    | InitFlags::MAX_PAGES
                    | InitFlags::EXPLICIT_INVAL_DATA;
                let flags = wanted.bits() as u32 & offer.flags;
                put(
                    room,
                    &InitOut {
                        major: offer.major,
                        minor: offer.minor.min(headrace_fuse::abi::MINOR),
                        max_readahead: offer.max_readahead,
                        flags,
                        max_background: 64,
                        congestion_threshold: 64,
                        max_write: LONGEST,
                        time_gran: 1,
                        max_pages: (LONGEST / 4096) as u16,
                        ..zeroed()
                    },
                )
            }
            Opcode::Lookup => {
                let name = args.name().map_err(malformed)?.to_vec();
                let tree = self.tree.lock();
                let ino = tree.names.get(&(header.nodeid, name)).copied().ok_or(Errno::NOENT)?;
                put(room, &entry(tree.attr(ino)?))
            }
            Opcode::Getattr => {
                let attr = self.tree.lock().attr(header.nodeid)?;
                put(room, &AttrOut { attr_valid: VALID, attr, ..zeroed() })
            }
            Opcode::Setattr => {
                let new: SetattrIn = args.take().map_err(malformed)?;
                let attr = self.tree.lock().set(header.nodeid, &new)?;
                put(room, &AttrOut { attr_valid: VALID, attr, ..zeroed() })
            }
            Opcode::Mkdir => {
                let arg: MkdirIn = args.take().map_err(malformed)?;
                let name = args.name().map_err(malformed)?;
                put(room, &self.tree.lock().add(header.nodeid, name, libc::S_IFDIR | arg.mode, owner))
            }
            Opcode::Symlink => {
                let name = args.name().map_err(malformed)?;
                put(room, &self.tree.lock().add(header.nodeid, name, libc::S_IFLNK | 0o777, owner))
            }
            Opcode::Create => {
                let arg: CreateIn = args.take().map_err(malformed)?;
                let name = args.name().map_err(malformed)?;
                let made = self.tree.lock().add(header.nodeid, name, libc::S_IFREG | arg.mode, owner);
                let len = put(room, &made)?;
                Ok(len + put(&mut room[len..], &OPENED)?)
            }
            Opcode::Open => put(room, &OPENED),
            Opcode::Read => {
                let arg: ReadIn = args.take().map_err(malformed)?;
                let room = &mut room[..arg.size.min(LONGEST) as usize];
                self.file.read_at(room, arg.offset).map_err(|_| Errno::IO)
            }
            Opcode::Write => {
                let arg: WriteIn = args.take().map_err(malformed)?;
                let mut tree = self.tree.lock();
                let attr = tree.inodes.get_mut(&header.nodeid).ok_or(Errno::NOENT)?;
                attr.size = attr.size.max(arg.offset + u64::from(arg.size));
                put(room, &WriteOut { size: arg.size, padding: 0 })
            }
            Opcode::Flush | Opcode::Release | Opcode::Releasedir | Opcode::Fsync => Ok(0),
            // The kernel does not ask again.
            _ => Err(Errno::NOSYS),
        }
    }

    fn serve(&self, fd: &OwnedFd) {
        let mut request = vec![0; LONGEST as usize + (64 << 10)];
        let mut room = vec![0; LONGEST as usize];
        loop {
            let len = match rustix::io::read(fd, &mut request) {
                Ok(0) => return,
                Ok(len) => len,
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                Err(_) => return,
            };
            let mut args = Args::new(&request[..len]);
            let Ok(header) = args.take::<InHeader>() else { return };
            if Opcode::from_raw(header.opcode).is_some_and(Opcode::silent) {
                continue;
            }
            let (error, len) = match self.answer(&header, args.rest(), &mut room) {
                Ok(len) => (0, len),
                Err(errno) => (-errno.raw_os_error(), 0),
            };
            let head = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique: header.unique };
            // Who asked may have been interrupted.
            let _ = rustix::io::writev(fd, &[IoSlice::new(head.as_bytes()), IoSlice::new(&room[..len])]);
        }
    }
}

fn put(room: &mut [u8], reply: &(impl IntoBytes + zerocopy::Immutable)) -> Result<usize, Errno> {
    let bytes = reply.as_bytes();
    room.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// Another descriptor of the connection, as soon as it has answered INIT.
fn cloned(first: &OwnedFd) -> io::Result<OwnedFd> {
    let fd = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let source = first.as_raw_fd();
    // FUSE_DEV_IOC_CLONE.
    let clone = libc::_IOR::<u32>(229, 0);
    // SAFETY: it reads the descriptor to join from the address that it is given.
    #[allow(unsafe_code)]
    while unsafe { libc::ioctl(fd.as_raw_fd(), clone, &raw const source) } != 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(fd)
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mountpoint, file, threads] = &args[..] else {
        eprintln!("usage: bare MOUNTPOINT FILE THREADS");
        std::process::exit(2);
    };
    let threads: usize = threads.parse().map_err(io::Error::other)?;
    let fd = Arc::new(rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?);
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", fd.as_raw_fd());
    let data = CString::new(data)?;
    rustix::mount::mount("bare", mountpoint, "fuse.bare", MountFlags::empty(), Some(data.as_c_str()))?;
    let file = File::open(file)?;
    let server = Arc::new(Server { tree: Mutex::new(Tree::new(&file)?), file });
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let (server, fd) = (Arc::clone(&server), Arc::clone(&fd));
            std::thread::spawn(move || cloned(&fd).map(|fd| server.serve(&fd)))
        })
        .collect();
    server.serve(&fd);
    for other in others {
        let _ = other.join();
    }
    Ok(())
}
