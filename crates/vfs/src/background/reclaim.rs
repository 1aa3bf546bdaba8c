//! Takes back what deleted files held, and lets go of what was kept for long enough.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use headrace_cache::disk::Key;
use headrace_layout::InodeNo;
use headrace_meta::{MetaError, Time};

use crate::error::Result;
use crate::trash::Count;
use crate::vfs::Vfs;

/// Deleted files taken in hand at a time.
const BATCH: usize = 1024;
/// How long an unmount goes on with them: the next mount finds what is left.
const AT_THE_END: Duration = Duration::from_secs(5);
/// Searching the metadata takes one part in so many of a thread's time.
const SHARE: u32 = 100;
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

pub(super) fn run(weak: Weak<Vfs>) {
    // What a crash has left, first of all.
    let mut next_search = Some(Instant::now());
    let mut settled = false;
    loop {
        let Some(vfs) = weak.upgrade() else { return };
        if vfs.background.stopping() {
            return;
        }
        if !std::mem::replace(&mut settled, true) {
            vfs.settle_all();
        }
        vfs.reclaim_ready(None);
        let due = next_search.is_some_and(|at| at <= Instant::now());
        if vfs.orphans.take_missed() || due {
            next_search = vfs.search();
        }
        vfs.background.reclaim.wait(Duration::from_secs(1));
    }
}

impl Vfs {
    /// Truncations that a crash interrupted.
    fn settle_all(&self) {
        let unsettled = match self.meta().unsettled() {
            Ok(unsettled) => unsettled,
            Err(error) => return tracing::error!(%error, "cannot list truncations to finish"),
        };
        for ino in unsettled {
            if let Err(error) = self.meta().reclaim(ino) {
                tracing::error!(%ino, %error, "cannot finish a truncation");
            }
        }
    }

    /// Reclaims what waits for it, until `end`.
    fn reclaim_ready(&self, end: Option<Instant>) {
        while end.is_none_or(|end| Instant::now() < end) {
            let batch = self.orphans.next(BATCH);
            if batch.is_empty() || (end.is_none() && self.background.stopping()) {
                return;
            }
            self.reclaim(&batch, Time::now());
        }
    }

    /// Reclaims nameless inodes that nobody refers to.
    fn reclaim(&self, inodes: &[InodeNo], now: Time) {
        for &ino in inodes {
            if let Some(inode) = self.inodes.find(ino) {
                let mut state = inode.state.lock();
                self.discard_pending(ino, &mut state, 0);
                self.staging.drop_staged(ino, &mut state);
                drop(state);
                inode.changed.notify_waiters();
            }
        }
        if self.meta().reclaim_all(inodes, now).is_err() {
            for &ino in inodes {
                match self.meta().reclaim_all(&[ino], now) {
                    Ok(()) | Err(MetaError::NotFound | MetaError::Stale) => {}
                    // Metadata still lists it: the next search tries again.
                    Err(error) => tracing::error!(%ino, %error, "cannot reclaim a deleted file"),
                }
            }
        }
        for &ino in inodes {
            if let Some(cache) = &self.cache {
                cache.disk.forget(Key::File(ino));
            }
            self.inodes.evict(ino);
        }
    }

    /// Looks for everything nameless in the metadata; when to look again.
    fn search(&self) -> Option<Instant> {
        let started = Instant::now();
        let earliest = match self.let_go_until(Time::now()) {
            Ok(earliest) => earliest,
            Err(error) => {
                tracing::error!(%error, "cannot search for deleted files");
                Some(Time::now())
            }
        };
        let now = Instant::now();
        let rest = ((now - started) * SHARE).clamp(REST.0, REST.1);
        let wait =
            earliest.map(|at| SystemTime::from(at).duration_since(SystemTime::now()).unwrap_or_default());
        // What is deleted from now on may have to go before what there is.
        let wait = wait.into_iter().chain(self.options.trash).min()?;
        now.checked_add(wait.max(rest))
    }

    /// Reclaims everything nameless that nobody refers to and that is not kept beyond `now`; until when the rest is, at the earliest.
    pub(crate) fn let_go_until(&self, now: Time) -> Result<Option<Time>> {
        let mut earliest: Option<Time> = None;
        let mut after = Some(InodeNo(0));
        let mut count = self.trash.count();
        while let Some(from) = after {
            after = self.let_go_page(from, now, &mut earliest, &mut count)?;
            if self.background.stopping() {
                return Ok(earliest);
            }
            // These must not wait for a long search.
            self.reclaim_ready(None);
        }
        self.trash.counted(&count);
        Ok(earliest)
    }

    fn let_go_page(
        &self,
        from: InodeNo,
        now: Time,
        earliest: &mut Option<Time>,
        count: &mut Count,
    ) -> Result<Option<InodeNo>> {
        // Nothing comes back from the trash between being looked at and being gone.
        let _settled = self.trash.lock();
        let (page, next) = {
            // No file is in the midst of being made without a name.
            let _made = self.unnamed.write();
            self.meta().nameless(from, BATCH)?
        };
        let mut gone = Vec::with_capacity(page.len());
        for nameless in page {
            let ino = nameless.ino;
            let kept = nameless.kept.is_some();
            if let Some((kept, attr)) = nameless.kept
                && kept.until > now
            {
                *earliest = Some(earliest.map_or(kept.until, |time| time.min(kept.until)));
                count.add(&kept, attr.allocated);
            } else if !self.is_referred_to(ino) {
                gone.push(ino);
            } else if kept && self.meta().let_go(ino)? {
                self.make_orphan(ino);
            }
        }
        self.reclaim(&gone, now);
        Ok(next)
    }

    /// Reclaims deleted files: the front end is gone, so nobody holds one any more.
    pub(crate) async fn reclaim_all(self: &Arc<Self>) {
        let vfs = Arc::clone(self);
        let all = move || {
            vfs.orphans.release_all();
            vfs.reclaim_ready(Some(Instant::now() + AT_THE_END));
        };
        if let Err(error) = tokio::task::spawn_blocking(all).await {
            tracing::error!(%error, "reclaiming deleted files failed");
        }
    }
}
