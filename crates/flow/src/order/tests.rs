use proptest::prelude::*;

use super::*;
use crate::endpoint::model::Random;

const MS: Duration = Duration::from_millis(1);

/// A backend whose throughput in each mode is known; after a change of mode it takes `ramp` milliseconds to get there.
struct Backend {
    /// MB/s.
    ordered: f64,
    wide: f64,
    ramp: f64,
    /// Random share of each 50 ms.
    noise: f64,
    alone: f64,
    latency: Duration,
}

struct Run {
    probe: Probe,
    random: Random,
    now: Duration,
    mode: Mode,
    since: f64,
    factor: f64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut probe = Probe::new(Tuning::default());
        probe.wanted(Duration::ZERO, true);
        Run {
            probe,
            random: Random::new(seed),
            now: Duration::ZERO,
            mode: Mode::Wide,
            since: 0.0,
            factor: 1.0,
        }
    }

    /// MB/s over so many seconds.
    fn go(&mut self, backend: &Backend, seconds: u64) -> f64 {
        let mut all = 0.0;
        for tick in 0..seconds * 1_000 {
            self.now += MS;
            if tick % 50 == 0 {
                self.factor = 1.0 + backend.noise * (2.0 * self.random.uniform() - 1.0);
            }
            self.since += 1.0;
            let full = if self.mode == Mode::Ordered { backend.ordered } else { backend.wide };
            let rate = full * (self.since / backend.ramp).min(1.0) * self.factor;
            all += rate / 1e3;
            self.probe.told(backend.latency, (backend.alone * 1e6) as u64);
            self.probe.delivered(self.now, (rate * 1e3) as u64);
            let mode = self.probe.mode(self.now);
            if mode != self.mode {
                (self.mode, self.since) = (mode, 0.0);
            }
        }
        all / seconds as f64
    }
}

/// The corners of LU-9194, MB/s: with the server's prefetcher, and without.
fn lustre(prefetch: bool) -> Backend {
    let (ordered, wide) = if prefetch { (910.0, 546.0) } else { (283.0, 1_100.0) };
    Backend { ordered, wide, ramp: 20.0, noise: 0.05, alone: 400.0, latency: MS }
}

#[test]
fn the_faster_mode_is_found_and_probing_costs_little() {
    for seed in 0..10 {
        for (backend, best, mode) in [
            (lustre(true), 910.0, Mode::Ordered),
            (lustre(false), 1_100.0, Mode::Wide),
            (Backend { ordered: 500.0, ..lustre(false) }, 1_100.0, Mode::Wide),
            (Backend { ordered: 910.0, wide: 780.0, alone: 600.0, ..lustre(true) }, 910.0, Mode::Ordered),
        ] {
            let mut run = Run::new(seed);
            run.go(&backend, 2);
            assert_eq!(run.mode, mode, "after 2 s");
            let rate = run.go(&backend, 60);
            assert!(rate > 0.97 * best, "{rate:.0} of {best}, {} trials", run.probe.trials());
        }
    }
}

#[test]
fn a_backend_that_changes_is_followed_within_two_seconds() {
    for seed in 0..10 {
        let mut run = Run::new(seed);
        for round in 0..6 {
            let backend = lustre(round % 2 == 0);
            let best = backend.ordered.max(backend.wide);
            run.go(&backend, 2);
            let rate = run.go(&backend, 10);
            assert!(rate > 0.95 * best, "round {round}: {rate:.0} of {best}");
        }
    }
}

#[test]
fn an_object_store_is_never_probed() {
    // 8 MiB at 20 ms and 90 MB/s: 75 MB/s alone, 1250 together.
    let backend =
        Backend { ordered: 75.0, wide: 1_250.0, ramp: 60.0, noise: 0.1, alone: 75.0, latency: 20 * MS };
    let mut run = Run::new(1);
    let rate = run.go(&backend, 60);
    assert_eq!(run.probe.trials(), 0);
    assert!(rate > 0.99 * 1_250.0);
    // Also not when its throughput falls to a tenth and comes back.
    run.go(&Backend { wide: 400.0, ..backend }, 5);
    assert_eq!(run.probe.trials(), 0);
}

#[test]
fn where_both_are_the_same_it_hardly_ever_changes() {
    for seed in 0..10 {
        let backend =
            Backend { ordered: 800.0, wide: 800.0, ramp: 20.0, noise: 0.3, alone: 790.0, latency: MS };
        let mut run = Run::new(seed);
        let rate = run.go(&backend, 120);
        assert!(rate > 0.97 * 800.0, "{rate}");
        assert!(run.probe.trials() < 40, "{}", run.probe.trials());
    }
}

#[test]
fn nothing_is_tried_while_nobody_waits() {
    let mut run = Run::new(1);
    run.probe.wanted(Duration::ZERO, false);
    run.go(&lustre(true), 30);
    assert_eq!(run.probe.trials(), 0);
    run.probe.wanted(run.now, true);
    run.go(&lustre(true), 3);
    assert_eq!(run.mode, Mode::Ordered);
}

#[test]
fn a_stall_does_not_change_the_mode() {
    // 200 ms are what an epoch of that endpoint takes anyway; 5 s no answer takes.
    let far =
        Backend { ordered: 500.0, wide: 520.0, ramp: 60.0, noise: 0.05, alone: 500.0, latency: 60 * MS };
    for (backend, mode) in [(lustre(true), Mode::Ordered), (lustre(false), Mode::Wide), (far, Mode::Wide)] {
        // Whether or not it is asked meanwhile.
        for (stall, asks) in [(200, 200), (5_000, 5_000), (60_000, 60_000), (200, 0), (60_000, 0)] {
            let mut run = Run::new(1);
            run.go(&backend, 5);
            // None is due for some time.
            run.probe.due += Duration::from_secs(30);
            run.probe.drop_due = run.probe.clock;
            assert_eq!(run.mode, mode);
            let trials = run.probe.trials();
            let end = run.now + stall * MS;
            for _ in 0..asks {
                run.now += MS;
                assert_eq!(run.probe.mode(run.now), mode, "{stall} ms");
            }
            run.now = end;
            run.go(&backend, 1);
            assert_eq!((run.mode, run.probe.trials()), (mode, trials), "{stall} ms");
        }
    }
}

proptest! {
    /// Any events at any time: no panic, and a mode comes out.
    #[test]
    fn any_events_are_taken(events in proptest::collection::vec((any::<u64>(), any::<bool>(), any::<u64>(), 0u8..4), 1..200)) {
        let mut probe = Probe::new(Tuning::default());
        let mut now = Duration::ZERO;
        for (step, flag, bytes, kind) in events {
            now = if flag { now } else { now.saturating_add(Duration::from_nanos(step)) };
            match kind {
                0 => probe.wanted(now, flag),
                1 => probe.told(Duration::from_nanos(step), bytes),
                2 => probe.delivered(now, bytes),
                _ => { probe.mode(now); }
            }
        }
        probe.wanted(Duration::MAX, true);
        probe.delivered(Duration::MAX, u64::MAX);
        probe.mode(Duration::MAX);
        probe.mode(Duration::ZERO);
    }
}
