//! Writers and a store that takes one part after the other, until things settle.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::*;

const MIB: u64 = 1 << 20;

struct Loop {
    writing: Writing,
    /// Bytes per second, and how long an acknowledgement takes.
    rate: f64,
    latency: Duration,
    part: u64,
    now: Duration,
    free: Duration,
    answers: VecDeque<(Duration, PartId, FileId, u64)>,
    /// Bytes of a write, of each file.
    sizes: Vec<u64>,
    /// Stored, of each file.
    stored: BTreeMap<FileId, u64>,
    unflushed: Vec<PartId>,
    most: u64,
}

impl Loop {
    fn new(memory: u64, part: u64, rate: f64, sizes: &[u64]) -> Loop {
        let mut all = Loop {
            writing: Writing::new(Tuning::default(), Limits::new(memory, part)),
            rate,
            latency: Duration::from_millis(5),
            part,
            now: Duration::ZERO,
            free: Duration::ZERO,
            answers: VecDeque::new(),
            sizes: sizes.to_vec(),
            stored: BTreeMap::new(),
            unflushed: Vec::new(),
            most: 0,
        };
        for (file, bytes) in sizes.iter().enumerate() {
            all.ask(FileId(file as u64), *bytes);
        }
        all.act();
        all
    }

    /// Each file has one request that waits, always.
    fn ask(&mut self, file: FileId, bytes: u64) {
        while self.writing.request(file, bytes) == Admit::Granted {
            self.gather(file);
        }
    }

    fn gather(&mut self, file: FileId) {
        while self.writing.gathered_of(file).bytes >= self.part {
            self.send(file, self.part);
        }
        self.most = self.most.max(self.writing.in_flight().bytes + self.writing.uncommitted().bytes);
    }

    fn send(&mut self, file: FileId, bytes: u64) {
        let part = self.writing.sent(self.now, file, bytes);
        self.free = self.free.max(self.now) + Duration::from_secs_f64(bytes as f64 / self.rate);
        self.answers.push_back((self.free + self.latency, part, file, bytes));
    }

    fn act(&mut self) {
        while let Some(action) = self.writing.next_action() {
            match action {
                Action::Admit { file, .. } => {
                    self.gather(file);
                    self.ask(file, self.sizes[file.0 as usize]);
                }
                Action::Send => {
                    for file in (0..self.sizes.len() as u64).map(FileId) {
                        let bytes = self.writing.gathered_of(file).bytes;
                        if bytes > 0 {
                            self.send(file, bytes);
                        }
                    }
                }
                Action::Commit => {
                    for part in std::mem::take(&mut self.unflushed) {
                        assert!(self.writing.committed(part));
                    }
                }
            }
        }
    }

    /// Runs for so long; bytes stored a second.
    fn run(&mut self, time: Duration) -> f64 {
        let (end, before) = (self.now + time, self.stored.values().sum::<u64>());
        while let Some((at, part, file, bytes)) =
            self.answers.front().copied().filter(|answer| answer.0 <= end)
        {
            self.answers.pop_front();
            self.now = at;
            assert!(self.writing.stored(at, part) && !self.writing.stored(at, part));
            *self.stored.entry(file).or_default() += bytes;
            self.unflushed.push(part);
            self.act();
            self.writing.audit();
        }
        self.now = end;
        (self.stored.values().sum::<u64>() - before) as f64 / time.as_secs_f64()
    }

    /// What is in flight, in seconds of what the store takes.
    fn queue(&self) -> f64 {
        self.writing.in_flight().bytes as f64 / self.rate
    }
}

#[test]
fn the_store_is_busy_and_the_queue_short_at_any_rate_and_after_each_change() {
    let mut all = Loop::new(1 << 30, MIB, 700.0 * MIB as f64, &[MIB, MIB]);
    for rate in [700.0, 70.0, 700.0, 1400.0, 140.0] {
        all.rate = rate * MIB as f64;
        all.run(Duration::from_secs(5));
        let reached = all.run(Duration::from_secs(5)) / all.rate;
        assert!(reached > 0.98, "{rate}: {reached}");
        assert!((0.15..=0.25).contains(&all.queue()), "{rate}: {}", all.queue());
    }
    assert!(all.most <= 1 << 30, "{}", all.most);
}

#[test]
fn small_writes_get_as_much_as_large_ones() {
    let mut all = Loop::new(1 << 30, MIB, 100.0 * MIB as f64, &[64 << 10, MIB, 16 * MIB]);
    all.run(Duration::from_secs(20));
    let (least, most) =
        (all.stored.values().min().expect("three"), all.stored.values().max().expect("three"));
    assert!(*least as f64 > 0.9 * *most as f64, "{:?}", all.stored);
}

#[test]
fn many_files_that_never_fill_a_part_go_on() {
    let mut all = Loop::new(64 * MIB, 16 * MIB, 100.0 * MIB as f64, &[MIB; 40]);
    let reached = all.run(Duration::from_secs(10)) / all.rate;
    assert!(reached > 0.9, "{reached}");
    assert!(all.most <= 64 * MIB, "{}", all.most);
}
