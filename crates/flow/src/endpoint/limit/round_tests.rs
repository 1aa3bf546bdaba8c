//! What a round is found to have been, and what is learned from it of an endpoint that is not loaded.

use std::time::Duration;

use super::resting::{LATENCY, MS, NOW, SIZE, known, near, round};
use super::round::{Baseline, Finished, Measure, Round};

fn fetch(started: Duration, latency: Duration, duration: Duration) -> Finished {
    Finished { started, bytes: 1_000, latency, duration }
}

/// Means of one fetch, seconds and bytes, as a round of so many.
fn means(finished: u32, latency: f64, body: f64, bytes: f64) -> Measure {
    let count = f64::from(finished);
    let (latencies, durations) = (count * latency, count * (latency + body));
    Measure { finished, latencies, durations, bytes: count * bytes, ..round(8.0, 1.0) }
}

#[test]
fn means_are_over_the_time_of_the_round() {
    let mut round = Round::at_new_level(NOW, true);
    // 4 for 100 ms, of which 1 streams; 10 for 300 ms, of which 5 do.
    round.advance(NOW + 100 * MS, 4, 1);
    round.delivered(NOW + 100 * MS, 3_000);
    round.advance(NOW + 400 * MS, 10, 5);
    // Time that goes back is none.
    round.advance(NOW + 200 * MS, 100, 100);
    round.delivered(NOW + 400 * MS, 1_000);
    let measure = round.measure(NOW + 400 * MS, 7);
    assert!(
        near(measure.rate, 10_000.0) && near(measure.level, 8.5) && near(measure.streaming, 4.0),
        "{measure:?}"
    );
    assert!(measure.per_byte().is_some_and(|per_byte| near(per_byte, 4.0 / 10_000.0)));
    // One that has not lasted has no throughput.
    let measure = Round::at_new_level(NOW, true).measure(NOW, 7);
    assert_eq!((measure.rate, measure.level, measure.streaming), (0.0, 7.0, 0.0));
}

#[test]
fn at_a_higher_level_bytes_and_time_count_when_what_was_added_may_have_brought_something() {
    let mut round = Round::at_higher_level(NOW, 20 * MS);
    assert!(round.settled);
    round.advance(NOW + 10 * MS, 100, 100);
    round.delivered(NOW + 19 * MS, 1_000_000);
    assert!(!round.any_bytes());
    round.advance(NOW + 30 * MS, 6, 2);
    round.delivered(NOW + 20 * MS, 500);
    let measure = round.measure(NOW + 30 * MS, 9);
    assert!(round.any_bytes() && near(measure.rate, 50_000.0), "{measure:?}");
    assert!(near(measure.level, 6.0) && near(measure.streaming, 2.0), "{measure:?}");
    // Fetches sent since the level is what it is count, even those before.
    round.finished(&fetch(NOW, 5 * MS, 9 * MS), 0.005);
    assert_eq!(round.count(), 1);
}

#[test]
fn only_fetches_that_were_sent_at_the_level_say_how_long_they_take_also_in_the_rounds_that_follow() {
    let mut first = Round::at_new_level(NOW, true);
    assert_eq!((first.count(), first.latency()), (0, None));
    for mut round in [first, first.next(NOW + 50 * MS), Round::at_new_level(NOW, false).next(NOW)] {
        round.finished(&fetch(NOW - MS, 900 * MS, 901 * MS), 0.9);
        round.answered(NOW - MS, 0.9);
        assert_eq!((round.count(), round.latency()), (0, None));
        round.finished(&fetch(NOW, 30 * MS, 40 * MS), 0.02);
        round.finished(&fetch(NOW + MS, 50 * MS, 80 * MS), 0.05);
        round.answered(NOW, 0.02);
        round.answered(NOW, 0.05);
        assert_eq!(round.count(), 2);
        assert!(round.latency().is_some_and(|latency| near(latency, 0.035)));
        let measure = round.measure(round.began + 100 * MS, 1);
        assert_eq!(measure.finished, 2);
        assert!(
            near(measure.latencies, 0.07) && near(measure.durations, 0.11) && near(measure.bytes, 2_000.0),
            "{measure:?}"
        );
    }
    first.failed = 3;
    first.delivered(NOW, 9);
    first.finished(&fetch(NOW, MS, MS), 0.001);
    let next = first.next(NOW + 50 * MS);
    assert_eq!((next.began, next.from, next.cohort, next.settled), (NOW + 50 * MS, NOW + 50 * MS, NOW, true));
    assert_eq!((next.failed, next.count(), next.any_bytes()), (0, 0, false));
    let mut next = next;
    next.advance(NOW + 60 * MS, 3, 2);
    assert!(near(next.measure(NOW + 60 * MS, 0).level, 3.0));
    let new = Round::at_new_level(NOW, false);
    assert!(!new.next(NOW).settled);
    assert_eq!((new.began, new.from, new.cohort, new.settled), (NOW, NOW, NOW, false));
}

#[test]
fn means_of_fetches_need_some_that_have_ended_and_brought_something() {
    let of = |finished, bytes| means(finished, 0.02, 0.03, bytes).mean();
    assert!(of(6, 700.0).is_some_and(|(took, bytes)| near(took, 0.05) && near(bytes, 700.0)));
    assert_eq!((of(5, 700.0), of(6, 0.0)), (None, None));
    let per_byte = |rate, streaming| Measure { rate, streaming, ..round(8.0, 1.0) }.per_byte();
    assert_eq!(per_byte(100.0, 4.0), Some(0.04));
    assert_eq!((per_byte(0.0, 4.0), per_byte(100.0, 0.0), per_byte(0.0, 0.0)), (None, None, None));
}

#[test]
fn slowdown_is_how_many_times_longer_than_unloaded_the_fetches_of_a_round_took() {
    let baseline = known(0.02, 0.02 / 1e6);
    let slowdown = |measure: Measure| baseline.slowdown(&measure);
    // Six unloaded ones would take 40 ms each, those of twice the bytes 60.
    for (body, bytes, expected) in [(0.02, 1e6, 1.0), (0.1, 1e6, 3.0), (0.1, 2e6, 2.0)] {
        assert!(
            slowdown(means(6, 0.02, body, bytes)).is_some_and(|slowdown| near(slowdown, expected)),
            "{expected}"
        );
    }
    assert_eq!(slowdown(means(5, 0.02, 0.1, 1e6)), None, "too few");
    assert_eq!(slowdown(means(6, 0.0, 0.0, 1e6)), None, "they took no time");
    assert_eq!(Baseline::default().slowdown(&means(6, 0.02, 0.1, 1e6)), None, "nothing is known");
    assert_eq!(known(0.0, 0.0).slowdown(&means(6, 0.02, 0.1, 1e6)), None, "it takes no time");
    // Where the time of bodies is not known, they are taken to be as fast as can be.
    let mut baseline = baseline;
    baseline.per_byte = None;
    let got = baseline.slowdown(&means(6, 0.06, 0.1, 1e6)).expect("it is known");
    assert!(near(got, 0.16 / 0.12), "{got}");
}

#[test]
fn what_is_far_lower_is_believed_at_once_and_what_is_a_little_lower_when_many_agree() {
    let mut baseline = Baseline::default();
    baseline.lower(&means(5, 0.001, 0.001, SIZE));
    assert_eq!((baseline.latency, baseline.per_byte), (None, None), "too few");
    baseline.lower(&means(6, LATENCY, 0.03, SIZE));
    let is = |baseline: &Baseline, latency: f64, body: f64| {
        near(baseline.latency.expect("known"), latency)
            && near(baseline.per_byte.expect("known"), body / SIZE)
    };
    assert!(is(&baseline, LATENCY, 0.03));
    let mut higher = baseline.clone();
    (0..20).for_each(|_| higher.lower(&means(20, 0.03, 0.06, SIZE)));
    assert!(is(&higher, LATENCY, 0.03), "it does not rise");
    let mut far = baseline.clone();
    far.lower(&means(6, 0.69 * LATENCY, 0.69 * 0.03, SIZE));
    assert!(is(&far, 0.69 * LATENCY, 0.69 * 0.03));
    // 0.71 of it: not before there are 64.
    let mut little = known(LATENCY, 0.03 / SIZE);
    for fetches in [6, 30, 21] {
        little.lower(&means(fetches, 0.71 * LATENCY, 0.71 * 0.03, SIZE));
        assert!(is(&little, LATENCY, 0.03), "{fetches}");
    }
    little.lower(&means(7, 0.71 * LATENCY, 0.71 * 0.03, SIZE));
    assert!(is(&little, 0.71 * LATENCY, 0.71 * 0.03));
    // Then it begins anew; and nearly the same is the same.
    for fetches in [58, 6] {
        little.lower(&means(fetches, 0.71 * 0.98 * LATENCY, 0.71 * 0.98 * 0.03, SIZE));
        assert!(is(&little, 0.71 * LATENCY, 0.71 * 0.03), "{fetches}");
    }
    little.lower(&means(64, 0.71 * 0.96 * LATENCY, 0.71 * 0.96 * 0.03, SIZE));
    assert!(is(&little, 0.71 * 0.96 * LATENCY, 0.71 * 0.96 * 0.03));
}

#[test]
fn small_bodies_and_those_that_come_at_once_say_nothing_of_the_time_of_a_byte() {
    for (bytes, body, known) in [(131_000.0, 0.01, false), (131_100.0, 0.01, true), (SIZE, 0.0, false)] {
        for set in [false, true] {
            let mut baseline = Baseline::default();
            let measure = means(10, 0.02, body, bytes);
            if set {
                baseline.set(&measure)
            } else {
                baseline.lower(&measure)
            }
            assert!(near(baseline.latency.expect("known"), 0.02));
            assert_eq!(
                baseline.per_byte.is_some_and(|per_byte| near(per_byte, body / bytes)),
                known,
                "{bytes}"
            );
            assert_eq!(baseline.per_byte.is_some(), known, "{bytes}");
        }
    }
}

#[test]
fn a_round_that_was_not_loaded_is_what_unloaded_is_unless_it_is_nearly_the_same() {
    for (times, taken) in
        [(0.5, true), (0.7, true), (0.73, false), (1.0, false), (1.38, false), (1.42, true), (3.0, true)]
    {
        let mut baseline = known(0.1, 0.1 / SIZE);
        baseline.set(&means(5, 0.1 * times, 0.1 * times, SIZE));
        assert_eq!(baseline.latency, Some(0.1), "too few");
        baseline.set(&means(6, 0.1 * times, 0.1 * times, SIZE));
        let expected = if taken { 0.1 * times } else { 0.1 };
        assert!(near(baseline.latency.expect("known"), expected), "{times}: {baseline:?}");
        assert!(near(baseline.per_byte.expect("known"), expected / SIZE), "{times}: {baseline:?}");
    }
}

#[test]
fn when_first_bytes_take_longer_bodies_are_as_they_were() {
    let mut baseline = known(0.02, 0.03 / SIZE);
    baseline.slower(&means(5, 0.2, 0.5, SIZE));
    assert_eq!(baseline.latency, Some(0.02), "too few");
    baseline.slower(&means(6, 0.2, 0.5, SIZE));
    assert!(near(baseline.latency.expect("known"), 0.2));
    assert_eq!(baseline.per_byte, Some(0.03 / SIZE));
}
