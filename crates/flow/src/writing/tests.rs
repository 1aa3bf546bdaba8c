use std::time::Duration;

use super::*;

const MIB: u64 = 1 << 20;
const MS: Duration = Duration::from_millis(1);
const FILE: FileId = FileId(1);
const OTHER: FileId = FileId(2);

fn limits(memory: u64, part: u64) -> Limits {
    Limits { uncommitted: memory / 4, ..Limits::new(memory, part) }
}

/// With room for two parts at first, as when it is known that the store takes little.
fn writing(memory: u64, part: u64) -> Writing {
    Writing::new(Tuning { first_parts: 2, ..Tuning::default() }, limits(memory, part))
}

#[track_caller]
fn queued(admit: Admit) -> Ticket {
    let Admit::Queued(ticket) = admit else { panic!("{admit:?}") };
    ticket
}

fn actions(writing: &mut Writing) -> Vec<Action> {
    writing.audit();
    std::iter::from_fn(|| writing.next_action()).collect()
}

/// Those who were admitted.
fn admitted(writing: &mut Writing) -> Vec<Ticket> {
    let ticket = |action| if let Action::Admit { ticket, .. } = action { Some(ticket) } else { None };
    actions(writing).into_iter().filter_map(ticket).collect()
}

/// So many MiB a second are written, sent and acknowledged, while somebody waits or not; all in parts of a MiB, with `took` between.
fn deliver(writing: &mut Writing, now: &mut Duration, per_second: u32, time: Duration, waits: bool) {
    let mut parts = std::collections::VecDeque::new();
    let end = *now + time;
    while *now < end {
        while writing.request(FILE, MIB) == Admit::Granted {
            parts.push_back(writing.sent(*now, FILE, MIB));
            if !waits {
                break;
            }
        }
        *now += Duration::from_secs(1) / per_second;
        let part = parts.pop_front().expect("one is in flight");
        assert!(writing.stored(*now, part) && writing.committed(part));
        for action in actions(writing) {
            if matches!(action, Action::Admit { .. }) {
                parts.push_back(writing.sent(*now, FILE, MIB));
            }
        }
    }
    for part in parts {
        assert!(writing.abandoned(part));
    }
    while let Some(action) = writing.next_action() {
        if let Action::Admit { file, bytes, .. } = action {
            writing.withdraw(file, bytes);
        }
    }
}

#[test]
fn four_parts_may_be_in_flight_until_it_is_known_what_the_store_takes() {
    for (first_parts, memory, room) in [(4, 1 << 30, 4), (0, 1 << 30, 2), (64, 32, 16)] {
        let tuning = Tuning { first_parts, ..Tuning::default() };
        assert_eq!(Writing::new(tuning, limits(memory * MIB, MIB)).window(), room * MIB);
    }
    let mut writing = Writing::new(Tuning::default(), limits(1 << 30, MIB));
    assert_eq!(writing.window(), 4 * MIB);
    // One that is slow gets no more than two, once it is known that those bring as much.
    let mut now = Duration::ZERO;
    deliver(&mut writing, &mut now, 4, Duration::from_secs(20), true);
    assert_eq!(writing.window(), 2 * MIB);
}

#[test]
fn what_is_accepted_counts_until_the_store_has_it_and_no_longer() {
    let mut writing = writing(1000, 100);
    assert_eq!(writing.window(), 200, "two parts, before anything is known");
    assert_eq!(writing.request(FILE, 120), Admit::Granted);
    assert_eq!(writing.request(FILE, 80), Admit::Granted);
    let waits = queued(writing.request(OTHER, 1));
    assert_eq!(actions(&mut writing), [Action::Send], "nothing is on its way");
    let part = writing.sent(MS, FILE, 200);
    assert_eq!(actions(&mut writing), []);
    assert_eq!(writing.in_flight(), Amount { bytes: 200, operations: 2 });
    assert!(writing.stored(2 * MS, part));
    assert_eq!(admitted(&mut writing), [waits], "it is not committed");
    assert_eq!((writing.in_flight().bytes, writing.uncommitted().bytes), (1, 200));
    assert!(writing.committed(part));
    assert_eq!(writing.uncommitted(), Amount::default());
    assert_eq!(writing.stats().committed, Amount { bytes: 200, operations: 2 });
}

#[test]
fn what_comes_twice_or_too_late_changes_nothing() {
    let mut writing = writing(1000, 100);
    writing.request(FILE, 100);
    writing.request(FILE, 100);
    let (first, second) = (writing.sent(MS, FILE, 100), writing.sent(MS, FILE, 100));
    let waits = queued(writing.request(FILE, 100));
    assert!(writing.stored(2 * MS, first) && writing.abandoned(second));
    assert_eq!(admitted(&mut writing), [waits]);
    let state =
        |writing: &Writing| (writing.in_flight(), writing.uncommitted(), writing.window(), writing.drain());
    let before = state(&writing);
    assert!(!writing.stored(900 * MS, first) && !writing.staged(900 * MS, first));
    assert!(!writing.stored(900 * MS, second) && !writing.abandoned(second) && !writing.committed(second));
    assert!(!writing.cancel(waits), "it was admitted");
    assert_eq!((state(&writing), actions(&mut writing)), (before, vec![]));
    assert!(writing.committed(first) && !writing.committed(first) && !writing.stored(MS, first));
    assert_eq!(writing.uncommitted(), Amount::default());
    assert_eq!(writing.stats().duplicates, 8);
}

#[test]
fn a_full_commit_budget_asks_for_a_commit_and_stops_nobody() {
    let mut writing = Writing::new(Tuning::default(), Limits { uncommitted: 150, ..limits(1000, 100) });
    let mut parts = Vec::new();
    for round in 1..=4 {
        assert_eq!(writing.request(FILE, 100), Admit::Granted);
        parts.push(writing.sent(MS, FILE, 100));
        assert!(writing.stored(2 * MS, parts[round - 1]));
        let due = if round % 2 == 0 { vec![Action::Commit] } else { vec![] };
        assert_eq!(actions(&mut writing), due, "{round}");
    }
    // The first two are covered by the first commit, the others by the second: nothing is asked for again.
    for part in parts {
        assert!(writing.committed(part));
        assert_eq!(actions(&mut writing), []);
    }
    assert_eq!(writing.stats().commits, 2);
}

#[test]
fn many_small_writes_ask_for_a_commit_too() {
    let mut writing =
        Writing::new(Tuning::default(), Limits { uncommitted_operations: 3, ..limits(1 << 20, 100) });
    (0..4).for_each(|_| assert_eq!(writing.request(FILE, 1), Admit::Granted));
    let part = writing.sent(MS, FILE, 4);
    writing.stored(2 * MS, part);
    assert_eq!(actions(&mut writing), [Action::Commit]);
}

#[test]
fn memory_holds_also_when_commits_stand_still() {
    let mut writing = writing(400, 100);
    let mut parts = Vec::new();
    for _ in 0..4 {
        assert_eq!(writing.request(FILE, 100), Admit::Granted);
        parts.push(writing.sent(MS, FILE, 100));
        assert!(writing.stored(2 * MS, *parts.last().expect("one")));
        assert_eq!(actions(&mut writing), [Action::Commit]);
    }
    let waits = queued(writing.request(FILE, 1));
    assert_eq!(actions(&mut writing), [], "all commits were asked for");
    assert!(writing.committed(parts[0]));
    assert_eq!(admitted(&mut writing), [waits]);
}

#[test]
fn whoever_waits_for_memory_gets_a_commit_before_the_budget_is_full() {
    let mut writing = writing(400, 100);
    assert_eq!(writing.request(FILE, 90), Admit::Granted);
    let part = writing.sent(MS, FILE, 90);
    assert!(writing.stored(2 * MS, part));
    assert_eq!(actions(&mut writing), []);
    let waits = queued(writing.request(FILE, 320));
    assert_eq!(actions(&mut writing), [Action::Commit]);
    assert!(writing.committed(part));
    assert_eq!(admitted(&mut writing), [waits]);
}

#[test]
fn what_is_gathered_is_sent_when_it_starves_those_who_wait() {
    let mut writing = writing(4000, 100);
    for file in 0..4 {
        assert_eq!(writing.request(FileId(file), 50), Admit::Granted);
    }
    let waits = queued(writing.request(OTHER, 50));
    assert_eq!(actions(&mut writing), [Action::Send]);
    let next = queued(writing.request(OTHER, 40));
    assert_eq!(actions(&mut writing), [], "once");
    let parts: Vec<_> = (0..4).map(|file| writing.sent(MS, FileId(file), 50)).collect();
    assert_eq!(actions(&mut writing), []);
    assert!(writing.stored(2 * MS, parts[0]));
    // With the first that is stored there is room for twice as much.
    assert_eq!(admitted(&mut writing), [waits, next]);
    queued(writing.request(OTHER, 200));
    // More is on its way than is gathered: room comes by itself.
    assert_eq!((writing.gathered().bytes, writing.in_flight().bytes), (90, 240));
    assert_eq!(actions(&mut writing), []);
}

#[test]
fn one_request_larger_than_everything_goes_alone() {
    let mut writing = writing(400, 100);
    assert_eq!(writing.request(FILE, 10), Admit::Granted);
    let huge = queued(writing.request(OTHER, 5000));
    assert_eq!(actions(&mut writing), [Action::Send]);
    let small = queued(writing.request(FILE, 1));
    let part = writing.sent(MS, FILE, 10);
    assert!(writing.stored(2 * MS, part));
    assert_eq!(actions(&mut writing), [Action::Commit], "memory is not empty");
    assert!(writing.committed(part));
    assert_eq!(admitted(&mut writing), [huge]);
    let part = writing.sent(3 * MS, OTHER, 5000);
    assert!(writing.stored(4 * MS, part) && writing.committed(part));
    assert_eq!(admitted(&mut writing), [small]);
}

#[test]
fn the_ceiling_moves_while_somebody_waits() {
    let mut writing = writing(1000, 100);
    assert_eq!(writing.request(FILE, 200), Admit::Granted);
    writing.set_memory(150);
    assert!(writing.window() <= 150);
    let part = writing.sent(MS, FILE, 100);
    assert!(writing.stored(2 * MS, part) && writing.committed(part));
    let waits = queued(writing.request(FILE, 60));
    writing.set_memory(100);
    assert_eq!(admitted(&mut writing), []);
    writing.set_memory(1000);
    assert_eq!(admitted(&mut writing), [waits]);
}

#[test]
fn a_local_disk_takes_what_the_store_has_not_yet_and_blocks_when_full() {
    let mut writing = Writing::new(Tuning::default(), Limits { staged: Some(300), ..limits(1000, 100) });
    let mut parts = Vec::new();
    for _ in 0..3 {
        assert_eq!(writing.request(FILE, 100), Admit::Granted);
        parts.push(writing.sent(MS, FILE, 100));
        assert!(writing.staged(2 * MS, *parts.last().expect("one")));
    }
    assert!(!writing.staged(2 * MS, parts[0]));
    assert_eq!((writing.in_flight().bytes, writing.on_disk().bytes), (0, 300));
    let waits = queued(writing.request(FILE, 100));
    assert_eq!(actions(&mut writing), []);
    assert!(writing.stored(3 * MS, parts[0]) && !writing.stored(3 * MS, parts[0]));
    assert_eq!(admitted(&mut writing), [waits]);
    assert_eq!((writing.on_disk().bytes, writing.uncommitted().bytes), (200, 100));
    assert!(writing.abandoned(parts[1]) && writing.committed(parts[2]));
    assert_eq!(writing.on_disk().bytes, 0);
}

#[test]
fn operations_are_permits_of_their_own() {
    let mut writing = Writing::new(Tuning::default(), Limits { operations: 2, ..limits(1000, 100) });
    assert_eq!((writing.request(FILE, 1), writing.request(FILE, 1)), (Admit::Granted, Admit::Granted));
    let waits = queued(writing.request(OTHER, 1));
    assert_eq!(actions(&mut writing), [Action::Send]);
    let half = writing.sent(MS, FILE, 1);
    assert_eq!(writing.gathered_of(FILE), Amount { bytes: 1, operations: 1 });
    assert!(writing.stored(2 * MS, half));
    assert_eq!(admitted(&mut writing), [waits]);
}

#[test]
fn the_queue_has_an_end() {
    let mut writing = Writing::new(Tuning::default(), Limits { waiting: 2, ..limits(1000, 100) });
    assert_eq!(writing.request(FILE, 400), Admit::Granted);
    let waits = queued(writing.request(FILE, 1));
    queued(writing.request(OTHER, 1));
    assert_eq!(
        (writing.request(OTHER, 1), writing.waiting(), writing.waiting_bytes()),
        (Admit::Refused, 2, 2)
    );
    assert!(writing.cancel(waits) && !writing.cancel(waits));
    queued(writing.request(OTHER, 1));
    assert_eq!((writing.stats().refused, writing.stats().waited), (1, 3));
}

#[test]
fn what_is_given_back_or_overwritten_makes_room_and_rounding_takes_it() {
    let mut writing = writing(1000, 100);
    assert_eq!(writing.request(FILE, 100), Admit::Granted);
    writing.adjust(FILE, 100, 180);
    let first = queued(writing.request(OTHER, 100));
    writing.adjust(FILE, 180, 110);
    assert_eq!(admitted(&mut writing), []);
    writing.adjust(FILE, 110, 100);
    assert_eq!(admitted(&mut writing), [first]);
    let second = queued(writing.request(OTHER, 100));
    writing.withdraw(FILE, 100);
    assert_eq!(admitted(&mut writing), [second]);
    assert_eq!(writing.gathered_of(FILE), Amount::default());
    writing.withdraw(FILE, 0);
    assert_eq!(writing.stats().withdrawn, Amount { bytes: 180, operations: 1 });
}

#[test]
fn who_gives_up_lets_the_next_one_through() {
    let mut writing = writing(1000, 100);
    assert_eq!(writing.request(FILE, 150), Admit::Granted);
    let large = queued(writing.request(OTHER, 100));
    let small = queued(writing.request(OTHER, 10));
    actions(&mut writing);
    assert!(writing.cancel(large));
    assert_eq!(admitted(&mut writing), [small]);
}

#[test]
fn the_window_is_a_fifth_of_a_second_of_what_the_store_takes_and_a_part() {
    let mut writing = writing(4 << 30, MIB);
    let mut now = Duration::from_secs(100);
    let mib = |writing: &Writing| writing.window() as f64 / MIB as f64;
    for (rate, window) in [(700, 141.0), (70, 15.0), (5, 2.0), (2_000, 401.0)] {
        deliver(&mut writing, &mut now, rate, Duration::from_secs(4), true);
        assert!((mib(&writing) / window - 1.0).abs() < 0.05, "{rate}: {} instead of {window}", mib(&writing));
    }
    writing.set_memory(300 * MIB);
    assert_eq!(mib(&writing), 150.0, "twice a quarter is for what is stored and not committed");
}

#[test]
fn neither_a_stall_nor_a_slow_writer_changes_the_window() {
    let mut writing = writing(4 << 30, MIB);
    let mut now = Duration::from_secs(100);
    deliver(&mut writing, &mut now, 700, Duration::from_secs(4), true);
    let window = writing.window();
    deliver(&mut writing, &mut now, 20, Duration::from_secs(20), false);
    assert_eq!(writing.window(), window, "a slow writer");
    assert_eq!(writing.request(FILE, MIB), Admit::Granted);
    let part = writing.sent(now, FILE, MIB);
    while writing.request(FILE, MIB) == Admit::Granted {}
    assert!(
        writing.in_flight().bytes <= window && writing.in_flight().bytes > window - MIB,
        "it freezes at its limit"
    );
    now += Duration::from_secs(60);
    writing.stored(now, part);
    assert_eq!(writing.window(), window, "a stall");
}

#[test]
fn operations_that_are_full_are_full_for_empty_writes_too() {
    let mut writing = Writing::new(Tuning::default(), Limits { operations: 2, ..limits(1000, 100) });
    assert_eq!((writing.request(FILE, 1), writing.request(FILE, 1)), (Admit::Granted, Admit::Granted));
    for file in [FILE, OTHER, FileId(3)] {
        queued(writing.request(file, 0));
    }
    assert_eq!((admitted(&mut writing), writing.in_flight().operations), (vec![], 2));
}
