//! A network and a server that fail, in front of a real server: what is retried, what is reported, and in which words.

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Server, open_plain, options};
use futures::TryStreamExt;
use headrace_store::{ErrorKind, ObjectStore, Sink, StoreError, StoreOptions};
use headrace_testbed::{Fault, FaultProxy};

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
    proxy: FaultProxy,
    store: std::sync::Arc<dyn ObjectStore>,
}

fn fixture() -> Fixture {
    let server = Server::start();
    let proxy = FaultProxy::start(server.address);
    let store = open_plain("s3://bucket/p", &hurried(&proxy.endpoint())).unwrap();
    Fixture { server, proxy, store }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let server = Server::start();
    let passing = [
        Fault::Busy(0),
        Fault::TooMany,
        Fault::Broken,
        Fault::Reset,
        Fault::Hang,
        Fault::BlackHole,
        Fault::LoseAnswer,
        Fault::ResetRequest(1000),
        Fault::StallRequest(1000),
        Fault::ResetAnswer(10),
        Fault::StallAnswer(10),
        Fault::Delay(Duration::from_secs(1)),
    ];
    futures::future::join_all(passing.map(|fault| passes(&server, fault))).await;
}

/// What a read handed over.
#[derive(Debug, Default)]
struct Came {
    bytes: Vec<u8>,
    interrupted: u32,
    resumed: u32,
}

impl Sink for Came {
    fn bytes(&mut self, bytes: Bytes) {
        self.bytes.extend_from_slice(&bytes);
    }

    fn interrupted(&mut self, kind: ErrorKind) {
        assert!(matches!(kind, ErrorKind::Transient | ErrorKind::Throttled | ErrorKind::Corrupt), "{kind:?}");
        self.interrupted += 1;
    }

    fn resumed(&mut self) {
        self.resumed += 1;
    }
}

/// Every kind of request gets over `fault`, and over an answer that breaks off besides.
async fn passes(server: &Server, fault: Fault) {
    let proxy = FaultProxy::start(server.address);
    let store = open_plain(&format!("s3://bucket/{fault:?}"), &hurried(&proxy.endpoint())).unwrap();
    let body = Bytes::from_iter((0..5000u32).map(|at| (at % 251) as u8));
    proxy.next(&[fault, fault]);
    store.put("k", body.clone()).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
    proxy.next(&[fault, Fault::Truncate(1000), Fault::ResetAnswer(2000), Fault::Truncate(0)]);
    assert_eq!(store.get("k").await.unwrap_or_else(|error| panic!("{fault:?}: {error}")), body);
    proxy.next(&[Fault::Truncate(1000), Fault::Shorten(7), fault, Fault::Shorten(1999)]);
    assert_eq!(store.get_range("k", 1000..3000).await.unwrap(), body[1000..3000]);
    proxy.next(&[Fault::Truncate(1000), fault, Fault::ResetAnswer(500)]);
    let mut came = Came::default();
    store.get_range_to("k", 0..5000, &mut came).await.unwrap();
    assert!(came.bytes == body, "each byte once, in order");
    assert!(came.interrupted >= 2 && came.resumed == came.interrupted, "{came:?}");
    proxy.next(&[fault]);
    assert_eq!(store.head("k").await.unwrap().size, 5000);
    proxy.next(&[fault, Fault::Truncate(30)]);
    assert_eq!(store.list("").try_collect::<Vec<_>>().await.unwrap().len(), 1);
    proxy.next(&[fault]);
    store.delete("k").await.unwrap();
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

/// Whether the last attempt or a pause that all keep uses up the deadline: what the store said is told.
#[tokio::test]
async fn each_of_many_that_are_throttled_tells_what_the_store_said() {
    let Fixture { server: _server, proxy, store } = fixture();
    store.put("k", Bytes::from(vec![1; 3000])).await.unwrap();
    proxy.always(Fault::Busy(0));
    let results = futures::future::join_all((0..32).map(|_| store.get_range("k", 0..3000))).await;
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Throttled, "{error}");
        assert!(error.to_string().contains("SlowDown: Please reduce your request rate."), "{error}");
        assert_readable(&error);
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

/// Half the size of a segment: more than the buffers of a connection hold.
fn large() -> Bytes {
    Bytes::from((0..8 << 20).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>())
}

/// Large bodies get time, but not for standing still.
#[tokio::test]
async fn a_large_body_that_stands_still_is_given_up_soon() {
    let Fixture { server, proxy, store } = fixture();
    let body = large();
    for fault in [
        Fault::StallRequest(0),
        Fault::StallRequest(5 << 20),
        Fault::ResetRequest(5 << 20),
        Fault::Hang,
        Fault::LoseAnswer,
        Fault::Reset,
    ] {
        proxy.next(&[fault]);
        let began = Instant::now();
        store.put("large", body.clone()).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert!(began.elapsed() < Duration::from_secs(3), "{fault:?} took {:?}", began.elapsed());
        assert!(std::fs::read(server.bucket().join("p/large")).unwrap() == body, "{fault:?}");
    }
    for fault in [Fault::StallAnswer(5 << 20), Fault::ResetAnswer(5 << 20), Fault::Truncate(8 << 20)] {
        proxy.next(&[fault]);
        let began = Instant::now();
        assert!(store.get("large").await.unwrap() == body, "{fault:?}");
        proxy.next(&[fault]);
        assert!(store.get_range("large", 1000..8 << 20).await.unwrap() == body[1000..], "{fault:?}");
        assert!(began.elapsed() < Duration::from_secs(4), "{fault:?} took {:?}", began.elapsed());
    }
    // One that never gets on ends at the deadline, which the size of the body does not move.
    proxy.always(Fault::StallRequest(3 << 20));
    let began = Instant::now();
    let error = store.put("large", body).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(error.kind, ErrorKind::Transient);
    assert!(error.to_string().contains("no answer within"), "{error}");
    assert_readable(&error);
}

/// A body that changed on its way is refused by the server and sent again; one that changes every time is not stored.
#[tokio::test]
async fn a_body_that_arrives_damaged_is_not_stored() {
    let Fixture { server, proxy, store } = fixture();
    for body in [Bytes::from(vec![7; 5000]), large()] {
        proxy.next(&[Fault::CorruptRequest]);
        store.put("k", body.clone()).await.unwrap();
        assert!(std::fs::read(server.bucket().join("p/k")).unwrap() == body);
        proxy.next(&[Fault::CorruptRequest, Fault::CorruptRequest]);
        store.put_if_absent(&format!("new-{}", body.len()), body.clone()).await.unwrap();

        proxy.always(Fault::CorruptRequest);
        let key = format!("never-{}", body.len());
        let error = store.put(&key, body).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Transient);
        assert!(error.to_string().contains("did not receive the body as it was sent"), "{error}");
        assert_readable(&error);
        assert!(!server.bucket().join("p").join(key).exists());
    }
}

#[tokio::test]
async fn one_that_is_asked_for_time_holds_off_all() {
    let Fixture { server: _server, proxy, store } = fixture();
    store.put("k", Bytes::from_static(b"x")).await.unwrap();
    proxy.next(&[Fault::Busy(1)]);
    let began = Instant::now();
    let refused = async {
        store.put("a", Bytes::from_static(b"x")).await.unwrap();
        began.elapsed()
    };
    let others = async {
        // The first request has its answer by now.
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.requests();
        let health = store.health().unwrap();
        assert!((1..=1000).contains(&health.paused_ms), "{health:?}");
        let gets = futures::future::join_all((0..20).map(|_| store.get("k")));
        let early = tokio::time::timeout(Duration::from_millis(500), gets).await;
        assert!(early.is_err(), "they hold off");
        assert_eq!(proxy.requests(), 0);
        store.get("k").await.unwrap();
        began.elapsed()
    };
    let (refused, others) = tokio::join!(refused, others);
    assert!(refused >= Duration::from_secs(1) && others >= Duration::from_secs(1), "{refused:?} {others:?}");
    assert_eq!(store.health().unwrap().paused_ms, 0);
}

#[tokio::test]
async fn health_tells_what_is_wrong_and_since_when() {
    let Fixture { server: _server, proxy, store } = fixture();
    store.put("k", Bytes::from_static(b"x")).await.unwrap();
    let health = store.health().unwrap();
    assert!(health.writing.last_success_ms.is_some() && health.failing().is_none(), "{health:?}");
    proxy.down();
    store.get("k").await.unwrap_err();
    let health = store.health().unwrap();
    let failing = health.failing().expect("reading fails");
    assert!(failing.failures > 1 && failing.failing_for().unwrap() > Duration::from_secs(1), "{health:?}");
    assert!(failing.last_error.as_deref().unwrap().contains("cannot be reached"), "{health:?}");
    assert_eq!(health.writing.failing_since_ms, None, "nobody tried to write");
    proxy.up();
    store.get("k").await.unwrap();
    assert!(store.health().unwrap().failing().is_none());
}

/// A server that goes away in the middle of everything and comes back before the deadline is only slow.
#[tokio::test]
async fn a_server_that_comes_back_is_waited_for() {
    let Fixture { server, proxy, store } = fixture();
    let body = large();
    proxy.next(&[Fault::StallRequest(2 << 20)]);
    let put = store.put("large", body.clone());
    let outage = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.down();
        tokio::time::sleep(Duration::from_millis(900)).await;
        proxy.up();
    };
    let (put, ()) = tokio::join!(put, outage);
    put.unwrap();
    assert!(std::fs::read(server.bucket().join("p/large")).unwrap() == body);
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
    // A port that no other test's server is given meanwhile.
    let address = "127.0.0.1:1";
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
