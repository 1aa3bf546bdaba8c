use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;

use proptest::prelude::*;
use zerocopy::IntoBytes as _;

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// A GETATTR, or a WRITE of so many bytes.
fn request(caller: u32, bytes: usize) -> Vec<u8> {
    let opcode = if bytes == 0 { Opcode::Getattr } else { Opcode::Write } as u32;
    let header = InHeader {
        len: u32::try_from(size_of::<InHeader>() + bytes).unwrap(),
        opcode,
        unique: 1,
        nodeid: 1,
        uid: 0,
        gid: 0,
        pid: caller,
        total_extlen: 0,
        padding: 0,
    };
    let mut all = header.as_bytes().to_vec();
    all.resize(all.len() + bytes, 0);
    all
}

/// On a machine that has processors to spare.
fn seat(affinity: &Arc<Affinity>, worker: usize) -> Seat {
    let mut seat = Seat::new(affinity, worker).unwrap();
    seat.load = Load::none();
    seat
}

fn possible(workers: usize) -> Option<Arc<Affinity>> {
    let affinity = Arc::new(Affinity::new(workers));
    affinity.lookout.is_some().then_some(affinity)
}

/// Makes `seat` the companion of this thread, and stay where it runs.
fn accompany(seat: &mut Seat) {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        seat.settle();
        seat.request(&request(thread_id(), 0));
        if seat.mine(seat.affinity.claim()) && seat.place.is_some() {
            return;
        }
    }
    panic!("no companion: {seat_claim:?}", seat_claim = seat.affinity.claim());
}

#[test]
fn a_companion_stays_where_its_caller_is_until_another_comes() {
    let Some(affinity) = possible(2) else { return };
    let everywhere = place::allowed().unwrap();
    let mut seat = seat(&affinity, 0);
    accompany(&mut seat);
    assert_eq!(place::allowed().unwrap().count(), 1);
    assert!(LOWERED.get());
    let before = Instant::now();
    for _ in 0..20 {
        seat.settle();
        seat.request(&request(1, 0));
    }
    seat.settle();
    assert!(place::allowed().unwrap() == everywhere && !LOWERED.get());
    assert!(affinity.pause.lock().lasts(before), "two by turns are not to be tried again and again");
}

#[test]
fn much_data_is_handed_over_as_ever() {
    let Some(affinity) = possible(2) else { return };
    let mut seat = seat(&affinity, 0);
    accompany(&mut seat);
    seat.request(&request(thread_id(), BULKY));
    assert!(!LOWERED.get() && seat.mine(affinity.claim()));
    seat.request(&request(thread_id(), 0));
    assert!(LOWERED.get());
}

#[test]
fn a_caller_that_cannot_be_seen_has_no_companion() {
    let Some(affinity) = possible(2) else { return };
    let mut seat = seat(&affinity, 0);
    let until = Instant::now() + SOON;
    while !affinity.pause.lock().lasts(Instant::now()) {
        seat.settle();
        seat.request(&request(u32::MAX, 0));
        assert!(place::allowed().unwrap().count() > 1 && !LOWERED.get());
        assert!(Instant::now() < until, "it was not found out");
    }
    assert!(!seat.mine(affinity.claim()));
}

#[test]
fn where_all_processors_are_busy_there_is_no_companion() {
    let Some(affinity) = possible(2) else { return };
    let mut seat = Seat::new(&affinity, 0).unwrap();
    // The thread that looks runs.
    seat.load = Load::of(0);
    for _ in 0..1000 {
        seat.settle();
        seat.request(&request(thread_id(), 0));
        assert!(!seat.mine(affinity.claim()));
    }
    assert!(affinity.crowded.lock().lasts(Instant::now()));
    let mut seat = self::seat(&affinity, 1);
    while affinity.crowded.lock().lasts(Instant::now()) {
        std::thread::sleep(PAUSE);
    }
    accompany(&mut seat);
    seat.load = Load::of(0);
    for _ in 0..100 {
        seat.request(&request(thread_id(), 0));
    }
    assert!(!seat.mine(affinity.claim()), "all processors have become busy");
}

#[test]
fn one_worker_alone_is_nobodys_companion() {
    assert!(Seat::new(&Arc::new(Affinity::new(1)), 0).is_none());
    assert!(Seat::new(&Arc::new(Affinity::new(0)), 0).is_none());
}

/// Starts other workers, which count themselves as they come back from waiting.
fn others(affinity: &Arc<Affinity>, count: usize) -> (Arc<AtomicUsize>, Vec<std::thread::JoinHandle<()>>) {
    let back = Arc::new(AtomicUsize::new(0));
    let threads = (0..count)
        .map(|one| {
            let (affinity, back) = (Arc::clone(affinity), Arc::clone(&back));
            std::thread::spawn(move || {
                seat(&affinity, one + 1).settle();
                back.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    (back, threads)
}

#[test]
fn the_others_wait_while_it_goes_on_and_are_back_when_it_is_stuck() {
    if possible(4).is_none() {
        return;
    }
    // On a machine that is busy enough it is stuck now and then.
    let mut tries = 0..100;
    assert!(tries.any(|_| wait_while_it_goes_on()), "it is always stuck");
}

/// Whether it went on all the while.
fn wait_while_it_goes_on() -> bool {
    let affinity = possible(4).expect("as before");
    let mut seat = seat(&affinity, 0);
    accompany(&mut seat);
    let (back, threads) = others(&affinity, 3);
    let until = Instant::now() + QUIET * 20;
    let mut goes_on = true;
    while goes_on && Instant::now() < until {
        seat.settle();
        seat.request(&request(thread_id(), 0));
        goes_on = seat.mine(affinity.claim());
    }
    let ended = Instant::now();
    let (came_back, paused) = (back.load(Ordering::SeqCst), affinity.pause.lock().lasts(ended));
    goes_on &= seat.mine(affinity.claim());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(affinity.claim(), Claim::Nobody);
    assert!(!affinity.parked.lock().watched);
    if goes_on {
        assert_eq!((came_back, paused), (0, false));
        assert!(affinity.pause.lock().lasts(ended), "it worked on a request since then");
    }
    goes_on
}

#[test]
fn the_others_are_back_when_it_waits_for_requests_and_that_was_no_harm() {
    let Some(affinity) = possible(2) else { return };
    let mut seat = seat(&affinity, 0);
    accompany(&mut seat);
    seat.settle();
    let (_, threads) = others(&affinity, 1);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(affinity.claim(), Claim::Nobody);
    assert!(!affinity.pause.lock().lasts(Instant::now()));
}

#[test]
fn the_others_are_back_when_it_ends_or_panics() {
    for panics in [false, true] {
        let Some(affinity) = possible(3) else { return };
        let (ready, wait) = mpsc::channel();
        let worker = {
            let affinity = Arc::clone(&affinity);
            std::thread::spawn(move || {
                let mut seat = seat(&affinity, 0);
                accompany(&mut seat);
                ready.send(()).unwrap();
                let until = Instant::now() + QUIET * 4;
                while Instant::now() < until {
                    seat.settle();
                    seat.request(&request(thread_id(), 0));
                }
                assert!(!panics, "as asked");
            })
        };
        wait.recv_timeout(SOON).unwrap();
        let (back, threads) = others(&affinity, 2);
        assert_eq!(worker.join().is_err(), panics);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((back.load(Ordering::SeqCst), affinity.claim()), (2, Claim::Nobody));
    }
}

#[test]
fn who_lost_the_processor_while_it_handed_over_leaves() {
    let Some(affinity) = possible(2) else { return };
    let mut seat = seat(&affinity, 0);
    accompany(&mut seat);
    let before = Instant::now();
    hand_over(|| std::thread::sleep(standing::LOST * 2));
    seat.settle();
    assert_eq!(affinity.claim(), Claim::Nobody);
    assert!(affinity.pause.lock().lasts(before) && place::allowed().unwrap().count() > 1);
}

proptest! {
    #[test]
    fn a_request_that_makes_no_sense_is_nobodys(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let seen = about(&bytes);
        prop_assert_eq!(seen.is_some(), bytes.len() >= size_of::<InHeader>());
    }
}
