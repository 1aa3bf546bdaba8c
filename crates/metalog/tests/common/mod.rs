//! A bucket, machines that use it, and what their metadata should be.
#![allow(dead_code, reason = "not every test file uses all of it")]

pub mod faulty;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headrace_kv::embedded::{EmbeddedEngine, EmbeddedOptions};
use headrace_kv::{CommitSeq, Engine, EngineExt, KvError};
use headrace_layout::superblock::{Encryption, Superblock};
use headrace_layout::{Codec, DataKey, MasterKey};
use headrace_metalog::engine::{Durability, LogOptions, LoggedEngine};
use headrace_metalog::restore::{Restored, Target, restore};
use headrace_metalog::ship::{ShipPolicy, publish_initial};
use headrace_metalog::snapshot::SnapshotPolicy;
use headrace_metalog::{Bucket, Claim, ClaimError, HolderFacts, SiteRecord, Takeover, ownership};
use headrace_store::{LocalStore, ObjectStore};
use uuid::Uuid;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A bucket in a directory.
pub fn local_store(dir: &Path) -> Arc<dyn ObjectStore> {
    std::fs::create_dir_all(dir).unwrap();
    Arc::new(LocalStore::open(dir).unwrap())
}

/// The log's view of a store.
pub fn bucket(store: Arc<dyn ObjectStore>, encrypted: bool) -> Bucket {
    let volume = Uuid::from_u128(7);
    let mut superblock = Superblock::new(volume, "test", 0);
    let key = encrypted.then(|| {
        let key = DataKey::generate();
        superblock.encryption = Some(Encryption::new(key.wrap(&MasterKey::generate())));
        key
    });
    Bucket::new(store, Codec::new(&superblock, key).unwrap(), volume, true)
}

/// Options with everything small and quick.
pub fn small(durability: Durability) -> LogOptions {
    LogOptions {
        durability,
        ship: ShipPolicy { linger: Duration::from_millis(20), press_bytes: 4096, max_object_bytes: 2048 },
        snapshot: SnapshotPolicy {
            min_log_bytes: 8 << 10,
            size_divisor: 4,
            max_log_objects: 12,
            part_bytes: 1024,
        },
        deadline: Duration::from_secs(20),
        close_deadline: Duration::from_secs(20),
        upkeep_interval: Duration::from_millis(200),
        ..LogOptions::default()
    }
}

/// A state directory.
pub struct Machine {
    pub dir: PathBuf,
}

impl Machine {
    pub fn new(dir: &Path) -> Machine {
        std::fs::create_dir_all(dir).unwrap();
        Machine { dir: dir.to_owned() }
    }

    pub fn engine_dir(&self) -> PathBuf {
        self.dir.join("meta")
    }

    pub fn open(&self) -> Result<EmbeddedEngine, KvError> {
        let options = EmbeddedOptions {
            log: true,
            map_size: 64 << 20,
            freeze_age: Duration::from_millis(10),
            ..EmbeddedOptions::default()
        };
        EmbeddedEngine::open(&self.engine_dir(), options)
    }

    pub fn site(&self) -> SiteRecord {
        SiteRecord::open(&self.dir).unwrap()
    }

    /// Formats: an engine with one record, and its log.
    pub async fn format(&self, bucket: &Bucket) {
        let engine = self.open().unwrap();
        put(&engine, b"schema", b"1").unwrap();
        let writer = self.site().first_writer().unwrap();
        publish_initial(bucket, &engine, writer).await.unwrap();
        engine.close().unwrap();
    }

    pub async fn claim(&self, bucket: &Bucket, lease: Duration) -> Result<(SiteRecord, Claim), ClaimError> {
        let mut site = self.site();
        let facts = HolderFacts::of_this_process(None);
        let claim = ownership::acquire(bucket, &mut site, &facts, lease, Takeover::Yes, &mut |_| {}).await?;
        Ok((site, claim))
    }

    /// Mounts: rebuilds the local state if it does not go on where the log ends.
    pub async fn mount(
        &self,
        bucket: &Bucket,
        options: LogOptions,
        lease: Duration,
    ) -> Result<Arc<LoggedEngine>, String> {
        let (mut site, claim) = self.claim(bucket, lease).await.map_err(|error| error.to_string())?;
        let mut engine = self.engine_dir().exists().then(|| self.open().ok()).flatten();
        if !engine.as_ref().is_some_and(|engine| claim.is_continuous(engine.durable_position())) {
            drop(engine.take());
            let _ = std::fs::remove_dir_all(self.engine_dir());
            let done = restore(bucket, Target::Latest, &self.engine_dir(), &|_| {}).await;
            done.map_err(|error| error.to_string())?;
            engine = Some(self.open().unwrap());
        }
        site.settle(&claim).unwrap();
        Ok(LoggedEngine::start(bucket.clone(), Arc::new(engine.unwrap()), &claim, None, options).unwrap())
    }
}

pub const LEASE: Duration = Duration::from_secs(30);

/// One record in one transaction.
pub fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Result<CommitSeq, KvError> {
    engine
        .transact_with(|txn| {
            txn.put(key, value);
            Ok::<_, KvError>(())
        })
        .map(|((), seq)| seq)
}

/// Everything in an engine.
pub fn contents(engine: &dyn Engine) -> Map {
    let mut map = Map::new();
    engine
        .view_with(|view| {
            view.scan(&[], &[0xff; 500], &mut |key, value| {
                map.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    map
}

/// Restores into a fresh directory and reads what is there.
pub async fn restored(bucket: &Bucket, target: Target, dir: &Path) -> (Restored, Map) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let machine = Machine::new(dir.path());
    let restored = restore(bucket, target, &machine.engine_dir(), &|_| {}).await.unwrap();
    let engine = machine.open().unwrap();
    assert_eq!(engine.position(), restored.position);
    let map = contents(&engine);
    engine.close().unwrap();
    (restored, map)
}
