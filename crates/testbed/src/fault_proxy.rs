//! A proxy on the loopback interface that stands before a real server and spoils what passes, on demand or at random.
//!
//! It relays HTTP/1.1 as it comes, byte for byte and without waiting for whole messages, so that a connection can break or stand
//! still at any byte of either direction.

mod relay;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Rng;

/// What happens to a request. Byte counts are of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is passed on.
    None,
    /// The answer comes so much later.
    Delay(Duration),
    /// The connection is reset before the request is passed on.
    Reset,
    /// Nothing of the request is read and nothing answered; the connection stays.
    BlackHole,
    /// The request is read and not answered; the connection stays.
    Hang,
    /// 503 SlowDown with a Retry-After of so many seconds (none if 0).
    Busy(u64),
    /// 429 without a body.
    TooMany,
    /// 500 without a body.
    Broken,
    /// After so many bytes of the request's body nothing more is taken.
    StallRequest(u64),
    /// After so many bytes of the request's body the connection is reset.
    ResetRequest(u64),
    /// One bit in the middle of the request's body is another one.
    CorruptRequest,
    /// The request takes effect, and the connection is reset in place of an answer.
    LoseAnswer,
    /// After so many bytes of the answer's body nothing more comes.
    StallAnswer(u64),
    /// After so many bytes of the answer's body the connection is reset.
    ResetAnswer(u64),
    /// After so many bytes of the answer's body the connection is closed, as if that were all.
    Truncate(u64),
    /// The answer is so many bytes shorter, and its Content-Length agrees.
    Shorten(u64),
    /// One bit in the middle of the answer's body is another one.
    CorruptAnswer,
    /// The answer pretends to be the whole object: status 200 and no Content-Range.
    IgnoreRange,
}

/// Faults for some requests only.
#[derive(Debug, Clone)]
struct Rule {
    method: String,
    part: String,
    fault: Fault,
}

/// Faults at random.
#[derive(Debug)]
struct Mix {
    rng: Rng,
    per_mille: u64,
    menu: Vec<Fault>,
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Fault>,
    rule: Option<Rule>,
    mix: Option<Mix>,
}

#[derive(Debug)]
struct State {
    upstream: Mutex<SocketAddr>,
    plan: Mutex<Plan>,
    requests: AtomicU64,
    faults: AtomicU64,
    /// Nothing listens.
    down: AtomicBool,
    stop: AtomicBool,
    /// Told when `down` or `stop` changes.
    changed: Condvar,
    changed_lock: Mutex<()>,
    connections: Mutex<HashMap<u64, TcpStream>>,
}

/// A running proxy; it ends with this value.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

/// A panicking test must not make the proxy's own locks unusable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultProxy {
    /// Starts a proxy before the server at `upstream`; everything passes until told otherwise.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start(upstream: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State {
            upstream: Mutex::new(upstream),
            plan: Mutex::default(),
            requests: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            down: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            changed: Condvar::new(),
            changed_lock: Mutex::new(()),
            connections: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let acceptor = std::thread::spawn(move || accept(listener, address, &shared));
        FaultProxy { address, state, acceptor: Some(acceptor) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Passes requests to another server from now on.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        *lock(&self.state.upstream) = upstream;
    }

    /// Everything passes.
    pub fn clear(&self) {
        *lock(&self.state.plan) = Plan::default();
    }

    /// Spoils the next requests so, one each; those after them pass.
    pub fn next(&self, faults: &[Fault]) {
        *lock(&self.state.plan) = Plan { next: faults.iter().copied().collect(), ..Plan::default() };
    }

    /// Spoils every request so.
    pub fn always(&self, fault: Fault) {
        self.always_for("", "", fault);
    }

    /// Spoils every request so whose method is `method` and whose path holds `part` (either may be empty, for any). What
    /// [`Self::next`] has left comes first.
    pub fn always_for(&self, method: &str, part: &str, fault: Fault) {
        let rule = Rule { method: method.to_owned(), part: part.to_owned(), fault };
        let mut plan = lock(&self.state.plan);
        (plan.rule, plan.mix) = (Some(rule), None);
    }

    /// Spoils so many of a thousand requests with a fault from `menu`. Byte counts in the menu are upper bounds.
    pub fn mix(&self, seed: u64, per_mille: u64, menu: &[Fault]) {
        let mix = Mix { rng: Rng::new(seed), per_mille, menu: menu.to_vec() };
        *lock(&self.state.plan) = Plan { mix: Some(mix), ..Plan::default() };
    }

    /// Refuses connections and resets those there are, as when the server's process has died.
    pub fn down(&self) {
        self.state.down.store(true, Ordering::SeqCst);
        self.interrupt();
    }

    /// Listens again.
    pub fn up(&self) {
        self.state.down.store(false, Ordering::SeqCst);
        self.state.tell();
        // So that whoever tries next finds it.
        let found = crate::process::wait_until(Duration::from_secs(10), || {
            TcpStream::connect(self.address).ok().map(drop)
        });
        assert!(found.is_some(), "the proxy cannot listen on {} again", self.address);
    }

    /// Requests seen since the last call.
    pub fn requests(&self) -> u64 {
        self.state.requests.swap(0, Ordering::SeqCst)
    }

    /// Requests spoiled so far.
    pub fn faults(&self) -> u64 {
        self.state.faults.load(Ordering::SeqCst)
    }

    /// Ends every connection and wakes whoever waits.
    fn interrupt(&self) {
        self.state.tell();
        let _ = TcpStream::connect(self.address);
        for connection in lock(&self.state.connections).values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.interrupt();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn tell(&self) {
        let _held = lock(&self.changed_lock);
        self.changed.notify_all();
    }

    fn ends(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.down.load(Ordering::SeqCst)
    }

    /// What happens to the next request.
    fn pick(&self, method: &str, path: &str) -> Fault {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let mut plan = lock(&self.plan);
        let fault = match (plan.next.pop_front(), &plan.rule) {
            (Some(fault), _) => fault,
            (None, Some(rule))
                if (rule.method.is_empty() || rule.method == method) && path.contains(&rule.part) =>
            {
                rule.fault
            }
            _ => plan.mix.as_mut().map_or(Fault::None, Mix::draw).for_path(path),
        };
        if fault != Fault::None {
            self.faults.fetch_add(1, Ordering::SeqCst);
        }
        fault
    }
}

impl Fault {
    /// Of the random faults, those that alter contents unseen only hit what carries checksums of its own.
    fn for_path(self, path: &str) -> Fault {
        match self {
            Fault::CorruptAnswer | Fault::Shorten(_) if !path.contains("/segments/") => Fault::None,
            other => other,
        }
    }
}

impl Mix {
    fn draw(&mut self) -> Fault {
        if self.menu.is_empty() || self.rng.below(1000) >= self.per_mille {
            return Fault::None;
        }
        let fault = self.menu[self.rng.below(self.menu.len() as u64) as usize];
        let mut up_to = |most: u64| self.rng.below(most.saturating_add(1));
        match fault {
            Fault::StallRequest(most) => Fault::StallRequest(up_to(most)),
            Fault::ResetRequest(most) => Fault::ResetRequest(up_to(most)),
            Fault::StallAnswer(most) => Fault::StallAnswer(up_to(most)),
            Fault::ResetAnswer(most) => Fault::ResetAnswer(up_to(most)),
            Fault::Truncate(most) => Fault::Truncate(up_to(most)),
            Fault::Shorten(most) => Fault::Shorten(up_to(most).max(1)),
            other => other,
        }
    }
}

fn accept(first: TcpListener, address: SocketAddr, state: &Arc<State>) {
    let mut listener = Some(first);
    let mut number = 0;
    while !state.stop.load(Ordering::SeqCst) {
        if state.down.load(Ordering::SeqCst) {
            listener = None;
            let held = lock(&state.changed_lock);
            let still = |_: &mut ()| state.down.load(Ordering::SeqCst) && !state.stop.load(Ordering::SeqCst);
            drop(state.changed.wait_while(held, still));
            continue;
        }
        let Some(open) = &listener else {
            listener = TcpListener::bind(address).ok();
            if listener.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        let Ok((client, _)) = open.accept() else { continue };
        if state.ends() {
            continue;
        }
        number += 1;
        let Ok(copy) = client.try_clone() else { continue };
        lock(&state.connections).insert(number, copy);
        let shared = Arc::clone(state);
        std::thread::spawn(move || {
            relay::serve(client, &shared);
            lock(&shared.connections).remove(&number);
        });
    }
}
