//! Taking the end of the log: the new owner's first object puts the owner before it out.

use headrace_kv::CommitSeq;

use super::{ClaimError, SiteRecord};
use crate::object::{LogBody, LogObject, Owner, Writer};
use crate::{Bucket, Key, MetalogError, ObjectHash, PutNew, keys};

/// Objects that are read backwards to find out where the log's end belongs. More than the log can hold of claims that
/// wrote nothing, in any sane life.
const MAX_BACK: u64 = 1000;

/// Objects the owner before us can have under way, or more: each one is met when its number is tried.
const MAX_FORWARD: u64 = 1000;

/// The end of the log.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    /// Number of the last object.
    pub number: u64,
    /// Of its stored bytes.
    pub hash: ObjectHash,
    /// The object, or why it cannot be read.
    pub object: Result<LogObject, String>,
}

/// The end of the log after we took it.
#[derive(Debug)]
pub(super) struct Sealed {
    /// Number of our object.
    pub number: u64,
    /// Of its stored bytes.
    pub hash: ObjectHash,
    /// The log's position.
    pub position: CommitSeq,
    /// Who wrote what was the end, claims of our own that wrote nothing left out.
    pub previous: Option<Writer>,
    /// Whether `previous` is the claim that our local state belongs to.
    pub own: bool,
    /// Objects at the end that cannot be read.
    pub damaged: Vec<(u64, String)>,
}

/// Why the end could not be taken.
#[derive(Debug)]
pub(super) enum SealError {
    /// A later epoch has it.
    Superseded {
        /// That epoch.
        by: u64,
    },
    /// Something else.
    Other(ClaimError),
}

impl<E: Into<ClaimError>> From<E> for SealError {
    fn from(error: E) -> SealError {
        SealError::Other(error.into())
    }
}

/// The last object of the log; `None` if there is no log.
pub(super) async fn tail(bucket: &Bucket) -> Result<Option<Tail>, MetalogError> {
    let listed = bucket.list(keys::LOG).await?;
    let Some(number) = listed.iter().filter_map(|(key, _)| key.number()).max() else { return Ok(None) };
    match read(bucket, number).await? {
        Some(tail) => Ok(Some(tail)),
        None => {
            let detail = "it is listed, but it is not there: the store's list is not to be relied on";
            Err(MetalogError::damaged(Key::Log { number }, detail))
        }
    }
}

async fn read(bucket: &Bucket, number: u64) -> Result<Option<Tail>, MetalogError> {
    let Some(stored) = bucket.get(Key::Log { number }).await? else { return Ok(None) };
    let object = LogObject::decode(bucket, number, &stored).map_err(|error| error.to_string());
    Ok(Some(Tail { number, hash: ObjectHash::of(&stored), object }))
}

/// Appends our first object to the log that ended with `tail` a moment ago. What the owner before us managed to append meanwhile is
/// read and kept.
pub(super) async fn seal(
    bucket: &Bucket,
    record: &SiteRecord,
    owner: &Owner,
    mut tail: Option<Tail>,
    at_ms: u64,
) -> Result<Sealed, SealError> {
    let writer = Writer { epoch: owner.epoch, site: owner.site, claim: owner.claim };
    for _ in 0..MAX_FORWARD {
        if let Some(Tail { object: Ok(object), .. }) = &tail
            && object.writer.epoch > owner.epoch
        {
            return Err(SealError::Superseded { by: object.writer.epoch });
        }
        let history = history(bucket, record, tail.as_ref()).await?;
        let number = match &tail {
            None => 0,
            Some(tail) => tail.number.checked_add(1).ok_or_else(|| {
                MetalogError::damaged(Key::Log { number: tail.number }, "there is no number after it")
            })?,
        };
        let body = LogBody::Epoch { holder: owner.to_string(), at_ms, position: history.position };
        let prev = tail.as_ref().map_or(ObjectHash::NONE, |tail| tail.hash);
        let stored = LogObject { writer, prev, body }.encode(bucket, number)?;
        let hash = ObjectHash::of(&stored);
        match bucket.put_new_settled(Key::Log { number }, stored).await? {
            PutNew::Created => {
                let History { position, previous, own, damaged } = history;
                return Ok(Sealed { number, hash, position, previous, own, damaged });
            }
            PutNew::Exists => tail = read(bucket, number).await?.or(tail),
        }
    }
    let detail = "somebody appends to the log all the time: the owner before does not stop";
    Err(MetalogError::damaged(keys::LOG, detail).into())
}

/// Where the end of the log comes from.
struct History {
    position: CommitSeq,
    previous: Option<Writer>,
    own: bool,
    damaged: Vec<(u64, String)>,
}

/// Goes back from the end over what cannot be read and over claims of our own that wrote nothing but that they began.
async fn history(bucket: &Bucket, record: &SiteRecord, tail: Option<&Tail>) -> Result<History, MetalogError> {
    let mut history = History { position: CommitSeq(0), previous: None, own: true, damaged: Vec::new() };
    let mut at = tail.cloned();
    let mut read_position = false;
    for _ in 0..MAX_BACK {
        let Some(tail) = at else { break };
        match tail.object {
            Ok(object) => {
                if !read_position {
                    history.position = object.position();
                    read_position = true;
                }
                let began_only = matches!(object.body, LogBody::Epoch { .. });
                if !(began_only && record.is_pending(&object.writer)) {
                    history.own = record.is_settled(&object.writer);
                    history.previous = Some(object.writer);
                    return Ok(history);
                }
                history.previous.get_or_insert(object.writer);
            }
            Err(detail) => history.damaged.push((tail.number, detail)),
        }
        let Some(before) = tail.number.checked_sub(1) else { return Ok(history) };
        at = read(bucket, before).await?;
    }
    // Nothing there, or the beginning was removed: whose history it is cannot be told.
    history.own = tail.is_none();
    Ok(history)
}
