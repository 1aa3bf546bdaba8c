//! How sure the probe is before it changes, and what its trials may cost.

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MB: f64 = 1e6;

/// One that keeps a mode, which delivers so many MB/s as far as is known; nothing is due.
fn keeps(kept: Mode, rate: f64) -> Probe {
    let mut probe = Probe::new(Tuning::default());
    probe.kept = kept;
    probe.rate = Some(rate * MB);
    probe.clock = 100 * SECOND;
    (probe.due, probe.drop_due) = (1_000 * SECOND, 1_000 * SECOND);
    probe
}

/// An epoch of its usual length at so many MB/s ends.
fn epoch(probe: &mut Probe, rate: f64) {
    let mut epoch = Meter::after(Duration::ZERO);
    epoch.time(probe.tuning.epoch);
    epoch.bytes((rate * MB * probe.tuning.epoch.as_secs_f64()).round() as u64);
    probe.epoch = epoch;
    probe.keep();
}

fn verdict(rate: f64, mean: f64) -> Verdict {
    Verdict { rate: rate * MB, time: 200 * MS, mean: mean * MB }
}

fn about(time: Duration, seconds: f64) -> bool {
    (time.as_secs_f64() - seconds).abs() < 1e-6
}

fn rate(probe: &Probe) -> f64 {
    (probe.rate.unwrap() / MB * 1e3).round() / 1e3
}

#[test]
fn an_epoch_is_as_long_as_it_is_asked_to_be() {
    for (latency, fallen, needed) in
        [(1, false, 250), (62, false, 250), (100, false, 400), (1, true, 125), (100, true, 200)]
    {
        for (measured, counts) in [(needed - 1, false), (needed, true)] {
            let mut probe = keeps(Mode::Wide, 600.0);
            (probe.latency, probe.fallen) = (latency * MS, fallen);
            probe.epoch = Meter::after(Duration::ZERO);
            probe.epoch.time(measured * MS);
            probe.epoch.bytes(u64::from(measured) * 600_000);
            probe.keep();
            assert_eq!(probe.epoch.measured().is_zero(), counts, "{latency} ms, {fallen}: {measured} ms");
            assert_eq!(probe.fallen, fallen && !counts);
        }
    }
}

#[test]
fn an_epoch_ends_with_bytes_and_not_while_nothing_comes() {
    for (silence, ends) in [(0, true), (40, true), (41, false), (10_000, false)] {
        let mut probe = keeps(Mode::Wide, 600.0);
        (probe.last_bytes, probe.last) = (SECOND, SECOND + silence * MS);
        epoch(&mut probe, 600.0);
        assert_eq!(probe.epoch.measured().is_zero(), ends, "{silence} ms");
    }
}

#[test]
fn a_rate_that_rises_is_believed_by_thirds_and_one_that_falls_when_it_has_done_so_twice() {
    let mut probe = keeps(Mode::Wide, 600.0);
    epoch(&mut probe, 900.0);
    assert_eq!(rate(&probe), 700.0);
    let mut probe = keeps(Mode::Wide, 600.0);
    epoch(&mut probe, 450.0);
    assert_eq!((rate(&probe), probe.fallen), (550.0, false), "by a quarter is no fall");
    let mut probe = keeps(Mode::Wide, 600.0);
    epoch(&mut probe, 449.0);
    assert_eq!((rate(&probe), probe.fallen), (549.667, true));
    epoch(&mut probe, 300.0);
    assert_eq!((rate(&probe), probe.fallen), (300.0, false));
    assert_eq!(probe.due, probe.drop_due, "it is not forgotten");
    // Once only.
    let mut probe = keeps(Mode::Wide, 600.0);
    epoch(&mut probe, 300.0);
    epoch(&mut probe, 590.0);
    assert_eq!((rate(&probe), probe.fallen), (530.0, false));
}

#[test]
fn the_last_epochs_are_remembered() {
    let mut probe = keeps(Mode::Wide, 600.0);
    for rate in [600.0, 610.0, 620.0, 630.0, 640.0] {
        epoch(&mut probe, rate);
    }
    assert_eq!(probe.best.map(|rate| rate / MB), [640.0, 630.0, 620.0, 610.0]);
}

#[test]
fn a_fall_is_answered_by_a_trial_when_one_is_due() {
    for (drop_due, tried) in [(100 * SECOND + MS, false), (100 * SECOND, true)] {
        let mut probe = keeps(Mode::Ordered, 600.0);
        (probe.drop_due, probe.wait) = (drop_due, 64 * SECOND);
        epoch(&mut probe, 300.0);
        assert_eq!(probe.trials(), 0, "a second look first");
        epoch(&mut probe, 300.0);
        assert_eq!((probe.trials(), probe.trial.is_some()), (u64::from(tried), tried));
        let (wait, drop_wait) = if tried { (2 * SECOND, 1_400 * MS) } else { (64 * SECOND, 700 * MS) };
        assert_eq!((probe.wait, probe.drop_wait), (wait, drop_wait));
        assert_eq!(probe.due, if tried { 1_000 * SECOND } else { drop_due });
    }
    let mut probe = keeps(Mode::Ordered, 600.0);
    (probe.drop_due, probe.drop_wait) = (Duration::ZERO, 200 * SECOND);
    epoch(&mut probe, 300.0);
    epoch(&mut probe, 300.0);
    assert_eq!(probe.drop_wait, probe.tuning.rarest);
}

#[test]
fn after_a_fall_many_at_once_need_not_be_as_fast_as_one_was() {
    for (kept, reached, changed) in [
        (Mode::Ordered, 324.0, false),
        (Mode::Ordered, 325.0, true),
        (Mode::Wide, 640.0, false),
        (Mode::Wide, 650.0, true),
    ] {
        let mut probe = keeps(kept, 600.0);
        probe.drop_due = Duration::ZERO;
        for rate in [600.0, 600.0, 600.0, 600.0, 300.0, 300.0] {
            epoch(&mut probe, rate);
        }
        probe.conclude(verdict(reached, reached));
        assert_eq!(probe.kept != kept, changed, "{kept:?}, {reached}");
    }
    // By chance a few epochs are slower.
    let mut probe = keeps(Mode::Ordered, 600.0);
    for rate in [600.0, 600.0, 500.0, 500.0] {
        epoch(&mut probe, rate);
    }
    probe.try_other();
    probe.conclude(verdict(640.0, 640.0));
    assert!(probe.is_ordered());
}

#[test]
fn a_trial_is_made_when_it_is_due_and_nothing_grows() {
    for (due, delivered, tried) in [
        (100 * SECOND + MS, 600.0, false),
        (100 * SECOND, 600.0, true),
        (100 * SECOND, 690.0, true),
        (100 * SECOND, 691.0, false),
        (100 * SECOND, 450.0, true),
    ] {
        let mut probe = keeps(Mode::Ordered, 600.0);
        probe.due = due;
        epoch(&mut probe, delivered);
        assert_eq!((probe.trials(), probe.is_ordered()), (u64::from(tried), !tried), "{delivered}, {due:?}");
    }
}

#[test]
fn a_lucky_trial_is_taken_back_when_less_comes_than_was_left_for_it() {
    for (delivered, back) in [(459.0, true), (460.0, false), (500.0, false)] {
        let mut probe = keeps(Mode::Ordered, 600.0);
        probe.left = Some(500.0 * MB);
        epoch(&mut probe, delivered);
        assert_eq!(probe.kept == Mode::Wide, back, "{delivered} after 500");
        assert_eq!((probe.left, probe.trials()), (None, 0));
        if back {
            assert_eq!(rate(&probe), delivered);
        }
    }
}

#[test]
fn who_sends_in_order_soon_looks_whether_the_endpoint_has_changed() {
    let mut probe = keeps(Mode::Wide, 500.0);
    probe.change(900.0 * MB);
    assert!(probe.unsure && probe.kept == Mode::Ordered);
    epoch(&mut probe, 900.0);
    assert!(!probe.unsure && probe.confirming && probe.trials() == 1);
    let mut probe = keeps(Mode::Ordered, 500.0);
    probe.change(900.0 * MB);
    assert!(!probe.unsure);
}

#[test]
fn the_other_mode_has_to_beat_the_best_epoch_but_one() {
    for (other, changes) in [(745.0, false), (745.3, true)] {
        let mut probe = keeps(Mode::Wide, 600.0);
        probe.best = [100.0, 690.0, 100.0, 700.0].map(|rate| rate * MB);
        probe.conclude(verdict(other, other));
        assert_eq!(probe.kept == Mode::Ordered, changes, "{other} after 690");
        assert_eq!(probe.left, changes.then_some(600.0 * MB));
        assert_eq!(rate(&probe), if changes { other } else { 600.0 });
    }
    // And what is usual, if that is more.
    for (other, changes) in [(647.9, false), (648.1, true)] {
        let mut probe = keeps(Mode::Ordered, 600.0);
        probe.best = [100.0, 590.0, 100.0, 700.0].map(|rate| rate * MB);
        probe.conclude(verdict(other, other));
        assert_eq!(probe.kept == Mode::Wide, changes, "{other} after 600");
    }
}

#[test]
fn where_both_are_the_same_wide_is_kept() {
    for (kept, confirming, wide, changes) in [
        (Mode::Ordered, true, 576.1, true),
        (Mode::Ordered, true, 575.9, false),
        (Mode::Ordered, false, 600.0, false),
        (Mode::Wide, true, 600.0, false),
    ] {
        let mut probe = keeps(kept, 600.0);
        probe.confirming = confirming;
        probe.conclude(verdict(wide, wide));
        assert_eq!(probe.kept != kept, changes, "{kept:?}, {confirming}: {wide} of 600");
        assert!(!probe.confirming);
    }
}

#[test]
fn what_a_trial_has_cost_is_to_be_small_beside_what_comes_until_the_next() {
    let mut probe = keeps(Mode::Wide, 500.0);
    probe.drop_wait = 5 * SECOND;
    // 200 ms at half the rate: a tenth of a second, of which 0.015 is to be the share.
    probe.conclude(verdict(300.0, 250.0));
    assert!(about(probe.due, 100.0 + 0.1 / 0.015), "{:?}", probe.due);
    assert_eq!((probe.wait, probe.drop_due), (4 * SECOND, 105 * SECOND));
    // One that cost nothing waits as long as any.
    let mut probe = keeps(Mode::Wide, 500.0);
    probe.conclude(verdict(520.0, 510.0));
    assert_eq!((probe.due, probe.wait), (102 * SECOND, 4 * SECOND));
    // Never longer than the longest.
    let mut probe = keeps(Mode::Wide, 500.0);
    probe.wait = 299 * SECOND;
    probe.conclude(Verdict { time: 100 * SECOND, ..verdict(0.0, 0.0) });
    assert_eq!((probe.due, probe.wait), (400 * SECOND, 300 * SECOND));
}

#[test]
fn to_look_back_waits_for_as_long_as_that_is_worth() {
    let mut probe = keeps(Mode::Wide, 450.0);
    (probe.wait, probe.drop_wait, probe.streams) = (64 * SECOND, 64 * SECOND, 3);
    probe.best = [450.0 * MB; EPOCHS];
    probe.change(900.0 * MB);
    // 40 ms until it counts and three pieces of 80 ms, at half the rate.
    assert!(about(probe.due, 100.0 + 0.28 * 0.5 / 0.015), "{:?}", probe.due);
    assert_eq!((probe.wait, probe.drop_wait, probe.drop_due), (2 * SECOND, 700 * MS, 100_700 * MS));
    assert_eq!((probe.chosen_for, probe.best), (3, [0.0; EPOCHS]));
    // Of one that was as fast, or of which nothing is known, it is as soon as may be.
    for before in [Some(900.0 * MB), None] {
        let mut probe = keeps(Mode::Wide, 0.0);
        probe.rate = before;
        probe.change(900.0 * MB);
        let expected = if before.is_some() { 102.0 } else { 100.0 + 0.28 / 0.015 };
        assert!(about(probe.due, expected), "{before:?}: {:?}", probe.due);
    }
    // Latencies until it counts make it longer.
    let mut probe = keeps(Mode::Wide, 450.0);
    probe.latency = 100 * MS;
    probe.change(900.0 * MB);
    assert!(about(probe.due, 100.0 + 0.54 * 0.5 / 0.015), "{:?}", probe.due);
}

#[test]
fn in_order_is_not_tried_where_it_cannot_win() {
    for (kept, alone, several, tried) in [
        (Mode::Wide, Some(419), Some(true), false),
        (Mode::Wide, Some(420), Some(true), true),
        (Mode::Wide, None, Some(true), true),
        (Mode::Wide, None, None, true),
        (Mode::Wide, Some(1_000), Some(false), false),
        (Mode::Ordered, Some(1), Some(false), true),
    ] {
        let mut probe = keeps(kept, 600.0);
        (probe.alone, probe.several) = (alone.map(|alone: u64| alone * 1_000_000), several);
        probe.try_other();
        assert_eq!(
            (probe.trials(), probe.trial.is_some()),
            (u64::from(tried), tried),
            "{alone:?}, {several:?}"
        );
    }
}

#[test]
fn what_settles_takes_latencies_and_no_longer_than_a_trial() {
    for (latency, settles) in [(0, 40), (13, 40), (14, 42), (100, 300), (1_000, 800)] {
        let mut probe = keeps(Mode::Wide, 600.0);
        probe.latency = latency * MS;
        assert_eq!(probe.settle(), settles * MS, "{latency} ms");
    }
    for (latency, silence) in [(0, 250), (31, 250), (32, 256), (100, 800)] {
        let mut probe = keeps(Mode::Wide, 600.0);
        probe.latency = latency * MS;
        assert_eq!(probe.silence(), silence * MS, "{latency} ms");
    }
}

#[test]
fn what_comes_while_nobody_waits_does_not_count() {
    let mut probe = keeps(Mode::Wide, 600.0);
    probe.epoch = Meter::after(Duration::ZERO);
    probe.delivered(10 * MS, 60_000_000);
    probe.wanted(20 * MS, true);
    probe.delivered(120 * MS, 0);
    assert_eq!((probe.epoch.measured(), probe.epoch.rate()), (100 * MS, 0.0));
    probe.delivered(220 * MS, 60_000_000);
    assert_eq!((probe.epoch.measured(), probe.epoch.rate()), (200 * MS, 300.0 * MB));
}

#[test]
fn a_pause_of_readers_is_no_silence_and_to_wait_on_ends_none() {
    let mut probe = keeps(Mode::Wide, 600.0);
    probe.epoch = Meter::after(Duration::ZERO);
    probe.wanted(10 * SECOND, true);
    probe.delivered(10 * SECOND + 100 * MS, 60_000_000);
    assert_eq!((probe.epoch.measured(), probe.epoch.rate()), (100 * MS, 600.0 * MB));
    probe.wanted(10 * SECOND + 300 * MS, true);
    probe.delivered(10 * SECOND + 500 * MS, 60_000_000);
    assert_eq!(probe.epoch.measured(), Duration::ZERO, "400 ms without a byte are nobody's doing");
}
