//! A writer that knows what was acknowledged: it changes files on a mount, makes each change durable, and records that
//! outside of the mount. After whatever has happened to the mount, [`Writer::verify`] says what is missing.

mod check;
mod operation;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

pub use check::{Demand, Kept};
use operation::Operation;

use crate::Rng;
use crate::content::sha256_hex;

/// Most files a writer keeps: it removes some beyond that. Everything is read again after each round.
const MAX_FILES: usize = 48;

/// A change that was acknowledged as durable.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    /// When the first of its system calls began.
    pub began: Instant,
    /// When the last, a sync, had answered.
    pub ended: Instant,
    operation: Operation,
}

/// A writer and its directory.
#[derive(Debug)]
pub struct Writer {
    name: String,
    rng: Rng,
    number: u64,
    largest: u64,
    /// Whether its directory was acknowledged.
    started: bool,
    /// Contents after the newest acknowledged change.
    files: BTreeMap<String, Vec<u8>>,
    /// Digests when it was verified last.
    base: BTreeMap<String, String>,
    /// Acknowledged since then.
    history: Vec<Acknowledged>,
    /// The change under way, if its end was an error.
    in_flight: Option<Operation>,
    acknowledged: u64,
}

impl Writer {
    /// A writer in the directory `name` of a mount; it makes that itself.
    pub fn new(name: &str, seed: u64) -> Writer {
        Writer {
            name: name.into(),
            rng: Rng::new(seed),
            number: 0,
            largest: 6 << 20,
            started: false,
            files: BTreeMap::new(),
            base: BTreeMap::new(),
            history: Vec::new(),
            in_flight: None,
            acknowledged: 0,
        }
    }

    /// Bytes a single change writes, at most; 6 MiB by default.
    pub fn largest(mut self, bytes: u64) -> Writer {
        self.largest = bytes;
        self
    }

    /// Its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes acknowledged so far, lost ones too.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Changes acknowledged since it was verified last.
    pub fn history(&self) -> &[Acknowledged] {
        &self.history
    }

    /// Changes the volume mounted at `mount`, in a thread of `scope`, until `stop` is set or a change fails.
    ///
    /// The thread has descriptors of its own. Otherwise a process that another thread starts would get copies of the files it
    /// has open, and would close them on its way: on a mount whose daemon is stopped that waits for ever, and whoever looks
    /// at that process in /proc waits with it.
    pub fn work<'s>(
        &'s mut self,
        scope: &'s Scope<'s, '_>,
        mount: PathBuf,
        stop: &'s AtomicBool,
    ) -> ScopedJoinHandle<'s, ()> {
        scope.spawn(move || {
            own_descriptors();
            while !stop.load(Ordering::Relaxed) && self.step(&mount).is_ok() {}
        })
    }

    /// Makes one change on the volume mounted at `mount` and makes it durable.
    ///
    /// # Errors
    /// What the system answered. Verify the writer then, before it goes on.
    pub fn step(&mut self, mount: &Path) -> io::Result<()> {
        if self.in_flight.is_some() {
            return Err(io::Error::other("the last change failed: verify first"));
        }
        let dir = mount.join(&self.name);
        let began = Instant::now();
        if !self.started {
            // Never below a mount point on which nothing is mounted.
            if std::fs::metadata(mount)?.dev() == std::fs::metadata(mount.join(".."))?.dev() {
                return Err(io::Error::other("not mounted"));
            }
            match std::fs::create_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            std::fs::File::open(mount)?.sync_all()?;
            self.started = true;
        }
        self.number += 1;
        let operation = Operation::choose(&mut self.rng, self.number, &self.files, self.largest);
        self.in_flight = Some(operation.clone());
        operation.carry_out(&dir, &mut self.files)?;
        self.in_flight = None;
        self.history.push(Acknowledged {
            began,
            ended: Instant::now(),
            operation: operation.remembered(&self.files),
        });
        self.acknowledged += 1;
        Ok(())
    }
}

/// From here on, what this thread opens is not seen by others, nor by the processes they start; and it holds on to nothing
/// that they have open.
///
/// A process that is started while files of a mount are open closes its copies at its `exec`, and waits there for what was
/// written to them: so a test whose threads write while it starts or stops the mount's server must keep them apart. To be called
/// first in a new thread that holds no descriptor yet.
#[allow(unsafe_code)]
pub fn own_descriptors() {
    const BEHIND_STANDARD_ERROR: libc::c_uint = 3;
    // SAFETY: the thread was just started with a closure that holds no descriptor; only its copies are closed, and what it
    // opens from now on stays in it.
    let unshared = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            BEHIND_STANDARD_ERROR,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_UNSHARE,
        )
    };
    assert_eq!(unshared, 0, "close_range: {}", io::Error::last_os_error());
}

fn digest(content: &[u8]) -> String {
    sha256_hex(content)
}
