//! Objects of the log that are missing, cut, changed or exchanged: named, never believed, and got around where that is possible.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::{LEASE, Machine, Map, bucket, contents, local_store, put, restored, small};
use headrace_kv::Engine;
use headrace_metalog::Bucket;
use headrace_metalog::engine::{Durability, LogOptions};
use headrace_metalog::restore::{RestoreError, Restored, Target, check, locate, restore};
use headrace_metalog::ship::publish_reset;
use headrace_metalog::snapshot::SnapshotPolicy;

struct Place {
    dir: tempfile::TempDir,
    bucket: Bucket,
    machine: Machine,
    /// The state after each transaction, with a time at which it was the newest.
    history: Vec<(SystemTime, Map)>,
}

/// A volume of `transactions`, each in a log object of its own, with snapshots on the way.
async fn place(transactions: u8, encrypted: bool) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let bucket = bucket(local_store(&dir.path().join("store")), encrypted);
    let machine = Machine::new(&dir.path().join("a"));
    machine.format(&bucket).await;
    let snapshot = SnapshotPolicy { max_log_objects: 7, part_bytes: 200, ..SnapshotPolicy::default() };
    let options = LogOptions { snapshot, ..small(Durability::Bucket) };
    let engine = machine.mount(&bucket, options, LEASE).await.unwrap();
    let mut history = Vec::new();
    for n in 0..transactions {
        let seq = put(&*engine, &[b'k', n % 16], &[n; 60]).unwrap();
        engine.durable(seq).await.unwrap();
        history.push((SystemTime::now(), contents(&*engine)));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
    Place { dir, bucket, machine, history }
}

impl Place {
    fn files(&self, prefix: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir.path().join("store").join(prefix)];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { dirs.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }

    fn key(&self, file: &std::path::Path) -> String {
        file.strip_prefix(self.dir.path().join("store")).unwrap().display().to_string()
    }

    async fn try_restore(&self, target: Target) -> Result<(Restored, Map), RestoreError> {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        let machine = Machine::new(dir.path());
        let restored = restore(&self.bucket, target, &machine.engine_dir(), &|_| {}).await;
        if restored.is_err() && machine.engine_dir().exists() {
            // What was begun is not taken for a volume's metadata.
            assert!(machine.open().is_err());
        }
        let engine = restored.map(|restored| (restored, machine.open().unwrap()));
        engine.map(|(restored, engine)| (restored, contents(&engine)))
    }

    fn newest(&self) -> &Map {
        &self.history.last().unwrap().1
    }
}

fn flip(file: &std::path::Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

fn cut(file: &std::path::Path) {
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() - 5]).unwrap();
}

fn remove(file: &std::path::Path) {
    std::fs::remove_file(file).unwrap();
}

/// Each single object damaged in each way: the newest state comes back as it was, or an error names the object; and what the error
/// says can still be had can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_damaged_object_is_got_around_or_named() {
    for encrypted in [false, true] {
        let place = place(18, encrypted).await;
        let files: Vec<_> = ["log", "snapshots"].iter().flat_map(|prefix| place.files(prefix)).collect();
        assert!(files.len() > 30);
        let mut got_around = BTreeMap::new();
        for (n, file) in files.iter().enumerate() {
            let mut damage: fn(&std::path::Path) = [flip, cut, remove][(n + usize::from(encrypted)) % 3];
            if Some(file) == place.files("log").last() {
                // That the last one is missing shows only if a snapshot came after it.
                damage = flip;
            }
            let whole = std::fs::read(file).unwrap();
            damage(file);
            let key = place.key(file);
            match place.try_restore(Target::Latest).await {
                Ok((restored, map)) => {
                    assert_eq!(&map, place.newest(), "{key}");
                    assert!(restored.is_latest || !restored.warnings.is_empty());
                    *got_around.entry(key.split('/').next().unwrap().to_owned()).or_insert(0) += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(&key), "{key}: {text}");
                    assert!(text.contains("fsck --rebuild"), "{text}");
                    if let RestoreError::Damaged { reached: Some(reached), .. } = error {
                        let (_, map) = place.try_restore(Target::At(reached.time())).await.unwrap();
                        assert!(place.history.iter().any(|(_, state)| *state == map) || map.len() == 1);
                    }
                }
            }
            std::fs::write(file, whole).unwrap();
        }
        // An older snapshot and more log do for any that is damaged.
        assert!(got_around["snapshots"] > 5, "{got_around:?}");
        assert_eq!(&place.try_restore(Target::Latest).await.unwrap().1, place.newest());
    }
}

/// The end of the log gone: nothing after it shows the gap, but a snapshot knows that it was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_its_end_is_not_taken_for_a_shorter_one() {
    let place = place(5, false).await;
    let log = place.files("log");
    let last = log.last().unwrap();
    remove(last);
    let error = place.try_restore(Target::Latest).await.unwrap_err();
    assert!(error.to_string().contains(&place.key(last)), "{error}");
    let RestoreError::Damaged { reached: Some(reached), .. } = error else { panic!("{error}") };
    assert_eq!(place.try_restore(Target::At(reached.time())).await.unwrap().1, place.history[3].1);
}

/// Intact bytes in another's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanged_objects_are_refused() {
    let place = place(6, false).await;
    let log = place.files("log");
    let (a, b) = (&log[3], &log[4]);
    let (old_a, old_b) = (std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    std::fs::write(a, &old_b).unwrap();
    std::fs::write(b, &old_a).unwrap();
    // A moment before the snapshot that was made at the end.
    let error = place.try_restore(Target::At(place.history[4].0)).await.unwrap_err().to_string();
    assert!(error.contains(&place.key(a)) && error.contains(&place.key(b)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_moment_comes_back_and_the_clock_decides() {
    let place = place(20, false).await;
    for (at, state) in &place.history {
        let (restored, map) = place.try_restore(Target::At(*at)).await.unwrap();
        assert_eq!(&map, state);
        assert!(restored.at <= *at);
        assert_eq!(
            locate(&place.bucket, Target::At(*at), &|_| {}).await.unwrap().position,
            restored.position
        );
    }
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let error = place.try_restore(Target::At(long_ago)).await.unwrap_err();
    assert!(matches!(error, RestoreError::TooEarly { .. }), "{error}");
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    assert!(check(&place.bucket, Target::At(tomorrow), &|_| {}).await.unwrap().is_latest);
}

/// Going back in time on the volume itself: what was undone stays undone, and can itself be gone back to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_to_a_moment_becomes_the_volume() {
    let place = place(10, false).await;
    let (at, then) = &place.history[4];
    let (mut site, mut claim) = place.machine.claim(&place.bucket, LEASE).await.unwrap();
    std::fs::remove_dir_all(place.machine.engine_dir()).unwrap();
    restore(&place.bucket, Target::At(*at), &place.machine.engine_dir(), &|_| {}).await.unwrap();
    let engine = place.machine.open().unwrap();
    publish_reset(&place.bucket, &engine, &mut claim, "restored").await.unwrap();
    site.settle(&claim).unwrap();
    assert_eq!(claim.position, engine.position());
    let options = small(Durability::Bucket);
    let engine = headrace_metalog::engine::LoggedEngine::start(
        place.bucket.clone(),
        Arc::new(engine),
        &claim,
        None,
        options.clone(),
    )
    .unwrap();
    assert_eq!(&contents(&*engine), then);
    let seq = put(&*engine, b"after", b"x").unwrap();
    engine.durable(seq).await.unwrap();
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
    let mut expected = then.clone();
    expected.insert(b"after".to_vec(), b"x".to_vec());
    assert_eq!(restored(&place.bucket, Target::Latest, place.dir.path()).await.1, expected);
    // From a machine that has never seen it as well, and what was undone is still there for who asks.
    let other = Machine::new(&place.dir.path().join("b"));
    let engine = other.mount(&place.bucket, options, LEASE).await.unwrap();
    assert_eq!(contents(&*engine), expected);
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
    let (undone, state) = place.history.last().unwrap();
    assert_eq!(&place.try_restore(Target::At(*undone)).await.unwrap().1, state);
}
