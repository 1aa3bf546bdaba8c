//! Where nothing is known, one fetch for each reader.

use std::time::Duration;

use super::resting::{LATENCY, MS, NOW, SIZE};
use super::{Finished, Limit, Tuning};

fn new() -> Limit {
    Limit::new(Tuning::default(), 1000)
}

#[test]
fn as_many_as_there_are_readers_up_to_four_times_the_first_number() {
    for (readers, most, allowed) in [
        (0, 1000, 8),
        (8, 1000, 8),
        (9, 1000, 9),
        (32, 1000, 32),
        (33, 1000, 32),
        (u64::MAX, 1000, 32),
        (30, 20, 20),
    ] {
        let mut limit = Limit::new(Tuning::default(), most);
        limit.readers(NOW, readers);
        assert_eq!(limit.allowed(), allowed, "{readers} of {most}");
        // Those that leave do not make it less.
        limit.readers(NOW, 1);
        assert_eq!(limit.allowed(), allowed, "{readers} of {most}");
    }
}

#[test]
fn once_something_is_known_the_search_decides() {
    let mut refused = new();
    (0..8).for_each(|_| refused.started(NOW));
    refused.failed(NOW + MS, NOW, crate::backoff::Failure::Throttled);
    let mut told = new();
    told.recall(NOW, 1e6, LATENCY, LATENCY / SIZE, SIZE);
    for limit in [&mut refused, &mut told, &mut measured(8)] {
        let allowed = limit.allowed();
        limit.readers(NOW + MS, 64);
        assert_eq!(limit.allowed(), allowed, "{limit:?}");
    }
}

/// All of these come one after the other, two more reads are beyond what is allowed all the time, and then each has its bytes.
fn measured(readers: u64) -> Limit {
    let mut limit = new();
    (0..2).for_each(|_| limit.started(NOW));
    for reader in 1..=readers {
        limit.readers(NOW, reader);
        limit.started(NOW);
    }
    let duration = Duration::from_secs_f64(2.0 * LATENCY);
    let fetch = Finished { started: NOW, bytes: SIZE as u64, latency: duration / 2, duration };
    for _ in 0..readers {
        limit.finished(NOW + duration, &fetch);
        limit.started(NOW + duration);
    }
    limit
}

#[test]
fn their_first_bytes_are_the_first_round() {
    for readers in [8, 20, 32] {
        let limit = measured(readers);
        assert_eq!(limit.allowed() as u64, 2 * readers, "{limit:?}");
        assert!(!limit.is_new());
    }
}
