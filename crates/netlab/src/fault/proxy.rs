//! The proxy that a test tells what to spoil.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Fault, Mix, Rule};
use crate::Options;
use crate::proxy::Proxy;
use crate::random::Rng;

/// A proxy on the loopback interface that stands before a real server and spoils what passes, on demand or at random.
/// It ends with this value.
#[derive(Debug)]
pub struct FaultProxy {
    proxy: Proxy,
    /// Requests that were asked about.
    told: AtomicU64,
}

impl FaultProxy {
    /// Starts a proxy before the server at `upstream`; everything passes until told otherwise.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start(upstream: SocketAddr) -> FaultProxy {
        let options = Options { listen: (Ipv4Addr::LOCALHOST, 0).into(), ..Options::default() };
        let proxy = Proxy::start(upstream, crate::Conditions::default(), &options);
        let proxy = proxy.unwrap_or_else(|error| panic!("a proxy before {upstream}: {error}"));
        FaultProxy { proxy, told: AtomicU64::new(0) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Passes requests to another server from now on.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.proxy.set_upstream(upstream);
    }

    /// Everything passes.
    pub fn clear(&self) {
        self.proxy.plan().clear();
    }

    /// Spoils the next requests so, one each; those after them pass.
    pub fn next(&self, faults: &[Fault]) {
        let mut plan = self.proxy.plan();
        plan.clear();
        plan.next = faults.iter().copied().collect();
    }

    /// Spoils every request so.
    pub fn always(&self, fault: Fault) {
        self.always_for("", "", fault);
    }

    /// Spoils every request so whose method is `method` and whose path holds `part` (either may be empty, for any). What
    /// [`Self::next`] has left comes first.
    pub fn always_for(&self, method: &str, part: &str, fault: Fault) {
        let rule = Rule { method: method.to_owned(), part: part.to_owned(), fault };
        let mut plan = self.proxy.plan();
        (plan.rule, plan.mix) = (Some(rule), None);
    }

    /// Spoils so many of a thousand requests with a fault from `menu`. Byte counts in the menu are upper bounds.
    pub fn mix(&self, seed: u64, per_mille: u64, menu: &[Fault]) {
        let mut plan = self.proxy.plan();
        plan.clear();
        plan.mix = Some(Mix { rng: Rng::new(seed), per_mille, menu: menu.to_vec() });
    }

    /// Refuses connections and resets those there are, as when the server's process has died.
    pub fn down(&self) {
        self.proxy.set_down(true);
    }

    /// Listens again.
    ///
    /// # Panics
    /// When it cannot.
    pub fn up(&self) {
        self.proxy.set_down(false);
        // So that whoever tries next finds it.
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(self.address()).is_err() {
            assert!(Instant::now() < until, "the proxy cannot listen on {} again", self.address());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Requests seen since the last call.
    pub fn requests(&self) -> u64 {
        let all = self.proxy.requests();
        all - self.told.swap(all, Ordering::SeqCst)
    }

    /// Requests spoiled so far.
    pub fn faults(&self) -> u64 {
        self.proxy.faults()
    }
}
