//! Finds out what a store can really do, by doing it: a store that answers "yes" and does something else would lose data.

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use serde::Serialize;

use crate::ObjectStore;
use crate::error::{ErrorKind, StoreError};

/// Writers that race for one key.
const RACERS: u8 = 8;
/// Races run; a store that is not atomic does not lose every one.
const RACES: u8 = 3;
/// Objects written for the list.
const LISTED: usize = 12;
/// Bytes of the large object.
const LARGE: usize = 8 << 20;

/// What a store was seen to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// A conditional put is honoured, and of racing ones exactly one wins. Without it a second mount cannot be kept out.
    pub conditional_put: bool,
    /// A ranged get answers exactly the bytes asked for.
    pub range: bool,
    /// An object of 8 MiB comes back as written.
    pub multipart: bool,
    /// Lists are in the order of the keys' bytes.
    pub ordered_list: bool,
    /// A list holds all that was written before it, and nothing that was deleted.
    pub complete_list: bool,
    /// What was written, overwritten or deleted is seen by the next read.
    pub read_after_write: bool,
}

impl Capabilities {
    /// Why a volume on this store would lose data, if it would.
    pub fn refuse(&self) -> Option<String> {
        let lacking = [
            (
                self.read_after_write,
                "a read does not see what was written, overwritten or deleted just before",
            ),
            (self.range, "a read of a range does not give exactly the bytes asked for"),
            (self.multipart, "an object of 8 MiB does not come back as it was written"),
            (self.complete_list, "a list leaves out objects, or shows deleted ones"),
        ];
        let reasons: Vec<_> = lacking.iter().filter(|(can, _)| !can).map(|(_, reason)| *reason).collect();
        if reasons.is_empty() {
            return None;
        }
        Some(format!(
            "a volume on this store would lose data: {}; use another store or server",
            reasons.join("; ")
        ))
    }
}

/// Tries the store out with small objects (and one of 8 MiB) below `probe/`, which are removed again. Fails only if the store cannot be
/// used at all: refused, unreachable, not there, full.
pub async fn probe(store: &dyn ObjectStore) -> Result<Capabilities, StoreError> {
    let random = getrandom::u64().map_err(|error| {
        StoreError::new(
            ErrorKind::Transient,
            "probe",
            store.url(),
            format!("no random numbers from the system: {error}"),
        )
    })?;
    let probe = Probe { store, root: format!("probe/{random:016x}") };
    let result = probe.run().await;
    probe.clean_up().await;
    result
}

struct Probe<'a> {
    store: &'a dyn ObjectStore,
    root: String,
}

impl Probe<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    async fn run(&self) -> Result<Capabilities, StoreError> {
        let read_after_write = self.overwrites().await? && self.deletes().await?;
        let (complete_list, ordered_list) = self.lists().await?;
        Ok(Capabilities {
            read_after_write,
            range: self.ranges().await?,
            conditional_put: self.conditions().await? && self.races().await?,
            multipart: self.large().await?,
            complete_list,
            ordered_list,
        })
    }

    /// Whether the object is there with this body.
    async fn holds(&self, key: &str, body: &[u8]) -> Result<bool, StoreError> {
        Ok(answer(self.store.get(key).await)?.is_some_and(|found| found == body))
    }

    async fn overwrites(&self) -> Result<bool, StoreError> {
        let key = self.key("overwrite");
        let mut seen = true;
        for body in [&b"first"[..], b"second, longer", b"3", b""] {
            self.store.put(&key, Bytes::from_static(body)).await?;
            let size = answer(self.store.head(&key).await)?.map(|found| found.size);
            seen = seen && self.holds(&key, body).await? && size == Some(body.len() as u64);
        }
        Ok(seen)
    }

    async fn deletes(&self) -> Result<bool, StoreError> {
        let key = self.key("delete");
        self.store.put(&key, Bytes::from_static(b"x")).await?;
        self.store.delete(&key).await?;
        let gone =
            answer(self.store.get(&key).await)?.is_none() && answer(self.store.head(&key).await)?.is_none();
        // Deleting what is not there must succeed too: it happens after a lost answer.
        self.store.delete(&key).await?;
        Ok(gone)
    }

    async fn ranges(&self) -> Result<bool, StoreError> {
        let key = self.key("range");
        let body: Vec<u8> = (0..1000u32).map(|at| (at * 7 % 251) as u8).collect();
        self.store.put(&key, Bytes::from(body.clone())).await?;
        for (start, end) in [(0, 1), (0, 1000), (1, 500), (499, 501), (999, 1000)] {
            let found = answer(self.store.get_range(&key, start as u64..end as u64).await)?;
            if found.as_deref() != body.get(start..end) {
                return Ok(false);
            }
        }
        // Bytes past the end must not be made up.
        Ok(answer(self.store.get_range(&key, 990..1010).await)?.is_none())
    }

    /// One after the other: the second must fail and change nothing.
    async fn conditions(&self) -> Result<bool, StoreError> {
        let key = self.key("condition");
        match self.store.put_if_absent(&key, Bytes::from_static(b"first")).await {
            Ok(()) => {}
            Err(error) if matches!(error.kind, ErrorKind::Unsupported | ErrorKind::AlreadyExists) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let second = self.store.put_if_absent(&key, Bytes::from_static(b"second")).await;
        let refused = match second {
            Err(error) if error.kind == ErrorKind::AlreadyExists => true,
            Ok(()) => false,
            Err(error) if error.kind == ErrorKind::Unsupported => false,
            Err(error) => return Err(error),
        };
        // Once deleted, the key is free again.
        let kept = self.holds(&key, b"first").await?;
        self.store.delete(&key).await?;
        let again = answer(self.store.put_if_absent(&key, Bytes::from_static(b"third")).await)?.is_some();
        Ok(refused && kept && again)
    }

    /// All at once: one must win, and its body must be there.
    async fn races(&self) -> Result<bool, StoreError> {
        for race in 0..RACES {
            let key = self.key(&format!("race-{race}"));
            let body = |racer: u8| Bytes::from(vec![racer; 2048 + usize::from(racer)]);
            let results =
                join_all((0..RACERS).map(|racer| self.store.put_if_absent(&key, body(racer)))).await;
            let mut winners = Vec::new();
            for (racer, result) in (0..RACERS).zip(results) {
                match result {
                    Ok(()) => winners.push(racer),
                    Err(error) if error.kind == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            match winners[..] {
                [winner] if self.holds(&key, &body(winner)).await? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn large(&self) -> Result<bool, StoreError> {
        let key = self.key("large");
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut body = Vec::with_capacity(LARGE);
        while body.len() < LARGE {
            // Marsaglia's xorshift: bytes that neither repeat nor compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            body.extend_from_slice(&state.to_le_bytes());
        }
        let body = Bytes::from(body);
        self.store.put(&key, body.clone()).await?;
        let same =
            answer(self.store.get_range(&key, 0..LARGE as u64).await)?.is_some_and(|found| found == body);
        self.store.delete(&key).await?;
        Ok(same)
    }

    /// Whether a list is complete, and whether it is in order.
    async fn lists(&self) -> Result<(bool, bool), StoreError> {
        let prefix = self.key("list/");
        let mut expected: Vec<String> =
            (0..LISTED).map(|at| format!("{prefix}{}/{}", ["a", "B", "a.b", "a-b"][at % 4], at)).collect();
        for key in &expected {
            self.store.put(key, Bytes::from_static(b"listed")).await?;
        }
        let deleted = format!("{prefix}a/deleted");
        self.store.put(&deleted, Bytes::from_static(b"x")).await?;
        self.store.delete(&deleted).await?;
        let mut found = Vec::new();
        let mut objects = self.store.list(&prefix);
        while let Some(object) = objects.next().await {
            let object = object?;
            if object.size != 6 || found.len() > 2 * LISTED {
                return Ok((false, false));
            }
            found.push(object.key);
        }
        expected.sort();
        let ordered = found.is_sorted();
        found.sort();
        Ok((found == expected, ordered))
    }

    /// Removes what is left. That it fails is no reason to refuse the store; what stays is small.
    async fn clean_up(&self) {
        let prefix = format!("{}/", self.root);
        let mut keys: Vec<String> =
            ["overwrite", "delete", "range", "condition", "large"].map(|name| self.key(name)).into();
        keys.extend((0..RACES).map(|race| self.key(&format!("race-{race}"))));
        let mut objects = self.store.list(&prefix);
        while let Some(Ok(object)) = objects.next().await {
            if keys.len() > 100 {
                break;
            }
            keys.push(object.key);
        }
        drop(objects);
        for key in keys {
            if let Err(error) = self.store.delete(&key).await {
                tracing::warn!(%error, "could not remove an object of the probe; it may be deleted by hand");
                return;
            }
        }
    }
}

/// Splits "the store says no" or "the answer is wrong" (`None`) from "there is no answer".
fn answer<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind {
            ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::AlreadyExists | ErrorKind::Unsupported => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}
