use super::*;

const MS: Duration = Duration::from_millis(1);
/// What the kept mode delivers, bytes per second.
const KEPT: f64 = 500e6;

/// So many milliseconds at so many MB/s.
fn piece(trial: &mut Trial, milliseconds: u32, rate: u64) {
    trial.time(milliseconds * MS);
    trial.bytes(u64::from(milliseconds) * 1_000 * rate);
}

fn trial() -> (Trial, Tuning) {
    (Trial::new(Duration::ZERO), Tuning::default())
}

fn rate(verdict: Option<Verdict>) -> Option<u64> {
    verdict.map(|verdict| (verdict.rate / 1e6).round() as u64)
}

#[test]
fn a_piece_is_as_long_as_the_shortest_and_there_are_two() {
    let (mut trial, tuning) = trial();
    piece(&mut trial, 79, 900);
    assert!(trial.verdict(&tuning, KEPT).is_none());
    assert_eq!(trial.before, [None; 2], "it goes on");
    piece(&mut trial, 1, 900);
    assert!(trial.verdict(&tuning, KEPT).is_none());
    assert_eq!(trial.before, [Some(900e6), None]);
    piece(&mut trial, 79, 900);
    assert!(trial.verdict(&tuning, KEPT).is_none());
    piece(&mut trial, 1, 900);
    let verdict = trial.verdict(&tuning, KEPT).unwrap();
    assert_eq!((verdict.time, verdict.mean), (160 * MS, 900e6));
    assert_eq!(rate(Some(verdict)), Some(900));
}

#[test]
fn few_bytes_make_a_piece_only_in_four_times_the_time() {
    let (mut trial, tuning) = trial();
    piece(&mut trial, 319, 20);
    assert!(trial.verdict(&tuning, 25e6).is_none() && trial.before == [None; 2]);
    piece(&mut trial, 1, 20);
    assert!(trial.verdict(&tuning, 25e6).is_none());
    assert_eq!(trial.before, [Some(20e6), None]);
    // As many as are enough.
    let (mut trial, tuning) = self::trial();
    trial.time(100 * MS);
    trial.bytes(tuning.slice_bytes - 1);
    assert!(trial.verdict(&tuning, 25e6).is_none() && trial.before == [None; 2]);
    trial.bytes(1);
    assert!(trial.verdict(&tuning, 25e6).is_none() && trial.before[0].is_some());
}

#[test]
fn what_is_far_slower_is_over_with_its_first_piece() {
    let (mut trial, tuning) = trial();
    piece(&mut trial, 79, 100);
    assert!(trial.verdict(&tuning, KEPT).is_none(), "a piece it has");
    piece(&mut trial, 1, 100);
    assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(100));
    for (slow, over) in [(349, true), (350, false)] {
        let (mut trial, tuning) = self::trial();
        piece(&mut trial, 80, slow);
        assert_eq!(trial.verdict(&tuning, KEPT).is_some(), over, "{slow} of 500 with 0.7 asked for");
    }
}

#[test]
fn it_goes_on_while_pieces_become_faster() {
    let (mut trial, tuning) = trial();
    for rate in [600, 700, 810] {
        piece(&mut trial, 80, rate);
        assert!(trial.verdict(&tuning, KEPT).is_none(), "{rate}");
    }
    assert_eq!(trial.before, [Some(810e6), Some(700e6)]);
    // Not by more than noise: it is what both were.
    piece(&mut trial, 80, 900);
    assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(855));
    // From 15 % on it is growth.
    for (next, grows) in [(919, false), (921, true)] {
        let (mut trial, tuning) = self::trial();
        piece(&mut trial, 80, 800);
        assert!(trial.verdict(&tuning, KEPT).is_none());
        piece(&mut trial, 80, next);
        assert_eq!(trial.verdict(&tuning, KEPT).is_none(), grows, "{next} after 800");
    }
}

#[test]
fn close_to_a_decision_it_takes_one_piece_more() {
    for (both, more) in [(400, false), (401, true), (500, true), (619, true), (620, false), (700, false)] {
        let (mut trial, tuning) = trial();
        piece(&mut trial, 80, both);
        assert!(trial.verdict(&tuning, KEPT).is_none());
        piece(&mut trial, 80, both);
        let verdict = trial.verdict(&tuning, KEPT);
        assert_eq!(verdict.is_none(), more, "{both} of 500");
        if more {
            assert_eq!(trial.before, [Some(both as f64 * 1e6); 2]);
            piece(&mut trial, 80, both + 10);
            assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(both + 5), "and no other");
        }
    }
}

#[test]
fn one_that_takes_too_long_is_what_it_was_at_its_best() {
    // The piece under way counts if it is long enough.
    for (last, milliseconds, expected) in [(20, 79, 20), (20, 80, 24), (30, 80, 30)] {
        let (mut trial, tuning) = trial();
        piece(&mut trial, 320, last);
        assert!(trial.verdict(&tuning, 25e6).is_none());
        trial.whole.time((480 - milliseconds) * MS);
        piece(&mut trial, milliseconds - 1, 24);
        assert!(trial.verdict(&tuning, 25e6).is_none(), "not yet too long");
        piece(&mut trial, 1, 24);
        assert_eq!(rate(trial.verdict(&tuning, 25e6)), Some(expected), "{last}, {milliseconds} ms");
    }
    // Without a piece it was nothing.
    let (mut trial, tuning) = trial();
    trial.whole.time(tuning.trial_most - MS);
    piece(&mut trial, 1, 900);
    assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(0));
    // And with a stall as well.
    let (mut trial, tuning) = self::trial();
    piece(&mut trial, 80, 900);
    assert!(trial.verdict(&tuning, KEPT).is_none());
    trial.again(Duration::ZERO);
    trial.whole.time(tuning.trial_most);
    assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(0));
}

#[test]
fn for_what_was_sent_before_it_waits_as_long_as_for_a_trial() {
    let (mut trial, tuning) = trial();
    trial.wait(tuning.trial_most - MS);
    assert!(trial.verdict(&tuning, KEPT).is_none());
    trial.wait(MS);
    assert_eq!(rate(trial.verdict(&tuning, KEPT)), Some(0));
}

#[test]
fn what_comes_while_it_settles_counts_for_the_cost_alone() {
    let tuning = Tuning::default();
    let mut trial = Trial::new(40 * MS);
    piece(&mut trial, 40, 100);
    // The last of these bytes came when the time was over.
    assert_eq!((trial.slice.measured(), trial.slice.rate()), (Duration::ZERO, 0.0));
    let mut meter = Meter::after(40 * MS);
    meter.time(39 * MS);
    meter.bytes(1_000);
    meter.time(11 * MS);
    assert_eq!((meter.measured(), meter.rate()), (10 * MS, 0.0));
    meter.bytes(2_000_000);
    assert_eq!(meter.rate(), 200e6);
    assert!(trial.verdict(&tuning, KEPT).is_none());
}
