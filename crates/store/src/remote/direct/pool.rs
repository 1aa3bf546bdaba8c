//! Connections that wait for the next request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// Idle connections by server.
pub(super) struct Pool {
    /// Kept per server, at most.
    most: usize,
    /// For how long.
    time: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one used last is the last.
    idle: HashMap<String, Vec<(Instant, Connection)>>,
    /// Whether somebody closes what has waited for too long.
    swept: bool,
}

impl Pool {
    pub(super) fn new(most: usize, time: Duration) -> Pool {
        Pool { most, time, state: Mutex::default() }
    }

    /// The connection to `origin` that was used last and is still open.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let mut state = self.state.lock();
        let idle = state.idle.get_mut(origin)?;
        while let Some((since, connection)) = idle.pop() {
            if since.elapsed() < self.time && connection.looks_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(self: &Arc<Pool>, origin: String, connection: Connection) {
        let mut state = self.state.lock();
        let idle = state.idle.entry(origin).or_default();
        if idle.len() < self.most {
            idle.push((Instant::now(), connection));
        }
        if !std::mem::replace(&mut state.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.time));
        }
    }

    /// Closes what has waited for too long; whether anything is left.
    fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        state.idle.retain(|_, idle| {
            idle.retain(|(since, _)| since.elapsed() < self.time);
            !idle.is_empty()
        });
        state.swept = !state.idle.is_empty();
        state.swept
    }
}

/// Closes idle connections in time, until there are none or nobody is left who could use them.
async fn sweep(pool: Weak<Pool>, time: Duration) {
    loop {
        tokio::time::sleep(time / 4).await;
        if !pool.upgrade().is_some_and(|pool| pool.sweep()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const TIME: Duration = Duration::from_secs(20);

    async fn pair(listener: &TcpListener) -> (Connection, TcpStream) {
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Connection::Plain(ours), listener.accept().await.unwrap().0)
    }

    fn port(connection: &Connection) -> u16 {
        match connection {
            Connection::Plain(stream) => stream.local_addr().unwrap().port(),
            Connection::Tls(_) => unreachable!(),
        }
    }

    #[tokio::test]
    async fn the_one_used_last_is_used_next_and_no_more_than_allowed_are_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Arc::new(Pool::new(2, TIME));
        let mut theirs = Vec::new();
        let mut ports = Vec::new();
        for _ in 0..3 {
            let (ours, their) = pair(&listener).await;
            ports.push(port(&ours));
            theirs.push(their);
            pool.put("a".into(), ours);
        }
        assert!(pool.take("b").is_none());
        assert_eq!(pool.take("a").as_ref().map(port), Some(ports[1]));
        assert_eq!(pool.take("a").as_ref().map(port), Some(ports[0]));
        assert!(pool.take("a").is_none());
    }

    #[tokio::test]
    async fn one_that_was_closed_or_has_said_something_unasked_is_not_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Arc::new(Pool::new(9, TIME));
        let (good, _their) = pair(&listener).await;
        let good_port = port(&good);
        pool.put("a".into(), good);
        let (closed, their) = pair(&listener).await;
        drop(their);
        pool.put("a".into(), closed);
        let (talking, mut their) = pair(&listener).await;
        their.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.unwrap();
        pool.put("a".into(), talking);
        // What happened to a connection is known once the runtime has looked.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(pool.take("a").as_ref().map(port), Some(good_port));
    }

    #[tokio::test]
    async fn what_waits_for_too_long_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Arc::new(Pool::new(9, Duration::from_millis(100)));
        for round in 0..2 {
            let (ours, mut their) = pair(&listener).await;
            pool.put("a".into(), ours);
            let closed = tokio::time::timeout(Duration::from_secs(10), their.read_u8()).await;
            assert!(closed.expect("closed without anybody asking").is_err(), "in round {round}");
            assert!(pool.take("a").is_none());
        }
    }
}
