//! Keeps a claim alive, and tells when it is over.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Claim;
use super::lease::{Check, Lease, Todo};
use crate::object::{Owner, OwnerState, Writer};
use crate::{Bucket, Key, MetalogError, keys};

/// Why an owner is out for ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the volume was taken over by another process ({detail}): nothing more can be written from here, and what had not \
     been sent to the store is lost. Mount it again to go on with the state of the store"
)]
pub struct FencedReason {
    /// The epoch that is out.
    pub epoch: u64,
    /// What showed it.
    pub detail: String,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody else can have taken the volume.
    Valid,
    /// It was not renewed in time: somebody else may have taken the volume, and nothing may be acknowledged.
    Lapsed,
    /// Somebody else has taken the volume.
    Fenced,
    /// It was given up.
    Released,
}

/// Renews the lease of a claim in the background. When the last reference is dropped it stops without a word, as a crash would:
/// others have to wait for the lease to run out.
pub struct Keeper {
    shared: Arc<Shared>,
    /// Ends the task when dropped.
    _alive: watch::Sender<()>,
}

struct Shared {
    bucket: Bucket,
    writer: Writer,
    length: Duration,
    /// End of validity in nanoseconds of the clock; 0 if it is over. Read at every acknowledgement.
    valid_until: AtomicU64,
    lease: Mutex<Lease>,
    /// Serialises rewriting of our owner object, so that the last word is the release.
    owner: tokio::sync::Mutex<Owner>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Default)]
struct State {
    /// Counts successful renewals, so that waiters wake.
    renewals: u64,
    released: bool,
    fenced: Option<FencedReason>,
    error: Option<String>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("writer", &self.shared.writer).field("state", &self.state()).finish()
    }
}

impl Keeper {
    /// Keeps `claim` alive by a task of the tokio runtime this is called in.
    pub fn start(bucket: Bucket, claim: &Claim) -> Arc<Keeper> {
        let (keeper, task) = Keeper::new(bucket, claim);
        tokio::spawn(task);
        Arc::new(keeper)
    }

    /// A keeper, and what it does in the background until it is dropped, fenced or released.
    pub fn new(bucket: Bucket, claim: &Claim) -> (Keeper, impl Future<Output = ()> + Send + 'static) {
        let lease = Lease::new(claim.lease(), claim.claimed_at);
        let shared = Arc::new(Shared {
            bucket,
            writer: claim.writer(),
            length: claim.lease(),
            valid_until: AtomicU64::new(nanos(lease.valid_until())),
            lease: Mutex::new(lease),
            owner: tokio::sync::Mutex::new(claim.owner.clone()),
            state: watch::Sender::default(),
        });
        let (alive, dropped) = watch::channel(());
        let task = keep(Arc::clone(&shared), dropped);
        (Keeper { shared, _alive: alive }, task)
    }

    /// Who writes under this claim.
    pub fn writer(&self) -> Writer {
        self.shared.writer
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.shared.writer.epoch
    }

    /// How long a lease lasts.
    pub fn lease(&self) -> Duration {
        self.shared.length
    }

    /// Whether, right now, nobody else can have taken the volume. Cheap: a clock and an atomic.
    pub fn is_valid(&self) -> bool {
        self.shared.is_valid()
    }

    /// How the lease stands.
    pub fn state(&self) -> LeaseState {
        let state = self.shared.state.borrow();
        match () {
            () if state.fenced.is_some() => LeaseState::Fenced,
            () if state.released => LeaseState::Released,
            () if self.is_valid() => LeaseState::Valid,
            () => LeaseState::Lapsed,
        }
    }

    /// Why the last renewal failed, if it did.
    pub fn last_error(&self) -> Option<String> {
        self.shared.state.borrow().error.clone()
    }

    /// Why it is over, if somebody else has taken the volume.
    pub fn fenced_reason(&self) -> Option<FencedReason> {
        self.shared.state.borrow().fenced.clone()
    }

    /// Resolves when the lease is valid: at once, or after the next renewal that succeeds. Waits for as long as that takes; an error if
    /// that will never be.
    pub async fn valid(&self) -> Result<(), FencedReason> {
        let mut states = self.shared.state.subscribe();
        loop {
            if self.is_valid() {
                return Ok(());
            }
            let state = states.borrow_and_update().clone();
            if let Some(reason) = state.fenced {
                return Err(reason);
            }
            if state.released {
                return Err(FencedReason { epoch: self.epoch(), detail: "it was released here".into() });
            }
            if states.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Resolves when somebody else has taken the volume.
    pub async fn fenced(&self) -> FencedReason {
        let mut states = self.shared.state.subscribe();
        loop {
            if let Some(reason) = states.borrow_and_update().fenced.clone() {
                return reason;
            }
            if states.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Records that somebody else has taken the volume: the number of the log that we were to write next is taken, say. The
    /// first reason stays.
    pub fn fence(&self, detail: impl Into<String>) {
        self.shared.fence(detail.into());
    }

    /// Gives the volume up: the next owner need not wait. To be called when everything is shipped; nothing is valid any more
    /// from the moment of the call. Repeat it after an error, or leave it: others then have to wait for the lease to run out.
    pub async fn release(&self) -> Result<(), MetalogError> {
        self.shared.end();
        let mut owner = self.shared.owner.lock().await;
        if self.fenced_reason().is_some() {
            return Ok(());
        }
        let mut released = owner.clone();
        released.renewals = released.renewals.saturating_add(1);
        released.state = OwnerState::Released;
        self.shared.bucket.put(released.key(), released.encode(&self.shared.bucket)?).await?;
        *owner = released;
        self.shared.state.send_modify(|state| state.released = true);
        Ok(())
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.bucket.clock.now()
    }

    fn is_valid(&self) -> bool {
        nanos(self.now()) < self.valid_until.load(Ordering::Acquire)
    }

    /// Runs a transition of the lease and publishes what it means.
    fn with_lease<T>(&self, transition: impl FnOnce(&mut Lease) -> T) -> T {
        let mut lease = self.lease.lock();
        let result = transition(&mut lease);
        self.valid_until.store(nanos(lease.valid_until()), Ordering::Release);
        result
    }

    fn end(&self) {
        self.with_lease(Lease::end);
    }

    fn fence(&self, detail: String) {
        self.end();
        let reason = FencedReason { epoch: self.writer.epoch, detail };
        self.state.send_modify(|state| {
            if state.fenced.is_none() {
                tracing::error!(%reason, "fenced");
                state.fenced = Some(reason);
            }
        });
    }

    /// Rewrites our owner object, then looks for a later epoch; that one, if there is.
    async fn renew(&self, check: Check) -> Result<Option<u64>, MetalogError> {
        let mut owner = self.owner.lock().await;
        if owner.state == OwnerState::Released {
            return Ok(None);
        }
        let mut renewed = owner.clone();
        renewed.renewals = renewed.renewals.saturating_add(1);
        // Counted even if the answer is lost: what is stored must differ each time.
        owner.renewals = renewed.renewals;
        self.bucket.put(renewed.key(), renewed.encode(&self.bucket)?).await?;
        self.later_epoch(check).await
    }

    async fn later_epoch(&self, check: Check) -> Result<Option<u64>, MetalogError> {
        let own = self.writer.epoch;
        let Some(next) = own.checked_add(1) else { return Ok(None) };
        match check {
            Check::Next => Ok(self.bucket.exists(Key::Owner { epoch: next }).await?.then_some(next)),
            Check::All => {
                let owners = self.bucket.list(keys::OWNERS).await?;
                Ok(owners.iter().filter_map(|(key, _)| key.epoch()).filter(|epoch| *epoch > own).max())
            }
        }
    }

    /// What a person wants to know about a later owner.
    async fn describe(&self, epoch: u64) -> String {
        let stored = self.bucket.get(Key::Owner { epoch }).await;
        let owner = stored.ok().flatten().and_then(|stored| Owner::decode(&self.bucket, epoch, &stored).ok());
        match owner {
            Some(owner) => format!("epoch {epoch}, {owner}"),
            None => format!("epoch {epoch}"),
        }
    }
}

/// Renews until the keeper is dropped or the lease is over.
async fn keep(shared: Arc<Shared>, mut dropped: watch::Receiver<()>) {
    let clock = Arc::clone(&shared.bucket.clock);
    loop {
        let now = shared.now();
        let todo = shared.with_lease(|lease| lease.poll(now));
        let step = async {
            match todo {
                Todo::Stop => false,
                Todo::WaitUntil(until) => {
                    clock.sleep(until.saturating_sub(now)).await;
                    true
                }
                Todo::Renew(check) => {
                    attempt(&shared, check).await;
                    true
                }
            }
        };
        match select(std::pin::pin!(step), std::pin::pin!(dropped.changed())).await {
            Either::Left((true, _)) => {}
            Either::Left((false, _)) | Either::Right(_) => return,
        }
    }
}

/// One renewal and its outcome.
async fn attempt(shared: &Shared, check: Check) {
    let patience = shared.lease.lock().patience();
    let outcome = {
        let timeout = shared.bucket.clock.sleep(patience);
        match select(std::pin::pin!(shared.renew(check)), timeout).await {
            Either::Left((outcome, _)) => outcome.map_err(|error| error.to_string()),
            Either::Right(_) => Err(format!("no answer within {}", humantime::format_duration(patience))),
        }
    };
    match outcome {
        Ok(None) => {
            shared.with_lease(Lease::renewed);
            shared.state.send_modify(|state| {
                state.renewals += 1;
                state.error = None;
            });
        }
        Ok(Some(epoch)) => {
            // Out at once; who it was may take a while to find out.
            shared.end();
            let detail = {
                let timeout = shared.bucket.clock.sleep(patience);
                match select(std::pin::pin!(shared.describe(epoch)), timeout).await {
                    Either::Left((detail, _)) => detail,
                    Either::Right(_) => format!("epoch {epoch}"),
                }
            };
            shared.fence(detail);
        }
        Err(error) => {
            let now = shared.now();
            shared.with_lease(|lease| lease.failed(now));
            tracing::warn!(%error, "cannot renew the lease of the volume");
            shared.state.send_modify(|state| state.error = Some(error));
        }
    }
}

/// Nanoseconds, for an atomic: 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
