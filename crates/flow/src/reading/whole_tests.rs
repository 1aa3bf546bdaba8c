//! How a file is fetched whole that is read at random all over.

use std::time::Duration;

use super::driven::{Driven, KIB, MIB, Sent, limits};
use super::*;
use crate::order::{self, Mode, Probe};

const MS: Duration = Duration::from_millis(1);
/// Fetches that may be under way.
const FETCHES: usize = 4;

/// File 1 is open, `mib` MiB long.
fn open(memory: u64, mib: u64) -> Driven {
    let mut driven = Driven::fixed(limits(memory), 8 * MIB, FETCHES, MIB);
    driven.open(1, mib * MIB);
    driven
}

/// What is under way comes, all but one of it.
fn arrive(driven: &mut Driven, after: Duration, but: Option<FetchId>) {
    driven.pass(after);
    let fetches: Vec<_> = driven.flying.keys().filter(|fetch| Some(**fetch) != but).copied().collect();
    for fetch in fetches {
        if driven.flying.contains_key(&fetch) {
            driven.finish(fetch);
        }
    }
}

/// A small read of one of 64 regions, which takes 20 ms, and is not taken.
fn read(driven: &mut Driven, n: u64, mib: u64) -> RequestId {
    let at = n % 64 * mib * MIB / 64 + (4 + n / 64 % 8) * 64 * KIB;
    let request = driven.read(1, at..at + 4 * KIB);
    if !driven.is_answered(request) {
        arrive(driven, 20 * MS, None);
    }
    request
}

/// Reads all over the file until fetches are sent that nobody waits for: those.
fn until_bought(driven: &mut Driven, mib: u64) -> Vec<Sent> {
    for n in 0..2_000 {
        let request = read(driven, n * 29, mib);
        let ahead: Vec<_> = driven.sent().into_iter().filter(|sent| sent.ahead && sent.file == 1).collect();
        driven.take(request);
        if !ahead.is_empty() {
            return ahead;
        }
    }
    panic!("it is never worth it")
}

/// The same, until all up to there is sent; how long that took.
fn until_bought_up_to(driven: &mut Driven, end: u64, mib: u64) -> Duration {
    let began = driven.now;
    while until_bought(driven, mib).iter().all(|sent| sent.range.end < end) {}
    driven.now - began
}

/// All of the file has been paid for, and comes, but for one fetch.
fn all_paid(driven: &mut Driven, but: Option<FetchId>) {
    let before = driven.reads.stats().whole;
    driven.reads.files.get_mut(&FileId(1)).expect("it is open").whole.prepaid = true;
    driven.memory(256 * MIB);
    while driven.flying.keys().any(|fetch| Some(*fetch) != but) {
        arrive(driven, 10 * MS, but);
    }
    driven.sent();
    assert_eq!(driven.reads.stats().whole, before + 1);
}

/// All of what is under way comes; what else is sent.
fn rest(driven: &mut Driven) -> Vec<Sent> {
    let mut all = Vec::new();
    while !driven.flying.is_empty() {
        assert!(driven.flying.len() <= FETCHES, "{}", driven.flying.len());
        arrive(driven, 10 * MS, None);
        all.extend(driven.sent());
    }
    all
}

#[test]
fn all_of_it_comes_in_order_as_many_fetches_at_a_time_as_are_allowed() {
    let mut driven = open(256 * MIB, 64);
    let first = until_bought(&mut driven, 64);
    assert_eq!((first.len(), first[0].range.clone()), (FETCHES, 0..MIB));
    let all: Vec<_> = first.into_iter().chain(rest(&mut driven)).map(|sent| sent.range).collect();
    // What little is there of a part is fetched again with what is around it.
    assert_eq!(all, (0..64).map(|n| n * MIB..(n + 1) * MIB).collect::<Vec<_>>());
    assert_eq!((driven.reads.stats().whole, driven.reads.held()), (1, 64 * MIB));
}

#[test]
fn so_much_of_it_comes_as_has_been_paid_for() {
    let mut driven = open(2048 * MIB, 1000);
    let (mut edge, mut began, mut waited, mut checked) = (0, None, Duration::ZERO, 0);
    for n in 0..2_000 {
        let at = driven.now;
        let request = read(&mut driven, n * 29, 1000);
        waited += driven.now - at;
        driven.take(request);
        let ahead = driven.sent().into_iter().filter(|sent| sent.ahead).map(|sent| sent.range.end);
        edge = ahead.fold(edge, u64::max);
        if edge == 1000 * MIB {
            break;
        }
        if edge > 0 {
            began.get_or_insert(n);
            let price = (1000 * MIB) as f64 / driven.reads.rate_whole(edge > 8 * MIB) as f64;
            let paid = waited.as_secs_f64() / price;
            let part = (paid.exp() - 1.0) / (std::f64::consts::E - 1.0) * 1000.0;
            let came = (edge / MIB) as f64;
            assert!(came < part + 2.0, "{n}: {came} MiB, paid for {part}");
            // What was paid until reads were seen to be all over has to be caught up with.
            assert!(n < 40 || part > 400.0 || came > 0.9 * part - 4.0, "{n}: {came} MiB, paid for {part}");
            checked += 1;
        }
    }
    assert!(edge > 800 * MIB, "it comes to nearly all");
    assert!(began < Some(16) && checked > 100, "{began:?}, {checked}");
}

#[test]
fn who_reads_on_and_waits_does_not_pay_for_all_of_it() {
    let mut driven = open(1024 * MIB, 512);
    for mib in 0..200 {
        let request = driven.read(1, mib * MIB..(mib + 1) * MIB);
        assert!(!driven.is_answered(request), "{mib}");
        driven.pass(20 * MS);
        let next = driven.flying.iter().find(|(_, (sent, _))| sent.range.start == mib * MIB);
        let next = next.map(|(fetch, _)| *fetch).expect("it is on its way");
        driven.finish(next);
        driven.take(request);
    }
    let request = driven.read(1, 400 * MIB..400 * MIB + 4 * KIB);
    arrive(&mut driven, 20 * MS, None);
    driven.take(request);
    rest(&mut driven);
    assert_eq!(driven.reads.stats().whole, 0);
}

#[test]
fn it_begins_after_half_as_many_regions_if_few_are_read_twice() {
    for (again, reads) in [(0, 8), (2, 10), (3, 15), (4, 20)] {
        let mut driven = open(256 * MIB, 64);
        let began = (0..64u64).position(|n| {
            // The first few again in their regions, before any other.
            let at = if n < 2 * again { n / 2 * 29 + n % 2 * 64 } else { (n - again) * 29 };
            let request = read(&mut driven, at, 64);
            driven.take(request);
            driven.sent().iter().any(|sent| sent.ahead)
        });
        assert_eq!(began.map(|n| n + 1), Some(reads), "{again}");
    }
}

#[test]
fn what_is_a_quarter_of_a_part_or_more_is_not_fetched_again_nor_what_is_in_use() {
    let mut driven = open(256 * MIB, 64);
    // A quarter of a part, and half of another one.
    for (part, grains) in [(60, 8), (61, 16)] {
        for n in 0..grains {
            // In no order that would be one of strides.
            let at = part * MIB + n * 5 % grains * (1024 / grains) * KIB;
            driven.whole(1, at..at + 4 * KIB, 20 * MS);
        }
    }
    // One that is answered and not taken, and one that is under way, in parts of their own.
    let kept = driven.read(1, 62 * MIB + 64 * KIB..62 * MIB + 68 * KIB);
    driven.settle(20 * MS);
    let slow = driven.read(1, 63 * MIB + 64 * KIB..63 * MIB + 68 * KIB);
    let slow_fetch = driven.sent().last().expect("it is sent").fetch;
    for n in 0..2_000 {
        let at = n * 29 % 60 * MIB + 512 * KIB;
        let request = driven.read(1, at..at + 4 * KIB);
        driven.sent();
        arrive(&mut driven, 20 * MS, Some(slow_fetch));
        driven.take(request);
        if driven.flying.len() > 1 {
            break;
        }
    }
    let mut ranges = Vec::new();
    while driven.flying.len() > 1 {
        ranges.extend(driven.ranges());
        arrive(&mut driven, 10 * MS, Some(slow_fetch));
    }
    let of = |part: u64| {
        let of_it = ranges.iter().filter(|range| range.start / MIB == part);
        of_it.map(|range| range.start % MIB / KIB..(range.end - 1) % MIB / KIB + 1).collect::<Vec<_>>()
    };
    assert_eq!(of(60), vec![0..1024; 1], "a quarter is fetched again");
    let around: Vec<_> = (0..16).map(|n| n * 64 + 32..n * 64 + 64).collect();
    assert_eq!(of(61), around, "more is not");
    assert_eq!(of(62), [0..64, 96..1024], "somebody is about to take it");
    assert_eq!(of(63).last(), Some(&(96..1024)), "it is under way");
    assert!(driven.flying.contains_key(&slow_fetch) && driven.is_answered(kept));
    driven.finish(slow_fetch);
    assert!(driven.is_answered(slow));
}

#[test]
fn what_was_fetched_whole_in_vain_has_to_be_worth_twice_as_much_the_next_time() {
    let mut driven = open(256 * MIB, 200);
    let mut waited = Vec::new();
    for _ in 0..5 {
        waited.push(until_bought_up_to(&mut driven, 50 * MIB, 200).as_secs_f64());
        all_paid(&mut driven, None);
        // It goes before it is read again.
        driven.memory(0);
        driven.memory(256 * MIB);
    }
    // At first it has to be seen that reads are all over, and how long fetches take.
    assert!(
        waited[2..].windows(2).all(|pair| pair[1] > 1.6 * pair[0] && pair[1] < 2.4 * pair[0]),
        "{waited:?}"
    );
    assert_eq!(driven.reads.stats().whole, 5);
    assert!(driven.reads.wants_memory());
    driven.close(1);
    assert!(!driven.reads.wants_memory(), "nobody has use for it any more");
}

#[test]
fn a_read_that_waits_while_its_file_is_fetched_whole_has_waited_since_it_began() {
    // How often has to be waited before half of it is fetched again, after one read that has waited for so much longer.
    let again = |longer: Duration| {
        let mut driven = open(256 * MIB, 64);
        // Often in vain, so that it has to be worth much.
        for _ in 0..4 {
            until_bought(&mut driven, 64);
            all_paid(&mut driven, None);
            driven.memory(0);
            driven.memory(256 * MIB);
        }
        driven.pass(Duration::from_secs(1_000));
        let slow = driven.read(1, 63 * MIB..63 * MIB + 4 * KIB);
        let fetch = driven.one().fetch;
        for n in 0.. {
            let at = n * 29 % 60 * MIB + (n / 60 * 64 + 512) * KIB;
            let request = driven.read(1, at..at + 4 * KIB);
            arrive(&mut driven, 20 * MS, Some(fetch));
            driven.take(request);
            if driven.flying.len() > 1 {
                break;
            }
        }
        all_paid(&mut driven, Some(fetch));
        driven.memory(0);
        driven.memory(256 * MIB);
        driven.pass(longer);
        driven.finish(fetch);
        driven.take(slow);
        driven.sent();
        until_bought_up_to(&mut driven, 32 * MIB, 64).as_millis() / 20
    };
    let (late, soon) = (again(Duration::ZERO), again(Duration::from_secs(100)));
    // As soon as it is not for one corner, and as fast as it comes.
    assert!((16..28).contains(&soon) && late > soon * 3 / 2, "{soon}, {late}");
}

#[test]
fn what_takes_longer_than_was_thought_is_not_gone_on_with() {
    let mut driven = open(256 * MIB, 200);
    let mut sent = until_bought(&mut driven, 200).len();
    // All of them together bring a MiB in 200 ms, a tenth of what was to be expected of so many.
    while let Some(fetch) = driven.flying.keys().next().copied() {
        for _ in 0..10 {
            driven.pass(20 * MS);
            if let Some((sent, arrived)) = driven.flying.get(&fetch).cloned() {
                driven.arrive(fetch, (sent.range.end - sent.range.start - arrived).min(MIB / 10));
            }
        }
        driven.finish(fetch);
        sent += driven.sent().len();
    }
    assert_eq!(sent, 2 * FETCHES, "twice as many as are allowed show it");
    assert_eq!(driven.reads.stats().whole, 0);
}

#[test]
fn a_file_that_has_just_room_is_fetched_whole_and_no_more_is_held_than_is_usable() {
    // Of 64 MiB, 4 are kept for those who wait.
    let mut driven = open(64 * MIB, 60);
    until_bought(&mut driven, 60);
    rest(&mut driven);
    assert_eq!((driven.reads.stats().whole, driven.reads.held()), (1, 60 * MIB));
    // Beside what others hold it has no room.
    let mut driven = open(64 * MIB, 56);
    driven.open(2, 4096 * MIB);
    driven.whole(2, 0..MIB, MS);
    driven.whole(2, MIB..2 * MIB, MS);
    driven.settle(MS);
    let beside = driven.reads.held();
    assert!(beside > 4 * MIB, "{beside}");
    until_bought(&mut driven, 56);
    rest(&mut driven);
    assert!(driven.reads.held() <= 60 * MIB && driven.reads.held() > 59 * MIB, "{}", driven.reads.held());
}

#[test]
fn nothing_more_of_it_is_fetched_when_it_is_closed_though_a_read_of_it_is_not_over() {
    let mut driven = open(256 * MIB, 64);
    until_bought(&mut driven, 64);
    let waits = driven.read(1, 40 * MIB..40 * MIB + 4 * KIB);
    driven.sent();
    driven.close(1);
    assert!(driven.reads.is_known(FileId(1)));
    let more = rest(&mut driven);
    assert!(more.iter().all(|sent| !sent.ahead), "{more:?}");
    driven.take(waits);
    assert_eq!((driven.reads.is_known(FileId(1)), driven.reads.held()), (false, 0));
}

#[test]
fn nothing_more_of_it_is_fetched_when_memory_has_no_room_for_all_of_it() {
    let mut driven = open(256 * MIB, 64);
    until_bought(&mut driven, 64);
    driven.memory(48 * MIB);
    assert_eq!(rest(&mut driven), []);
}

/// On a disk that is never behind.
const KEPT: Kept = Kept::Yes { room: u64::MAX };

/// File 1 is open, larger than memory, and kept on such a disk or not; it is read all over until something is fetched that nobody
/// waits for, which is told with how many bytes were fetched before that.
fn large(kept: Kept, fetches: usize) -> (Driven, Vec<Sent>, u64) {
    large_by(MIB, kept, fetches)
}

fn large_by(part: u64, kept: Kept, fetches: usize) -> (Driven, Vec<Sent>, u64) {
    let mut driven = Driven::fixed(limits(64 * MIB), 8 * MIB, fetches, part);
    driven.open(1, 256 * MIB);
    let (ahead, fetched) = read_all_over(&mut driven, kept);
    (driven, ahead, fetched)
}

fn read_all_over(driven: &mut Driven, kept: Kept) -> (Vec<Sent>, u64) {
    let mut fetched = 0;
    for n in 0..3_000 {
        driven.reads.kept(FileId(1), kept);
        let request = read(driven, n * 29, 256);
        let (ahead, waited): (Vec<_>, Vec<_>) = driven.sent().into_iter().partition(|sent| sent.ahead);
        fetched += waited.iter().map(|sent| sent.range.end - sent.range.start).sum::<u64>();
        driven.take(request);
        if !ahead.is_empty() {
            return (ahead, fetched);
        }
    }
    (Vec::new(), fetched)
}

#[test]
fn what_is_larger_than_memory_is_fetched_whole_if_it_is_kept_on_a_disk() {
    assert_eq!(large(Kept::No, FETCHES).1, []);
    let (mut driven, mut all, _) = large(KEPT, FETCHES);
    assert_eq!(all.len(), FETCHES);
    while !driven.flying.is_empty() {
        assert!(driven.flying.len() <= FETCHES && driven.reads.held() <= 60 * MIB);
        arrive(&mut driven, 10 * MS, None);
        all.extend(driven.sent());
    }
    let all: Vec<_> = all.into_iter().map(|sent| sent.range).collect();
    assert_eq!(all, (0..256).map(|n| n * MIB..(n + 1) * MIB).collect::<Vec<_>>());
    let stats = driven.reads.stats();
    assert_eq!((stats.whole, stats.wasted), (1, 0), "what went is on the disk");
    assert!(driven.reads.held() > 59 * MIB, "the last of it is here, too");
}

#[test]
fn of_what_memory_has_no_room_for_a_part_has_to_be_waited_for_in_bytes_too() {
    // In time it would be worth it much sooner: 64 fetches bring a MiB each in 20 ms.
    let (_, ahead, fetched) = large(KEPT, 64);
    assert!(!ahead.is_empty());
    assert_eq!(fetched, (256 - 60) * MIB / 128);
    // A little more than there is room for is worth it as soon as what fits.
    let mut driven = Driven::fixed(limits(268 * MIB), 8 * MIB, 64, MIB);
    driven.open(1, 256 * MIB);
    let (ahead, fetched) = read_all_over(&mut driven, KEPT);
    assert!(!ahead.is_empty() && fetched < MIB, "{fetched}");
    // What has room in memory has only to be worth its time.
    let mut driven = Driven::fixed(limits(512 * MIB), 8 * MIB, 64, MIB);
    driven.open(1, 256 * MIB);
    let (ahead, fetched) = read_all_over(&mut driven, KEPT);
    assert!(!ahead.is_empty() && fetched < MIB, "{fetched}");
}

#[test]
fn while_the_disk_is_behind_no_more_of_it_is_fetched() {
    let (mut driven, first, _) = large(KEPT, FETCHES);
    driven.reads.kept(FileId(1), Kept::Yes { room: 0 });
    assert_eq!(rest(&mut driven), []);
    // Nor is it given up.
    driven.reads.kept(FileId(1), KEPT);
    let request = driven.read(1, 200 * MIB..200 * MIB + 4 * KIB);
    let more = driven.sent();
    assert!(more.iter().any(|sent| sent.ahead && sent.range.start == first.len() as u64 * MIB), "{more:?}");
    arrive(&mut driven, 10 * MS, None);
    driven.take(request);
    rest(&mut driven);
    assert_eq!(driven.reads.stats().whole, 1);
    // Gone from the disk, or the disk from it: it is no longer for memory to hold.
    let (mut driven, ..) = large(KEPT, FETCHES);
    driven.reads.kept(FileId(1), Kept::No);
    assert_eq!(rest(&mut driven), []);
}

#[test]
fn who_waits_for_a_disk_holds_up_no_other_file() {
    let (mut driven, ..) = large(Kept::Yes { room: 5 * MIB }, FETCHES);
    assert!(rest(&mut driven).len() < 5, "nobody reads on, so nobody tells of more room");
    driven.open(2, 32 * MIB);
    for n in 0..400 {
        let at = n * 29 % 64 * 512 * KIB + 64 * KIB;
        let request = driven.read(2, at..at + 4 * KIB);
        if !driven.is_answered(request) {
            arrive(&mut driven, 20 * MS, None);
        }
        driven.take(request);
    }
    rest(&mut driven);
    assert_eq!(driven.reads.stats().whole, 1);
    // And then it goes on where it was.
    driven.reads.kept(FileId(1), KEPT);
    driven.read(1, 200 * MIB..200 * MIB + 4 * KIB);
    rest(&mut driven);
    assert_eq!(driven.reads.stats().whole, 2);
}

#[test]
fn no_more_of_it_is_fetched_than_the_disk_takes_until_that_is_told_again() {
    for (room, each, count) in
        [(5 * MIB, 2 * MIB, 2), (7 * MIB / 2, MIB, 3), (3 * MIB / 2, MIB, 1), (17 * MIB, 4 * MIB, 4)]
    {
        let (mut driven, mut sent, _) = large_by(4 * MIB, Kept::Yes { room }, FETCHES);
        while !driven.flying.is_empty() {
            arrive(&mut driven, 10 * MS, None);
            sent.extend(driven.sent());
        }
        let ranges: Vec<_> = sent.into_iter().map(|sent| sent.range).collect();
        assert_eq!(ranges, (0..count).map(|n| n * each..(n + 1) * each).collect::<Vec<_>>(), "{room}");
        // It goes on where it was.
        driven.reads.kept(FileId(1), Kept::Yes { room });
        driven.read(1, 200 * MIB..200 * MIB + 4 * KIB);
        assert!(driven.sent().iter().any(|sent| sent.ahead && sent.range.start == count * each));
    }
    // For less than the smallest fetch there is none.
    assert_eq!(large(Kept::Yes { room: MIB - 1 }, FETCHES).1, []);
}

#[test]
fn where_only_one_fetch_has_room_it_comes_one_by_one() {
    let mut driven = Driven::fixed(limits(3 * MIB), MIB, 64, MIB);
    driven.open(1, 256 * MIB);
    let (mut all, _) = read_all_over(&mut driven, KEPT);
    assert!(!all.is_empty());
    while !driven.flying.is_empty() {
        assert!(driven.reads.held() <= 3 * MIB, "{}", driven.reads.held());
        arrive(&mut driven, 10 * MS, None);
        all.extend(driven.sent());
    }
    assert_eq!(all.iter().map(|sent| sent.range.end - sent.range.start).sum::<u64>(), 256 * MIB);
    assert_eq!(driven.reads.stats().whole, 1);
}

/// One that has found a store faster when it is asked in order, and does not try the other way again for long.
pub(super) fn ordered() -> (Probe, Duration) {
    let tuning = order::Tuning { give_up: 0.4, ..order::Tuning::default() };
    let (mut probe, mut now) = (Probe::new(tuning), Duration::ZERO);
    probe.wanted(now, true);
    probe.under_way(now, 2, 1);
    while now < Duration::from_secs(20) {
        now += MS;
        let bytes = if probe.mode(now) == Mode::Ordered { 900_000 } else { 500_000 };
        probe.delivered(now, bytes);
        if probe.is_ordered() && now > Duration::from_secs(5) {
            return (probe, now);
        }
    }
    panic!("it is slower")
}

#[test]
fn a_store_that_likes_order_gets_one_fetch_of_it_after_the_other() {
    let mut driven = Driven::new(limits(256 * MIB));
    (driven.reads.probe, driven.now) = ordered();
    driven.open(1, 200 * MIB);
    // A stream, which is fetched ahead as far as its window goes.
    driven.open(2, 4096 * MIB);
    driven.whole(2, 0..MIB, 20 * MS);
    driven.settle(20 * MS);
    driven.sent();
    assert_eq!(until_bought(&mut driven, 200).len(), 1);
    for _ in 0..6 {
        assert_eq!(driven.flying.len(), 1);
        let fetch = *driven.flying.keys().next().expect("one is under way");
        driven.pass(20 * MS);
        driven.finish(fetch);
    }
}

#[test]
fn fewer_are_sent_when_they_are_in_the_way_of_a_read_and_more_when_nobody_reads() {
    let mut driven = open(256 * MIB, 64);
    let first = until_bought(&mut driven, 64);
    assert_eq!(first.len(), FETCHES);
    driven.reads.files.get_mut(&FileId(1)).expect("it is open").whole.prepaid = true;
    driven.read(1, 50 * MIB..50 * MIB + 4 * KIB);
    driven.finish(first[0].fetch);
    let waited = driven.sent().into_iter().find(|sent| !sent.ahead).expect("somebody waits for it");
    // It takes ten times as long as alone, with three others beside it; then there is one, that ends alone.
    driven.pass(200 * MS);
    driven.finish(waited.fetch);
    driven.finish(first[1].fetch);
    assert_eq!((driven.sent().len(), driven.flying.len()), (0, 2));
    let mut flying = Vec::new();
    for _ in 0..4 {
        arrive(&mut driven, 10 * MS, None);
        flying.push(driven.sent().len());
    }
    assert_eq!(flying, [FETCHES; 4]);
}
