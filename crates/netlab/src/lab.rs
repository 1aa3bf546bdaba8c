//! A network with conditions.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use crate::proxy::Proxy;
use crate::{Conditions, Counters, Fault, Schedule};

/// What a network is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
    /// For every random choice: the same requests in the same order meet the same again.
    pub seed: u64,
    /// Connections at once; those beyond are reset.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { listen: (Ipv4Addr::LOCALHOST, 0).into(), seed: 1, max_connections: 8192 }
    }
}

/// A running network before one server; it ends with this value.
#[derive(Debug)]
pub struct NetLab {
    proxy: Proxy,
}

impl NetLab {
    /// Starts a network before the server at `upstream`, on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port or no thread can be had, or the conditions are refused ([`Conditions::check`]).
    pub fn start(upstream: SocketAddr, conditions: Conditions) -> io::Result<NetLab> {
        NetLab::start_with(upstream, conditions, Options::default())
    }

    /// As [`Self::start`], with options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(upstream: SocketAddr, conditions: Conditions, options: Options) -> io::Result<NetLab> {
        check(&conditions)?;
        Ok(NetLab { proxy: Proxy::start(upstream, conditions, &options)? })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Changes the conditions, for bodies under way too.
    ///
    /// # Errors
    /// When they are refused ([`Conditions::check`]); then nothing has changed.
    pub fn set(&self, conditions: Conditions) -> io::Result<()> {
        check(&conditions)?;
        self.proxy.set_conditions(conditions);
        Ok(())
    }

    /// Changes the conditions by a schedule that begins now, for as long as this lasts. What [`Self::set`] changes holds
    /// until the schedule's next step.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn follow(&self, schedule: Schedule) -> io::Result<()> {
        self.proxy.follow(schedule)
    }

    /// Spoils the next requests so, one each, whatever the conditions make likely; those after them are as before. What an earlier call
    /// has left is forgotten.
    pub fn spoil_next(&self, faults: &[Fault]) {
        self.proxy.plan().next = faults.iter().copied().collect();
    }

    /// The conditions now.
    pub fn conditions(&self) -> Conditions {
        self.proxy.conditions()
    }

    /// What has passed since the start.
    pub fn counters(&self) -> Counters {
        self.proxy.counters()
    }
}

fn check(conditions: &Conditions) -> io::Result<()> {
    conditions.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
