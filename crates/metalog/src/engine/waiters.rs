//! Who waits for the bucket: for a position to be shipped, for the lease, for room in the backlog.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, ready};
use headrace_kv::{CommitSeq, Engine, KvError};

use super::{Durability, Shared};
use crate::ownership::LeaseState;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// The lease is valid, and everything up to here is in the bucket.
    Acknowledged(CommitSeq),
    /// There is room in the backlog.
    Room,
}

struct Waiter {
    wish: Wish,
    until: Instant,
    tell: oneshot::Sender<Result<(), KvError>>,
}

/// Those who wait.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Vec<Waiter>,
    closed: Option<KvError>,
}

/// How things stand when waiters are answered.
pub(super) struct Standing {
    pub(super) shipped: CommitSeq,
    pub(super) valid: bool,
    pub(super) room: bool,
    /// Set if nothing will ever be granted again.
    pub(super) over: Option<KvError>,
    /// What is told to those whose time is up.
    pub(super) late: KvError,
}

impl Waiters {
    /// Whether somebody waits for something that could be shipped now.
    pub(super) fn wants(&self, shipped: CommitSeq, durable: CommitSeq) -> bool {
        self.waiting.iter().any(|w| match w.wish {
            Wish::Acknowledged(seq) => seq > shipped && seq <= durable && !w.tell.is_canceled(),
            Wish::Room => !w.tell.is_canceled(),
        })
    }

    /// Answers whom it can; the next time at which somebody's patience ends.
    pub(super) fn settle(&mut self, now: Instant, standing: &Standing) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for waiter in std::mem::take(&mut self.waiting) {
            let granted = match waiter.wish {
                Wish::Acknowledged(seq) => standing.valid && seq <= standing.shipped,
                Wish::Room => standing.room,
            };
            let answer = match &standing.over {
                Some(over) => Err(over.clone()),
                None if granted => Ok(()),
                None if waiter.until <= now => Err(standing.late.clone()),
                None => {
                    if !waiter.tell.is_canceled() {
                        next = Some(next.map_or(waiter.until, |next| next.min(waiter.until)));
                        self.waiting.push(waiter);
                    }
                    continue;
                }
            };
            // Whoever stopped listening does not want to know.
            let _ = waiter.tell.send(answer);
        }
        next
    }

    /// Answers all, and all who come later, with `error`.
    pub(super) fn fail_all(&mut self, error: &KvError) {
        self.closed = Some(error.clone());
        for waiter in self.waiting.drain(..) {
            let _ = waiter.tell.send(Err(error.clone()));
        }
    }
}

impl Shared {
    /// See [`Engine::durable`].
    pub(super) fn durable(
        self: &Arc<Shared>,
        seq: CommitSeq,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), KvError>> {
        let seq = seq.min(self.engine.position());
        let wish = match durability {
            Durability::Local => Wish::Acknowledged(CommitSeq(0)),
            Durability::Bucket => Wish::Acknowledged(seq),
        };
        // Registered before the commit is asked for: the shipper then knows that somebody waits as soon as it is done.
        let shipped =
            (durability == Durability::Bucket && !self.is_acknowledged(seq)).then(|| self.wait(wish));
        let local = self.engine.durable(seq);
        let shared = Arc::clone(self);
        async move {
            local.await?;
            match shipped {
                Some(shipped) => shipped.await,
                None if shared.is_acknowledged(CommitSeq(0)) => Ok(()),
                None => shared.wait(wish).await,
            }
        }
        .boxed()
    }

    /// Whether the lease is valid and everything up to `seq` is in the bucket.
    fn is_acknowledged(&self, seq: CommitSeq) -> bool {
        (seq.0 == 0 || *self.shipped.borrow() >= seq) && self.keeper.is_valid()
    }

    /// See [`super::LoggedEngine::admit`].
    pub(super) fn admit(self: &Arc<Shared>) -> impl Future<Output = Result<(), KvError>> + Send + use<> {
        if self.has_room() {
            return Either::Left(ready(Ok(())));
        }
        Either::Right(self.wait(Wish::Room))
    }

    fn has_room(&self) -> bool {
        let backlog = self.engine.log_backlog();
        backlog.bytes < self.options.max_backlog_bytes && backlog.groups < self.options.max_backlog_groups
    }

    /// Waits from now on. The shipping thread answers, so the future may be polled anywhere.
    fn wait(&self, wish: Wish) -> BoxFuture<'static, Result<(), KvError>> {
        let (tell, told) = oneshot::channel();
        {
            let mut waiters = self.waiters.lock();
            if let Some(closed) = &waiters.closed {
                return ready(Err(closed.clone())).boxed();
            }
            waiters.waiting.push(Waiter { wish, until: Instant::now() + self.options.deadline, tell });
        }
        // What it waits for may have come before it was registered.
        self.settle.notify_one();
        self.ship.notify_one();
        told.map(|answer| answer.unwrap_or(Err(KvError::Closed))).boxed()
    }

    /// Answers waiters until dropped.
    pub(super) async fn answer(&self) {
        loop {
            let lease = self.keeper.state();
            if lease == LeaseState::Fenced {
                self.refuse.store(true, std::sync::atomic::Ordering::Release);
                self.ship.notify_one();
            }
            let standing = self.standing(lease);
            let next = self.waiters.lock().settle(Instant::now(), &standing);
            let timeout = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            let lease_changed = async {
                match lease {
                    LeaseState::Lapsed => drop(self.keeper.valid().await),
                    LeaseState::Valid => drop(self.keeper.fenced().await),
                    LeaseState::Fenced | LeaseState::Released => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.settle.notified() => {}
                () = timeout => {}
                () = lease_changed => {}
            }
        }
    }

    fn standing(&self, lease: LeaseState) -> Standing {
        let over = matches!(lease, LeaseState::Fenced | LeaseState::Released).then(|| self.refusal());
        let (shipped, error) = {
            let state = self.state.lock();
            (state.tail.position, state.ship_error.clone())
        };
        let error = error.or_else(|| self.keeper.last_error());
        let what = match lease {
            LeaseState::Lapsed => "the lease of the volume could not be renewed in the store",
            _ => "the store has not taken the metadata log",
        };
        let waited = seconds(self.options.deadline);
        let cause = error.map_or_else(String::new, |error| format!(": {error}"));
        let detail = format!("{what} within {waited}{cause}; nothing is lost, it is tried again");
        let late = KvError::Io { path: self.bucket.store.url().to_owned(), detail };
        Standing { shipped, valid: lease == LeaseState::Valid, room: self.has_room(), over, late }
    }
}

/// For messages.
pub(super) fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(time.as_millis() as u64)).to_string()
}
