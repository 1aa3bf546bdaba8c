//! What files that were read before say of the next one, and one mount of the other.

use super::*;
use crate::endpoint::Known;

const MS: Duration = Duration::from_millis(1);

/// A store far away.
fn far() -> World {
    World::new(1024 * MIB, 100 * MS, 20_000_000)
}

/// Opens a file, reads so much of it and closes it; how long that took, and what was fetched.
fn read(world: &mut World, file: u64, len: u64, read: u64) -> (Duration, u64) {
    let (began, fetched) = (world.now, world.reads.stats().fetched);
    world.open(file, len);
    world.stream(file, read, MIB);
    world.reads.closed(world.now, HandleId(file));
    world.act();
    (world.now - began, world.reads.stats().fetched - fetched)
}

#[test]
fn a_file_like_those_before_it_does_not_begin_anew() {
    let mut world = far();
    let first = read(&mut world, 1, 256 * MIB, 256 * MIB).0;
    read(&mut world, 2, 256 * MIB, 256 * MIB);
    let (third, fetched) = read(&mut world, 3, 256 * MIB, 256 * MIB);
    assert!(third < first * 4 / 5, "{third:?} after {first:?}");
    assert_eq!(fetched, 256 * MIB);
    // A short one, of which each fetch in flight may have a part, takes little longer than one part of it.
    let short = read(&mut world, 4, 16 * MIB, 16 * MIB).0;
    assert!(short < 170 * MS, "{short:?}");
}

#[test]
fn who_reads_beginnings_has_beginnings_fetched() {
    let mut world = far();
    for file in 1..=3 {
        read(&mut world, file, 256 * MIB, 256 * MIB);
    }
    let part = world.reads.part_size();
    let fetched: Vec<u64> = (4..=8).map(|file| read(&mut world, file, 256 * MIB, 3 * MIB).1).collect();
    // The first one was not to be known. From then on it is as if nothing were: two parts ahead of the reader.
    for fetched in &fetched[1..] {
        assert!(*fetched <= 3 * MIB + 2 * part, "{fetched} of parts of {part}");
    }
    // And it is not learned from one alone that it is otherwise.
    read(&mut world, 9, 256 * MIB, 256 * MIB);
    assert!(read(&mut world, 10, 256 * MIB, 3 * MIB).1 <= 3 * MIB + 2 * part);
}

#[test]
fn streams_share_what_the_endpoint_is_known_to_deliver() {
    let mut world = far();
    for file in 1..=2 {
        read(&mut world, file, 512 * MIB, 512 * MIB);
    }
    let window = |world: &mut World, file: u64| {
        world.open(file, 512 * MIB);
        let request = world.ask(file, 0..MIB);
        world.until_answered(request);
        world.reads.windows().find(|(of, ..)| of.0 == file).map_or(0, |(_, _, bytes)| bytes)
    };
    let alone = window(&mut world, 3);
    let of_two = window(&mut world, 4);
    let part = world.reads.part_size();
    assert!(alone > 8 * part, "{alone}");
    let endpoint = &world.reads.endpoint;
    let (rate, takes) = endpoint.bandwidth().zip(endpoint.duration(part)).expect("much was read");
    // And room for as much that comes before what is waited for.
    let needed = (2.0 * rate as f64 * takes.as_secs_f64()) as u64;
    assert!(alone.abs_diff(needed) <= needed / 8, "{alone}, {rate} bytes a second for {takes:?}");
    assert!(of_two.abs_diff(alone / 2) <= alone / 8, "{of_two}, alone {alone}");
}

#[test]
fn who_reads_short_files_to_their_ends_reads_longer_ones() {
    let mut world = far();
    let expected = |world: &World| world.reads.learned().map_or(0, |learned| learned.run / MIB);
    for file in 1..=4 {
        read(&mut world, file, 16 * MIB, 16 * MIB);
    }
    assert_eq!(expected(&world), 128);
    read(&mut world, 5, 256 * MIB, 255 * MIB);
    assert_eq!(expected(&world), 128, "of two, the shorter one counts");
    read(&mut world, 6, 256 * MIB, 40 * MIB);
    assert_eq!(expected(&world), 40);
    // A stream that is given up while the file is open has ended too, and one that goes backward ends at the beginning.
    world.open(7, 64 * MIB);
    for at in (0..64).rev() {
        let request = world.ask(7, at * MIB..(at + 1) * MIB);
        world.until_answered(request);
    }
    world.reads.closed(world.now, HandleId(7));
    world.act();
    assert_eq!(expected(&world), 40);
    read(&mut world, 8, 16 * MIB, 16 * MIB);
    assert_eq!(expected(&world), 128);
}

/// The kernel's last requests of a file may overtake the others by so much that they are a stream to themselves.
#[test]
fn an_end_that_is_read_before_what_is_before_it_is_no_short_stream() {
    let mut world = far();
    for file in 1..=2 {
        world.open(file, 64 * MIB);
        let mut ask = |at: u64| {
            let request = world.ask(file, at * MIB / 2..(at + 1) * MIB / 2);
            world.until_answered(request);
        };
        (0..80).chain(122..128).chain(80..122).for_each(&mut ask);
        world.reads.closed(world.now, HandleId(file));
        world.act();
    }
    let run = world.reads.learned().map_or(0, |learned| learned.run / MIB);
    assert!(run >= 8 * 60, "{run} MiB");
}

/// The first file in a world that was told this.
fn first(mut world: World, learned: Option<Learned>) -> (Duration, u64, World) {
    if let Some(learned) = learned {
        world.reads.recall(learned);
    }
    let (took, fetched) = read(&mut world, 1, 128 * MIB, 128 * MIB);
    (took, fetched, world)
}

#[test]
fn what_was_learned_another_time_is_not_searched_for_again() {
    let (unknown, _, mut world) = first(far(), None);
    read(&mut world, 2, 1024 * MIB, 1024 * MIB);
    let learned = world.reads.learned().expect("two files were read");
    assert_eq!(learned.run, 8 * 128 * MIB, "both were read to their ends");
    assert!(learned.endpoint.latency.abs_diff(100 * MS) < MS, "{learned:?}");
    // More than 16 fetches, half of whose time passes before the first byte.
    assert!(learned.endpoint.rate > 16 * 20_000_000 / 2, "{learned:?}");
    let (known, fetched, world) = first(far(), Some(learned));
    assert!(known < unknown, "{known:?}, and {unknown:?} with nothing known");
    assert_eq!(fetched, 128 * MIB);
    let again = world.reads.learned().expect("it was read again");
    assert!(again.endpoint.latency.abs_diff(learned.endpoint.latency) < MS, "{again:?}, {learned:?}");
}

#[test]
fn what_was_learned_is_made_use_of_as_soon_as_it_is_seen_to_be_so() {
    let (_, _, mut world) = first(far(), None);
    read(&mut world, 2, 1024 * MIB, 1024 * MIB);
    let learned = world.reads.learned();
    let under_way = |learned: Option<Learned>| {
        let mut world = far();
        learned.into_iter().for_each(|learned| world.reads.recall(learned));
        world.open(1, 512 * MIB);
        let request = world.ask(1, 0..MIB);
        let mut most = 0;
        while !world.answered.contains(&request) && world.step() {
            most = most.max(world.flying.len());
        }
        most
    };
    let (unknown, known) = (under_way(None), under_way(learned));
    assert!(
        known >= 4 * unknown,
        "{known}, and {unknown} with nothing known, before the first read is answered"
    );
}

#[test]
fn who_was_told_sends_what_may_be_in_flight_before_anything_has_come() {
    let endpoint = Known { latency: 100 * MS, mib: 50 * MS, rate: 400_000_000 };
    let sent = |run: Option<u64>, files: u64| {
        let mut world = far();
        run.into_iter().for_each(|run| world.reads.recall(Learned { endpoint, run }));
        (1..=files).for_each(|file| world.open(file, 512 * MIB));
        for file in 1..=files {
            world.ask(file, 0..MIB);
        }
        (world.flying.len(), world.reads.allowed())
    };
    assert_eq!(sent(None, 1), (8, 8), "nothing is known, but he has read a MiB");
    assert_eq!(sent(Some(1024 * MIB), 1), (8, 8));
    assert_eq!(sent(Some(1024 * MIB), 2), (9, 8), "no more for two, but for what the second waits for");
    assert_eq!(sent(Some(3 * MIB), 1), (4, 8), "he reads beginnings");
    assert_eq!(sent(Some(0), 1), (8, 8), "it is not known how far he reads");
}

#[test]
fn a_file_that_is_open_yet_was_read_as_far_as_it_was() {
    let mut world = far();
    world.open(1, 512 * MIB);
    world.stream(1, 96 * MIB, MIB);
    let run = |world: &World| world.reads.learned().map_or(0, |learned| learned.run / MIB);
    assert_eq!(run(&world), 96);
    read(&mut world, 2, 512 * MIB, 40 * MIB);
    assert_eq!(run(&world), 40, "one that has ended says more");
}

#[test]
fn what_was_learned_of_another_network_is_not_believed() {
    let mut elsewhere = World::new(1024 * MIB, 20 * MS, 90_000_000);
    for file in 1..=2 {
        read(&mut elsewhere, file, 256 * MIB, 256 * MIB);
    }
    // How far readers go on has nothing to do with it.
    let mut learned = Learned { run: 0, ..elsewhere.reads.learned().expect("two files were read") };
    let (unknown, fetched, world) = first(far(), None);
    let allowed = world.reads.allowed();
    for latency in [20 * MS, 100 * MS] {
        // Once the latency differs, and once what each connection brings.
        learned.endpoint.latency = latency;
        let (took, fetched_too, world) = first(far(), Some(learned));
        assert_eq!((took, fetched_too, world.reads.allowed()), (unknown, fetched, allowed), "{latency:?}");
    }
}

#[test]
fn what_was_learned_is_handed_on_by_who_learns_nothing() {
    let mut world = far();
    assert_eq!(world.reads.learned(), None);
    for file in 1..=2 {
        read(&mut world, file, 64 * MIB, 64 * MIB);
    }
    let learned = world.reads.learned().expect("two files were read");
    let mut idle = far();
    idle.reads.recall(learned);
    assert_eq!(idle.reads.learned(), Some(learned));
    // Numbers that somebody set are not of the endpoint.
    let fixed = Some(Fixed { window: 8 * MIB, fetches: 4, part: MIB });
    idle.reads = Reads::new(
        Tuning { fixed, ..Tuning::default() },
        Limits { memory: 64 * MIB, request_max: MIB, requests: 8 },
    );
    idle.reads.recall(learned);
    assert_eq!(idle.reads.learned(), None);
}

/// What a first reader has ahead of it, of whom nothing is known, who has read `reads` MiB and thinks for so long after each.
fn windows_of_a_first_reader(reads: u64, thinks: Duration) -> Vec<u64> {
    let mut world = far();
    world.open(1, 1024 * MIB);
    let mut windows = Vec::new();
    for at in 0..reads {
        let request = world.ask(1, at * MIB..(at + 1) * MIB);
        windows.push(world.reads.windows().map(|(_, _, bytes)| bytes / MIB).sum());
        world.until_answered(request);
        world.wait(thinks);
    }
    windows
}

#[test]
fn who_reads_on_is_fetched_ahead_of_eight_times_as_far_before_anything_was_measured() {
    let windows = windows_of_a_first_reader(8, Duration::ZERO);
    assert_eq!(windows[0], 8, "as many as may be in flight: {windows:?}");
    // More may be as soon as the first ones have come, but no more than eight times what he has read.
    assert!(windows.iter().zip(1u64..).all(|(window, read)| *window <= 8 * read), "{windows:?}");
    assert!(windows.iter().max() >= Some(&32), "{windows:?}");
}

#[test]
fn who_comes_late_for_what_is_there_is_not() {
    // When he has read his first window he may have more: he has waited once.
    let windows = windows_of_a_first_reader(7, 400 * MS);
    assert!(windows.iter().all(|window| *window <= 8), "{windows:?}");
}

#[test]
fn once_it_was_measured_he_is_not_either() {
    let mut world = far();
    world.open(1, 1024 * MIB);
    world.stream(1, 512 * MIB, MIB);
    assert!(!world.reads.endpoint.is_untried());
    // A second file, while the first is open and no other one has been read to wherever.
    world.open(2, 1024 * MIB);
    let request = world.ask(2, 0..4 * MIB);
    let part = world.reads.part_size();
    let window = world.reads.windows().find(|(file, ..)| file.0 == 2).map_or(0, |(_, _, bytes)| bytes);
    assert_eq!(window, 2 * part);
    world.until_answered(request);
}
