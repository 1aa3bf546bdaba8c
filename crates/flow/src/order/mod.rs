//! Ordered or wide: whether an endpoint is faster with one fetch in flight for each stream, strictly by offset, or with many.
//!
//! A backend with a sequential prefetcher of its own (a file server on disks) may lose its streams when many fetches of one
//! file reach it out of order; any other is faster the more are in flight. Which it is cannot be asked, and it may change, so
//! [`Probe`] tries the other mode in short trials and keeps what is faster. What a trial has lost decides when the next one may
//! be made, so that all of them together stay within a small budget.

#[cfg(test)]
mod decision_tests;
mod measure;
#[cfg(test)]
mod probe_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use measure::{Meter, Trial, Verdict};

/// How fetches of one stream are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One in flight for each stream, strictly by offset.
    Ordered,
    /// As many as the endpoint's limit and the window allow.
    Wide,
}

impl Mode {
    fn other(self) -> Mode {
        match self {
            Mode::Ordered => Mode::Wide,
            Mode::Wide => Mode::Ordered,
        }
    }
}

/// The constants of a [`Probe`]. Times are times in which readers waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Before the first trial: the limit and the windows of [`Mode::Wide`] must have found their size, or it is compared unfairly.
    pub first: Duration,
    /// Share by which the other mode must be faster to be taken. Below it, noise would decide.
    pub margin: f64,
    /// Share by which the throughput of the kept mode must fall for the other to be tried at once: less is noise.
    pub drop: f64,
    /// Shortest time at the beginning of a mode that does not count: what is still under way belongs to the other one.
    pub settle: Duration,
    /// The same in latencies of the endpoint (the longer of both counts).
    pub settle_latencies: u32,
    /// Shortest piece of a trial. A trial has at least two, and goes on while they become faster: a prefetcher takes time to
    /// see a stream.
    pub slice: Duration,
    /// Bytes of a piece, unless it takes four times as long as the shortest: fewer are a matter of luck.
    pub slice_bytes: u64,
    /// A trial ends when a piece brings less than this share of what the kept mode does.
    pub give_up: f64,
    /// Longest trial.
    pub trial_most: Duration,
    /// How long the kept mode is measured at a time.
    pub epoch: Duration,
    /// Share of the throughput that trials may cost.
    pub cost: f64,
    /// Shortest time between two trials; doubles while they change nothing.
    pub between: Duration,
    /// The same for trials after a drop.
    pub between_drops: Duration,
    /// Longest time between two trials.
    pub rarest: Duration,
    /// [`Mode::Ordered`] is only tried if, by latency and bandwidth, it could reach this share of what the kept mode delivers.
    pub hopeless: f64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            first: Duration::from_millis(900),
            margin: 0.08,
            drop: 0.25,
            settle: Duration::from_millis(40),
            settle_latencies: 3,
            slice: Duration::from_millis(80),
            slice_bytes: 8 << 20,
            give_up: 0.7,
            trial_most: Duration::from_millis(800),
            epoch: Duration::from_millis(250),
            cost: 0.015,
            between: Duration::from_secs(2),
            between_drops: Duration::from_millis(700),
            rarest: Duration::from_secs(300),
            hopeless: 0.7,
        }
    }
}

/// Epochs of the kept mode, the best of which another mode has to beat: by chance some are slower.
const EPOCHS: usize = 4;

/// Chooses between the two modes for one endpoint.
#[derive(Debug, Clone)]
pub struct Probe {
    tuning: Tuning,
    kept: Mode,
    /// Bytes per second of the kept mode.
    rate: Option<f64>,
    /// The most of its last epochs: what another one has to beat.
    best: [f64; EPOCHS],
    /// What the other mode delivered before it was left for the kept one; until the kept one has proved itself.
    left: Option<f64>,
    /// The mode was changed, and whether the other one would not by now deliver as much was not tried yet.
    unsure: bool,
    confirming: bool,
    epoch: Meter,
    trial: Option<Trial>,
    hungry: bool,
    /// What is under way was sent in the mode before.
    draining: bool,
    /// Streams at present, and how many there were when the mode was chosen.
    streams: usize,
    chosen_for: usize,
    /// Whether more than one fetch of a stream was under way since the last trial; `None` if nobody has said.
    several: Option<bool>,
    last: Duration,
    last_bytes: Duration,
    /// Time in which readers waited.
    clock: Duration,
    due: Duration,
    wait: Duration,
    /// The last epoch brought far less than was usual.
    fallen: bool,
    drop_due: Duration,
    drop_wait: Duration,
    latency: Duration,
    alone: Option<u64>,
    /// Trials so far.
    trials: u64,
}

impl Probe {
    /// Begins with [`Mode::Wide`].
    pub fn new(tuning: Tuning) -> Probe {
        Probe {
            kept: Mode::Wide,
            rate: None,
            best: [0.0; EPOCHS],
            left: None,
            unsure: false,
            confirming: false,
            epoch: Meter::after(tuning.settle),
            trial: None,
            hungry: false,
            draining: false,
            streams: 0,
            chosen_for: 0,
            several: None,
            last: Duration::ZERO,
            last_bytes: Duration::ZERO,
            clock: Duration::ZERO,
            due: tuning.first,
            wait: tuning.between,
            fallen: false,
            drop_due: tuning.first,
            drop_wait: tuning.between_drops,
            latency: Duration::ZERO,
            alone: None,
            trials: 0,
            tuning,
        }
    }

    /// So many bytes arrived.
    pub fn delivered(&mut self, now: Duration, bytes: u64) {
        self.advance(now);
        let silence = now.saturating_sub(self.last_bytes);
        self.last_bytes = self.last_bytes.max(now);
        if silence > self.silence() {
            // No mode is to blame for that.
            self.epoch = Meter::after(self.settle());
            if let Some(trial) = &mut self.trial {
                trial.again(self.tuning.settle);
            }
        } else if self.hungry && !self.draining {
            match &mut self.trial {
                Some(trial) => trial.bytes(bytes),
                None => self.epoch.bytes(bytes),
            }
        }
    }

    /// Whether, from now on, readers wait for bytes (or windows are not full yet). Throughput only counts while they do.
    pub fn wanted(&mut self, now: Duration, hungry: bool) {
        self.advance(now);
        if hungry && !self.hungry {
            self.last_bytes = now;
        }
        self.hungry = hungry;
    }

    /// So many fetches of so many streams are under way. More than one each cannot have been sent in order: what arrives until they
    /// have ended says nothing about that mode.
    pub fn under_way(&mut self, now: Duration, fetches: usize, streams: usize) {
        self.advance(now);
        self.draining = self.is_ordered() && fetches > streams.max(1);
        self.streams = streams;
        self.several = Some(self.several.unwrap_or(false) || fetches > streams);
        if self.kept == Mode::Ordered && streams.saturating_mul(2) <= self.chosen_for {
            // One fetch for each of many may have sufficed.
            self.trial = None;
            self.confirming = false;
            self.left = None;
            self.change(self.rate.unwrap_or(0.0));
            self.rate = None;
        }
    }

    /// What is known of the endpoint: the least latency, and the bytes per second that all streams together would get at
    /// best with one fetch in flight each (`Endpoint::alone` of their request size, times the number of streams). Tell it
    /// again from time to time (each time a fetch finishes, say).
    pub fn told(&mut self, latency: Duration, alone: u64) {
        self.latency = latency;
        self.alone = Some(alone);
    }

    /// A fetch failed: what is measured at that time is not the mode's doing. A trial is given up, and made later.
    pub fn failed(&mut self, now: Duration) {
        self.advance(now);
        self.epoch = Meter::after(self.settle());
        if self.trial.take().is_some() {
            self.confirming = false;
            self.due = self.due.max(self.clock.saturating_add(self.wait));
            self.drop_due = self.drop_due.max(self.clock.saturating_add(self.drop_wait));
        }
    }

    /// Whether fetches are sent in order at present, be it for a trial.
    pub fn is_ordered(&self) -> bool {
        self.trial.is_some() != (self.kept == Mode::Ordered)
    }

    /// How to send the fetches from now on. Call it before each dispatch; it changes only here.
    pub fn mode(&mut self, now: Duration) -> Mode {
        self.advance(now);
        match &mut self.trial {
            Some(trial) => {
                if let Some(verdict) = trial.verdict(&self.tuning, self.rate.unwrap_or(0.0)) {
                    self.conclude(verdict);
                }
            }
            None => self.keep(),
        }
        if self.trial.is_some() { self.kept.other() } else { self.kept }
    }

    /// How many trials were made.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    fn advance(&mut self, now: Duration) {
        // Silence that is longer than any mode would explain is nobody's time.
        let end = now.min(self.last_bytes.saturating_add(self.silence()));
        let passed = end.saturating_sub(self.last);
        self.last = self.last.max(now);
        if self.hungry {
            self.clock = self.clock.saturating_add(passed);
            match &mut self.trial {
                Some(trial) if self.draining => trial.wait(passed),
                Some(trial) => trial.time(passed),
                None if self.draining => {}
                None => self.epoch.time(passed),
            }
        }
    }

    /// No bytes for longer than this: a stall of the endpoint, or a pause of the readers.
    fn silence(&self) -> Duration {
        self.tuning.epoch.max(self.latency.saturating_mul(8))
    }

    fn settle(&self) -> Duration {
        let latencies = self.latency.saturating_mul(self.tuning.settle_latencies);
        self.tuning.settle.max(latencies).min(self.tuning.trial_most)
    }

    /// The kept mode goes on, or a trial of the other begins.
    fn keep(&mut self) {
        let epoch = self.tuning.epoch.max(self.latency.saturating_mul(4));
        // While nothing comes it is not known whether that is the endpoint's doing: it counts with the next bytes, unless it was a stall.
        let silent = self.last.saturating_sub(self.last_bytes) > self.tuning.settle;
        if silent || self.epoch.measured() < if self.fallen { epoch / 2 } else { epoch } {
            return;
        }
        let fallen = std::mem::take(&mut self.fallen);
        let rate = self.epoch.rate();
        self.epoch = Meter::after(Duration::ZERO);
        let before = self.rate.replace(rate);
        self.best.rotate_right(1);
        self.best[0] = rate;
        if self.left.take().is_some_and(|left| rate < left * (1.0 - self.tuning.margin)) {
            // The trial was lucky.
            return self.change(rate);
        }
        let Some(before) = before else { return };
        let fell = rate < before * (1.0 - self.tuning.drop);
        if !fell {
            self.rate = Some(before + (rate - before) / 3.0);
        }
        // What is usual is not yet what there is now: the other mode would be compared with the past.
        let growing = rate > before * 1.15;
        if std::mem::take(&mut self.unsure) {
            // What was taken for the mode's doing may have been a change of the endpoint.
            self.trials = self.trials.saturating_add(1);
            self.trial = Some(Trial::new(self.settle()));
            self.confirming = true;
        } else if fell && !fallen {
            // Others answer a change of the endpoint; a shorter look shows whether they have.
            self.fallen = true;
            self.rate = Some(before + (rate - before) / 3.0);
        } else if fell && self.clock >= self.drop_due {
            self.drop_wait = self.drop_wait.saturating_mul(2).min(self.tuning.rarest);
            self.wait = self.tuning.between;
            // What one at a time brought while it was prefetched is not there to be beaten. Many at once may only have been held up.
            if self.kept == Mode::Ordered {
                self.best = [0.0; EPOCHS];
            }
            self.try_other();
        } else if fell {
            // Not forgotten.
            self.due = self.due.min(self.drop_due);
        } else if self.clock >= self.due && !growing {
            self.try_other();
        }
    }

    fn try_other(&mut self) {
        let rate = self.rate.unwrap_or(0.0);
        // With one fetch each, both are the same.
        let same = self.kept == Mode::Wide && self.several.take() == Some(false);
        let hopeless = self.kept == Mode::Wide
            && self.alone.is_some_and(|alone| (alone as f64) < rate * self.tuning.hopeless.min(1.0));
        if !hopeless && !same {
            self.trials = self.trials.saturating_add(1);
            self.trial = Some(Trial::new(self.settle()));
        }
    }

    fn conclude(&mut self, verdict: Verdict) {
        self.trial = None;
        let rate = self.rate.unwrap_or(0.0);
        // The best but one.
        let mut sorted = self.best;
        sorted.sort_by(f64::total_cmp);
        let best = sorted.iter().rev().nth(1).copied().unwrap_or(rate).max(rate);
        let enough = if std::mem::take(&mut self.confirming) && self.kept == Mode::Ordered {
            // Where both are the same, the one that knows no limit of its own is the better one.
            rate * (1.0 - self.tuning.margin / 2.0)
        } else {
            best * (1.0 + self.tuning.margin)
        };
        if verdict.rate > enough {
            self.left = Some(rate);
            self.change(verdict.rate);
            return;
        }
        let lost = verdict.time.as_secs_f64() * (1.0 - verdict.mean / rate.max(1.0)).max(0.0);
        let paid =
            Duration::try_from_secs_f64(lost / self.tuning.cost.max(1e-4)).unwrap_or(self.tuning.rarest);
        self.due = self.clock.saturating_add(self.wait.max(paid).min(self.tuning.rarest));
        self.drop_due = self.clock.saturating_add(self.drop_wait);
        self.wait = self.wait.saturating_mul(2).min(self.tuning.rarest);
        self.epoch = Meter::after(self.settle());
    }

    /// The other mode is kept from now on; `rate` is what it is known to deliver.
    fn change(&mut self, rate: f64) {
        let before = self.rate.unwrap_or(0.0);
        self.kept = self.kept.other();
        self.unsure = self.kept == Mode::Ordered;
        self.chosen_for = self.streams;
        self.rate = Some(rate);
        self.best = [0.0; EPOCHS];
        self.epoch = Meter::after(self.settle());
        // To try the mode that was left costs about as much as it was slower.
        let share = (1.0 - before / rate.max(1.0)).clamp(0.0, 1.0);
        let trial = self.settle().saturating_add(self.tuning.slice.saturating_mul(3)).as_secs_f64();
        let paid = Duration::try_from_secs_f64(trial * share / self.tuning.cost.max(1e-4))
            .unwrap_or(self.tuning.rarest);
        self.wait = self.tuning.between;
        self.due = self.clock.saturating_add(self.wait.max(paid).min(self.tuning.rarest));
        self.drop_wait = self.tuning.between_drops;
        self.drop_due = self.clock.saturating_add(self.drop_wait);
    }
}
