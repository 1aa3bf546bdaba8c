//! Programs, kernel and daemon over a plant.

use super::connection::Connection;
use crate::drive::{Outcome, Plant, Series};
use crate::engine::random::seconds;
use crate::engine::{Queue, Random};
use headrace_flow::reading::{FileId, HandleId, RequestId};
use std::collections::HashMap;
use std::time::Duration;

/// What the mount, its daemon and the programs are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Programs; each reads a file of its own from its start.
    pub readers: usize,
    /// Bytes per second that a program takes from the page cache.
    pub copy_rate: f64,
    /// Background requests that are the daemon's at one time.
    pub max_background: usize,
    /// From so many on, readahead that nobody waits for is skipped.
    pub congestion_threshold: usize,
    /// Bytes of one request.
    pub request: u64,
    /// Bytes that the kernel asks for ahead of a program.
    pub readahead: u64,
    /// The daemon's threads.
    pub threads: usize,
    /// What it takes to wake one of them.
    pub wake: Duration,
    /// What a request takes in the daemon once its bytes are there, beside its bytes.
    pub service: Duration,
    /// Bytes per second that a thread answers with, beside that.
    pub service_rate: f64,
    /// Spread of both: standard deviation of the logarithm.
    pub service_sigma: f64,
}

/// Bytes of each file: more than anybody reads.
const FILE: u64 = 1 << 44;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    reader: usize,
    piece: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A thread that slept is awake.
    Awake,
    /// A thread has answered.
    Served(Request),
    /// A program has taken what it was taking since then.
    Copied(usize, Duration),
}

#[derive(Debug, Default)]
struct Reader {
    /// The piece it is at.
    at: u64,
    /// Pieces below this were asked for.
    asked: u64,
    /// Of the pieces from `at` on, which are in the page cache.
    cached: Vec<u64>,
    copying: bool,
}

struct Run<'a, 'b> {
    settings: Settings,
    plant: &'a mut Plant<'b>,
    connection: Connection<Request>,
    readers: Vec<Reader>,
    series: Vec<Series>,
    events: Queue<Event>,
    /// Requests that wait for bytes, each with a thread.
    fetching: HashMap<RequestId, Request>,
    threads: Threads,
    random: Random,
}

/// Threads of the daemon that have nothing to do.
#[derive(Debug)]
struct Threads {
    asleep: usize,
    /// Woken, and not awake yet.
    waking: usize,
}

/// Runs for so long; what each program took.
pub fn run(settings: Settings, plant: &mut Plant<'_>, duration: Duration, seed: u64) -> Outcome {
    let mut run = Run {
        settings,
        plant,
        connection: Connection::new(settings.max_background, settings.congestion_threshold),
        readers: (0..settings.readers).map(|_| Reader::default()).collect(),
        series: vec![Series::default(); settings.readers],
        events: Queue::new(),
        fetching: HashMap::new(),
        threads: Threads { asleep: settings.threads.max(1), waking: 0 },
        random: Random::new(seed),
    };
    for reader in 0..settings.readers {
        run.plant.open(Duration::ZERO, 0, FileId(reader as u64), HandleId(reader as u64), FILE);
        run.touch(Duration::ZERO, reader);
    }
    run.until(duration);
    let ledger = run.plant.ledger(0);
    Outcome {
        fetched: ledger.fetched,
        answered: ledger.answered,
        wasted: ledger.wasted(),
        peak: ledger.peak(),
        peak_held: run.plant.peak_held(0),
        peak_gets: run.plant.peak_gets(),
        violations: ledger.violations().to_vec(),
        readers: run.series,
        ..Outcome::default()
    }
}

impl Run<'_, '_> {
    fn until(&mut self, end: Duration) {
        let mut now = Duration::ZERO;
        loop {
            let next = [self.events.next_at(), self.plant.next_at()].into_iter().flatten().min();
            let Some(next) = next.filter(|&at| at <= end) else { return };
            now = next.max(now);
            self.plant.advance(now);
            self.fetched(now);
            while let Some(event) = self.events.pop_due(now) {
                match event {
                    Event::Awake => {
                        self.threads.waking -= 1;
                        self.take(now);
                    }
                    Event::Served(request) => self.served(now, request),
                    Event::Copied(reader, since) => {
                        self.series[reader].took(since, now, self.settings.request);
                        self.readers[reader].copying = false;
                        self.readers[reader].at += 1;
                        self.touch(now, reader);
                    }
                }
                self.fetched(now);
            }
        }
    }

    /// A program comes to its next piece.
    fn touch(&mut self, now: Duration, index: usize) {
        let reader = &mut self.readers[index];
        if reader.copying {
            return;
        }
        let Some(found) = reader.cached.iter().position(|&piece| piece == reader.at) else {
            if reader.asked <= reader.at {
                // Nobody asked for it: it does, and waits.
                reader.asked = reader.at + 1;
                let request = Request { reader: index, piece: reader.at };
                self.submit(now, request);
            }
            return;
        };
        reader.cached.swap_remove(found);
        reader.copying = true;
        let takes = seconds(self.settings.request as f64 / self.settings.copy_rate);
        self.events.schedule(now + takes, Event::Copied(index, now));
        // It has come to what was read ahead: the next pieces are asked for.
        let ahead = reader.at + (self.settings.readahead / self.settings.request).max(1);
        while self.readers[index].asked <= ahead && !self.connection.is_congested() {
            let piece = self.readers[index].asked;
            self.readers[index].asked += 1;
            self.submit(now, Request { reader: index, piece });
        }
    }

    fn submit(&mut self, now: Duration, request: Request) {
        self.connection.submit(request);
        self.wake(now);
    }

    /// Wakes threads that sleep, as many as there are requests for.
    fn wake(&mut self, now: Duration) {
        while self.threads.asleep > 0 && self.threads.waking < self.connection.pending() {
            self.threads.asleep -= 1;
            self.threads.waking += 1;
            self.events.schedule(now + self.settings.wake, Event::Awake);
        }
    }

    /// A thread that is awake takes a request, or goes to sleep.
    fn take(&mut self, now: Duration) {
        let Some(request) = self.connection.take() else {
            self.threads.asleep += 1;
            return;
        };
        let start = request.piece * self.settings.request;
        let range = start..start + self.settings.request;
        let id = request.reader as u64;
        let name = self.plant.read(now, 0, FileId(id), HandleId(id), range);
        self.fetching.insert(name, request);
    }

    /// Bytes are there: their threads answer with them.
    fn fetched(&mut self, now: Duration) {
        for answer in self.plant.answers() {
            let Some(request) = self.fetching.remove(&answer.request) else { continue };
            let Settings { service, service_rate, service_sigma, request: bytes, .. } = self.settings;
            let takes = service.as_secs_f64() + bytes as f64 / service_rate;
            // A log-normal factor of mean 1.
            let factor = self.random.log_normal((-service_sigma * service_sigma / 2.0).exp(), service_sigma);
            self.events.schedule(now + seconds(takes * factor), Event::Served(request));
        }
    }

    fn served(&mut self, now: Duration, request: Request) {
        self.readers[request.reader].cached.push(request.piece);
        self.connection.answered();
        // Whoever is awake is there first; others are woken for what is left.
        self.take(now);
        self.wake(now);
        self.touch(now, request.reader);
    }
}
