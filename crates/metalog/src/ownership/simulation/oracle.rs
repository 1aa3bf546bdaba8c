//! Sees everything, and knows what must never be.

use std::collections::BTreeSet;
use std::sync::Weak;

use uuid::Uuid;

use super::daemon::Daemon;
use super::world::World;
use crate::object::{LogBody, LogObject};
use crate::{Bucket, Claim, Keeper, Key, ObjectHash};

#[derive(Default)]
pub struct Oracle {
    next_id: u64,
    epochs: BTreeSet<u64>,
    /// Transactions that callers were told are in the bucket.
    in_bucket: BTreeSet<u64>,
    pub keepers: Vec<Weak<Keeper>>,
    pub claims: u64,
    pub takeovers: u64,
    pub lost: u64,
}

impl Oracle {
    pub fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn claimed(&mut self, claim: &Claim) {
        assert!(self.epochs.insert(claim.epoch()), "epoch {} was claimed twice", claim.epoch());
        assert!(claim.damaged.is_empty());
        self.claims += 1;
        self.takeovers += u64::from(claim.took_over.is_some());
    }

    /// A daemon goes on with its local state: it must be what the log says, and more.
    pub fn continued(&mut self, world: &World, bucket: &Bucket, claim: &Claim, local: &[u64]) {
        let mut history = Vec::new();
        let log = log(world, bucket);
        log.iter().take(claim.number as usize).for_each(|object| replay(object, &mut history));
        assert!(local.starts_with(&history), "local state is not of the log's history");
    }

    /// A daemon gives up its local state: there must have been another owner since, if anything is lost by it.
    pub fn set_aside(&mut self, machine: usize, world: &World, bucket: &Bucket, local: &[u64]) {
        let log = log(world, bucket);
        let mut history = Vec::new();
        log.iter().for_each(|object| replay(object, &mut history));
        let kept: BTreeSet<u64> = history.into_iter().collect();
        if local.iter().any(|id| !kept.contains(id)) {
            self.lost += 1;
            let site = Daemon::site(machine);
            assert!(
                log.iter().any(|object| object.writer.site != site),
                "nobody else was there, yet it is lost"
            );
        }
    }

    pub fn acknowledged_in_bucket(&mut self, ids: &[u64]) {
        self.in_bucket.extend(ids);
    }

    /// Nobody may have begun to write after us at the moment we acknowledge something.
    pub fn acknowledged_locally(&mut self, world: &World, bucket: &Bucket, epoch: u64) {
        let newest = log(world, bucket).last().map_or(0, |object| object.writer.epoch);
        assert!(newest <= epoch, "epoch {epoch} acknowledges after epoch {newest} began");
    }

    /// At every moment.
    pub fn watch(&mut self) {
        self.keepers.retain(|keeper| keeper.strong_count() > 0);
        let valid: Vec<u64> = self
            .keepers
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|keeper| keeper.is_valid())
            .map(|keeper| keeper.epoch())
            .collect();
        assert!(valid.len() <= 1, "epochs {valid:?} all believe in their lease");
    }

    /// At the end.
    pub fn conclude(&self, world: &World, bucket: &Bucket) {
        let log = log(world, bucket);
        let (mut history, mut owner): (Vec<u64>, Option<(u64, Uuid)>) = (Vec::new(), None);
        for object in &log {
            match &object.body {
                LogBody::Epoch { .. } => {
                    let before = owner.map_or(0, |(epoch, _)| epoch);
                    assert!(object.writer.epoch > before, "epochs must ascend");
                    owner = Some((object.writer.epoch, object.writer.claim));
                }
                _ => assert_eq!(owner, Some((object.writer.epoch, object.writer.claim)), "two appenders"),
            }
            replay(object, &mut history);
        }
        let unique: BTreeSet<u64> = history.iter().copied().collect();
        assert_eq!(unique.len(), history.len(), "a transaction is in the log twice");
        let missing: Vec<_> = self.in_bucket.difference(&unique).collect();
        assert!(missing.is_empty(), "acknowledged, but not in the log: {missing:?}");
    }
}

/// The log as it stands: no gaps, each object naming the one before.
fn log(world: &World, bucket: &Bucket) -> Vec<LogObject> {
    world.with_objects(|objects| {
        let (mut log, mut prev) = (Vec::new(), ObjectHash::NONE);
        while let Some(stored) = objects.get(&Key::Log { number: log.len() as u64 }.to_string()) {
            let object = LogObject::decode(bucket, log.len() as u64, stored).expect("an intact object");
            assert_eq!(object.prev, prev, "the chain is broken");
            prev = ObjectHash::of(stored);
            log.push(object);
        }
        let all = objects.keys().filter(|key| key.starts_with("log/")).count();
        assert_eq!(all, log.len(), "the log has gaps");
        log
    })
}

/// Applies an object of the log.
pub fn replay(object: &LogObject, history: &mut Vec<u64>) {
    match &object.body {
        LogBody::Epoch { position, .. } => assert_eq!(position.0, history.len() as u64),
        LogBody::Groups(groups) => {
            for group in groups {
                assert_eq!(group.after.0, history.len() as u64, "groups must be contiguous");
                history.extend(group.changes.chunks(8).map(|id| u64::from_le_bytes(id.try_into().unwrap())));
                assert_eq!(group.upto.0, history.len() as u64);
            }
        }
        LogBody::Reset { .. } => unreachable!("nobody resets here"),
    }
}
