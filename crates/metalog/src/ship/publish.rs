//! Declaring an engine's state to be the volume's: a snapshot of it, and the log object that names it.

use headrace_kv::embedded::EmbeddedEngine;
use headrace_kv::{CommitSeq, Engine as _};

use crate::clock::unix_ms;
use crate::engine::Tail;
use crate::object::{Anchor, LogBody, LogObject, Writer};
use crate::ownership::Claim;
use crate::snapshot::{SnapshotPolicy, complete, write_parts};
use crate::{Bucket, Key, MetalogError, ObjectHash, PutNew, SnapshotId};

/// Begins the log of a volume that is being formatted: `engine`'s state becomes `log/0`, written by `writer`, which
/// [`SiteRecord::first_writer`](crate::SiteRecord::first_writer) gave. Needs a tokio runtime.
///
/// The engine's log up to here is trimmed. Safe to repeat after an error.
///
/// # Errors
/// [`MetalogError::Unwritable`] if there is a log already.
pub async fn publish_initial(
    bucket: &Bucket,
    engine: &EmbeddedEngine,
    writer: Writer,
) -> Result<(), MetalogError> {
    let place = Place { writer, number: 0, prev: ObjectHash::NONE };
    publish(bucket, engine, place, "format", None).await?;
    Ok(())
}

/// Declares `engine`'s state to be the volume's from here on, whatever the log said before: after a restore to a point in time,
/// after a rebuild, for a volume that had no log. `claim` then ends with it.
///
/// The engine's log up to here is trimmed. After an error the claim is as it was, and this may be repeated.
///
/// # Errors
/// [`MetalogError::Fenced`] if somebody else has taken the volume over.
pub async fn publish_reset(
    bucket: &Bucket,
    engine: &EmbeddedEngine,
    claim: &mut Claim,
    reason: &str,
) -> Result<(), MetalogError> {
    let number = claim.number.saturating_add(1);
    let place = Place { writer: claim.writer(), number, prev: claim.hash };
    let tail = publish(bucket, engine, place, reason, Some(claim)).await?;
    (claim.number, claim.hash, claim.position) = (tail.number, tail.hash, tail.position);
    Ok(())
}

/// Where the reset goes.
struct Place {
    writer: Writer,
    number: u64,
    prev: ObjectHash,
}

async fn publish(
    bucket: &Bucket,
    engine: &EmbeddedEngine,
    place: Place,
    reason: &str,
    claim: Option<&Claim>,
) -> Result<Tail, MetalogError> {
    let Place { writer, number, prev } = place;
    engine.durable(engine.position()).await?;
    let snapshot = engine.snapshot()?;
    let position: CommitSeq = snapshot.position();
    let at_ms = unix_ms(bucket.clock.wall());
    let id = SnapshotId::generate(position);
    let parts = write_parts(bucket, id, snapshot, SnapshotPolicy::default().part_bytes).await?;
    // The hash of what is not written yet: a restore believes this snapshot if the object of that number names it.
    let anchor = Anchor { number, hash: ObjectHash::NONE };
    let snapshot = complete(bucket, parts, writer, at_ms, anchor).await?;
    let body = LogBody::Reset { snapshot, reason: reason.to_owned(), at_ms };
    let stored = LogObject { writer, prev, body }.encode(bucket, number)?;
    let hash = ObjectHash::of(&stored);
    let key = Key::Log { number };
    match bucket.put_new(key, stored).await? {
        PutNew::Created => {}
        PutNew::Exists => {
            return Err(match claim {
                Some(claim) => crate::ownership::FencedReason {
                    epoch: claim.epoch(),
                    detail: format!("{key} was written by somebody else"),
                }
                .into(),
                None => MetalogError::Unwritable {
                    key: key.to_string(),
                    detail: "there is a metadata log already: the volume exists".into(),
                },
            });
        }
    }
    engine.trim_log(position);
    Ok(Tail { number, hash, position })
}
