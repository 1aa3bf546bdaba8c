//! The C library's allocator, told to give memory back.
//!
//! Left to itself it keeps what was freed: in an arena for each thread, and for blocks of up to 32 MiB. Measured on a mount
//! that had written and read through many threads, that was several times what was in use.

/// Sets limits that suit a ceiling of `memory` bytes. Before threads are started; again is harmless.
pub fn limit(memory: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::limit(memory);
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = memory;
}

/// Starts giving freed memory back now and then.
pub fn trim_in_background() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::trim_in_background();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::time::Duration;

    /// Few threads are inside the allocator at one time: most bytes move in blocks that are mapped.
    const ARENAS: u64 = 4;
    /// How often what is free between blocks in use is given back.
    const TRIM: Duration = Duration::from_secs(5);

    /// A block that is mapped is given back when it is freed, and costs a page fault for every 4 KiB when it is needed again: a fifth of
    /// what a cold read took, and two thirds of what a read of 1 MiB from the cache did. Buffers of network connections (up to about 400 KiB) and
    /// of the largest requests (1 MiB and a little) are kept where there is memory for that. A fixed limit: the one that adapts grows to 32 MiB.
    fn mapped(memory: u64) -> u64 {
        (memory / 512).clamp(128 << 10, LARGEST)
    }

    /// A request's bytes, and what the allocator puts before them.
    const LARGEST: u64 = (1 << 20) + 4096;

    /// Free bytes at the end of a heap that are kept until the next trim.
    fn kept(memory: u64) -> u64 {
        (memory / 64).clamp(1 << 20, 16 << 20)
    }

    pub fn limit(memory: u64) {
        let limits = [
            (libc::M_ARENA_MAX, ARENAS),
            (libc::M_MMAP_THRESHOLD, mapped(memory)),
            (libc::M_TRIM_THRESHOLD, kept(memory)),
        ];
        for (what, value) in limits {
            let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
            // SAFETY: changes a number within the allocator, under its own lock.
            #[allow(unsafe_code)]
            let done = unsafe { libc::mallopt(what, value) };
            if done == 0 {
                tracing::warn!(what, value, "the allocator refuses a limit: more memory may be used");
            }
        }
    }

    pub fn trim_in_background() {
        let trim = || {
            loop {
                std::thread::sleep(TRIM);
                // SAFETY: gives free pages back to the system; blocks in use are not touched.
                #[allow(unsafe_code)]
                unsafe {
                    libc::malloc_trim(0)
                };
            }
        };
        if let Err(error) = std::thread::Builder::new().name("headrace-trim".into()).spawn(trim) {
            tracing::warn!(%error, "freed memory is not given back");
        }
    }
}
