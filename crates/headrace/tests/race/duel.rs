//! One volume and the two machines that want it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headrace_testbed::mount::wait_for_exit;
use headrace_testbed::process::wait_until;
use headrace_testbed::writer::{Acknowledged, Demand, Writer};
use headrace_testbed::{Backing, Finished, Rng, Site, TestVolume};
use rustix::process::Signal;

const LEASE: Duration = Duration::from_secs(2);
/// From the moment a daemon can see that it was fenced to the end of its process.
const FENCED_WITHIN: Duration = Duration::from_secs(30);
/// Exit status of the program for a volume in use.
const IN_USE: i32 = 4;
const WRITERS: u64 = 2;

/// What happens in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The holder is killed; the other takes over.
    Kill,
    /// The holder is stopped past its lease, the other takes over, the holder goes on.
    Pause,
    /// The holder is stopped for less than its lease, while the other tries to take over.
    ShortPause,
    /// The holder unmounts; the other mounts.
    Handover,
    /// The other tries to take over while the holder is well.
    Attempt,
    /// The holder unmounts; both mount at the same time.
    Both,
    /// The holder is killed; both mount at the same time.
    KillBoth,
}

impl Event {
    fn choose(rng: &mut Rng) -> Event {
        match rng.below(10) {
            0..=1 => Event::Kill,
            2..=4 => Event::Pause,
            5 => Event::ShortPause,
            6 => Event::Handover,
            7 => Event::Attempt,
            8 => Event::Both,
            _ => Event::KillBoth,
        }
    }
}

/// What was seen in some rounds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    acknowledged: u64,
    kills: u64,
    pauses: u64,
    takeovers: u64,
    fenced: u64,
    refused: u64,
    /// Takeovers of a holder that lived, but was too slow to renew its lease in time: it must be fenced then.
    starved: u64,
}

impl Tally {
    /// Adds another's figures.
    pub fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.takeovers += other.takeovers;
        self.fenced += other.fenced;
        self.refused += other.refused;
        self.starved += other.starved;
    }

    /// Whether enough has happened for `rounds` to mean something.
    pub fn check(&self, rounds: u64) {
        assert!(self.acknowledged > rounds, "hardly anything was written: {self}");
        assert!(
            self.starved <= self.refused + rounds / 10,
            "holders that live must keep their volume: {self}"
        );
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged changes, all there; {} kills, {} pauses, {} takeovers, {} daemons fenced, {} attempts refused, {} \
             holders too slow to keep their lease",
            self.acknowledged,
            self.kills,
            self.pauses,
            self.takeovers,
            self.fenced,
            self.refused,
            self.starved
        )
    }
}

/// A machine and those who write on it.
struct Side {
    site: Site,
    writers: Vec<Writer>,
}

/// The volume and its two machines.
pub struct Duel {
    sides: [Side; 2],
    rng: Rng,
    seed: u64,
    tally: Tally,
    // After the sites: their mounts go first.
    _volume: TestVolume,
}

impl Duel {
    /// A new volume.
    pub fn new(backing: Backing, seed: u64) -> Duel {
        let mut rng = Rng::new(seed);
        let volume = TestVolume::new(backing);
        let mut side = |name: &str| Side {
            site: Site::new(&volume, name).mounting_with(&[
                "--durable",
                "bucket",
                "--lease",
                "2s",
                "--retention",
                "0s",
            ]),
            writers: (0..WRITERS)
                .map(|n| Writer::new(&format!("{name}-{n}"), rng.next_u64()).largest(1 << 20))
                .collect(),
        };
        let sides = [side("castor"), side("pollux")];
        Duel { sides, rng, seed, tally: Tally::default(), _volume: volume }
    }

    /// That many rounds, then a check of everything.
    pub fn fight(mut self, rounds: u64) -> Tally {
        let mut holder = 0;
        self.sides[holder].site.mount(&[]);
        for round in 1..=rounds {
            let event = Event::choose(&mut self.rng);
            let began = Instant::now();
            holder = self.round(holder, event, round);
            self.check_timeline(holder, event, round);
            self.verify(holder, event, round);
            if std::env::var_os("HEADRACE_RACE_VERBOSE").is_some() {
                println!("{:x} round {round} {event:?}: {:?}", self.seed, began.elapsed());
            }
        }
        self.sides[holder].site.umount();
        self.sides[holder].site.assert_clean();
        self.tally.acknowledged =
            self.sides.iter().flat_map(|side| &side.writers).map(Writer::acknowledged).sum();
        self.tally
    }

    /// One round; who holds the volume then.
    fn round(&mut self, holder: usize, event: Event, round: u64) -> usize {
        let other = 1 - holder;
        let delay = Duration::from_millis(100 + self.rng.below(900));
        let short = Duration::from_millis(self.rng.below(LEASE.as_millis() as u64 * 3 / 4));
        let context = || format!("volume {:x}, round {round}, {event:?}", self.seed);
        let [castor, pollux] = &mut self.sides;
        let (held, wants) = if holder == 0 { (castor, pollux) } else { (pollux, castor) };
        let stop = &AtomicBool::new(false);
        let (site, rival) = (&held.site, &wants.site);
        let tally = &mut self.tally;
        std::thread::scope(|scope| {
            let mut holders_writers = Vec::new();
            for writer in &mut held.writers {
                holders_writers.push(writer.work(scope, site.mount_point(), stop));
            }
            let rivals_writers = &mut wants.writers;
            std::thread::sleep(delay);
            match event {
                Event::Kill => {
                    tally.kills += 1;
                    site.signal(Signal::KILL);
                    let refused = rival.try_mount(&[]);
                    assert_refused(&refused, &context());
                    tally.refused += 1;
                    rival.mount(&["--takeover"]);
                    tally.takeovers += 1;
                    work_a_little(rival, rivals_writers, delay);
                    site.kill();
                    other
                }
                Event::Pause => {
                    tally.pauses += 1;
                    let daemons = site.daemons();
                    site.signal(Signal::STOP);
                    rival.mount(&["--takeover"]);
                    tally.takeovers += 1;
                    // The old holder wakes up while the new one works.
                    let waker = scope.spawn(move || {
                        std::thread::sleep(delay / 2);
                        site.signal(Signal::CONT);
                    });
                    work_a_little(rival, rivals_writers, delay);
                    waker.join().expect("the thread that wakes the old holder");
                    for daemon in daemons {
                        assert!(
                            wait_for_exit(daemon, FENCED_WITHIN),
                            "{}: the old holder goes on\n{}",
                            context(),
                            site.log()
                        );
                    }
                    assert_says_why(site, &context());
                    tally.fenced += 1;
                    other
                }
                Event::ShortPause => {
                    tally.pauses += 1;
                    site.signal(Signal::STOP);
                    let waker = scope.spawn(move || {
                        std::thread::sleep(short);
                        site.signal(Signal::CONT);
                    });
                    let attempt = rival.try_mount(&["--takeover"]);
                    waker.join().expect("the thread that wakes the holder");
                    let holder = settle(attempt, site, rival, tally, [holder, other], &context());
                    stop.store(true, Ordering::Relaxed);
                    holder
                }
                Event::Attempt => {
                    let attempt = rival.try_mount(&["--takeover"]);
                    let holder = settle(attempt, site, rival, tally, [holder, other], &context());
                    stop.store(true, Ordering::Relaxed);
                    holder
                }
                Event::Handover | Event::Both | Event::KillBoth => {
                    if event == Event::KillBoth {
                        tally.kills += 1;
                        site.kill();
                    } else {
                        stop.store(true, Ordering::Relaxed);
                        for writer in holders_writers.drain(..) {
                            writer.join().expect("a writer");
                        }
                        site.umount();
                    }
                    if event == Event::Handover {
                        rival.mount(&[]);
                        work_a_little(rival, rivals_writers, delay);
                        return other;
                    }
                    let ours = scope.spawn(|| site.try_mount(&["--takeover"]));
                    let theirs = rival.try_mount(&["--takeover"]);
                    let ours = ours.join().expect("the thread that mounts");
                    one_of_both(&ours, &theirs, site, rival, tally, [holder, other], &context())
                }
            }
        })
    }

    /// Whoever did not hold the volume any more must not have acknowledged what was begun after the new holder's first
    /// acknowledged change.
    fn check_timeline(&self, holder: usize, event: Event, round: u64) {
        let acknowledged = |side: &Side| -> Vec<Acknowledged> {
            side.writers.iter().flat_map(|writer| writer.history().to_vec()).collect()
        };
        let new = acknowledged(&self.sides[holder]);
        let old = acknowledged(&self.sides[1 - holder]);
        let Some(first) = new.iter().map(|change| change.ended).min() else { return };
        // Where the holder stayed the same, the other has acknowledged nothing at all.
        let late = old.iter().filter(|change| change.began > first).count();
        assert!(
            late == 0,
            "volume {:x}, round {round}, {event:?}: {late} changes were begun and acknowledged by {} after {} held the volume",
            self.seed,
            self.sides[1 - holder].site.name(),
            self.sides[holder].site.name()
        );
    }

    /// Everything that either acknowledged is on the holder's mount.
    fn verify(&mut self, holder: usize, event: Event, round: u64) {
        let mount_point = self.sides[holder].site.mount_point();
        let mut wrong = Vec::new();
        for writer in self.sides.iter_mut().flat_map(|side| &mut side.writers) {
            if let Err(lines) = writer.verify(&mount_point, Demand::Everything) {
                wrong.extend(lines);
            }
        }
        assert!(
            wrong.is_empty(),
            "volume {:x}, round {round}, {event:?}, seen by {}:\n{}\n--- castor\n{}\n--- pollux\n{}",
            self.seed,
            self.sides[holder].site.name(),
            wrong.join("\n"),
            self.sides[0].site.log(),
            self.sides[1].site.log()
        );
    }
}

/// The new holder's writers for a while.
fn work_a_little(site: &Site, writers: &mut [Writer], time: Duration) {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in writers {
            writer.work(scope, site.mount_point(), stop);
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
}

fn assert_refused(attempt: &Finished, context: &str) {
    assert!(attempt.status.code() == Some(IN_USE), "{context}: this must be refused as in use: {attempt}");
}

/// A daemon that lost its volume says so, to whoever asks later what became of the mount.
fn assert_says_why(site: &Site, context: &str) {
    let log = site.log();
    let told = log
        .lines()
        .rev()
        .take(60)
        .any(|line| line.to_lowercase().contains("fenced") || line.contains("taken over"));
    assert!(told, "{context}: {} does not say why it ended\n{log}", site.name());
    let gone = wait_until(Duration::from_secs(5), || (!site.is_mounted()).then_some(()));
    assert!(gone.is_some(), "{context}: {} ended and left its mount behind", site.name());
}

/// After an attempt on a holder that lives: refused, or, where the holder was too slow for its lease, a true takeover.
fn settle(
    attempt: Finished,
    site: &Site,
    rival: &Site,
    tally: &mut Tally,
    [holder, other]: [usize; 2],
    context: &str,
) -> usize {
    if !attempt.status.success() {
        assert_refused(&attempt, context);
        tally.refused += 1;
        return holder;
    }
    tally.starved += 1;
    tally.takeovers += 1;
    let gone = wait_until(FENCED_WITHIN, || site.daemons().is_empty().then_some(()));
    assert!(gone.is_some(), "{context}: two daemons go on: {}\n{}\n{}", attempt, site.log(), rival.log());
    assert_says_why(site, context);
    tally.fenced += 1;
    other
}

/// After both have tried to mount at once: who has it.
fn one_of_both(
    ours: &Finished,
    theirs: &Finished,
    site: &Site,
    rival: &Site,
    tally: &mut Tally,
    [holder, other]: [usize; 2],
    context: &str,
) -> usize {
    for (attempt, who) in [(ours, site), (theirs, rival)] {
        assert!(
            attempt.status.success() || attempt.status.code() == Some(IN_USE),
            "{context}: {} failed: {attempt}\n{}",
            who.name(),
            who.log()
        );
    }
    match (ours.status.success(), theirs.status.success()) {
        (true, false) => {
            tally.refused += 1;
            holder
        }
        (false, true) => {
            tally.refused += 1;
            other
        }
        (false, false) => {
            // Each may have seen the other's claim. Then the volume is free for whoever asks next.
            tally.refused += 2;
            rival.mount(&["--takeover"]);
            other
        }
        (true, true) => {
            // One after the other: the first was too slow for its lease.
            let gone = wait_until(FENCED_WITHIN, || {
                (site.daemons().is_empty() != rival.daemons().is_empty()).then_some(())
            });
            assert!(gone.is_some(), "{context}: two daemons go on\n{}\n{}", site.log(), rival.log());
            tally.starved += 1;
            tally.fenced += 1;
            if site.daemons().is_empty() { other } else { holder }
        }
    }
}
