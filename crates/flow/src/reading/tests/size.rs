//! How many bytes a fetch ahead asks for.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The largest fetch of one stream over such a network, in MiB.
fn largest(memory: u64, latency: Duration, rate: u64) -> u64 {
    let mut world = World::new(memory, latency, rate);
    world.open(1, 2048 * MIB);
    world.stream(1, 1024 * MIB, MIB);
    world.largest / MIB
}

#[test]
fn a_fetch_lasts_as_long_as_its_latency_and_longer() {
    // In megabytes, twice latency times rate is .18, 3.6, 18.
    assert_eq!(largest(1024 * MIB, MS, 90_000_000), 1);
    assert_eq!(largest(1024 * MIB, 20 * MS, 90_000_000), 2);
    assert_eq!(largest(1024 * MIB, 100 * MS, 90_000_000), 8);
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
    assert_eq!(world.reads.part_of(2 * MIB, part), MIB, "not less than a megabyte");
    assert_eq!(world.reads.part_of(11 * MIB, part), 2 * MIB);
    assert_eq!(world.reads.part_of(512 * MIB, part), part);
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
    assert_eq!(reads.part_of(8 * MIB, reads.part_size()), 4 * MIB);
}
