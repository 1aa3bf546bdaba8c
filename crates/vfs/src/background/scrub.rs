//! Reads everything stored again, slowly, and says which files have lost bytes.

use std::sync::Weak;
use std::time::{Duration, Instant, SystemTime};

use headrace_volume::scrub::Step;
use headrace_volume::{Pacer, Scrubber};
use parking_lot::Mutex;

use crate::vfs::Vfs;

/// Wait after the store failed, and between looks at whether a pass is due.
const LATER: Duration = Duration::from_secs(60);

pub(super) fn run(weak: Weak<Vfs>) {
    let started = Instant::now();
    let mut pacer = Pacer::default();
    let mut scrubber: Option<Scrubber> = None;
    loop {
        let Some(vfs) = weak.upgrade() else { return };
        if vfs.background.stopping() {
            return save(&vfs, scrubber.as_mut());
        }
        let scrubber = scrubber.get_or_insert_with(|| first_look(&vfs));
        let wait = step(&vfs, scrubber, &mut pacer, started);
        *vfs.background.scrubbed.lock() = Some(scrubber.status().clone());
        if !wait.is_zero() {
            vfs.background.scrub.wait(wait);
        }
    }
}

/// Loads where the last one was, and verifies metadata that was too large to be verified when it was opened.
fn first_look(vfs: &Vfs) -> Scrubber {
    let mut scrubber = Scrubber::load(&vfs.volume);
    if !Scrubber::is_metadata_verified(&vfs.volume) {
        verify_metadata(vfs, &mut scrubber);
    }
    scrubber
}

fn verify_metadata(vfs: &Vfs, scrubber: &mut Scrubber) {
    if let Err(error) = scrubber.verify_metadata(&vfs.volume) {
        tracing::warn!(%error, "cannot verify the metadata on this machine");
    }
}

/// Reads a segment, if one is due; how long to wait for the next.
fn step(vfs: &Vfs, scrubber: &mut Scrubber, pacer: &mut Pacer, started: Instant) -> Duration {
    let bytes = vfs.meta().statfs().map_or(0, |totals| totals.bytes);
    let Some(rate) = vfs.options.scrub.rate(vfs.volume.location.is_local(), bytes) else { return LATER };
    let until = scrubber.until_next(vfs.options.scrub, SystemTime::now());
    if !until.is_zero() {
        return until.min(LATER);
    }
    let pacer = Mutex::new(pacer);
    let pause = |bytes: u64| {
        let wait = pacer.lock().wait(started.elapsed(), bytes, rate);
        vfs.background.rest(wait)
    };
    match vfs.runtime.block_on(scrubber.step(&vfs.volume, &pause)) {
        Ok(Step::More | Step::Stopped) => Duration::ZERO,
        Ok(Step::Passed) => {
            verify_metadata(vfs, scrubber);
            LATER
        }
        Err(error) => {
            tracing::warn!(%error, "reading stored data again failed; it is tried again");
            LATER
        }
    }
}

fn save(vfs: &Vfs, scrubber: Option<&mut Scrubber>) {
    if let Some(scrubber) = scrubber
        && let Err(error) = scrubber.save(&vfs.volume)
    {
        tracing::warn!(%error, "cannot note where the scrub is");
    }
}
