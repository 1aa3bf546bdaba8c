//! Files that are read at random all over.

use super::*;

const KIB: u64 = 1 << 10;

/// Reads so many blocks of 4 KiB of `places` of file 1, one after the other; how long that took.
fn at_random(world: &mut World, places: std::ops::Range<u64>, reads: u64) -> Duration {
    let (began, mut at) = (world.now, world.next_request);
    for _ in 0..reads {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let blocks = (places.end - places.start) / (4 * KIB);
        let start = places.start + (at >> 20) % blocks * 4 * KIB;
        let request = world.ask(1, start..start + 4 * KIB);
        world.until_answered(request);
    }
    world.now - began
}

#[test]
fn a_file_that_is_read_all_over_is_fetched_whole_once_and_then_waited_for_no_more() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 128 * MIB);
    at_random(&mut world, 0..128 * MIB, 200);
    while world.step() {}
    let waited = at_random(&mut world, 0..128 * MIB, 2000);
    assert_eq!(waited, Duration::ZERO);
    let stats = world.reads.stats();
    assert_eq!(stats.whole, 1);
    assert!(stats.fetched <= 129 * MIB, "little comes twice: {stats:?}");
}

#[test]
fn what_was_fetched_for_a_run_by_chance_stays_with_all_of_its_file() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 128 * MIB);
    while world.reads.buying.is_empty() {
        at_random(&mut world, 0..128 * MIB, 1);
    }
    // From a place that is not fetched yet, as far as it takes to be followed.
    let (mut start, far) = (96 * MIB, 100 * MIB);
    while start < far && world.reads.windows().count() == 0 {
        let request = world.ask(1, start..start + 64 * KIB);
        world.until_answered(request);
        start += 64 * KIB;
    }
    assert_eq!(world.reads.windows().count(), 1);
    at_random(&mut world, 0..128 * MIB, 400);
    while world.step() {}
    assert_eq!((world.reads.windows().count(), world.reads.stats().whole), (0, 1));
    assert_eq!(at_random(&mut world, 0..128 * MIB, 1000), Duration::ZERO);
    let stats = world.reads.stats();
    assert!(stats.fetched <= 129 * MIB, "little comes twice: {stats:?}");
}

#[test]
fn a_corner_of_a_file_is_not_the_whole() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 128 * MIB);
    at_random(&mut world, 0..16 * MIB, 1000);
    while world.step() {}
    let stats = world.reads.stats();
    assert!(stats.whole == 0 && stats.fetched < 64 * MIB, "{stats:?}");
}

#[test]
fn time_in_which_nobody_waits_is_not_paid_for() {
    for (pause, whole) in [(Duration::ZERO, 1), (Duration::from_secs(1), 0)] {
        let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
        // As many fetches as are in flight at first: with more of them all of it costs less.
        let mut tuning = Tuning::default();
        tuning.endpoint.limit.burst_worth = f64::MAX;
        world.reads = Reads::new(tuning, world.reads.limits);
        world.open(1, 128 * MIB);
        // As many as it takes without pauses; or one less than half of them, with pauses.
        for _ in 0..if whole == 1 { 80 } else { 16 } {
            at_random(&mut world, 0..128 * MIB, 1);
            world.now += pause;
        }
        while world.step() {}
        assert_eq!(world.reads.stats().whole, whole);
    }
}

#[test]
fn what_does_not_fit_is_not_fetched_whole() {
    let mut world = World::new(64 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 64 * MIB);
    at_random(&mut world, 0..64 * MIB, 500);
    assert_eq!(world.reads.stats().whole, 0);
}

#[test]
fn a_file_that_is_closed_meanwhile_is_fetched_no_further() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 20_000_000);
    world.open(1, 200 * MIB);
    while world.largest < MIB {
        at_random(&mut world, 0..200 * MIB, 1);
    }
    world.reads.closed(world.now, HandleId(1));
    world.act();
    assert_eq!((world.reads.held(), world.flying.len()), (0, 0));
}

#[test]
fn streams_get_the_memory_of_what_was_fetched_whole() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(2, 2048 * MIB);
    let alone = world.stream(2, 2048 * MIB, MIB);
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 200 * MIB);
    at_random(&mut world, 0..200 * MIB, 500);
    assert_eq!(world.reads.stats().whole, 1);
    world.open(2, 2048 * MIB);
    let beside = world.stream(2, 2048 * MIB, MIB);
    assert!(beside >= 0.9 * alone, "{beside} of {alone}");
}

#[test]
fn a_file_that_is_read_from_end_to_end_is_not_taken_for_one_that_is_read_all_over() {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 10_000_000);
    world.open(1, 128 * MIB);
    world.stream(1, 128 * MIB, 64 * KIB);
    let stats = world.reads.stats();
    assert_eq!((stats.whole, stats.fetched), (0, 128 * MIB));
}

#[test]
fn memory_is_wanted_for_a_file_that_is_worth_to_be_fetched_whole_while_it_is_open() {
    // It does not fit, but it would be worth it.
    let mut world = World::new(64 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 128 * MIB);
    assert!(!world.reads.wants_memory());
    at_random(&mut world, 0..128 * MIB, 100);
    assert_eq!(world.reads.windows().count(), 0, "nothing is fetched ahead");
    assert!(world.reads.wants_memory());
    world.reads.closed(world.now, HandleId(1));
    world.act();
    assert!(!world.reads.wants_memory());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_costs_at_most_about_twice_of_what_is_best(
        latency in 1u64..150, rate in 10_000_000u64..500_000_000, mib in 8u64..200, reads in 1u64..1500,
    ) {
        let latency = Duration::from_millis(latency);
        let mut world = World::new(256 * MIB, latency, rate);
        world.open(1, mib * MIB);
        let took = at_random(&mut world, 0..mib * MIB, reads);
        let each = latency + Duration::from_secs_f64(4096.0 / rate as f64);
        // Whoever had known would have fetched all of it at once, with as many fetches as are allowed.
        let whole = latency + Duration::from_secs_f64((mib * MIB) as f64 / (64.0 * rate as f64));
        let best = (each * reads as u32).min(whole);
        // Until it is known how many fetches are of use, and that the reads are all over, it costs more.
        let learning = each * 64 + 24 * whole;
        // How long a megabyte takes is a guess as long as nothing but small pieces came.
        let guessed = 8 * Duration::from_secs_f64(MIB as f64 / rate as f64);
        let most = 2 * best + guessed + learning.min(2 * each * reads as u32);
        prop_assert!(took <= most, "{took:?}, best {best:?}");
    }
}
