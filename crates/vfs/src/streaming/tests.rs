//! A [`Fetcher`] over an origin that waits, breaks and forgets: the right bytes or an error, and nothing held in the end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use headrace_flow::reading::{Kept, Limits, Tuning};
use headrace_layout::InodeNo;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::fetcher::Streamed;
use super::{Body, Delivery, Fetcher, Origin};
use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;
const FILE: u64 = 64 * MIB;

/// Byte `at` of inode `ino`.
fn byte(ino: u64, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ ino) >> 40) as u8
}

fn bytes(ino: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|at| byte(ino, at)).collect()
}

/// What the next fetches that begin within some range do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// Fail when so many bytes have come.
    Fails(u64),
    Panics,
    /// Nothing comes any more after so many bytes.
    Hangs(u64),
}

#[derive(Default)]
struct Store {
    latency: Duration,
    trouble: Mutex<HashMap<u64, Trouble>>,
    /// What was asked for, in order.
    asked: Mutex<Vec<Range<u64>>>,
    flying: Arc<AtomicU64>,
}

struct Flying(Arc<AtomicU64>);

impl Drop for Flying {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Origin for Store {
    fn fetch<'a>(
        &'a self,
        body: Body,
        range: Range<u64>,
        to: &'a mut dyn Delivery,
    ) -> BoxFuture<'a, Result<()>> {
        let Body::File(ino) = body else { unreachable!("only files are read here") };
        Box::pin(async move {
            self.asked.lock().push(range.clone());
            self.flying.fetch_add(1, Ordering::SeqCst);
            let _flying = Flying(Arc::clone(&self.flying));
            tokio::time::sleep(self.latency).await;
            let hit = self.trouble.lock().extract_if(|at, _| range.contains(at)).next();
            let mut at = range.start;
            while at < range.end {
                let end = (at + 100_000).min(range.end);
                match hit {
                    Some((_, Trouble::Panics)) => panic!("as it was told to"),
                    Some((_, Trouble::Fails(after))) if at >= range.start + after => {
                        return Err(Error::Missing("segment".to_owned()));
                    }
                    Some((_, Trouble::Hangs(after))) if at >= range.start + after => {
                        std::future::pending::<()>().await;
                    }
                    _ => {}
                }
                to.bytes(&mut vec![Bytes::from(bytes(ino.0, at..end))]);
                at = end;
                tokio::task::yield_now().await;
            }
            Ok(())
        })
    }
}

struct Rig {
    store: Arc<Store>,
    fetcher: Arc<Fetcher<Store>>,
}

impl Rig {
    fn new(memory: u64, latency: Duration) -> Rig {
        let store = Arc::new(Store { latency, ..Store::default() });
        let limits = Limits { memory, request_max: 8 * MIB, requests: 64 };
        let fetcher = Fetcher::start(Arc::downgrade(&store), Handle::current(), limits, Tuning::default());
        Rig { store, fetcher }
    }

    /// Content numbers are ten times the inode's here.
    async fn read(&self, handle: u64, ino: u64, range: Range<u64>) -> Result<Vec<u8>> {
        let streamed = Streamed {
            body: Body::File(InodeNo(ino)),
            content: ino * 10,
            handle,
            len: FILE,
            range,
            kept: Kept::No,
        };
        Ok(self.fetcher.read(streamed).await?.concat())
    }

    async fn nothing_is_left(&self) {
        for _ in 0..1000 {
            let figures = self.fetcher.figures();
            if figures.held == 0 && figures.in_flight == 0 && self.store.flying.load(Ordering::SeqCst) == 0 {
                assert!(self.fetcher.inner.lock().files.is_empty());
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{:?}", self.fetcher.figures());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_side_by_side_read_what_is_there() {
    let rig = Arc::new(Rig::new(16 * MIB, Duration::from_millis(1)));
    let readers: Vec<_> = (0..6u64)
        .map(|reader| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move {
                let (ino, mut at) = (1 + reader % 2, reader * MIB);
                while at < 24 * MIB {
                    let range = at..at + 131_072;
                    assert!(rig.read(reader, ino, range.clone()).await.unwrap() == bytes(ino, range));
                    at += 131_072;
                    assert!(rig.fetcher.figures().held <= 16 * MIB);
                }
                rig.fetcher.close(reader);
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    rig.nothing_is_left().await;
    let stats = rig.fetcher.figures().stats;
    assert!(stats.fetched / stats.fetches > 200_000, "parts are as large as memory allows: {stats:?}");
}

#[tokio::test]
async fn an_answer_counts_until_it_is_dropped() {
    let rig = Rig::new(16 * MIB, Duration::ZERO);
    let streamed = Streamed {
        body: Body::File(InodeNo(1)),
        content: 10,
        handle: 1,
        len: FILE,
        range: 5 * MIB..6 * MIB,
        kept: Kept::No,
    };
    let pieces = rig.fetcher.read(streamed).await.unwrap();
    rig.fetcher.close(1);
    assert_eq!(rig.fetcher.figures().held, MIB);
    drop(pieces);
    rig.nothing_is_left().await;
}

/// In this runtime nothing that was spawned runs before the test waits.
#[tokio::test]
async fn who_waits_for_a_fetch_begins_it_and_nobody_else_does() {
    let rig = Rig::new(16 * MIB, Duration::from_millis(5));
    let begun = || rig.store.asked.lock().len();
    let (mut waited, mut had) = (0, 0);
    for at in (0..24 * MIB).step_by(131_072) {
        let (range, before) = (at..at + 131_072, begun());
        let there = rig.fetcher.holds(10, &range);
        let mut read = std::pin::pin!(rig.read(1, 1, range.clone()));
        let got = match futures::poll!(&mut read) {
            std::task::Poll::Ready(got) => got,
            std::task::Poll::Pending => {
                // It may be on its way already.
                assert!(!there && begun() <= before + 1);
                waited += begun() - before;
                read.await
            }
        };
        if there {
            assert_eq!(begun(), before, "an answer does not wait for requests ahead of it");
            had += 1;
        }
        assert!(got.unwrap() == bytes(1, range));
    }
    assert!(waited > 0 && had > 0, "{waited} {had}");
    rig.fetcher.close(1);
    rig.nothing_is_left().await;
}

#[tokio::test]
async fn readers_that_go_away_leave_nothing() {
    let rig = Rig::new(16 * MIB, Duration::from_millis(5));
    for turn in 0..20 {
        let at = turn * 3 * MIB;
        let read = rig.read(1, 1, at..at + 1000);
        let _ = tokio::time::timeout(Duration::from_millis(turn % 8), read).await;
    }
    rig.fetcher.close(1);
    rig.nothing_is_left().await;
}

#[tokio::test]
async fn a_failure_is_told_to_those_who_need_what_failed() {
    let rig = Rig::new(16 * MIB, Duration::ZERO);
    rig.store.trouble.lock().insert(2 * MIB, Trouble::Fails(200_000));
    let error = rig.read(1, 1, 2 * MIB..3 * MIB).await.unwrap_err();
    assert!(matches!(error, Error::Missing(_)), "{error}");
    assert!(rig.read(1, 1, 4 * MIB..5 * MIB).await.unwrap() == bytes(1, 4 * MIB..5 * MIB));
    // It is asked for again by whoever comes next.
    assert!(rig.read(1, 1, 2 * MIB..3 * MIB).await.unwrap() == bytes(1, 2 * MIB..3 * MIB));
    rig.store.trouble.lock().insert(8 * MIB, Trouble::Panics);
    let error = rig.read(1, 1, 8 * MIB..9 * MIB).await.unwrap_err();
    assert!(matches!(error, Error::Internal(_)), "{error}");
    rig.fetcher.close(1);
    rig.nothing_is_left().await;
}

/// A connection that hangs is overtaken by a second one, long before anybody gives it up.
#[tokio::test]
async fn what_hangs_is_overtaken() {
    let rig = Rig::new(64 * MIB, Duration::from_millis(1));
    rig.store.trouble.lock().insert(30 * MIB, Trouble::Hangs(300_000));
    let mut at = 0;
    while at < 40 * MIB {
        let range = at..at + 256 * 1024;
        let read = rig.read(1, 1, range.clone());
        let got = tokio::time::timeout(Duration::from_secs(20), read).await.expect("nothing hangs for long");
        assert!(got.unwrap() == bytes(1, range));
        at += 256 * 1024;
    }
    let stats = rig.fetcher.figures().stats;
    assert!(stats.hedges + stats.hung >= 1, "{stats:?}");
    rig.fetcher.close(1);
    rig.nothing_is_left().await;
}

/// A content that was replaced: what was fetched of it is not given to those who read the new one.
#[tokio::test]
async fn another_content_is_fetched_anew() {
    let rig = Rig::new(16 * MIB, Duration::ZERO);
    let read = async |content: u64, range: Range<u64>| {
        let streamed =
            Streamed { body: Body::File(InodeNo(1)), content, handle: 1, len: FILE, range, kept: Kept::No };
        drop(rig.fetcher.read(streamed).await.unwrap());
    };
    let asked_for = |at: u64| rig.store.asked.lock().iter().filter(|range| range.contains(&at)).count();
    read(10, 0..MIB).await;
    for _ in 0..1000 {
        if rig.fetcher.holds(10, &(MIB..2 * MIB)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    read(10, MIB..MIB * 3 / 2).await;
    assert_eq!(asked_for(2 * MIB - 1), 1, "it is there ahead of its reader");
    read(11, MIB * 3 / 2..2 * MIB).await;
    assert_eq!(asked_for(2 * MIB - 1), 2, "of the other content");
    rig.fetcher.close(1);
    rig.nothing_is_left().await;
}

#[tokio::test]
async fn after_the_end_reads_fail_at_once() {
    let rig = Rig::new(16 * MIB, Duration::from_secs(60));
    let waits = rig.read(1, 1, 0..1000);
    tokio::pin!(waits);
    assert!(futures::poll!(&mut waits).is_pending());
    rig.fetcher.stop();
    assert!(matches!(waits.await, Err(Error::Internal(_))));
    assert!(matches!(rig.read(1, 1, 0..1000).await, Err(Error::Internal(_))));
    for _ in 0..1000 {
        if rig.store.flying.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("a fetch goes on");
}
