//! How fetches ahead are sent once it is known how many are needed: as they come, and no larger than they need be.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::MIB;
use super::world::World;

/// MiB that are read until then.
const BEGUN: u64 = 4096;

/// One reader of a store that is 100 ms away, 20 MB/s for each of at most so many requests, and has found how many he needs.
fn found(requests: usize) -> World {
    let mut world = World::new(1024 * MIB, Duration::from_millis(100), 20_000_000);
    let limits = Limits { memory: 1024 * MIB, request_max: 8 * MIB, requests };
    world.reads = Reads::new(Tuning::default(), limits);
    world.open(1, 65_536 * MIB);
    world.stream(1, BEGUN * MIB, MIB);
    assert!(!world.reads.endpoint.searches());
    world
}

#[test]
fn they_are_sent_one_after_the_other() {
    let mut world = found(64);
    let mut sent: BTreeMap<Duration, u64> = BTreeMap::new();
    let mut before = world.reads.stats().fetches;
    for at in BEGUN..BEGUN + 2048 {
        let request = world.ask(1, at * MIB..(at + 1) * MIB);
        while !world.answered.contains(&request) {
            assert!(world.step());
            let now = world.reads.stats().fetches;
            *sent.entry(world.now).or_default() += now - std::mem::replace(&mut before, now);
        }
    }
    let most = sent.values().max();
    assert!(most <= Some(&3), "{most:?} at once");
}

/// Nobody sees how so little comes.
#[test]
fn what_comes_soon_is_sent_at_once() {
    let mut world = World::new(256 * MIB, Duration::from_millis(1), 200_000_000);
    let limits = Limits { memory: 256 * MIB, request_max: MIB, requests: 4 };
    world.reads = Reads::new(Tuning::default(), limits);
    world.open(1, 4096 * MIB);
    for at in 0..4096 {
        let request = world.ask(1, at * MIB..(at + 1) * MIB);
        world.until_answered(request);
        assert_eq!(world.reads.pace.wake_at(), None);
    }
    assert!(!world.reads.endpoint.searches() && world.reads.endpoint.bandwidth().is_some());
}

#[test]
fn several_that_are_in_flight_are_no_larger_than_what_all_of_them_bring_soon() {
    let world = found(8);
    let part = world.reads.part_size();
    let several = world.reads.part_of_several(part);
    let largest = world.flying.values().map(|(_, range, _)| range.end - range.start).max();
    assert!(several < part && largest <= Some(several), "{several} {part} {largest:?}");
}
