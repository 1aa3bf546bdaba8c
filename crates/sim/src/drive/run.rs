//! Runs readers over a plant.

use super::measure::{BIN, Outcome, Sample, Series};
use super::plant::Plant;
use super::reader::{Next, Position, ReaderSpec};
use crate::engine::{Queue, Random};
use headrace_flow::reading::RequestId;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What runs.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The programs.
    pub readers: Vec<ReaderSpec>,
    /// The ceiling of each controller, bytes.
    pub memory: u64,
    /// Changes of it.
    pub memory_steps: Vec<MemoryStep>,
    /// How long.
    pub duration: Duration,
    /// How much slower each reader copies for every other one that is there: memory and locks are shared. With `n` readers each
    /// copies at its rate / (1 + contention * (n - 1)).
    pub contention: f64,
}

/// From `at` on each controller may hold so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStep {
    /// When.
    pub at: Duration,
    /// Bytes.
    pub memory: u64,
}

/// A lowered ceiling is to be kept this long after: bytes that a program is taking cannot go at once.
const LOWERING: Duration = Duration::from_millis(100);
/// A read that failed is tried again after so long.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// Events at one time before the run is given up.
const SPIN: u32 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Event {
    Start(usize),
    Stop(usize),
    /// A reader has taken what it was taking since then.
    Copied(usize, Duration),
    /// A pause ends.
    Resume(usize),
    Memory(u64),
    Ceiling(u64),
}

#[derive(Debug)]
struct Reader {
    spec: ReaderSpec,
    position: Position,
    open: bool,
    /// Requests that are not taken yet, in the order they were asked for; whether they are answered.
    asked: VecDeque<(RequestId, u64, bool)>,
    copying: Option<u64>,
    resting: bool,
    rested: bool,
    ended: bool,
}

struct Run<'a, 'b> {
    plant: &'a mut Plant<'b>,
    events: Queue<Event>,
    readers: Vec<Reader>,
    /// Who asked.
    askers: HashMap<RequestId, usize>,
    series: Vec<Series>,
    samples: Vec<Sample>,
    contention: f64,
    open: usize,
    errors: u64,
    ceiling: u64,
    above_ceiling: u64,
}

/// Runs the readers until the time is over; `seed` decides where random readers read.
pub fn run(setup: &Setup, plant: &mut Plant<'_>, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let mut events = Queue::new();
    let mut readers = Vec::new();
    for (index, spec) in setup.readers.iter().enumerate() {
        events.schedule(spec.start, Event::Start(index));
        if let Some(stop) = spec.stop {
            events.schedule(stop, Event::Stop(index));
        }
        readers.push(Reader {
            spec: spec.clone(),
            position: Position::new(random.fork(index as u64)),
            open: false,
            asked: VecDeque::new(),
            copying: None,
            resting: false,
            rested: false,
            ended: false,
        });
    }
    let mut before = setup.memory;
    for step in &setup.memory_steps {
        events.schedule(step.at, Event::Memory(step.memory));
        let by = if step.memory < before { step.at + LOWERING } else { step.at };
        events.schedule(by, Event::Ceiling(step.memory));
        before = step.memory;
    }
    let mut run = Run {
        plant,
        events,
        series: vec![Series::default(); readers.len()],
        samples: Vec::new(),
        readers,
        askers: HashMap::new(),
        contention: setup.contention,
        open: 0,
        errors: 0,
        ceiling: setup.memory,
        above_ceiling: 0,
    };
    let stopped = run.until(setup.duration);
    run.outcome(stopped)
}

impl Run<'_, '_> {
    /// Runs; why it ended early, if it did.
    fn until(&mut self, end: Duration) -> Option<String> {
        let mut now = Duration::ZERO;
        let mut spin = 0;
        loop {
            let next = match (self.events.next_at(), self.plant.next_at()) {
                (Some(a), Some(b)) => a.min(b),
                (Some(at), None) | (None, Some(at)) => at,
                (None, None) => {
                    let waiting = self.plant.waiting();
                    return (!waiting.is_empty())
                        .then(|| format!("at {now:?} nothing happens any more, but {waiting:?} wait"));
                }
            };
            let next = next.max(now);
            // Until then nothing changes.
            self.sample(next.min(end));
            if next > end {
                return None;
            }
            spin = if next == now { spin + 1 } else { 0 };
            if spin > SPIN || self.plant.is_stuck() {
                return Some(format!("at {now:?} time stands still"));
            }
            now = next;
            self.plant.advance(now);
            self.answers(now);
            while let Some(event) = self.events.pop_due(now) {
                self.event(now, event);
                self.answers(now);
            }
            for endpoint in 0..self.plant.endpoints() {
                let above = self.plant.ledger(endpoint).held().saturating_sub(self.ceiling);
                self.above_ceiling = self.above_ceiling.max(above);
            }
        }
    }

    /// Takes down the state up to `until`.
    fn sample(&mut self, until: Duration) {
        let due = |count: usize| BIN.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let mut at = due(self.samples.len());
        if at >= until {
            return;
        }
        let (in_flight, held, gauges) = self.plant.state();
        let ceiling = self.ceiling.saturating_mul(self.plant.endpoints() as u64);
        let fetched = self.fetched();
        while at < until {
            self.samples.push(Sample { at, in_flight, held, ceiling, fetched, gauges });
            at = due(self.samples.len());
        }
    }

    /// Bytes that have come.
    fn fetched(&self) -> u64 {
        (0..self.plant.endpoints()).map(|endpoint| self.plant.ledger(endpoint).fetched).sum()
    }

    fn event(&mut self, now: Duration, event: Event) {
        match event {
            Event::Start(index) => {
                let reader = &mut self.readers[index];
                reader.open = true;
                self.open += 1;
                let spec = &reader.spec;
                self.plant.open(now, spec.endpoint, spec.file, spec.handle, spec.len);
                self.ask(now, index);
            }
            Event::Stop(index) => self.close(now, index),
            Event::Copied(index, since) => {
                let reader = &mut self.readers[index];
                if let Some(bytes) = reader.copying.take() {
                    self.series[index].took(since, now, bytes);
                    self.ask(now, index);
                    self.copy(now, index);
                }
            }
            Event::Resume(index) => {
                self.readers[index].resting = false;
                self.readers[index].rested = true;
                self.ask(now, index);
            }
            Event::Memory(bytes) => {
                for endpoint in 0..self.plant.endpoints() {
                    self.plant.set_memory(now, endpoint, bytes);
                }
            }
            Event::Ceiling(bytes) => self.ceiling = bytes,
        }
    }

    /// Asks for as much as the reader has open at once.
    fn ask(&mut self, now: Duration, index: usize) {
        let reader = &mut self.readers[index];
        while reader.open && !reader.resting && !reader.ended {
            // What is being taken is not open any more only when it is taken.
            if reader.asked.len() + usize::from(reader.copying.is_some()) >= reader.spec.depth.max(1) {
                return;
            }
            match reader.position.next(&reader.spec, std::mem::take(&mut reader.rested)) {
                Next::Read(range) => {
                    let spec = &reader.spec;
                    let bytes = range.end - range.start;
                    let request = self.plant.read(now, spec.endpoint, spec.file, spec.handle, range);
                    self.askers.insert(request, index);
                    reader.asked.push_back((request, bytes, false));
                }
                Next::Pause(length) => {
                    // It begins once everything before it is taken.
                    reader.resting = true;
                    self.events.schedule(now.saturating_add(length), Event::Resume(index));
                }
                Next::End => {
                    reader.ended = true;
                    if reader.asked.is_empty() && reader.copying.is_none() {
                        self.close(now, index);
                    }
                    return;
                }
            }
        }
    }

    fn answers(&mut self, now: Duration) {
        loop {
            let answers = self.plant.answers();
            if answers.is_empty() {
                return;
            }
            for answer in answers {
                let Some(index) = self.askers.remove(&answer.request) else { continue };
                let reader = &mut self.readers[index];
                if answer.ok {
                    if let Some(asked) = reader.asked.iter_mut().find(|asked| asked.0 == answer.request) {
                        asked.2 = true;
                    }
                } else {
                    self.errors += 1;
                    reader.asked.retain(|asked| asked.0 != answer.request);
                    reader.resting = true;
                    self.events.schedule(now + AFTER_ERROR, Event::Resume(index));
                }
                self.copy(now, index);
            }
        }
    }

    /// Begins to take the oldest request if it is there.
    fn copy(&mut self, now: Duration, index: usize) {
        let reader = &mut self.readers[index];
        if !reader.open || reader.copying.is_some() {
            return;
        }
        match reader.asked.front() {
            Some(&(_, bytes, true)) => {
                reader.asked.pop_front();
                reader.copying = Some(bytes);
                let others = self.open.saturating_sub(1) as f64;
                let rate = reader.spec.copy_rate.max(1) as f64 / (1.0 + self.contention * others);
                let takes = crate::engine::random::seconds(bytes as f64 / rate);
                self.events.schedule(now.saturating_add(takes), Event::Copied(index, now));
            }
            None if reader.ended => self.close(now, index),
            _ => {}
        }
    }

    fn close(&mut self, now: Duration, index: usize) {
        let reader = &mut self.readers[index];
        if !std::mem::take(&mut reader.open) {
            return;
        }
        self.open -= 1;
        reader.asked.clear();
        reader.copying = None;
        self.plant.close(now, reader.spec.endpoint, reader.spec.handle);
    }

    fn outcome(self, stopped: Option<String>) -> Outcome {
        let fetched = self.fetched();
        let (readers, samples) = (self.series, self.samples);
        let mut outcome = Outcome { readers, samples, fetched, errors: self.errors, ..Outcome::default() };
        outcome.above_ceiling = self.above_ceiling;
        outcome.peak_gets = self.plant.peak_gets();
        outcome.violations.extend(stopped);
        for endpoint in 0..self.plant.endpoints() {
            let ledger = self.plant.ledger(endpoint);
            let stats = self.plant.stats(endpoint);
            outcome.answered += ledger.answered;
            outcome.wasted = outcome.wasted.max(ledger.wasted());
            outcome.peak = outcome.peak.max(ledger.peak());
            outcome.peak_held = outcome.peak_held.max(self.plant.peak_held(endpoint));
            outcome.fetches += stats.fetches;
            outcome.hedges += stats.hedges;
            outcome.violations.extend_from_slice(ledger.violations());
        }
        outcome
    }
}
