//! The Lustre-like server as a [`Store`], its prefetcher switched on and off while it runs.

use super::lustre::{Parameters, Server, Variant};
use super::store::{Get, Progress, Report, Store};
use headrace_flow::reading::FetchId;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Bytes of every file.
pub const FILE: u64 = 1 << 40;

/// See the [module](self). It has one endpoint; the bytes of a read come all at once.
#[derive(Debug)]
pub struct FileServer {
    server: Server,
    files: BTreeSet<u64>,
    lengths: HashMap<u64, u64>,
    /// Later switches, the next one last.
    switches: Vec<(Duration, bool)>,
}

impl FileServer {
    /// A server of these parameters; `prefetch` at first, and from given times on.
    pub fn new(
        parameters: &Parameters,
        prefetch: bool,
        switches: &[(Duration, bool)],
        seed: u64,
    ) -> FileServer {
        let mut switches = switches.to_vec();
        switches.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
        FileServer {
            server: Server::new(parameters, prefetch, Variant::Ticket, seed),
            files: BTreeSet::new(),
            lengths: HashMap::new(),
            switches,
        }
    }
}

impl Store for FileServer {
    fn submit(&mut self, now: Duration, get: Get) {
        if self.files.insert(get.file.0) {
            self.server.open(get.file.0, FILE);
        }
        let length = get.range.end - get.range.start;
        self.lengths.insert(get.fetch.0, length);
        self.server.submit(now, get.fetch.0, get.file.0, get.range.start, length);
    }

    fn cancel(&mut self, _now: Duration, _endpoint: usize, fetch: FetchId) -> u64 {
        self.server.cancel(fetch.0);
        self.lengths.remove(&fetch.0);
        0
    }

    fn next_at(&self) -> Option<Duration> {
        let switch = self.switches.last().map(|&(at, _)| at);
        match (self.server.next_event_at(), switch) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Duration, reports: &mut Vec<Report>) {
        while let Some((_, on)) = self.switches.pop_if(|&mut (at, _)| at <= now) {
            self.server.set_prefetch(on);
        }
        self.server.advance(now);
        while let Some(done) = self.server.completed() {
            let Some(length) = self.lengths.remove(&done.id) else { continue };
            let report = |progress| Report { endpoint: 0, fetch: FetchId(done.id), progress };
            reports.push(report(Progress::Bytes(length)));
            reports.push(report(Progress::Finished));
        }
    }
}
