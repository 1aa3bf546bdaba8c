//! The kernel's switch for FUSE over io_uring. It is one for the machine, so tests that need it in different positions take turns.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

static POSITION: RwLock<()> = RwLock::new(());
/// How many want it on, and how it was before the first did.
static WANTED: Mutex<(usize, String)> = Mutex::new((0, String::new()));

fn wanted() -> MutexGuard<'static, (usize, String)> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(value: &str) {
    fs::write(SWITCH, value).unwrap_or_else(|error| panic!("{SWITCH}: {error}; this needs root"));
}

/// The kernel offers it as long as this lives.
#[derive(Debug)]
pub struct Offered(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>);

/// The kernel does not offer it as long as this lives.
#[derive(Debug)]
pub struct Withheld {
    before: String,
    _alone: RwLockWriteGuard<'static, ()>,
}

/// Whether this kernel has it at all (Linux 6.14).
pub fn known() -> bool {
    Path::new(SWITCH).exists()
}

/// Switches it on; `None` where the kernel does not have it.
pub fn offered() -> Option<Offered> {
    let position = POSITION.read().unwrap_or_else(PoisonError::into_inner);
    if !known() {
        eprintln!("this kernel has no FUSE over io_uring: not tested");
        return None;
    }
    let mut wanted = wanted();
    if wanted.0 == 0 {
        wanted.1 = fs::read_to_string(SWITCH).expect("the switch");
        set("Y");
    }
    wanted.0 += 1;
    Some(Offered(position))
}

/// Switches it off.
pub fn withheld() -> Withheld {
    let alone = POSITION.write().unwrap_or_else(PoisonError::into_inner);
    let before = fs::read_to_string(SWITCH).unwrap_or_default();
    if known() {
        set("N");
    }
    Withheld { before, _alone: alone }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut wanted = wanted();
        wanted.0 -= 1;
        if wanted.0 == 0 {
            let _ = fs::write(SWITCH, wanted.1.trim());
        }
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        if known() {
            let _ = fs::write(SWITCH, self.before.trim());
        }
    }
}
