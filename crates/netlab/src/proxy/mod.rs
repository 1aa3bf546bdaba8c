//! The proxy itself: HTTP/1.1 relayed as it comes, byte for byte and without waiting for whole messages, so that a
//! connection can break or stand still at any byte of either direction.
//!
//! A thread serves a connection with blocking calls, and bodies pass by splice: measured, this takes less processor time
//! for each byte than a shared event loop that copies, and a connection that sleeps disturbs no other.

mod body;
mod exchange;
mod ledger;
mod socket;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::fault::Plan;
use crate::pace::Pace;
use crate::{Conditions, Counters, Options, Schedule};
use body::Direction;
use ledger::{Ledger, Tally};

/// Sleeps longer than this can be interrupted.
const LONG: Duration = Duration::from_millis(200);
/// Stack of a connection's thread: it calls little and holds its buffers elsewhere.
const STACK: usize = 256 << 10;
/// Descriptors of a connection: two sockets and a pipe.
const DESCRIPTORS: u64 = 4;

/// What all connections share.
#[derive(Debug)]
struct State {
    upstream: Mutex<SocketAddr>,
    plan: Mutex<Plan>,
    conditions: Mutex<Arc<Conditions>>,
    /// One more with each change of the conditions.
    generation: AtomicU64,
    to_server: Mutex<Pace>,
    to_client: Mutex<Pace>,
    ledger: Ledger,
    /// Nothing listens.
    down: AtomicBool,
    stop: AtomicBool,
    /// Told when `down` or `stop` changes.
    changed: Condvar,
    changed_lock: Mutex<()>,
    connections: Mutex<HashMap<u64, Ends>>,
}

/// Both sides of a connection, to be broken from outside of its thread.
#[derive(Debug)]
struct Ends {
    client: Arc<TcpStream>,
    server: Option<Arc<TcpStream>>,
}

/// The conditions as one connection knows them.
#[derive(Debug)]
struct Limits {
    generation: u64,
    conditions: Arc<Conditions>,
}

impl Limits {
    fn new(state: &State) -> Limits {
        let generation = state.generation.load(Ordering::Acquire);
        Limits { generation, conditions: Arc::clone(&lock(&state.conditions)) }
    }

    /// Learns of changes.
    fn refresh(&mut self, state: &State) {
        if state.generation.load(Ordering::Acquire) != self.generation {
            *self = Limits::new(state);
        }
    }
}

/// A running proxy; it ends with this value.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

/// A panicking test must not make the proxy's own locks unusable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(crate) fn start(
        upstream: SocketAddr,
        conditions: Conditions,
        options: &Options,
    ) -> io::Result<Proxy> {
        let listener = socket::listen(options.listen).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {}: {error}", options.listen))
        })?;
        let address = listener.local_addr()?;
        let most = options.max_connections;
        raise_descriptor_limit(DESCRIPTORS.saturating_mul(most as u64));
        let state = Arc::new(State {
            upstream: Mutex::new(upstream),
            plan: Mutex::new(Plan::new(options.seed)),
            conditions: Mutex::new(Arc::new(conditions)),
            generation: AtomicU64::new(0),
            to_server: Mutex::default(),
            to_client: Mutex::default(),
            ledger: Ledger::default(),
            down: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            changed: Condvar::new(),
            changed_lock: Mutex::new(()),
            connections: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let acceptor = std::thread::Builder::new()
            .name("netlab-accept".into())
            .spawn(move || accept(listener, address, most, &shared))?;
        Ok(Proxy { address, state, acceptor: Some(acceptor) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set_upstream(&self, upstream: SocketAddr) {
        *lock(&self.state.upstream) = upstream;
    }

    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.state.plan()
    }

    pub(crate) fn set_conditions(&self, conditions: Conditions) {
        self.state.set_conditions(conditions);
    }

    /// Changes the conditions by a schedule that begins now.
    pub(crate) fn follow(&self, schedule: Schedule) -> io::Result<()> {
        let state = Arc::clone(&self.state);
        let began = Instant::now();
        let follow = move || {
            loop {
                let (conditions, next) = schedule.at(began.elapsed());
                state.set_conditions(conditions);
                let Some(next) = next.and_then(|next| began.checked_add(next)) else { return };
                if state.sleep_until(next).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("netlab-schedule".into()).spawn(follow).map(|_| ())
    }

    pub(crate) fn conditions(&self) -> Conditions {
        Conditions::clone(&lock(&self.state.conditions))
    }

    /// Refuses connections and resets those there are, or listens again.
    pub(crate) fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::SeqCst);
        if down { self.interrupt() } else { self.state.tell() }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.state.ledger.requests()
    }

    pub(crate) fn faults(&self) -> u64 {
        self.state.ledger.faults()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.state.ledger.counters()
    }

    /// Ends every connection and wakes whoever waits.
    fn interrupt(&self) {
        self.state.tell();
        let _ = TcpStream::connect(self.address);
        for ends in lock(&self.state.connections).values() {
            for end in [Some(&ends.client), ends.server.as_ref()].into_iter().flatten() {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.interrupt();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    fn set_conditions(&self, conditions: Conditions) {
        *lock(&self.conditions) = Arc::new(conditions);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn pace(&self, direction: Direction) -> &Mutex<Pace> {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    fn tell(&self) {
        let _held = lock(&self.changed_lock);
        self.changed.notify_all();
    }

    fn ends(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.down.load(Ordering::SeqCst)
    }

    /// Sleeps until `when`; an error when the proxy ends or goes down before.
    fn sleep_until(&self, when: Instant) -> io::Result<()> {
        loop {
            let left = when.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            // Short sleeps take no lock: there are many of them.
            if left <= LONG {
                std::thread::sleep(left);
                continue;
            }
            let held = lock(&self.changed_lock);
            if self.ends() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            drop(self.changed.wait_timeout(held, left - LONG / 2));
        }
    }
}

fn accept(first: TcpListener, address: SocketAddr, most: usize, state: &Arc<State>) {
    let mut listener = Some(first);
    let mut number = 0;
    let mut tally = Tally::new();
    while !state.stop.load(Ordering::SeqCst) {
        if state.down.load(Ordering::SeqCst) {
            listener = None;
            let held = lock(&state.changed_lock);
            let still = |_: &mut ()| state.down.load(Ordering::SeqCst) && !state.stop.load(Ordering::SeqCst);
            drop(state.changed.wait_while(held, still));
            continue;
        }
        let Some(open) = &listener else {
            listener = socket::listen(address).ok();
            if listener.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        let Ok((client, _)) = open.accept() else {
            // Out of descriptors, most likely: some come back when connections end.
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        if state.ends() {
            continue;
        }
        number += 1;
        admit(client, number, most, state);
        tally.settle(&state.ledger);
    }
}

/// Gives a connection its thread.
fn admit(client: TcpStream, number: u64, most: usize, state: &Arc<State>) {
    let client = Arc::new(client);
    let mut connections = lock(&state.connections);
    if connections.len() >= most {
        return wire::Wire::new(client).reset();
    }
    connections.insert(number, Ends { client: Arc::clone(&client), server: None });
    drop(connections);
    state.ledger.connected();
    let shared = Arc::clone(state);
    let thread = std::thread::Builder::new().name("netlab".into()).stack_size(STACK).spawn(move || {
        // Timers to the microsecond, not to the fifty that are the default.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        exchange::serve(client, number, &shared);
        lock(&shared.connections).remove(&number);
    });
    if thread.is_err() {
        lock(&state.connections).remove(&number);
    }
}

/// As many descriptors as so many connections need, and some for the program around; what the hard limit allows.
fn raise_descriptor_limit(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = wanted.saturating_add(1024);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
