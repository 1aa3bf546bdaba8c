//! What every store promises, checked on a local directory and on a real S3 server alike.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use common::{Server, open_plain, options};
use futures::TryStreamExt;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use headrace_store::{ErrorKind, ObjectStore, StoreOptions, probe};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_directory_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let store = open_plain(directory.path().to_str().unwrap(), &StoreOptions::default()).unwrap();
    contract(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_s3_server_keeps_the_contract() {
    let server = Server::start();
    let store = open_plain("s3://bucket/some/prefix", &options(&server.endpoint())).unwrap();
    contract(store).await;
    assert!(server.bucket().join("some/prefix/large/0").exists(), "objects must be below the prefix");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_bucket_is_a_store_too() {
    let server = Server::start();
    let store = open_plain("s3://bucket", &options(&server.endpoint())).unwrap();
    round_trips(&store).await;
    let keys: Vec<_> = store.list("").map_ok(|object| object.key).try_collect().await.unwrap();
    assert!(keys.contains(&"plain".to_owned()), "{keys:?}");
}

async fn contract(store: Arc<dyn ObjectStore>) {
    round_trips(&store).await;
    ranges(&store).await;
    absence(&store).await;
    odd_keys(&store).await;
    bad_keys(&store).await;
    conditional_puts(&store).await;
    concurrent_puts(&store).await;
    large_objects(&store).await;
    long_lists(&store).await;
    let capabilities = probe(&*store).await.unwrap();
    assert!(capabilities.conditional_put && capabilities.range && capabilities.multipart, "{capabilities:?}");
    assert!(capabilities.read_after_write && capabilities.complete_list, "{capabilities:?}");
    assert_eq!(capabilities.refuse(), None);
    let left: Vec<_> = store.list("probe/").try_collect().await.unwrap();
    assert_eq!(left, [], "the probe must clean up");
}

async fn round_trips(store: &Arc<dyn ObjectStore>) {
    for body in [Bytes::new(), Bytes::from_static(b"hello"), Bytes::from(vec![7; 100_000])] {
        store.put("plain", body.clone()).await.unwrap();
        assert_eq!(store.get("plain").await.unwrap(), body);
        let head = store.head("plain").await.unwrap();
        assert_eq!((head.key.as_str(), head.size), ("plain", body.len() as u64));
        let age = head.modified.unwrap().elapsed().unwrap_or_default();
        assert!(age.as_secs() < 600, "{age:?}");
    }
}

async fn ranges(store: &Arc<dyn ObjectStore>) {
    let body: Vec<u8> = (0..70_000u32).map(|at| (at % 251) as u8).collect();
    store.put("ranged", Bytes::from(body.clone())).await.unwrap();
    for range in [0..1, 0..70_000, 1..2, 65_535..65_537, 69_999..70_000, 10..69_990] {
        let found = store.get_range("ranged", range.start as u64..range.end as u64).await.unwrap();
        assert!(found == body[range.clone()], "{range:?}");
        let mut came = Vec::new();
        let mut sink = |bytes: Bytes| came.extend_from_slice(&bytes);
        store.get_range_to("ranged", range.start as u64..range.end as u64, &mut sink).await.unwrap();
        assert!(came == body[range.clone()], "{range:?}");
    }
    assert_eq!(store.get_range("ranged", 5..5).await.unwrap(), "");
    for beyond in [69_999..70_001, 70_000..70_001, 100_000..100_010] {
        let error = store.get_range("ranged", beyond.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{beyond:?}: {error}");
        let error = store.get_range_to("ranged", beyond.clone(), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{beyond:?}: {error}");
    }
}

async fn absence(store: &Arc<dyn ObjectStore>) {
    for error in [
        store.get("absent").await.unwrap_err(),
        store.get_range("absent", 0..5).await.unwrap_err(),
        store.head("absent").await.unwrap_err(),
        store.get("ab/se/nt").await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("no such object"), "{error}");
        assert!(error.target.starts_with(store.url()), "{error}");
    }
    store.delete("absent").await.unwrap();
    store.put("gone", Bytes::from_static(b"x")).await.unwrap();
    store.delete("gone").await.unwrap();
    store.delete("gone").await.unwrap();
    assert_eq!(store.get("gone").await.unwrap_err().kind, ErrorKind::NotFound);
}

async fn odd_keys(store: &Arc<dyn ObjectStore>) {
    let names = [
        "two words",
        "plus+sign",
        "per%cent",
        "per%20cent",
        "question?mark",
        "ha#sh",
        "amp&ersand",
        "e=quals",
        "comma,semi;colon",
        "a'quote",
        "\"quotes\"",
        "(brackets)[]{}",
        "star*",
        "dollar$",
        "at@colon:",
        "back\\slash",
        "pipe|caret^tick`",
        "tilde~",
        "lt<gt>",
        "&amp;",
        "ünïcödé",
        "漢字",
        "🦀",
        "e\u{301}",
        "...",
        "..dots",
        ".hidden",
        "-dash",
        "inner  blanks",
    ];
    let mut expected = BTreeSet::new();
    for name in names {
        let key = format!("odd/{name}/{name}");
        store.put(&key, Bytes::from(key.clone())).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(store.get(&key).await.unwrap_or_else(|error| panic!("{error}")), key);
        assert_eq!(store.head(&key).await.unwrap().size, key.len() as u64);
        expected.insert(key);
    }
    let listed: BTreeSet<_> = store.list("odd/").map_ok(|object| object.key).try_collect().await.unwrap();
    assert_eq!(listed, expected);
    for key in &expected {
        let listed: Vec<_> = store.list(key).try_collect().await.unwrap();
        assert_eq!(listed.iter().filter(|object| object.key == *key).count(), 1, "{key}");
        store.delete(key).await.unwrap();
        assert_eq!(store.get(key).await.unwrap_err().kind, ErrorKind::NotFound, "{key}");
    }
}

async fn bad_keys(store: &Arc<dyn ObjectStore>) {
    let long = "x".repeat(2000);
    for key in ["", "/", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\0b", "a\nb", " a", "a ", long.as_str()]
    {
        for error in [
            store.put(key, Bytes::new()).await.unwrap_err(),
            store.put_if_absent(key, Bytes::new()).await.unwrap_err(),
            store.get(key).await.unwrap_err(),
            store.get_range(key, 0..1).await.unwrap_err(),
            store.head(key).await.unwrap_err(),
            store.delete(key).await.unwrap_err(),
        ] {
            assert_eq!(error.kind, ErrorKind::Unsupported, "{key:?}: {error}");
            assert!(!error.to_string().contains(['\n', '\0']), "{error:?}");
        }
    }
    for prefix in ["../", "/", "a/../"] {
        let result: Result<Vec<_>, _> = store.list(prefix).try_collect().await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unsupported, "{prefix}");
    }
}

async fn conditional_puts(store: &Arc<dyn ObjectStore>) {
    store.put_if_absent("once", Bytes::from_static(b"first")).await.unwrap();
    let error = store.put_if_absent("once", Bytes::from_static(b"second")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
    // Not even the same body again.
    let error = store.put_if_absent("once", Bytes::from_static(b"first")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
    assert_eq!(store.get("once").await.unwrap(), "first");
    for race in 0..10 {
        let key = format!("races/{race}");
        let racers = (0..8u8).map(|racer| {
            let (store, key) = (Arc::clone(store), key.clone());
            tokio::spawn(async move {
                store.put_if_absent(&key, Bytes::from(vec![racer; 3000 + usize::from(racer)])).await
            })
        });
        let results = join_all(racers).await;
        let mut winners = Vec::new();
        for (racer, result) in results.into_iter().enumerate() {
            match result.unwrap() {
                Ok(()) => winners.push(racer),
                Err(error) => assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}"),
            }
        }
        let [winner] = winners[..] else { panic!("race {race} was won by {winners:?}") };
        assert_eq!(store.get(&key).await.unwrap(), vec![winner as u8; 3000 + winner]);
    }
}

async fn concurrent_puts(store: &Arc<dyn ObjectStore>) {
    let writers = (0..8u8).map(|writer| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for round in 0..10u8 {
                store
                    .put("contended/key", Bytes::from(vec![writer; 10_000 + usize::from(writer)]))
                    .await
                    .unwrap();
                store
                    .put(&format!("contended/own-{writer}-{round}"), Bytes::from(vec![round; 100]))
                    .await
                    .unwrap();
                let seen = store.get("contended/key").await.unwrap();
                let (first, length) = (seen[0], seen.len());
                assert_eq!(length, 10_000 + usize::from(first), "bodies of two writers were mixed");
                assert!(seen.iter().all(|byte| *byte == first), "bodies of two writers were mixed");
            }
        })
    });
    for result in join_all(writers).await {
        result.unwrap();
    }
    let count = store.list("contended/own-").try_fold(0, async |count, _| Ok(count + 1)).await.unwrap();
    assert_eq!(count, 80);
}

async fn large_objects(store: &Arc<dyn ObjectStore>) {
    let body: Bytes = (0..4u32 << 20).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    assert_eq!(body.len(), 16 << 20);
    let puts = (0..4).map(|at| {
        let (store, body) = (Arc::clone(store), body.clone());
        async move { store.put(&format!("large/{at}"), body).await }
    });
    for result in join_all(puts).await {
        result.unwrap();
    }
    assert!(store.get("large/3").await.unwrap() == body);
    let range = (5 << 20) + 17..(9 << 20) + 3;
    let part = store.get_range("large/0", range.start as u64..range.end as u64).await.unwrap();
    assert!(part == body[range]);
    let huge = Bytes::from(vec![0xa5; 70 << 20]);
    store.put("huge", huge.clone()).await.unwrap();
    assert_eq!(store.head("huge").await.unwrap().size, 70 << 20);
    assert!(store.get("huge").await.unwrap() == huge);
    store.delete("huge").await.unwrap();
}

async fn long_lists(store: &Arc<dyn ObjectStore>) {
    let keys: BTreeSet<String> = (0..2500).map(|at| format!("many/{:02x}/{at}", at % 16)).collect();
    let puts = keys.iter().map(|key| store.put(key, Bytes::from_static(b"12345")));
    stream::iter(puts).buffer_unordered(16).try_for_each(async |()| Ok(())).await.unwrap();
    let listed: Vec<_> = store.list("many/").try_collect().await.unwrap();
    assert_eq!(listed.len(), 2500, "each once");
    assert!(listed.iter().all(|object| object.size == 5 && object.modified.is_some()));
    let found: BTreeSet<String> = listed.into_iter().map(|object| object.key).collect();
    assert_eq!(found, keys);
    // A prefix need not end at a slash, and one without objects is an empty list.
    let part: Vec<_> = store.list("many/0f/24").map_ok(|object| object.key).try_collect().await.unwrap();
    let expected: Vec<_> = keys.iter().filter(|key| key.starts_with("many/0f/24")).cloned().collect();
    assert_eq!(part.into_iter().collect::<BTreeSet<_>>(), expected.into_iter().collect());
    for nothing in ["nothing/", "many/zz", "many/00/0/"] {
        assert_eq!(store.list(nothing).try_collect::<Vec<_>>().await.unwrap(), [], "{nothing}");
    }
    // Giving up a list in the middle is fine.
    assert_eq!(store.list("").take(3).try_collect::<Vec<_>>().await.unwrap().len(), 3);
}
