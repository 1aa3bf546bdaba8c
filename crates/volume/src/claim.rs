//! Becoming the one who may change a volume.

use std::sync::Arc;
use std::time::Duration;

use headrace_layout::Codec;
use headrace_layout::superblock::Superblock;
use headrace_metalog::ownership::{self, Progress as Waiting};
use headrace_metalog::{Bucket, Claim, HolderFacts, Keeper, SiteRecord, Takeover};
use headrace_store::ObjectStore;
use tokio::task::AbortHandle;

use crate::error::Result;
use crate::progress::{Progress, ProgressFn, Unit};
use crate::state_dir::StateDir;

/// Where the log of a volume is.
pub(crate) fn bucket(store: Arc<dyn ObjectStore>, codec: Codec, superblock: &Superblock) -> Bucket {
    Bucket::new(store, codec, superblock.uuid, !superblock.weak_conditional_put)
}

/// Who wants a volume, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant<'a> {
    /// Where it is to be mounted.
    pub mountpoint: Option<&'a str>,
    /// How long ownership lasts without being renewed.
    pub lease: Duration,
    /// Whether to put out an owner that is gone.
    pub takeover: bool,
}

/// A volume that is ours, and what this state directory remembers of that.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// What is remembered.
    pub record: SiteRecord,
}

/// Claims the volume for the state directory, whose lock the caller holds.
pub(crate) async fn claim(
    bucket: &Bucket,
    state: &StateDir,
    who: Claimant<'_>,
    progress: &ProgressFn<'_>,
) -> Result<Claimed> {
    let mut record = SiteRecord::open(state.path())?;
    let facts = HolderFacts::of_this_process(who.mountpoint);
    let takeover = if who.takeover { Takeover::Yes } else { Takeover::No };
    let mut told = told(progress);
    let claim = ownership::acquire(bucket, &mut record, &facts, who.lease, takeover, &mut told).await?;
    tracing::info!(epoch = claim.epoch(), position = claim.position.0, "the volume is ours");
    if let Some(incumbent) = &claim.took_over {
        tracing::warn!(%incumbent, "took the volume over from an owner that shows no sign of life");
    }
    Ok(Claimed { claim, record })
}

/// What keeps a claim alive.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The lease.
    pub keeper: Arc<Keeper>,
    task: AbortHandle,
}

impl Kept {
    /// Renews the lease of `claim` from now on.
    pub(crate) fn start(bucket: &Bucket, claim: &Claim) -> Kept {
        let (keeper, task) = Keeper::new(bucket.clone(), claim);
        Kept { keeper: Arc::new(keeper), task: tokio::spawn(task).abort_handle() }
    }

    /// Gives the volume up, so that the next owner need not wait.
    pub(crate) async fn release(&self) {
        if let Err(error) = self.keeper.release().await {
            tracing::warn!(%error, "cannot give the volume up: others have to wait until the lease has run out");
        }
        self.task.abort();
    }

    /// Stops without a word, as a crash would.
    pub(crate) fn abandon(&self) {
        self.task.abort();
    }
}

/// For those who only read: refuses a volume that somebody else holds and is alive. What to know if somebody holds it and is
/// not, or if that cannot be told.
pub(crate) async fn refuse_if_held(
    bucket: &Bucket,
    state: &StateDir,
    progress: &ProgressFn<'_>,
) -> Result<Option<String>> {
    let record = SiteRecord::open(state.path())?;
    let mut told = told(progress);
    let gone = ownership::refuse_if_held(bucket, record.site(), &mut told).await?;
    Ok(gone.filter(|holder| holder.owner.as_ref().is_ok_and(|o| o.site != record.site().id)).map(|holder| {
        format!(
            "the volume was not unmounted where it was used last ({holder}): changes that were not yet sent from there \
             are missing here"
        )
    }))
}

fn told<'a>(progress: &'a ProgressFn<'_>) -> impl FnMut(Waiting) + Send + 'a {
    move |waiting| {
        tracing::info!("{waiting}");
        let phase = match waiting {
            Waiting::Watching { .. } => "waiting for a sign of life from the volume's last holder",
            Waiting::Draining { .. } => "waiting until the volume's last holder must have stopped",
        };
        progress(Progress { phase, done: 0, total: 0, unit: Unit::Items });
    }
}
