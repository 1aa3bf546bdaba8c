//! Operations for whoever listens. Workers never wait: what a listener does not take in time is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tokio::sync::mpsc;

use super::operation::Operation;

/// Operations that wait for one listener. At a hundred bytes each, under 2 MiB; taken every 50 ms it is good for
/// 300,000 a second.
const WAITING_MAX: usize = 16 << 10;
/// Listeners at a time.
const LISTENERS_MAX: usize = 4;

/// Where workers tell what they did.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// How many listen: all that is looked at when nobody does.
    listening: AtomicUsize,
    listeners: RwLock<Vec<Arc<Listener>>>,
}

#[derive(Debug)]
struct Listener {
    sender: mpsc::Sender<Operation>,
    dropped: AtomicU64,
}

/// As many listen already as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LISTENERS_MAX} others already watch the operations of this mount, which is the most there can be")]
pub struct SubscribeError;

/// The operations of a mount from here on, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::Receiver<Operation>,
    listener: Arc<Listener>,
    feed: Arc<Feed>,
}

impl Feed {
    /// Whether anybody wants to know.
    pub fn listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed) > 0
    }

    /// Tells everybody who listens.
    pub fn publish(&self, operation: &Operation) {
        for listener in self.listeners.read().iter() {
            if listener.sender.try_send(*operation).is_err() {
                listener.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Begins to listen.
    pub fn subscribe(self: &Arc<Self>) -> Result<Subscription, SubscribeError> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let listener = Arc::new(Listener { sender, dropped: AtomicU64::new(0) });
        let mut listeners = self.listeners.write();
        if listeners.len() >= LISTENERS_MAX {
            return Err(SubscribeError);
        }
        listeners.push(Arc::clone(&listener));
        self.listening.store(listeners.len(), Ordering::Relaxed);
        drop(listeners);
        Ok(Subscription { receiver, listener, feed: Arc::clone(self) })
    }
}

impl Subscription {
    /// The oldest operation that was not taken yet. To be asked until there is none, every 50 ms or so: a listener is not woken
    /// for each operation.
    pub fn take(&mut self) -> Option<Operation> {
        self.receiver.try_recv().ok()
    }

    /// How many operations were dropped until now because they were not taken in time.
    pub fn dropped(&self) -> u64 {
        self.listener.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut listeners = self.feed.listeners.write();
        listeners.retain(|listener| !Arc::ptr_eq(listener, &self.listener));
        self.feed.listening.store(listeners.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::abi::Opcode;
    use crate::session::observe::ProcessName;

    fn operation(node: u64) -> Operation {
        Operation {
            started: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            opcode: Opcode::Read,
            tid: 1,
            pid: 1,
            process: ProcessName::default(),
            uid: 0,
            node,
            offset: None,
            bytes: 0,
            error: None,
        }
    }

    #[test]
    fn each_listener_hears_all_since_it_began() {
        let feed = Arc::new(Feed::default());
        assert!(!feed.listening());
        let mut first = feed.subscribe().unwrap();
        feed.publish(&operation(1));
        let mut second = feed.subscribe().unwrap();
        feed.publish(&operation(2));
        let heard =
            |s: &mut Subscription| std::iter::from_fn(|| s.take()).map(|o| o.node).collect::<Vec<_>>();
        assert_eq!((heard(&mut first), heard(&mut second)), (vec![1, 2], vec![2]));
        drop(first);
        assert!(feed.listening());
        drop(second);
        assert!(!feed.listening());
    }

    #[test]
    fn who_does_not_listen_loses_the_newest_and_is_told() {
        let feed = Arc::new(Feed::default());
        let mut slow = feed.subscribe().unwrap();
        for node in 0..WAITING_MAX as u64 + 5 {
            feed.publish(&operation(node));
        }
        assert_eq!(slow.dropped(), 5);
        assert_eq!(slow.take().unwrap().node, 0);
        assert_eq!(std::iter::from_fn(|| slow.take()).count(), WAITING_MAX - 1);
        feed.publish(&operation(7));
        assert_eq!((slow.take().unwrap().node, slow.dropped()), (7, 5));
    }

    #[test]
    fn only_so_many_may_listen() {
        let feed = Arc::new(Feed::default());
        let mut listeners: Vec<_> = (0..LISTENERS_MAX).map(|_| feed.subscribe().unwrap()).collect();
        assert_eq!(feed.subscribe().unwrap_err(), SubscribeError);
        listeners.pop();
        assert!(feed.subscribe().is_ok());
    }
}
