//! Rates as a reader of the module's comment would compute them by hand.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Runs one network until all `bytes` of all transfers are there; when each ended.
fn run(network: &mut Network, ids: &[TransferId]) -> HashMap<TransferId, Duration> {
    let mut ended = HashMap::new();
    let mut done = Vec::new();
    while ended.len() < ids.len() {
        let Some(at) = network.next_at() else { break };
        network.advance(at, &mut done);
        for id in done.drain(..) {
            network.stop(at, id);
            ended.insert(id, at);
        }
    }
    ended
}

#[track_caller]
fn near(value: Duration, seconds: f64) {
    let value = value.as_secs_f64();
    assert!((value / seconds - 1.0).abs() < 1e-4, "{value} s is not {seconds} s");
}

#[test]
fn what_the_limited_leave_goes_to_the_others() {
    // 100 for three: one may have only 10, the others share the 90 that are left.
    let mut network = Network::new(&[100 * MIB], &[]);
    network.start(Duration::ZERO, 1, 0, 10 * MIB, 10 * MIB);
    network.start(Duration::ZERO, 2, 0, 1000 * MIB, 90 * MIB);
    network.start(Duration::ZERO, 3, 0, 1000 * MIB, 45 * MIB);
    let ended = run(&mut network, &[1, 2, 3]);
    near(ended[&3], 1.0);
    near(ended[&1], 1.0);
    // After one second it is alone: 45 are left for a rate of 100.
    near(ended[&2], 1.45);
}

#[test]
fn interfaces_do_not_share() {
    let mut network = Network::new(&[10 * MIB, 20 * MIB], &[]);
    network.start(Duration::ZERO, 1, 0, u64::MAX, 10 * MIB);
    network.start(Duration::ZERO, 2, 1, u64::MAX, 10 * MIB);
    let ended = run(&mut network, &[1, 2]);
    near(ended[&1], 1.0);
    near(ended[&2], 0.5);
}

#[test]
fn steps_stop_and_resume_what_moves() {
    let second = Duration::from_secs(1);
    let steps = [RateStep { at: 3 * second, factor: 2.0 }, RateStep { at: second, factor: 0.0 }];
    let mut network = Network::new(&[10 * MIB], &steps);
    network.start(Duration::ZERO, 1, 0, u64::MAX, 30 * MIB);
    // 10 in the first second, nothing for two, then 20 per second.
    near(run(&mut network, &[1])[&1], 4.0);
}

#[test]
fn who_leaves_early_says_what_it_got_and_frees_its_share() {
    let mut network = Network::new(&[10 * MIB], &[]);
    network.start(Duration::ZERO, 1, 0, u64::MAX, 100 * MIB);
    network.start(Duration::ZERO, 2, 0, u64::MAX, 10 * MIB);
    let got = network.stop(Duration::from_secs(1), 1);
    assert!(got.abs_diff(5 * MIB) <= 1, "{got}");
    near(run(&mut network, &[2])[&2], 1.5);
}

proptest! {
    /// No byte is made or lost: pieces of any size add up to the rate of the interface.
    #[test]
    fn a_busy_interface_delivers_its_rate(
        rate in 1u64..2_000, limits in prop::collection::vec(1u64..500, 1..20), piece in 100u64..500,
    ) {
        let rate = rate * 100_000;
        let limits: Vec<u64> = limits.iter().map(|limit| limit * 100_000).collect();
        let piece = piece * 1_000;
        let mut network = Network::new(&[rate], &[]);
        for (id, &limit) in limits.iter().enumerate() {
            network.start(Duration::ZERO, id as u64, 0, limit, piece);
        }
        let end = Duration::from_secs(2);
        let mut moved = 0;
        let mut done = Vec::new();
        while let Some(at) = network.next_at().filter(|&at| at <= end) {
            network.advance(at, &mut done);
            for id in done.drain(..) {
                moved += piece;
                network.again(id, piece);
            }
        }
        for id in 0..limits.len() as u64 {
            moved += network.stop(end, id);
        }
        let possible = rate.min(limits.iter().sum::<u64>()) * 2;
        prop_assert!(moved <= possible + limits.len() as u64);
        // Each share is rounded down to whole bytes per second.
        prop_assert!(moved + 3 * limits.len() as u64 + 2_000 >= possible, "{moved} of {possible}");
    }
}
