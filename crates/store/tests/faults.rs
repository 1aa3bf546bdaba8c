//! A network and a server that fail, in front of a real server: what is retried, what is reported, and in which words.

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::proxy::{Fault, Proxy};
use common::{Server, free_address, open_plain, options};
use futures::TryStreamExt;
use headrace_store::{ErrorKind, ObjectStore, StoreError, StoreOptions};

/// Options with limits that a test can wait for.
fn hurried(endpoint: &str) -> StoreOptions {
    StoreOptions {
        request_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(300),
        deadline: Duration::from_secs(3),
        ..options(endpoint)
    }
}

/// No library dump, no header, no signature, no key, on one line.
fn assert_readable(error: &StoreError) {
    let text = error.to_string();
    for part in
        ["\n", "Error {", "context", "Signature=", "X-Amz", "x-amz", "Parts", "headers", common::SECRET]
    {
        assert!(!text.contains(part), "{part:?} in: {text}");
    }
    assert!(text.len() < 600, "{text}");
}

struct Fixture {
    server: Server,
    proxy: Proxy,
    store: std::sync::Arc<dyn ObjectStore>,
}

fn fixture() -> Fixture {
    let server = Server::start();
    let proxy = Proxy::start(server.address);
    let store = open_plain("s3://bucket/p", &hurried(&proxy.endpoint())).unwrap();
    Fixture { server, proxy, store }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let Fixture { server: _server, proxy, store } = fixture();
    let body = Bytes::from(vec![5; 5000]);
    let passing = [Fault::Busy(0), Fault::Broken, Fault::Reset, Fault::Hang];
    for fault in passing {
        proxy.next(&[fault, fault]);
        store.put("k", body.clone()).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        proxy.next(&[fault, Fault::Truncate(1000), Fault::Truncate(0)]);
        assert_eq!(store.get("k").await.unwrap_or_else(|error| panic!("{fault:?}: {error}")), body);
        proxy.next(&[Fault::Truncate(1000), fault]);
        assert_eq!(store.get_range("k", 1000..3000).await.unwrap(), body[1000..3000]);
        proxy.next(&[fault]);
        assert_eq!(store.head("k").await.unwrap().size, 5000);
        proxy.next(&[fault, Fault::Truncate(30)]);
        assert_eq!(store.list("").try_collect::<Vec<_>>().await.unwrap().len(), 1);
        proxy.next(&[fault]);
        store.delete("k").await.unwrap();
    }
}

#[tokio::test]
async fn a_list_goes_on_after_a_failed_page() {
    let Fixture { server, proxy, store } = fixture();
    std::fs::create_dir(server.bucket().join("p")).unwrap();
    for at in 0..2100 {
        std::fs::write(server.bucket().join(format!("p/{at:04}")), "x").unwrap();
    }
    // Pages of a thousand: the second and the third fail at first.
    proxy.next(&[Fault::None, Fault::Broken, Fault::None, Fault::Truncate(500), Fault::Reset]);
    let mut keys: Vec<_> = store.list("").map_ok(|object| object.key).try_collect().await.unwrap();
    keys.sort();
    assert_eq!(keys.len(), 2100, "each once");
    keys.dedup();
    assert_eq!(keys.len(), 2100, "each once");
    assert_eq!(proxy.requests(), 6);
    // One that stays broken ends with an error, not with part of the list.
    proxy.next(&[Fault::None]);
    proxy.always(Fault::Broken);
    let result: Result<Vec<_>, _> = store.list("").try_collect().await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Transient);
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it() {
    let Fixture { server: _server, proxy, store } = fixture();
    proxy.next(&[Fault::Busy(1)]);
    let began = Instant::now();
    store.put("k", Bytes::from_static(b"x")).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    // More than there is until the deadline: no use in waiting.
    proxy.next(&[Fault::Busy(100)]);
    let began = Instant::now();
    let error = store.get("k").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert!(error.to_string().contains("fewer requests"), "{error}");
    assert_readable(&error);
}

#[tokio::test]
async fn what_does_not_pass_ends_at_the_deadline() {
    let Fixture { server: _server, proxy, store } = fixture();
    store.put("k", Bytes::from(vec![1; 3000])).await.unwrap();
    for (fault, kind, words) in [
        (Fault::Hang, ErrorKind::Transient, "no answer within 0."),
        (Fault::Truncate(1000), ErrorKind::Transient, "broke off"),
        (Fault::Broken, ErrorKind::Transient, "status 500"),
        (Fault::Busy(0), ErrorKind::Throttled, "SlowDown: Please reduce your request rate."),
        (Fault::Reset, ErrorKind::Transient, "cannot be reached"),
    ] {
        proxy.always(fault);
        let began = Instant::now();
        let error = store.get_range("k", 0..3000).await.unwrap_err();
        let took = began.elapsed();
        assert!(took < Duration::from_millis(3600), "{fault:?}: {took:?}");
        assert_eq!(error.kind, kind, "{error}");
        let text = error.to_string();
        for part in [words, "gave up after", &proxy.endpoint(), "get s3://bucket/p/k:"] {
            assert!(text.contains(part), "{part:?} not in: {text}");
        }
        assert_readable(&error);
        println!("{text}");
    }
}

#[tokio::test]
async fn a_server_that_ignores_ranges_is_found_out() {
    let Fixture { server: _server, proxy, store } = fixture();
    store.put("k", Bytes::from(vec![1; 3000])).await.unwrap();
    proxy.requests();
    proxy.always(Fault::IgnoreRange);
    let error = store.get_range("k", 1000..2000).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("does not honour ranges"), "{error}");
    assert_eq!(proxy.requests(), 1, "a wrong answer is not asked for again");
}

/// The answer to a conditional put is lost, though it took effect; the next attempt finds its own object.
#[tokio::test]
async fn a_conditional_put_recognises_its_own_work() {
    let Fixture { server: _server, proxy, store } = fixture();
    for (at, body) in
        [Bytes::from_static(b"mine"), Bytes::new(), Bytes::from(vec![3; 100_000])].into_iter().enumerate()
    {
        let key = format!("lease/{at}");
        proxy.next(&[Fault::LoseAnswer, Fault::LoseAnswer]);
        store.put_if_absent(&key, body.clone()).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        proxy.next(&[]);
        assert_eq!(store.get(&key).await.unwrap(), body);
        // With an answer there is no doubt.
        assert_eq!(store.put_if_absent(&key, body).await.unwrap_err().kind, ErrorKind::AlreadyExists);
    }
}

/// The same, but the object is somebody else's.
#[tokio::test]
async fn a_conditional_put_does_not_claim_the_work_of_others() {
    let Fixture { server: _server, proxy, store } = fixture();
    for theirs in ["them", "me and more", "m", ""] {
        store.put("lease", Bytes::from(theirs)).await.unwrap();
        proxy.next(&[Fault::Broken, Fault::LoseAnswer]);
        let error = store.put_if_absent("lease", Bytes::from_static(b"me")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::AlreadyExists, "{theirs:?}: {error}");
        proxy.next(&[]);
        assert_eq!(store.get("lease").await.unwrap(), theirs);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let address = free_address();
    let options = StoreOptions { deadline: Duration::from_secs(1), ..hurried(&format!("http://{address}")) };
    let store = open_plain("s3://bucket/p", &options).unwrap();
    let began = Instant::now();
    let error = store.get("superblock").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(1600), "{:?}", began.elapsed());
    assert_eq!(error.kind, ErrorKind::Transient);
    let text = error.to_string();
    for part in [&format!("http://{address}"), "cannot be reached", "Connection refused", "gave up after"] {
        assert!(text.contains(part), "{part:?} not in: {text}");
    }
    assert_readable(&error);
    println!("{text}");
    for error in [
        store.put("k", Bytes::from_static(b"x")).await.unwrap_err(),
        store.head("k").await.unwrap_err(),
        store.delete("k").await.unwrap_err(),
        store.list("").try_collect::<Vec<_>>().await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Transient, "{error}");
        assert_readable(&error);
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_named() {
    let options =
        StoreOptions { deadline: Duration::from_secs(1), ..hurried("http://no-such-host.invalid:1234") };
    let store = open_plain("s3://bucket/p", &options).unwrap();
    let error = store.get("k").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient);
    assert!(error.to_string().contains("http://no-such-host.invalid:1234"), "{error}");
    assert_readable(&error);
    println!("{error}");
}

#[tokio::test]
async fn an_operation_that_is_dropped_stops() {
    let Fixture { server: _server, proxy, store } = fixture();
    proxy.always(Fault::Broken);
    proxy.requests();
    let _ = tokio::time::timeout(Duration::from_millis(300), store.get("k")).await.unwrap_err();
    let seen = proxy.requests();
    assert!(seen >= 1);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(proxy.requests(), 0, "nobody waits for these requests");
}
