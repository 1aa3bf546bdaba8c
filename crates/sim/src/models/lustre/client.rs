//! A client of fixed settings: one reader in order, a window of read-ahead, so many RPCs in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::parameters::{BLOCK, Parameters, blocks, nanos};
use super::server::Server;

/// The two settings of the ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// max_rpcs_in_flight.
    pub rpcs: usize,
    /// max_read_ahead_per_file_mb.
    pub readahead_mib: u64,
}

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Read before the clock starts, MiB: the window has filled, the prefetcher has its streams.
    pub warm_mib: u64,
    /// Read while it runs, MiB.
    pub measured_mib: u64,
}

/// Reads a new file through `server` and returns MB/s (10^6 bytes).
pub fn read(parameters: &Parameters, settings: Settings, length: Length, server: &mut Server) -> f64 {
    let last = length.warm_mib + length.measured_mib.max(1);
    server.open(0, (last + settings.readahead_mib + 1) * BLOCK);
    let mut client = Client::new(settings, server);
    let copy = nanos(parameters.copy_ms);
    let prepare = nanos(parameters.prepare_ms);
    let wake = nanos(parameters.wake_ms);
    let window = settings.readahead_mib.max(1);
    let piece = blocks(parameters.refill_mib).min(window);
    let (mut now, mut warm, mut end) = (0, 0, 0);
    for block in 0..last {
        if block == length.warm_mib {
            warm = now;
        }
        if end - block <= window - piece {
            let fresh = end..block + window;
            now += prepare * (fresh.end - fresh.start);
            client.run_until(now);
            end = fresh.end;
            client.waiting.extend(fresh);
            client.send(now);
        }
        client.run_until(now);
        if !client.has(block) {
            now = client.run_until_there(block, now) + wake;
        }
        now += copy;
    }
    (length.measured_mib * BLOCK) as f64 / 1e6 / ((now - warm) as f64 / 1e9)
}

struct Client<'a> {
    server: &'a mut Server,
    rpcs: usize,
    in_flight: usize,
    /// Set up, not sent.
    waiting: VecDeque<u64>,
    there: Vec<bool>,
}

impl<'a> Client<'a> {
    fn new(settings: Settings, server: &'a mut Server) -> Self {
        Self { server, rpcs: settings.rpcs.max(1), in_flight: 0, waiting: VecDeque::new(), there: Vec::new() }
    }

    fn has(&self, block: u64) -> bool {
        self.there.get(block as usize).copied().unwrap_or(false)
    }

    /// RPCs leave in the order of the file.
    fn send(&mut self, now: u64) {
        while self.in_flight < self.rpcs
            && let Some(block) = self.waiting.pop_front()
        {
            self.in_flight += 1;
            self.server.submit(Duration::from_nanos(now), block, 0, block * BLOCK, BLOCK);
        }
    }

    /// One step of the server; false if nothing happens until `limit`.
    fn step(&mut self, limit: u64) -> bool {
        let Some(next) = self.server.next_event_at() else { return false };
        if next > Duration::from_nanos(limit) {
            return false;
        }
        self.server.advance(next);
        while let Some(done) = self.server.completed() {
            let index = done.id as usize;
            if self.there.len() <= index {
                self.there.resize(index + 1, false);
            }
            self.there[index] = true;
            self.in_flight -= 1;
            self.send(done.at.as_nanos() as u64);
        }
        true
    }

    fn run_until(&mut self, now: u64) {
        while self.step(now) {}
    }

    /// Runs until `block` is there; when that was, ns.
    fn run_until_there(&mut self, block: u64, now: u64) -> u64 {
        let mut at = now;
        while !self.has(block) {
            let Some(next) = self.server.next_event_at() else { break };
            at = at.max(next.as_nanos() as u64);
            self.step(at);
        }
        at
    }
}
