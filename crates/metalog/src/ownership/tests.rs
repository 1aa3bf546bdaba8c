//! Claims on real stores: a local directory, and an S3 server.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headrace_kv::CommitSeq;
use headrace_kv::log::LogGroup;
use headrace_layout::{Codec, Superblock};
use headrace_store::{Environment, LocalStore, ObjectStore, StoreOptions, open_with_environment};
use headrace_testbed::s3::S3Server;
use uuid::Uuid;

use super::*;
use crate::object::{LogBody, LogObject, Owner, OwnerState};
use crate::{Bucket, Key, PutNew};

const LEASE: Duration = Duration::from_secs(2);

fn bucket(store: Arc<dyn ObjectStore>) -> Bucket {
    let volume = Uuid::from_u128(7);
    Bucket::new(store, Codec::new(&Superblock::new(volume, "test", 0), None).unwrap(), volume, true)
}

/// A machine with a state directory.
struct Machine {
    dir: tempfile::TempDir,
    record: SiteRecord,
    facts: HolderFacts,
}

impl Machine {
    fn new(host: &str, mountpoint: &str) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let record = SiteRecord::open(dir.path()).unwrap();
        let facts = HolderFacts {
            host: host.into(),
            pid: 4711,
            mountpoint: Some(mountpoint.into()),
            version: "1".into(),
        };
        Machine { dir, record, facts }
    }

    async fn acquire(&mut self, bucket: &Bucket, takeover: Takeover) -> Result<Claim, ClaimError> {
        let progress = &mut |progress: Progress| eprintln!("{progress}");
        let claim = acquire(bucket, &mut self.record, &self.facts, LEASE, takeover, progress).await?;
        self.record.settle(&claim)?;
        Ok(claim)
    }
}

fn on_server(server: &S3Server) -> Bucket {
    let text =
        |(name, value): (OsString, OsString)| (name.into_string().unwrap(), value.into_string().unwrap());
    let environment: Environment = server.client_env().into_iter().map(text).collect();
    let location = format!("s3://{}/volume", server.bucket()).parse().unwrap();
    bucket(open_with_environment(&location, &StoreOptions::default(), &environment).unwrap())
}

/// Runs `test` on every real store.
async fn on_each_store<F: Future<Output = ()>>(test: impl Fn(Bucket) -> F) {
    let dir = tempfile::tempdir().unwrap();
    test(bucket(Arc::new(LocalStore::open(dir.path()).unwrap()))).await;
    let server = S3Server::start();
    test(on_server(&server)).await;
}

#[tokio::test]
async fn a_released_volume_moves_at_once_and_each_sees_whose_history_it_is() {
    on_each_store(|bucket| async move {
        let (mut a, mut b) = (Machine::new("a", "/mnt/a"), Machine::new("b", "/mnt/b"));
        let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
        assert_eq!((claim.epoch(), claim.number), (1, 0));
        assert!(claim.previous.is_none() && claim.is_continuous(CommitSeq(0)));
        let keeper = Keeper::start(bucket.clone(), &claim);
        assert!(keeper.is_valid());
        keeper.release().await.unwrap();
        assert!(!keeper.is_valid() && keeper.state() == LeaseState::Released);
        // The same state directory goes on with what it has.
        let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
        assert_eq!((claim.epoch(), claim.number), (2, 1));
        assert!(claim.is_continuous(CommitSeq(0)));
        Keeper::start(bucket.clone(), &claim).release().await.unwrap();
        // Another one does not.
        let begun = Instant::now();
        let claim = b.acquire(&bucket, Takeover::No).await.unwrap();
        assert!(begun.elapsed() < LEASE, "nothing to wait for");
        assert!(!claim.is_continuous(CommitSeq(1 << 40)));
        assert_eq!(claim.previous.map(|writer| writer.epoch), Some(2));
        Keeper::start(bucket.clone(), &claim).release().await.unwrap();
        // And the first has missed something.
        let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
        assert!(!claim.is_continuous(CommitSeq(1 << 40)));
    })
    .await;
}

#[tokio::test]
async fn a_living_holder_keeps_the_volume_whatever_others_want() {
    on_each_store(|bucket| async move {
        let (mut a, mut b) = (Machine::new("host-a", "/mnt/a"), Machine::new("b", "/mnt/b"));
        let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
        let keeper = Keeper::start(bucket.clone(), &claim);
        for takeover in [Takeover::No, Takeover::Yes] {
            let error = b.acquire(&bucket, takeover).await.unwrap_err();
            assert!(matches!(error, ClaimError::Held { .. }), "{error}");
            let message = error.to_string();
            for part in [
                "host-a",
                "/mnt/a",
                "process 4711",
                "since 20",
                "alive",
                "headrace umount /mnt/a",
                bucket.store.url(),
            ] {
                assert!(message.contains(part), "{part:?} is missing in {message:?}");
            }
            assert_eq!(message.contains("--takeover"), takeover == Takeover::Yes, "{message}");
        }
        let error = refuse_if_held(&bucket, b.record.site(), &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, ClaimError::Held { .. }), "{error}");
        assert!(keeper.is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_dead_holder_is_put_out_when_asked_for_and_notices() {
    on_each_store(|bucket| async move {
        let (mut a, mut b) = (Machine::new("host-a", "/mnt/a"), Machine::new("b", "/mnt/b"));
        let dead = a.acquire(&bucket, Takeover::No).await.unwrap();
        let begun = Instant::now();
        let message = b.acquire(&bucket, Takeover::No).await.unwrap_err().to_string();
        assert!(begun.elapsed() >= LEASE);
        for part in ["host-a", "/mnt/a", "4711", "no sign of life for 2s", "--takeover", "lost"] {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
        let left = refuse_if_held(&bucket, b.record.site(), &mut |_| {}).await.unwrap();
        assert_eq!(left.map(|incumbent| incumbent.epoch), Some(1));
        let claim = b.acquire(&bucket, Takeover::Yes).await.unwrap();
        assert_eq!(claim.took_over.as_ref().map(|incumbent| incumbent.epoch), Some(1));
        // The dead one was only asleep.
        let keeper = Keeper::start(bucket.clone(), &dead);
        assert!(!keeper.is_valid());
        let reason = tokio::time::timeout(LEASE, keeper.valid()).await.unwrap().unwrap_err();
        assert_eq!(reason, keeper.fenced().await);
        let message = reason.to_string();
        assert!(message.contains("epoch 2") && message.contains("host b"), "{message}");
        assert_eq!(keeper.state(), LeaseState::Fenced);
        // Its own state directory need not wait.
        let begun = Instant::now();
        assert_eq!(b.acquire(&bucket, Takeover::No).await.unwrap().epoch(), 3);
        assert!(begun.elapsed() < LEASE);
    })
    .await;
}

#[tokio::test]
async fn of_those_who_claim_at_the_same_moment_one_gets_it() {
    on_each_store(|bucket| async move {
        for round in 1..=5 {
            let claims = (0..6).map(|at| {
                let bucket = bucket.clone();
                tokio::spawn(async move {
                    let mut machine = Machine::new(&format!("host-{at}"), "/mnt/x");
                    machine.acquire(&bucket, Takeover::No).await
                })
            });
            let (mut won, mut lost) = (Vec::new(), 0);
            for claim in claims.collect::<Vec<_>>() {
                match claim.await.unwrap() {
                    Ok(claim) => won.push(claim),
                    // Late ones find a holder: one that shows no sign of life here.
                    Err(ClaimError::Raced { winner: Some(_), .. } | ClaimError::Abandoned { .. }) => {
                        lost += 1
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!((won.len(), lost), (1, 5), "round {round}");
            assert_eq!(won[0].epoch(), round);
            Keeper::start(bucket.clone(), &won[0]).release().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_lease_is_renewed_and_outlives_itself() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = bucket(Arc::new(LocalStore::open(dir.path()).unwrap()));
    let mut a = Machine::new("a", "/mnt/a");
    let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
    let keeper = Keeper::start(bucket.clone(), &claim);
    tokio::time::sleep(LEASE + LEASE / 2).await;
    assert!(keeper.is_valid());
    let stored = bucket.get(Key::Owner { epoch: 1 }).await.unwrap().unwrap();
    let owner = Owner::decode(&bucket, 1, &stored).unwrap();
    assert!(owner.renewals >= 3 && owner.state == OwnerState::Held, "{owner:?}");
    // Nobody looks after it any more.
    drop(keeper);
    tokio::time::sleep(LEASE).await;
    let later = bucket.get(Key::Owner { epoch: 1 }).await.unwrap().unwrap();
    let later = Owner::decode(&bucket, 1, &later).unwrap();
    assert!(later.renewals <= owner.renewals + 1, "{later:?}");
}

#[tokio::test]
async fn a_damaged_end_of_the_log_is_told_and_does_not_lock_the_volume() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = bucket(Arc::new(LocalStore::open(dir.path()).unwrap()));
    let mut a = Machine::new("a", "/mnt/a");
    a.acquire(&bucket, Takeover::No).await.unwrap();
    a.acquire(&bucket, Takeover::No).await.unwrap();
    let key = Key::Log { number: 1 };
    let mut stored = bucket.get(key).await.unwrap().unwrap().to_vec();
    *stored.last_mut().unwrap() ^= 1;
    bucket.put(key, stored.into()).await.unwrap();
    let claim = a.acquire(&bucket, Takeover::No).await.unwrap();
    assert_eq!(claim.number, 2);
    assert!(!claim.is_continuous(CommitSeq(1 << 40)));
    let [(1, detail)] = &claim.damaged[..] else { panic!("{:?}", claim.damaged) };
    assert!(detail.contains("log/0000000000000001") && detail.contains("checksum"), "{detail}");
}

#[tokio::test]
async fn an_owner_that_cannot_be_read_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = bucket(Arc::new(LocalStore::open(dir.path()).unwrap()));
    let (mut a, mut b) = (Machine::new("a", "/mnt/a"), Machine::new("b", "/mnt/b"));
    a.acquire(&bucket, Takeover::No).await.unwrap();
    bucket.put(Key::Owner { epoch: 1 }, bytes::Bytes::from_static(b"nonsense")).await.unwrap();
    for _ in 0..2 {
        let message = b.acquire(&bucket, Takeover::No).await.unwrap_err().to_string();
        assert!(
            message.starts_with("owners/0000000000000001: ") && message.contains("--takeover"),
            "{message}"
        );
        // And the same if it was removed while the log tells that there was one.
        bucket.delete(Key::Owner { epoch: 1 }).await.unwrap();
    }
}

#[tokio::test]
async fn a_copy_of_a_state_directory_does_not_pass_for_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = bucket(Arc::new(LocalStore::open(dir.path()).unwrap()));
    let (mut original, mut copy) = (Machine::new("a", "/mnt/a"), Machine::new("a", "/mnt/copy"));
    original.acquire(&bucket, Takeover::No).await.unwrap();
    let file = "site.json";
    std::fs::copy(original.dir.path().join(file), copy.dir.path().join(file)).unwrap();
    copy.record = SiteRecord::open(copy.dir.path()).unwrap();
    assert_eq!(copy.record.site(), original.record.site());
    let claim = original.acquire(&bucket, Takeover::No).await.unwrap();
    assert!(claim.is_continuous(CommitSeq(0)));
    let changes = bytes::Bytes::new();
    let group = LogGroup { after: CommitSeq(0), upto: CommitSeq(5), at_ms: 0, changes };
    let object = LogObject { writer: claim.writer(), prev: claim.hash, body: LogBody::Groups(vec![group]) };
    let number = claim.number + 1;
    let stored = object.encode(&bucket, number).unwrap();
    assert_eq!(bucket.put_new(Key::Log { number }, stored).await.unwrap(), PutNew::Created);
    let claim = original.acquire(&bucket, Takeover::No).await.unwrap();
    assert_eq!(claim.position, CommitSeq(5));
    assert!(claim.is_continuous(CommitSeq(5)));
    assert!(!claim.is_continuous(CommitSeq(4)), "an old state of the directory lacks what was shipped");
    let claim = copy.acquire(&bucket, Takeover::No).await.unwrap();
    assert!(!claim.is_continuous(CommitSeq(1 << 40)), "the original has written since");
}

/// Without an atomic conditional put the last writer wins, and all wait to see that.
#[tokio::test]
async fn a_weak_store_keeps_owners_apart_too() {
    let server = S3Server::start();
    let bucket = Bucket { conditional: false, ..on_server(&server) };
    let (mut a, mut b) = (Machine::new("a", "/mnt/a"), Machine::new("b", "/mnt/b"));
    let (one, two) = tokio::join!(a.acquire(&bucket, Takeover::No), b.acquire(&bucket, Takeover::No));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}
