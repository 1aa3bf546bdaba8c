//! What is put off when the endpoint becomes slow, and that it comes after all.

use std::time::Duration;

use super::driven::{Driven, MIB, one_file};

const MS: Duration = Duration::from_millis(1);

/// A reader that was fast, with much under way, and waits. Where it reads next.
fn fast(driven: &mut Driven) -> u64 {
    let mut at = 0;
    for _ in 0..60 {
        driven.whole(1, at..at + MIB, 4 * MS);
        at += MIB;
    }
    loop {
        let request = driven.read(1, at..at + MIB);
        at += MIB;
        if !driven.is_answered(request) {
            break;
        }
        driven.take(request);
    }
    assert!(driven.flying_bytes() > 16 * MIB && driven.flying.len() > 4, "{:?}", driven.flying);
    at
}

/// So many bytes arrive every 50 ms, the same of each fetch.
fn pass(driven: &mut Driven, bytes: u64, times: u32) {
    for _ in 0..times {
        driven.pass(50 * MS);
        let each = bytes / driven.flying.len() as u64;
        let flying: Vec<_> = driven.flying.keys().copied().collect();
        for fetch in flying {
            let rest = driven
                .flying
                .get(&fetch)
                .map_or(0, |(sent, arrived)| sent.range.end - sent.range.start - arrived);
            match rest {
                0 => {}
                rest if rest <= each => driven.finish(fetch),
                _ => driven.arrive(fetch, each),
            }
        }
    }
}

#[test]
fn what_is_furthest_ahead_makes_way_for_what_is_waited_for_and_comes_later() {
    let mut driven = one_file(256 * MIB);
    let mut at = fast(&mut driven);
    let before = driven.flying_bytes();
    let starts =
        |driven: &Driven| driven.flying.values().map(|(sent, _)| sent.range.start).collect::<Vec<_>>();
    let all = starts(&driven);
    driven.sent();
    // What came in a tenth of a second would take ten.
    pass(&mut driven, before / 200, 24);
    let left = starts(&driven);
    let gone: Vec<_> = all.iter().filter(|start| !left.contains(start)).collect();
    assert!(!driven.cancelled.is_empty() && !left.is_empty(), "{left:?}");
    assert!(
        gone.iter().all(|gone| left.iter().all(|left| left < gone)),
        "the nearest stay: {left:?}, not {gone:?}"
    );
    assert!(driven.flying_bytes() < before / 2 && driven.released.iter().all(|(_, range)| range.end <= at));
    assert!(driven.sent().is_empty(), "nothing is sent ahead meanwhile");
    // Fast again: what was put off is sent for what is missing of it, and every byte is read in the end.
    pass(&mut driven, 8 * MIB, 1);
    let again = driven.sent();
    let rest = again.iter().filter(|sent| all.iter().max().is_some_and(|last| sent.range.start < *last));
    assert!(
        rest.clone().count() > 0 && rest.clone().all(|sent| !all.contains(&sent.range.start)),
        "{again:?}"
    );
    let answered = driven.answered.len();
    for _ in 0..100 {
        driven.whole(1, at..at + MIB, MS);
        at += MIB;
    }
    assert!(driven.answered.len() >= answered + 100 && driven.failed.is_empty());
}

#[test]
fn a_stall_a_pause_and_a_slow_reader_put_nothing_off() {
    let mut driven = one_file(256 * MIB);
    fast(&mut driven);
    // Nothing for a minute, then as fast as before: that is no slow endpoint.
    driven.pass(Duration::from_secs(60));
    pass(&mut driven, 8 * MIB, 1);
    assert!(driven.cancelled.is_empty());
    let mut driven = one_file(256 * MIB);
    fast(&mut driven);
    driven.settle(MS);
    let mut at = driven.answered.len() as u64 * MIB;
    for _ in 0..40 {
        driven.pass(200 * MS);
        driven.whole(1, at..at + MIB, MS);
        at += MIB;
    }
    assert!(driven.cancelled.is_empty(), "{:?}", driven.cancelled);
}
