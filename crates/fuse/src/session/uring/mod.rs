//! FUSE over io_uring: requests and replies by rings that are shared with the kernel, one for each processor, in place of /dev/fuse.
//!
//! What the kernel still sends by the device (INIT, FORGET, INTERRUPT) a worker of the device takes, and notifications go there too. Waking a
//! thread on another processor and being woken by it is most of what a small request costs; with a ring both happen where the caller
//! is. What it costs: a bounded number of requests may be with this process at one time, those that wait for the store included; and the
//! bytes of reads and writes are copied once more.

mod entries;
mod plan;
mod ring;

use std::path::Path;
use std::sync::Arc;

use headrace_vfs::MemoryPlan;
use plan::Plan;
pub(crate) use ring::Ring;

use super::config::{MAX_BACKGROUND, MAX_WRITE};
use super::device::Device;
use super::processors::Processors;

/// Rings for a connection, which the kernel does not know yet.
pub(super) struct Rings {
    pub rings: Vec<Ring>,
    /// Requests of readahead that may be under way.
    pub background: u16,
}

/// Makes rings.
///
/// # Errors
/// Why there can be none, for a person.
pub(super) fn prepare(device: Device, memory: &MemoryPlan) -> Result<Rings, String> {
    let processors = Processors::here()?;
    let plan = Plan::new(&processors, memory).ok_or("it takes more memory: raise --memory")?;
    let device = Arc::new(device);
    let rings = plan
        .rings
        .into_iter()
        .map(|(processor, queues)| Ring::new(Arc::clone(&device), processor, queues, MAX_WRITE as usize))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the kernel gives no ring: {error}"))?;
    Ok(Rings { rings, background: plan.background })
}

/// Why the kernel does not offer it.
pub(super) fn not_offered() -> String {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    if Path::new(SWITCH).exists() {
        format!("it is switched off in the kernel: \"echo Y > {SWITCH}\" switches it on until the next start")
    } else {
        "the kernel does not have it: Linux 6.14 and later do".to_owned()
    }
}
