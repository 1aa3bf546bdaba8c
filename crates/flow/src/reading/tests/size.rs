//! How many bytes a fetch ahead asks for.

use super::super::size::Place;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Far ahead in a file of which more than enough is left, of a stream with such a window.
fn far_ahead(window: u64) -> Place {
    Place { window, widened: false, left: 1 << 50, ahead: 1 << 50 }
}

/// The largest fetch of one stream over such a network, in MiB.
fn largest(memory: u64, latency: Duration, rate: u64) -> u64 {
    let mut world = World::new(memory, latency, rate);
    world.open(1, 2048 * MIB);
    world.stream(1, 1024 * MIB, MIB);
    world.largest / MIB
}

#[test]
fn a_fetch_lasts_as_long_as_its_latency_and_40_ms_or_longer() {
    // In megabytes, that is .8, 3.6 and 12 near by, and 3.6 and 18 farther away.
    assert_eq!(largest(1024 * MIB, MS, 20_000_000), 1);
    assert_eq!(largest(1024 * MIB, MS, 90_000_000), 2);
    assert_eq!(largest(1024 * MIB, MS, 300_000_000), 8);
    assert_eq!(largest(1024 * MIB, 20 * MS, 90_000_000), 2);
    assert_eq!(largest(1024 * MIB, 100 * MS, 90_000_000), 8);
}

#[test]
fn where_several_are_needed_none_is_larger_than_what_all_of_them_bring_in_10_ms() {
    let mut sizes = Vec::new();
    for requests in [8, 16, 40, 64] {
        let mut world = World::new(1024 * MIB, 100 * MS, 20_000_000);
        world.reads =
            Reads::new(Tuning::default(), Limits { memory: 1024 * MIB, request_max: 8 * MIB, requests });
        world.open(1, 2048 * MIB);
        world.stream(1, 1024 * MIB, MIB);
        let rate = world.reads.endpoint.bandwidth().expect("much was read");
        let soon = (rate / 100).max(MIB);
        sizes.push(world.reads.part_of_several(8 * MIB) / MIB);
        assert_eq!(sizes.last(), Some(&(1 << (soon / MIB).ilog2())), "{rate}");
        assert_eq!(world.reads.part_of_several(MIB / 2), MIB / 2, "what is smaller stays");
        // Of such, one after the other would leave little idle: they may be needed in order.
        let large = rate / 5;
        assert!(world.reads.part_of_several(large - large / 100) < large / 2);
        assert_eq!(world.reads.part_of_several(large + large / 50), large + large / 50);
    }
    assert_eq!((sizes[0], sizes.is_sorted()), (1, true), "{sizes:?}");
    assert!(sizes.last() >= Some(&4), "{sizes:?}");
}

#[test]
fn where_memory_is_small_fetches_are() {
    let mut world = World::new(64 * MIB, 100 * MS, 90_000_000);
    world.open(1, 2048 * MIB);
    world.stream(1, 1024 * MIB, MIB);
    // As many as are of use are to fit.
    let (allowed, part) = (world.reads.allowed() as u64, world.reads.part_size());
    assert!(allowed > 8 && allowed * part <= 96 * MIB, "{allowed} of {part}");
}

#[test]
fn streams_share_what_fetches_may_be_large() {
    let mut world = World::new(256 * MIB, 100 * MS, 90_000_000);
    (1..=32).for_each(|file| world.open(file, 64 * MIB));
    for at in 0..24 {
        // Until there are all of them, the first have more.
        if at == 4 {
            world.largest = 0;
        }
        for file in 1..=32 {
            let request = world.ask(file, at * MIB..(at + 1) * MIB);
            world.until_answered(request);
        }
    }
    // A stream's window is to have four of them.
    assert!(world.largest <= 2 * MIB, "{} of 256 MiB for 32", world.largest);
}

#[test]
fn a_small_window_has_several() {
    let mut world = World::new(1024 * MIB, 100 * MS, 90_000_000);
    world.open(1, 2048 * MIB);
    world.stream(1, 512 * MIB, MIB);
    let part = world.reads.part_size();
    assert_eq!(part, 8 * MIB);
    assert_eq!(world.reads.part_of(&far_ahead(2 * MIB), part), MIB, "not less than a megabyte");
    assert_eq!(world.reads.part_of(&far_ahead(11 * MIB), part), 2 * MIB);
    assert_eq!(world.reads.part_of(&far_ahead(512 * MIB), part), part);
}

#[test]
fn what_is_left_of_a_file_is_shared_by_all_fetches_that_may_be_in_flight_as_far_as_that_is_worth_a_request() {
    // Fetches of 8 MiB, of which 16 may be in flight, for two streams.
    let part_of = |rate, left| {
        let mut reads = told(VAST, 16, 100 * MS, rate, 8 * MIB);
        reads.followed = 2;
        reads.part_of(&Place { left, ..far_ahead(1 << 50) }, 8 * MIB)
    };
    // Rounded to the nearer power of two: 23 MiB are 2.9 for each of eight, and 22 are 2.8.
    for (left, part) in [(80, 8), (40, 4), (23, 4), (22, 2), (20, 2), (10, 1), (1, 1)] {
        assert_eq!(part_of(90_000_000, left * MIB) / MIB, part, "of {left}");
    }
    // What comes in ten milliseconds is not cut.
    for (rate, part) in [(230_000_000, 2), (450_000_000, 4), (900_000_000, 8)] {
        assert_eq!(part_of(rate, 10 * MIB) / MIB, part, "at {rate}");
    }
}

#[test]
fn what_is_near_a_reader_of_whom_much_is_known_comes_in_small_parts() {
    let part_of = |rate, ahead, widened| {
        let place = Place { ahead, widened, ..far_ahead(1 << 50) };
        told(VAST, 16, 100 * MS, rate, 8 * MIB).part_of(&place, 8 * MIB)
    };
    for (ahead, part) in [(0, 1), (15, 1), (16, 2), (31, 2), (32, 4), (63, 4), (64, 8), (1 << 20, 8)] {
        assert_eq!(part_of(90_000_000, ahead * MIB, true) / MIB, part, "{ahead} ahead");
        assert_eq!(part_of(90_000_000, ahead * MIB, false) / MIB, 8, "where windows are searched for");
    }
    // What comes in ten milliseconds is not cut.
    assert_eq!(part_of(450_000_000, 0, true) / MIB, 4);
}

#[test]
fn how_long_small_pieces_take_says_little_of_large_ones() {
    let mut world = World::new(1024 * MIB, 20 * MS, 10_000_000);
    world.open(1, 1024 * MIB);
    for n in 0..40 {
        let request = world.ask(1, n * 23 * MIB..n * 23 * MIB + 4096);
        world.until_answered(request);
    }
    // They came in one piece each, as if there were no end to the rate.
    assert_eq!(world.reads.part_size(), MIB);
}

#[test]
fn what_was_chosen_by_hand_is_kept_to() {
    let fixed = Some(Fixed { window: 8 * MIB, fetches: 4, part: 4 * MIB });
    let limits = Limits { memory: 256 * MIB, request_max: 8 * MIB, requests: 64 };
    let reads = Reads::new(Tuning { fixed, ..Tuning::default() }, limits);
    assert_eq!(reads.part_of(&Place::default(), reads.part_size()), 4 * MIB);
    assert_eq!(reads.part_of_several(4 * MIB), 4 * MIB);
}

/// What is known of an endpoint from fetches of so many bytes, one at a time: this latency, then this rate, bytes per second. As many
/// fetches are allowed as at first.
fn told(limits: Limits, allowed: u32, latency: Duration, rate: u64, bytes: u64) -> Reads {
    let mut tuning = Tuning::default();
    tuning.endpoint.limit.first = allowed.into();
    // However slow they are, it is waited for several.
    tuning.endpoint.limit.round_most = Duration::from_secs(1 << 20);
    tuning.endpoint.limit.burst_worth = f64::MAX;
    let (mut reads, mut now) = (Reads::new(tuning, limits), Duration::from_secs(1));
    for fetch in (0..2 * u64::from(allowed.max(8))).map(FetchId) {
        reads.endpoint.started(now, fetch, bytes, false);
        now += latency;
        reads.endpoint.progress(now, fetch, 0);
        now += Duration::from_secs_f64(bytes as f64 / rate as f64);
        reads.endpoint.progress(now, fetch, bytes);
        reads.endpoint.finished(now, fetch);
    }
    assert_eq!(reads.allowed(), allowed as usize);
    reads
}

/// No limits to speak of.
const VAST: Limits = Limits { memory: 1 << 50, request_max: 1 << 40, requests: 1024 };

#[test]
fn what_comes_in_two_latencies_or_in_40_ms_makes_a_fetch_as_a_power_of_two_not_below_a_megabyte() {
    for latency in [2, 10, 35, 100, 200] {
        for rate in [3_000_000, 20_000_000, 90_000_000, 300_000_000] {
            let part = told(VAST, 8, latency * MS, rate, 8 * MIB).part_size();
            let wanted = (2 * latency * MS).max(40 * MS).as_secs_f64() * rate as f64;
            let largest = part as f64 <= 1.001 * wanted && 2.0 * part as f64 > 0.999 * wanted;
            assert!(
                part.is_power_of_two() && (largest || part == MIB && wanted < 2.0 * MIB as f64),
                "{part}, {wanted}"
            );
        }
    }
    // Of little more than a latency each, they say that a byte takes no time worth speaking of, but not that it takes none.
    assert_eq!(told(VAST, 8, 200 * MS, 1 << 50, 8 * MIB).part_size(), 128 * MIB);
}

#[test]
fn while_processors_are_the_limit_what_comes_in_160_ms_makes_one() {
    // Megabytes: .8 and 3.2, 3.6 and 14.4, 12 and 48.
    for (rate, usual, dear) in [(20_000_000, 1, 2), (90_000_000, 2, 8), (300_000_000, 8, 32)] {
        let mut reads = told(VAST, 8, MS, rate, 8 * MIB);
        let mut part_after = |idle| {
            reads.processors(idle);
            assert_eq!(reads.processors_are_busy(), idle < 0.125, "{idle}");
            reads.part_size() / MIB
        };
        assert_eq!(part_after(0.2), usual, "{rate}");
        assert_eq!(part_after(0.1), dear, "{rate}");
        assert_eq!(part_after(0.4), dear, "sizes do not go back and forth; {rate}");
        assert_eq!(part_after(0.6), usual, "{rate}");
    }
    // Where the latency is what it has to be longer than, it is as long as it was.
    let mut reads = told(VAST, 8, 100 * MS, 90_000_000, 8 * MIB);
    let before = reads.part_size();
    reads.processors(0.0);
    assert_eq!(reads.part_size(), before);
}

#[test]
fn fetches_are_not_much_larger_than_those_whose_duration_is_known() {
    // By latency and rate it would be 60 MB.
    for (seen, part) in [(200 << 10, 2 * MIB), (600 << 10, 8 * MIB), (MIB, 16 * MIB), (32 * MIB, 32 * MIB)] {
        assert_eq!(told(VAST, 8, 100 * MS, 300_000_000, seen).part_size(), part, "after {seen}");
    }
}

/// A fetch of 512 MiB, if there is room for it.
fn far(limits: Limits, allowed: u32) -> Reads {
    told(limits, allowed, 400 * MS, 1_000_000_000, 64 * MIB)
}

#[test]
fn as_many_fetches_as_are_allowed_fit_into_memory_but_for_a_power_of_two() {
    for step in 0..24 {
        let memory = (64.0 * MIB as f64 * 1.1f64.powi(step)) as u64;
        let reads = far(Limits { memory, ..VAST }, 8);
        // A sixteenth is for those who wait. Half a power of two more or less.
        let (all, room) = (8 * reads.part_size(), memory as f64 * 15.0 / 16.0);
        assert!(all as f64 <= 1.415 * room && all as f64 > 0.706 * room, "{all} of {memory}");
    }
    assert_eq!(far(VAST, 8).part_size(), 512 * MIB);
    // However many they are, they are not too small to be worth it.
    assert_eq!(far(Limits { memory: 64 * MIB, ..VAST }, 512).part_size(), MIB);
}

#[test]
fn of_a_streams_share_of_memory_four_are_to_fit() {
    for streams in [1, 2, 3, 5] {
        for step in 0..12 {
            let memory = (96.0 * MIB as f64 * 1.1f64.powi(step)) as u64;
            let mut reads = far(Limits { memory, ..VAST }, 2);
            reads.followed = streams;
            let four = 4 * streams * reads.part_size();
            assert!(four <= memory && 2 * four > memory, "{four} of {memory}");
        }
    }
}

#[test]
fn two_are_enough_where_each_stream_has_one_fetch_at_most_and_processors_are_the_limit() {
    let parts = |streams, idle| {
        let mut reads = far(Limits { memory: 1024 * MIB, ..VAST }, 8);
        reads.followed = streams;
        reads.processors(idle);
        // Of its share of memory, and of a window.
        let window = 64 * MIB;
        let part_of = reads.part_of(&far_ahead(window), u64::MAX);
        (1024 * MIB / streams / reads.part_size(), window / part_of)
    };
    assert_eq!(parts(8, 0.2), (4, 4));
    assert_eq!(parts(8, 0.1), (2, 2));
    assert_eq!(parts(32, 0.1), (2, 2));
    assert_eq!(parts(7, 0.1), (4, 4));
}

#[test]
fn a_fetch_is_as_small_as_four_checksums_cover_where_memory_is_tiny_and_never_above_what_a_request_may_have()
{
    let grain = Tuning::default().grain;
    assert_eq!(far(Limits { memory: 8 * grain, ..VAST }, 8).part_size(), 4 * grain);
    assert_eq!(far(Limits { request_max: 2 * MIB, ..VAST }, 8).part_size(), 2 * MIB);
    for request_max in [3 * grain, MIB / 2 + 1, 1, 0] {
        let reads = far(Limits { request_max, ..VAST }, 8);
        let power = request_max.max(1).next_power_of_two();
        let power = if power > request_max.max(1) { power / 2 } else { power };
        assert_eq!(reads.part_size(), power, "{request_max}");
        assert_eq!(reads.part_of(&far_ahead(64 * MIB), power), power);
        assert_eq!(reads.part_of(&Place::default(), power), power, "before a window is known too");
    }
}

#[test]
fn ahead_of_a_stream_are_a_few_times_what_may_be_in_flight_or_the_parts_of_a_window_as_far_as_memory_goes() {
    let ahead = |windows_in_flight, fetches, memory| {
        let fixed = Some(Fixed { window: MIB, fetches, part: MIB });
        let tuning = Tuning { fixed, windows_in_flight, windows_in_order: 7, ..Tuning::default() };
        let reads = Reads::new(tuning, Limits { memory, ..VAST });
        assert_eq!(reads.enough_ahead(MIB), memory.min(7 * fetches as u64 * MIB));
        reads.most_ahead(3 * MIB) / MIB
    };
    assert_eq!(ahead(8, 16, 1 << 50), 8 * 16 * 3);
    assert_eq!(ahead(5, 2, 1 << 50), 5 * 2 * 3);
    // A window has four of them, though fewer may be in flight.
    assert_eq!(ahead(1, 3, 1 << 50), 4 * 3);
    assert_eq!(ahead(1, 5, 1 << 50), 5 * 3);
    assert_eq!(ahead(8, 16, 100 * MIB), 100);
}
