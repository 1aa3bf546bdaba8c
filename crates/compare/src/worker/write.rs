//! Writing large files.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::clock::Clock;
use super::job::{Fsync, Order, Outcome, Section};
use crate::content::Content;
use crate::failure::{Context, Result};

/// Writes the blocks of a file in order. Opening, syncing and closing are part of the time.
pub fn write(section: &Section, order: Order, block: u64, sync: Fsync, limit: Duration) -> Result<Outcome> {
    let content = Content::default();
    let named = |what: &str| format!("{what} {}", section.path.display());
    let fresh = !matches!(order, Order::Random { .. });
    let mut clock = Clock::new(limit);
    let options = || OpenOptions::new().write(true).create(fresh).truncate(fresh).open(&section.path);
    let file = clock.timed(options).context(|| named("opening"))?;
    let mut buffer = vec![0; block as usize];
    for offset in order.offsets(section.len, block) {
        if clock.over() {
            break;
        }
        let part = &mut buffer[..block.min(section.len - offset) as usize];
        let at = section.from + offset;
        clock.aside(|| content.fill(section.id, at, part));
        let once = || {
            file.write_all_at(part, at)?;
            if sync == Fsync::Each { file.sync_all() } else { Ok(()) }
        };
        clock.operation(|| (once(), part.len() as u64)).context(|| named("writing"))?;
    }
    if sync == Fsync::End {
        clock.timed(|| file.sync_all()).context(|| named("syncing"))?;
    }
    // Some upload here and cannot say that it failed; the check after the case would see it.
    clock.timed(|| drop(file));
    Ok(Clock::outcome(vec![clock]))
}
