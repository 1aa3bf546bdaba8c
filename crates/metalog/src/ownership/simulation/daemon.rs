//! What a daemon does with a volume, in small: claim, commit, ship, acknowledge, give up or die.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_kv::CommitSeq;
use headrace_kv::log::LogGroup;
use parking_lot::Mutex;
use uuid::Uuid;

use super::oracle::Oracle;
use super::world::World;
use crate::object::{LogBody, LogObject};
use crate::ownership::site::Stored;
use crate::ownership::{Claim, ClaimError, HolderFacts, SiteRecord, Takeover, acquire};
use crate::{Bucket, Keeper, Key, ObjectHash, PutNew, keys};

/// The shortest lease there is.
pub const LEASE: Duration = Duration::from_secs(2);

/// A machine's disk: survives crashes.
#[derive(Default)]
pub struct Disk {
    pub record: Arc<Mutex<Option<Stored>>>,
    /// The engine: ids of its transactions, all durable.
    pub history: Vec<u64>,
}

pub struct Daemon {
    pub world: World,
    pub machine: usize,
    pub bucket: Bucket,
    pub disk: Arc<Mutex<Disk>>,
    pub oracle: Arc<Mutex<Oracle>>,
}

impl Daemon {
    pub fn site(machine: usize) -> Uuid {
        Uuid::from_u128(0x100 + machine as u128)
    }

    /// One life of the program, with up to `work` pieces of work.
    pub async fn run(self, work: u64, takeover: Takeover) {
        // Whatever fails, the program ends: a later one may have more luck.
        let _ = self.live(work, takeover).await;
    }

    async fn live(&self, work: u64, takeover: Takeover) -> Result<(), ClaimError> {
        let name = format!("machine-{}", self.machine);
        let disk = Arc::clone(&self.disk.lock().record);
        let mut record = SiteRecord::in_memory(disk, Daemon::site(self.machine), &name);
        let facts = HolderFacts { host: name, pid: 1, mountpoint: None, version: "0".into() };
        let claim = acquire(&self.bucket, &mut record, &facts, LEASE, takeover, &mut |_| {}).await?;
        self.oracle.lock().claimed(&claim);
        let durable = CommitSeq(self.disk.lock().history.len() as u64);
        if claim.is_continuous(durable) {
            self.oracle.lock().continued(&self.world, &self.bucket, &claim, &self.disk.lock().history);
        } else {
            let history = self.restore(&claim).await?;
            self.oracle.lock().set_aside(self.machine, &self.world, &self.bucket, &self.disk.lock().history);
            self.disk.lock().history = history;
        }
        record.settle(&claim)?;
        let (keeper, task) = Keeper::new(self.bucket.clone(), &claim);
        let keeper = Arc::new(keeper);
        self.oracle.lock().keepers.push(Arc::downgrade(&keeper));
        self.world.spawn(self.machine, task);
        self.work(work, &claim, &keeper).await
    }

    async fn work(&self, work: u64, claim: &Claim, keeper: &Keeper) -> Result<(), ClaimError> {
        let mut end = End { number: claim.number, hash: claim.hash, shipped: claim.position };
        if self.world.random(2) == 0 {
            self.trim(claim).await?;
        }
        for _ in 0..work {
            self.bucket.clock.sleep(self.world.some_time(LEASE)).await;
            if keeper.fenced_reason().is_some() {
                return Ok(());
            }
            for _ in 0..self.world.random(3) {
                let id = self.oracle.lock().fresh_id();
                self.disk.lock().history.push(id);
            }
            if self.world.random(3) > 0 {
                if !self.ship(claim, keeper, &mut end).await? {
                    return Ok(());
                }
                if keeper.is_valid() {
                    let shipped = end.shipped.0 as usize;
                    self.oracle.lock().acknowledged_in_bucket(&self.disk.lock().history[..shipped]);
                }
            }
            if keeper.is_valid() {
                self.oracle.lock().acknowledged_locally(&self.world, &self.bucket, claim.epoch());
            }
        }
        if self.world.random(2) == 0 && self.ship(claim, keeper, &mut end).await? {
            keeper.release().await?;
        }
        Ok(())
    }

    /// Ships what is durable; `false` if somebody else has taken the log. Regardless of the lease, as one that was paused just after it
    /// looked would.
    async fn ship(&self, claim: &Claim, keeper: &Keeper, end: &mut End) -> Result<bool, ClaimError> {
        let (changes, upto) = {
            let disk = self.disk.lock();
            let new = &disk.history[end.shipped.0 as usize..];
            let changes: Vec<u8> = new.iter().flat_map(|id| id.to_le_bytes()).collect();
            (Bytes::from(changes), CommitSeq(disk.history.len() as u64))
        };
        if changes.is_empty() {
            return Ok(true);
        }
        let group = LogGroup { after: end.shipped, upto, at_ms: 0, changes };
        let number = end.number + 1;
        let object = LogObject { writer: claim.writer(), prev: end.hash, body: LogBody::Groups(vec![group]) };
        let stored = object.encode(&self.bucket, number)?;
        let hash = ObjectHash::of(&stored);
        loop {
            match self.bucket.put_new(Key::Log { number }, stored.clone()).await {
                Ok(PutNew::Created) => {
                    *end = End { number, hash, shipped: upto };
                    return Ok(true);
                }
                Ok(PutNew::Exists) => {
                    keeper.fence("a number of the log is taken");
                    return Ok(false);
                }
                Err(_) => self.bucket.clock.sleep(self.world.some_time(LEASE / 4)).await,
            }
        }
    }

    /// What the log adds up to at our claim.
    async fn restore(&self, claim: &Claim) -> Result<Vec<u64>, ClaimError> {
        let mut history = Vec::new();
        for number in 0..claim.number {
            let stored = self.bucket.get(Key::Log { number }).await?.expect("the log has no gaps");
            let object = LogObject::decode(&self.bucket, number, &stored)?;
            super::oracle::replay(&object, &mut history);
        }
        assert_eq!(history.len() as u64, claim.position.0, "the claim's position is the log's");
        Ok(history)
    }

    /// Removes the owner objects before ours, as retention does.
    async fn trim(&self, claim: &Claim) -> Result<(), ClaimError> {
        for (key, _) in self.bucket.list(keys::OWNERS).await? {
            if key.epoch().is_some_and(|epoch| epoch < claim.epoch()) {
                self.bucket.delete(key).await?;
            }
        }
        Ok(())
    }
}

/// Where the next object of the log goes.
struct End {
    number: u64,
    hash: ObjectHash,
    shipped: CommitSeq,
}
