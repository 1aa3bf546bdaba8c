//! Connections on which nothing comes any more.

use super::*;

/// A world in which a stream is well under way.
fn streaming() -> (World, u64) {
    let mut world = World::new(256 * MIB, Duration::from_millis(20), 90_000_000);
    world.open(1, 4096 * MIB);
    for n in 0..400 {
        let request = world.ask(1, n * MIB..(n + 1) * MIB);
        world.until_answered(request);
    }
    (world, 400)
}

#[test]
fn nobody_waits_long_though_every_connection_hangs_at_once() {
    let (mut world, from) = streaming();
    // Nothing of what is under way comes any more; what is sent from now on does.
    world.coming.clear();
    let mut longest = Duration::ZERO;
    for n in from..from + 400 {
        let asked = world.now;
        let request = world.ask(1, n * MIB..(n + 1) * MIB);
        world.until_answered(request);
        longest = longest.max(world.now - asked);
    }
    assert!(longest < Duration::from_millis(1500), "{longest:?}");
}

#[test]
fn a_store_that_is_silent_is_asked_ever_more_rarely_and_answers_in_the_end() {
    let (mut world, from) = streaming();
    let before = world.reads.stats();
    let began = world.now;
    let request = world.ask(1, (from + 300) * MIB..(from + 301) * MIB);
    while world.now < began + Duration::from_secs(30) {
        world.coming.clear();
        let wake = world.reads.wake_at().expect("it is looked after");
        world.now = world.now.max(wake);
        world.reads.wake(world.now);
        world.act();
    }
    let stats = world.reads.stats();
    // After 1, 2, 4, 8 and 16 s, each part.
    let parts = before.fetches.min(64);
    assert!((2..=6 * parts).contains(&(stats.hung - before.hung)), "{stats:?}");
    world.until_answered(request);
}
