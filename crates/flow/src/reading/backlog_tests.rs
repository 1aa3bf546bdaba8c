//! What is put off when the endpoint becomes slow, and that it comes after all.

use std::time::Duration;

use super::driven::{Driven, KIB, LEN, MIB, Sent, limits, one_file};
use super::*;

const MS: Duration = Duration::from_millis(1);

/// A reader that was fast, with much under way, and waits. Where it reads next.
fn fast(driven: &mut Driven) -> u64 {
    let mut at = 0;
    for _ in 0..60 {
        driven.whole(1, at..at + MIB, 4 * MS);
        at += MIB;
    }
    at = until_waiting(driven, at);
    assert!(driven.flying_bytes() > 16 * MIB && driven.flying.len() > 4, "{:?}", driven.flying);
    at
}

/// Reads on from here until it has to wait; where it reads next.
fn until_waiting(driven: &mut Driven, mut at: u64) -> u64 {
    loop {
        let request = driven.read(1, at..at + MIB);
        at += MIB;
        if !driven.is_answered(request) {
            return at;
        }
        driven.take(request);
    }
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

/// The most bytes that may be sent ahead of readers now; nothing if any number may.
fn room(driven: &Driven) -> Option<u64> {
    let may = |bytes: &u64| driven.reads.may_send_ahead(*bytes);
    if may(&u64::MAX) {
        return None;
    }
    let (mut least, mut most) = (0, u64::MAX);
    assert!(may(&least), "something is put off");
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        if may(&middle) { least = middle } else { most = middle }
    }
    Some(least)
}

/// A file of which 8 MiB are asked for and under way, and nothing else.
fn waiting() -> (Driven, FetchId) {
    let mut driven = one_file(256 * MIB);
    driven.read(1, 64 * MIB..72 * MIB);
    let fetch = driven.one().fetch;
    (driven, fetch)
}

/// So many bytes of a fetch arrive every so often.
fn trickle(driven: &mut Driven, fetch: FetchId, every: Duration, bytes: u64, times: u32) {
    for _ in 0..times {
        driven.pass(every);
        driven.arrive(fetch, bytes);
    }
}

fn near(got: Option<u64>, expected: u64) -> bool {
    got.is_some_and(|got| got.abs_diff(expected) < 16)
}

#[test]
fn what_comes_in_a_second_and_a_half_may_be_under_way() {
    // Every piece of a quarter of a second, or of a little more, counts by how long it was.
    for (every, bytes, times) in
        [(50 * MS, 210 * KIB, 25), (100 * MS, 390 * KIB, 15), (62 * MS, 240 * KIB, 25)]
    {
        let (mut driven, fetch) = waiting();
        let second = (bytes as f64 / every.as_secs_f64()) as u64;
        trickle(&mut driven, fetch, every, bytes, times);
        let mut expected = second * 3 / 2 - driven.flying_bytes();
        assert!(near(room(&driven), expected), "{every:?}: {:?}, not {expected}", room(&driven));
        // What comes makes room, what is sent takes it.
        trickle(&mut driven, fetch, MS, 10 * KIB, 5);
        expected += 50 * KIB;
        assert!(near(room(&driven), expected), "{every:?}: {:?}, not {expected}", room(&driven));
        driven.read(1, 160 * MIB..160 * MIB + 32 * KIB);
        assert!(near(room(&driven), expected - 32 * KIB), "{every:?}: {:?}, not {expected}", room(&driven));
    }
}

#[test]
fn nothing_is_known_before_a_second_is_over_nor_for_a_second_after_a_silence() {
    let (mut driven, fetch) = waiting();
    trickle(&mut driven, fetch, 50 * MS, 64 * KIB, 19);
    assert_eq!(room(&driven), None);
    trickle(&mut driven, fetch, 50 * MS, 64 * KIB, 1);
    assert!(room(&driven).is_some());
    // A long piece is slow, and half a second of nothing is none.
    trickle(&mut driven, fetch, 499 * MS, 64 * KIB, 1);
    assert!(room(&driven).is_some());
    trickle(&mut driven, fetch, 500 * MS, 64 * KIB, 1);
    assert_eq!(room(&driven), None);
    trickle(&mut driven, fetch, 50 * MS, 64 * KIB, 19);
    assert_eq!(room(&driven), None);
    trickle(&mut driven, fetch, 50 * MS, 64 * KIB, 1);
    assert!(room(&driven).is_some());
}

#[test]
fn where_single_fetches_take_long_as_much_as_comes_during_four_may_be_under_way() {
    let mut tuning = Tuning::default();
    tuning.endpoint.limit.round_most = Duration::from_secs(60);
    let mut driven = Driven::tuned(tuning, limits(256 * MIB));
    driven.open(1, LEN);
    for n in 0..16 {
        let at = (7 + n * n) * MIB;
        driven.read(1, at..at + 32 * KIB);
        let fetch = driven.one().fetch;
        driven.pass(700 * MS);
        driven.finish(fetch);
    }
    let of_one = driven.reads.endpoint.duration(driven.reads.part_size()).expect("it is known");
    assert!(of_one >= 700 * MS, "{of_one:?}");
    driven.read(1, 400 * MIB..408 * MIB);
    let fetch = driven.one().fetch;
    trickle(&mut driven, fetch, 50 * MS, 180 * KIB, 26);
    let expected = (3600.0 * KIB as f64 * 4.0 * of_one.as_secs_f64()) as u64 - driven.flying_bytes();
    // All this came since the last piece of time ended.
    let expected = expected - 180 * KIB..expected + 180 * KIB;
    assert!(
        room(&driven).is_some_and(|room| expected.contains(&room)),
        "{:?}, not {expected:?}",
        room(&driven)
    );
}

#[test]
fn numbers_that_were_set_by_hand_put_nothing_off() {
    let mut driven = Driven::fixed(limits(256 * MIB), 64 * MIB, 16, 4 * MIB);
    driven.open(1, LEN);
    fast(&mut driven);
    pass(&mut driven, 64 * KIB, 60);
    assert_eq!((driven.cancelled.len(), room(&driven)), (0, None));
}

/// 32 fetches at once from the first on, and not many more, of 2 MiB at most.
fn wide() -> Driven {
    let mut tuning = Tuning::default();
    (tuning.endpoint.limit.first, tuning.endpoint.limit.grow) = (32.0, 0.1);
    Driven::tuned(tuning, Limits { request_max: 2 * MIB, ..limits(256 * MIB) })
}

/// File 1, of which 32 fetches or more, of 2 MiB at most, are under way ahead of a reader who waits; where he reads next.
fn many() -> (Driven, u64) {
    let mut driven = wide();
    driven.open(1, LEN);
    let at = fast(&mut driven);
    assert!(driven.flying.len() >= 32, "{:?}", driven.flying);
    (driven, at)
}

/// Fetches, each with what is missing of it, nearest first.
type Fetches = Vec<(Sent, u64)>;

/// Nothing for a second, and then so many bytes every 50 ms, until it is known how fast that is. What is under way at that time, before
/// anything is put off, nearest first, with what is missing of it.
fn slow(driven: &mut Driven, bytes: u64) -> Fetches {
    driven.pass(Duration::from_secs(1));
    let mut before = Vec::new();
    for n in 0..=20 {
        assert!(driven.cancelled.is_empty(), "a second has to be over");
        driven.pass(50 * MS);
        before = driven
            .flying
            .values()
            .map(|(sent, arrived)| (sent.clone(), sent.range.end - sent.range.start - arrived))
            .collect();
        before.sort_by_key(|(sent, _)| (sent.range.start, sent.fetch));
        // Of what has most to come, the nearest first, but not what is waited for: nothing ends.
        let nearest =
            [1, 2].map(|file| before.iter().find(|(sent, _)| sent.file == file).map(|(sent, _)| sent.fetch));
        let others = before.iter_mut().rev().filter(|(sent, _)| !nearest.contains(&Some(sent.fetch)));
        let most = others.max_by_key(|(_, missing)| *missing).expect("there are several");
        assert!(most.1 > bytes, "{n}");
        most.1 -= bytes;
        let fetch = most.0.fetch;
        driven.arrive(fetch, bytes);
    }
    before
}

fn all_of(under_way: &[(Sent, u64)]) -> u64 {
    under_way.iter().map(|(_, missing)| missing).sum()
}

#[test]
fn twice_as_much_as_may_be_under_way_is_put_up_with_and_of_more_only_as_much_stays() {
    for times in [1.1, 1.9, 2.1, 3.0, 6.0, 40.0] {
        let (mut driven, _) = many();
        let (stay, gone, most) = put_off(&mut driven, times);
        let all = all_of(&stay) + all_of(&gone);
        assert!((all as f64 / most as f64 / times - 1.0).abs() < 0.02, "{all} of {most}");
        assert_eq!(gone.is_empty(), times < 2.0, "{times}");
        let Some((nearest, missing)) = gone.first() else { continue };
        assert!(stay.iter().all(|(sent, _)| sent.range.start < nearest.range.start), "the furthest go");
        assert!(all_of(&stay) <= most || stay.len() == 1, "{times}: {} of {most}", all_of(&stay));
        assert!(all_of(&stay) + missing > most, "no more than need be: {times}");
    }
}

#[test]
fn nothing_is_put_off_while_nobody_waits() {
    let (mut driven, at) = many();
    // What the last read waits for comes.
    let waits = RequestId(driven.reads.stats().asked / MIB - 1);
    while !driven.is_answered(waits) {
        let fetch = *driven.flying.keys().next().expect("it is under way");
        driven.finish(fetch);
    }
    let bytes = driven.flying_bytes() / 200;
    slow(&mut driven, bytes);
    assert_eq!(driven.cancelled, []);
    // As soon as somebody does, it is.
    driven.read(1, at..at + 8 * MIB);
    driven.pass(250 * MS);
    let last = *driven.flying.keys().last().expect("some are under way");
    driven.arrive(last, bytes);
    assert!(!driven.cancelled.is_empty());
}

/// What stays and what is put off when so many times as much is under way as may be, both nearest first, and what then may be under way.
fn put_off(driven: &mut Driven, times: f64) -> (Fetches, Fetches, u64) {
    // What comes in the second has to be taken off.
    let bytes = (driven.flying_bytes() as f64 / (30.0 * times + 21.0)) as u64;
    let before = slow(driven, bytes);
    driven.sent();
    let (stay, gone): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|(sent, _)| driven.flying.contains_key(&sent.fetch));
    (stay, gone, 30 * bytes)
}

/// So many bytes more arrive, of what is under way, without any time passing.
fn more(driven: &mut Driven, mut bytes: u64) {
    let flying: Vec<_> = driven
        .flying
        .iter()
        .map(|(fetch, (sent, arrived))| (*fetch, sent.range.end - sent.range.start - arrived))
        .collect();
    for (fetch, missing) in flying.into_iter().rev() {
        let now = bytes.min(missing - 1);
        bytes -= now;
        if now > 0 {
            driven.arrive(fetch, now);
        }
    }
    assert_eq!(bytes, 0, "so much is under way");
}

#[test]
fn what_was_put_off_comes_nearest_first_as_far_as_there_is_room() {
    let (mut driven, _) = many();
    let (stay, gone, most) = put_off(&mut driven, 4.0);
    let rests: Vec<_> = gone.iter().map(|(sent, missing)| sent.range.end - missing..sent.range.end).collect();
    assert!(gone.len() >= 3, "{gone:?}");
    let room = most - all_of(&stay);
    more(&mut driven, gone[0].1 - room - 64);
    assert_eq!(driven.sent(), [], "one that has no room yet");
    more(&mut driven, 128);
    assert_eq!(driven.ranges(), rests[..1], "one that has");
}

#[test]
fn after_a_silence_nobody_knows_how_fast_it_is_and_all_that_was_put_off_comes() {
    let (mut driven, _) = many();
    let (_, gone, _) = put_off(&mut driven, 4.0);
    driven.pass(500 * MS);
    more(&mut driven, 1);
    let rests: Vec<_> = gone.iter().map(|(sent, missing)| sent.range.end - missing..sent.range.end).collect();
    assert_eq!(driven.ranges()[..rests.len()], rests);
}

#[test]
fn what_was_put_off_and_is_waited_for_by_now_comes_at_once() {
    let (mut driven, _) = many();
    let (_, gone, _) = put_off(&mut driven, 4.0);
    let begun = |(sent, missing): &&(Sent, u64)| *missing < sent.range.end - sent.range.start;
    let (last, missing) = gone[1..].iter().rfind(begun).expect("of some that are put off something is there");
    let rest = last.range.end - missing..last.range.end;
    driven.read(1, last.range.end - 4 * KIB..last.range.end);
    let sent = driven.one();
    assert_eq!((sent.range, sent.ahead), (rest, false));
    let (nearest, missing) = &gone[0];
    assert!(
        driven.flying.values().all(|(sent, _)| sent.range.start != nearest.range.end - missing),
        "the others wait"
    );
}

#[test]
fn of_several_streams_what_is_furthest_from_its_own_reader_is_put_off() {
    let mut driven = wide();
    driven.open(2, LEN);
    // One with a small window.
    driven.whole(2, 0..MIB, 4 * MS);
    driven.whole(2, MIB..2 * MIB, 4 * MS);
    driven.settle(4 * MS);
    driven.open(1, LEN);
    let at = fast(&mut driven);
    // What it fetches is sent last, in turns with the other.
    let mut next = 2 * MIB;
    while driven.flying.values().filter(|(sent, _)| sent.file == 2).count() < 4 {
        let request = driven.read(2, next..next + MIB);
        next += MIB;
        if driven.is_answered(request) {
            driven.take(request);
        }
        let nearest = *driven.flying.keys().next().expect("some are under way");
        driven.pass(4 * MS);
        driven.finish(nearest);
    }
    let at = until_waiting(&mut driven, at);
    let (stay, gone, _) = put_off(&mut driven, 3.0);
    let ahead =
        |(sent, _): &(Sent, u64)| sent.range.start.saturating_sub(if sent.file == 1 { at } else { next });
    let furthest = stay.iter().map(ahead).max().expect("some stay");
    assert!(gone.iter().all(|gone| ahead(gone) >= furthest), "{stay:?}, not {gone:?}");
    assert!(!gone.is_empty());
    let fetches = |of: &[(Sent, u64)]| of.iter().map(|(sent, _)| sent.fetch).collect::<Vec<_>>();
    assert!(fetches(&stay).iter().max() > fetches(&gone).iter().min(), "the newest are not the furthest");
}

#[test]
fn what_has_a_second_attempt_is_not_put_off() {
    let (mut driven, _) = many();
    // Of all but the furthest something comes.
    let furthest = *driven.flying.keys().last().expect("some are under way");
    for _ in 0..4 {
        driven.pass(501 * MS);
        let others: Vec<_> = driven.flying.keys().copied().filter(|fetch| *fetch != furthest).collect();
        others.into_iter().for_each(|fetch| driven.arrive(fetch, 1));
    }
    driven.sent();
    driven.wake();
    let second = driven.one();
    assert_eq!(second.hedge_of, Some(furthest));
    let (stay, gone, _) = put_off(&mut driven, 20.0);
    assert!(gone.len() > 20);
    let stays = |fetch| stay.iter().any(|(sent, _)| sent.fetch == fetch);
    assert!(stays(furthest) && stays(second.fetch), "{stay:?}");
}
