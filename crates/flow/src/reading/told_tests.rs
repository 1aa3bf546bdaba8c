//! What [`crate::endpoint`] is told of fetches: all attempts, also those that others make, and nothing that needed none.

use std::time::Duration;

use super::driven::{Driven, KIB, MIB, limits};
use crate::backoff::Failure;

const MS: Duration = Duration::from_millis(1);
const AT: u64 = 64 * MIB;

fn one_file() -> Driven {
    let mut driven = Driven::new(limits(64 * MIB));
    driven.open(1, 4096 * MIB);
    driven
}

#[test]
fn an_attempt_is_under_way_until_it_is_interrupted_and_again_when_the_next_begins() {
    let mut driven = one_file();
    driven.read(1, AT..AT + 64 * KIB);
    let fetch = driven.one().fetch;
    assert_eq!((driven.reads.endpoint.in_flight(), driven.reads.endpoint.size()), (1, Some(64 * KIB)));
    driven.pass(20 * MS);
    driven.arrive(fetch, 32 * KIB);
    driven.reads.interrupted(driven.now, fetch, Failure::Transient);
    assert_eq!(driven.reads.endpoint.in_flight(), 0);
    driven.pass(20 * MS);
    driven.reads.resumed(driven.now, fetch);
    assert_eq!(driven.reads.endpoint.in_flight(), 1);
    assert!(driven.reads.endpoint.size() < Some(64 * KIB), "only the rest is asked for");
    driven.finish(fetch);
    assert_eq!(driven.reads.endpoint.in_flight(), 0);
}

#[test]
fn what_needs_nothing_of_the_endpoint_is_not_counted_and_leaves_its_place_to_others() {
    let mut driven = one_file();
    for n in 1..40 {
        driven.read(1, n * AT + n % 3 * MIB..n * AT + n % 3 * MIB + 4 * KIB);
    }
    let sent = driven.sent();
    assert!(sent.len() < 39);
    driven.pass(20 * MS);
    driven.reads.local(driven.now, sent[0].fetch);
    driven.wake();
    assert_eq!(driven.sent().len(), 1, "one more goes");
    driven.finish(sent[0].fetch);
    assert_eq!(driven.answered.len(), 1);
    assert_eq!(driven.reads.endpoint.latency(), None, "a hole says nothing of how long the endpoint takes");
    driven.finish(sent[1].fetch);
    assert_eq!(driven.reads.endpoint.latency_least(), Some(20 * MS));
}
