//! That fetches queue, by what is in flight and how fast it comes (Little's law): for how long they take, none need have ended.

use super::Limit;
use super::resting::{EACH, LATENCY, SIZE, known, near, resting, round};
use super::round::Measure;

fn slowdown(limit: &Limit, measure: Measure) -> Option<f64> {
    limit.slowdown_by_rate(&measure)
}

/// At rest, with fetches of [`SIZE`] bytes.
fn limit() -> Limit {
    let mut limit = resting(10.0);
    limit.flying(SIZE);
    limit
}

#[test]
fn as_many_as_bring_what_they_would_unloaded_do_not_queue_and_twice_as_many_do() {
    for (level, times) in [(36.0, 1.0), (72.0, 2.0), (18.0, 0.5)] {
        let found = slowdown(&limit(), Measure { rate: 36.0 * EACH, ..round(level, 1.0) });
        assert!(found.is_some_and(|found| near(found, times)), "{level}: {found:?}");
    }
}

#[test]
fn what_brought_nothing_says_nothing() {
    assert_eq!(slowdown(&limit(), Measure { rate: 0.0, ..round(36.0, 1.0) }), None);
}

#[test]
fn nothing_is_slower_than_no_time_at_all() {
    let limit = Limit { baseline: known(0.0, 0.0), ..limit() };
    assert_eq!(slowdown(&limit, round(36.0, 1.0)), None);
}

/// What was sent less than its latency ago has brought nothing yet, whether it queues or not.
#[test]
fn half_of_a_round_or_more_had_time_to_bring_something() {
    let of = |seconds| slowdown(&limit(), Measure { after: 0.0, seconds, ..round(36.0, 1.0) });
    assert_eq!(of(2.0 * LATENCY), None);
    assert_eq!(of(1.0 * LATENCY), None);
    assert!(of(2.01 * LATENCY).is_some());
}

#[test]
fn it_is_searched_while_it_grows_and_not_at_rest() {
    assert!(Limit::new(super::Tuning::default(), 1_000).searches());
    assert!(!limit().searches());
}
