//! The C library's allocator, told to give memory back.
//!
//! Left to itself it keeps what was freed: in an arena for each thread, and for blocks of up to 32 MiB. Measured on a mount
//! that had written and read through many threads, that was several times what was in use.

/// Sets limits. Before threads are started; again is harmless.
pub fn limit() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::limit();
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
    const ARENAS: libc::c_int = 4;
    /// Blocks from this size on are mapped on their own, and so given back when they are freed. A fixed limit: the one that
    /// adapts grows to 32 MiB.
    const MAPPED: libc::c_int = 128 << 10;
    /// Free bytes at the end of the heap that are kept.
    const KEPT: libc::c_int = 1 << 20;
    /// How often what is free between blocks in use is given back.
    const TRIM: Duration = Duration::from_secs(5);

    pub fn limit() {
        for (what, value) in
            [(libc::M_ARENA_MAX, ARENAS), (libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, KEPT)]
        {
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
