//! Claiming a volume.

use std::time::Duration;

use uuid::Uuid;

use super::claim::Progress;
use super::seal::{self, SealError};
use super::watch::{Look, Verdict, Watch, silence};
use super::{Claim, ClaimError, HolderFacts, Incumbent, LEASES, Site, SiteRecord, Takeover};
use crate::clock::unix_ms;
use crate::object::{Owner, OwnerState};
use crate::{Bucket, Key, MetalogError, ObjectHash, PutNew, keys};

/// Looks that may be in vain because the owner object is removed between list and get.
const MAX_VAIN_LOOKS: u32 = 10;

/// Claims the volume: afterwards nobody who had it before can write to its log.
///
/// The caller holds the lock of the state directory that `record` is in. `progress` is told when there is something to wait for: a
/// holder that did not release the volume is watched for up to one and a quarter of its lease. Dropping the future is
/// harmless; a claim that it may leave behind is taken over without waiting by the next from this state directory.
pub async fn acquire(
    bucket: &Bucket,
    record: &mut SiteRecord,
    facts: &HolderFacts,
    lease: Duration,
    takeover: Takeover,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Claim, ClaimError> {
    let site = record.site().clone();
    let mut floor = 0;
    let (found, tail) = loop {
        let found = watch(bucket, &site, floor, takeover, progress).await?;
        let tail = seal::tail(bucket).await?;
        let written =
            tail.as_ref().and_then(|tail| tail.object.as_ref().ok()).map_or(0, |object| object.writer.epoch);
        if written <= found.look.epoch {
            break (found, tail);
        }
        // Somebody claimed it this moment; or the owner objects were removed.
        floor = written;
    };
    let owner = new_owner(bucket, &site, facts, lease, found.look.epoch)?;
    record.intend(owner.claim)?;
    let claimed_at = bucket.clock.now();
    let stored = owner.encode(bucket)?;
    if bucket.put_new_settled(owner.key(), stored).await? == PutNew::Exists {
        record.forget(owner.claim)?;
        return Err(raced(bucket, owner.epoch).await);
    }
    drain(bucket, &found, progress).await?;
    let at_ms = unix_ms(bucket.clock.wall());
    let sealed = match seal::seal(bucket, record, &owner, tail, at_ms).await {
        Ok(sealed) => sealed,
        Err(SealError::Superseded { by }) => return Err(raced(bucket, by).await),
        Err(SealError::Other(error)) => return Err(error),
    };
    Ok(Claim {
        owner,
        number: sealed.number,
        hash: sealed.hash,
        position: sealed.position,
        previous: sealed.previous,
        damaged: sealed.damaged,
        took_over: found.incumbent.filter(|_| !found.look.free),
        claimed_at,
        own: sealed.own,
    })
}

/// For those who only read: fails if the volume is held by somebody else who is alive. Otherwise tells who held it last without
/// giving it up, if anybody: what that one had not shipped is not in the bucket.
pub async fn refuse_if_held(
    bucket: &Bucket,
    site: &Site,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<Incumbent>, ClaimError> {
    match watch(bucket, site, 0, Takeover::No, progress).await {
        Ok(found) => Ok(found.incumbent.filter(|incumbent| !incumbent.is_released())),
        Err(ClaimError::Abandoned { holder, .. }) => Ok(Some(*holder)),
        Err(error) => Err(error),
    }
}

/// What was there to be claimed.
struct Found {
    look: Look,
    incumbent: Option<Incumbent>,
}

/// Watches the last holder until it is clear whether the volume may be claimed.
async fn watch(
    bucket: &Bucket,
    site: &Site,
    floor: u64,
    takeover: Takeover,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Found, ClaimError> {
    let url = || bucket.store.url().to_owned();
    let mut watch = Watch::default();
    let mut told = false;
    loop {
        let found = look(bucket, site, floor).await?;
        if let Some(Incumbent { epoch, owner: Err(detail) }) = &found.incumbent
            && takeover == Takeover::No
        {
            let detail = format!(
                "{detail}. So it cannot be told who holds the volume; if it is mounted nowhere, --takeover watches for a \
                 sign of life and then goes on"
            );
            return Err(MetalogError::damaged(Key::Owner { epoch: *epoch }, detail).into());
        }
        let verdict = watch.observe(found.look);
        let Some(incumbent) = &found.incumbent else { return Ok(found) };
        match verdict {
            Verdict::Free => return Ok(found),
            Verdict::Alive => {
                let holder = Box::new(incumbent.clone());
                return Err(ClaimError::Held { url: url(), holder, takeover: takeover == Takeover::Yes });
            }
            Verdict::Dead { .. } if takeover == Takeover::Yes => return Ok(found),
            Verdict::Dead { silent } => {
                return Err(ClaimError::Abandoned {
                    url: url(),
                    holder: Box::new(incumbent.clone()),
                    silent,
                });
            }
            Verdict::Wait(pause) => {
                if !told {
                    told = true;
                    let at_most = silence(found.look.lease);
                    progress(Progress::Watching { holder: incumbent.clone(), at_most });
                }
                bucket.clock.sleep(pause).await;
            }
        }
    }
}

/// Looks who has the highest epoch, which is at least `floor`.
async fn look(bucket: &Bucket, site: &Site, floor: u64) -> Result<Found, ClaimError> {
    let mut vain = 0;
    loop {
        let asked = bucket.clock.now();
        let owners = bucket.list(keys::OWNERS).await?;
        let listed = owners.iter().filter_map(|(key, _)| key.epoch()).max().unwrap_or(0);
        let epoch = listed.max(floor);
        let stored =
            if listed == epoch && epoch > 0 { bucket.get(Key::Owner { epoch }).await? } else { None };
        let answered = bucket.clock.now();
        let look = |mark, free, lease| Look { epoch, mark, free, lease, asked, answered };
        if epoch == 0 {
            return Ok(Found { look: look(ObjectHash::NONE, true, Duration::ZERO), incumbent: None });
        }
        let Some(stored) = stored else {
            // Owner objects are removed when a later one is there: then the next look finds that.
            vain += 1;
            if listed == epoch && vain < MAX_VAIN_LOOKS {
                continue;
            }
            let missing = "it is missing, although the log has objects of that epoch".to_owned();
            let incumbent = Some(Incumbent { epoch, owner: Err(missing) });
            return Ok(Found { look: look(ObjectHash::NONE, false, *LEASES.end()), incumbent });
        };
        let owner = Owner::decode(bucket, epoch, &stored);
        let (free, lease) = match &owner {
            Ok(owner) => {
                let own = owner.site == site.id && owner.machine == site.machine;
                let lease = Duration::from_millis(owner.lease_ms).clamp(*LEASES.start(), *LEASES.end());
                (own || owner.state == OwnerState::Released, lease)
            }
            Err(_) => (false, *LEASES.end()),
        };
        let owner = owner.map_err(|error| match error {
            MetalogError::Damaged { detail, .. } => detail,
            other => other.to_string(),
        });
        let look = look(ObjectHash::of(&stored), free, lease);
        return Ok(Found { look, incumbent: Some(Incumbent { epoch, owner }) });
    }
}

fn new_owner(
    bucket: &Bucket,
    site: &Site,
    facts: &HolderFacts,
    lease: Duration,
    after: u64,
) -> Result<Owner, MetalogError> {
    let epoch = after
        .checked_add(1)
        .ok_or_else(|| MetalogError::damaged(Key::Owner { epoch: after }, "there is no epoch after it"))?;
    let lease = lease.clamp(*LEASES.start(), *LEASES.end());
    Ok(Owner {
        epoch,
        site: site.id,
        claim: Uuid::new_v4(),
        machine: site.machine.clone(),
        host: facts.host.clone(),
        pid: facts.pid,
        mountpoint: facts.mountpoint.clone(),
        version: facts.version.clone(),
        since_ms: unix_ms(bucket.clock.wall()),
        renewals: 0,
        lease_ms: lease.as_millis() as u64,
        state: OwnerState::Held,
    })
}

/// Waits, if need be, until a holder that was taken for dead can no longer believe in its lease.
///
/// A renewal is a put and then a look for a later epoch; a claim is a put of a later epoch and then a look at the owner object before.
/// So of the two at least one sees the other: if the holder's renewal saw no later epoch, its put is seen here, and its
/// lease ends at most one lease from now.
async fn drain(
    bucket: &Bucket,
    found: &Found,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ClaimError> {
    if found.look.free {
        return Ok(());
    }
    let stored = bucket.get(Key::Owner { epoch: found.look.epoch }).await?;
    if stored.as_ref().map_or(ObjectHash::NONE, |stored| ObjectHash::of(stored)) == found.look.mark {
        return Ok(());
    }
    let wait = silence(found.look.lease);
    progress(Progress::Draining { wait });
    bucket.clock.sleep(wait).await;
    Ok(())
}

/// The error for a claim that somebody else made.
async fn raced(bucket: &Bucket, epoch: u64) -> ClaimError {
    // Who it was is only for the message.
    let stored = bucket.get(Key::Owner { epoch }).await.ok().flatten();
    let winner = stored.map(|stored| {
        let owner = Owner::decode(bucket, epoch, &stored).map_err(|error| error.to_string());
        Box::new(Incumbent { epoch, owner })
    });
    ClaimError::Raced { url: bucket.store.url().to_owned(), winner }
}
