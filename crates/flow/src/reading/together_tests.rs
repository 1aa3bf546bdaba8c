//! How files are fetched that are read as if they were one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::driven::{Driven, KIB, MIB, limits};
use super::*;

const MS: Duration = Duration::from_millis(1);
/// Bytes of each file, and of a read.
const LEN: u64 = 16 * MIB;
const READ: u64 = 4 * KIB;

/// Files 1 to `files` are open; fetches of a MiB, of which 10 may be under way.
fn open(memory: u64, files: u64, together: bool) -> Driven {
    open_long(memory, files, together, LEN)
}

/// The same, of files of so many bytes.
fn open_long(memory: u64, files: u64, together: bool, len: u64) -> Driven {
    let mut driven = Driven::fixed(limits(memory), 8 * MIB, 10, MIB);
    for file in 1..=files {
        driven.open(file, len);
        if together {
            driven.reads.together(FileId(file));
        }
    }
    driven
}

/// The `n`th small read of a file, nowhere near others, of which what it asks for takes 20 ms. Answers which files are fetched that nobody waits for.
fn read(driven: &mut Driven, file: u64, n: u64) -> Vec<u64> {
    let at = n * 7 % 16 * MIB + (1 + n % 5) * 128 * KIB;
    let request = driven.read(file, at..at + READ);
    let sent = driven.sent();
    assert!(sent.iter().all(|sent| !sent.ahead), "nothing but what is waited for: {sent:?}");
    driven.pass(20 * MS);
    sent.into_iter().for_each(|sent| driven.finish(sent.fetch));
    driven.take(request);
    let mut bought: Vec<u64> = driven.sent().into_iter().map(|sent| sent.file).collect();
    bought.dedup();
    bought
}

/// Reads file after file, a small read of each, until something is bought; after how many reads, and what.
fn until_bought(driven: &mut Driven, files: u64, rounds: u64) -> Option<(u64, Vec<u64>)> {
    for n in 0..rounds {
        for file in 1..=files {
            let bought = read(driven, file, n);
            if !bought.is_empty() {
                return Some((n * files + file, bought));
            }
        }
    }
    None
}

/// What is under way comes; of which files that is.
fn all_under_way(driven: &mut Driven) -> Vec<u64> {
    let fetches: Vec<_> = driven.flying.keys().copied().collect();
    let files = driven.flying.values().map(|(sent, _)| sent.file).collect();
    driven.pass(20 * MS);
    fetches.into_iter().for_each(|fetch| driven.finish(fetch));
    driven.sent();
    files
}

/// What is under way comes, and what is sent then; of which files.
fn all_that_comes(driven: &mut Driven) -> Vec<u64> {
    let mut files = BTreeSet::new();
    while !driven.flying.is_empty() {
        files.extend(all_under_way(driven));
    }
    files.into_iter().collect()
}

#[test]
fn readers_of_many_files_who_come_back_have_all_of_them_after_two_reads_of_each() {
    let mut driven = open(1024 * MIB, 12, true);
    let (reads, _) = until_bought(&mut driven, 12, 8).expect("it is worth it");
    assert_eq!(reads, 24, "as many as are enough");
    assert_eq!(all_that_comes(&mut driven), (1..=12).collect::<Vec<_>>());
    assert_eq!(driven.reads.held(), 12 * LEN, "all is there");
    let request = driven.read(7, 11 * MIB..11 * MIB + READ);
    assert!(driven.is_answered(request), "and read at once");
}

#[test]
fn the_price_of_all_of_them_is_paid_first() {
    // Each takes four times as long as the two reads that would be enough.
    let mut driven = open_long(1024 * MIB, 12, true, 4 * LEN);
    let (reads, _) = until_bought(&mut driven, 12, 12).expect("it is worth it");
    assert!((6 * 12..=9 * 12).contains(&reads), "{reads}");
    assert_eq!(all_that_comes(&mut driven), (1..=12).collect::<Vec<_>>());
}

#[test]
fn a_few_files_are_read_as_often_as_half_the_regions_of_one() {
    let mut driven = open(1024 * MIB, 2, true);
    let (reads, bought) = until_bought(&mut driven, 2, 12).expect("it is worth it");
    assert_eq!(reads, u64::from(Tuning::default().regions) / 2);
    assert!(!bought.is_empty());
    assert_eq!(all_that_comes(&mut driven), [1, 2]);
}

#[test]
fn what_was_bought_is_paid_with() {
    let mut driven = open(1024 * MIB, 11, true);
    let (reads, _) = until_bought(&mut driven, 11, 8).expect("it is worth it");
    let paid = 20 * MS * u32::try_from(reads).expect("a few");
    assert!(driven.reads.together.paid < paid / 2, "{:?} of {paid:?} are left", driven.reads.together.paid);
}

#[test]
fn no_more_comes_than_the_disk_was_said_to_take_of_all_of_them() {
    let mut driven = open(100 * MIB, 24, true);
    let tell = |driven: &mut Driven, room| {
        (1..=24).for_each(|file| driven.reads.kept(FileId(file), Kept::Yes { room }));
    };
    tell(&mut driven, 8 * MIB);
    until_bought(&mut driven, 24, 8).expect("it is worth it");
    let read = driven.reads.stats().fetched;
    all_that_comes(&mut driven);
    let came = driven.reads.stats().fetched - read;
    assert!(came > 2 * MIB && came <= 8 * MIB, "{came}");
    // It has written that.
    tell(&mut driven, 16 * MIB);
    driven.read(1, 15 * MIB..15 * MIB + READ);
    all_that_comes(&mut driven);
    let more = driven.reads.stats().fetched - read - came;
    assert!(more > 8 * MIB && more <= 16 * MIB + 32 * KIB, "{more}");
}

#[test]
fn others_are_paid_for_one_by_one() {
    let mut driven = open(1024 * MIB, 12, false);
    let (reads, bought) = until_bought(&mut driven, 12, 60).expect("it is worth it");
    assert_eq!(bought.len(), 1, "{bought:?}");
    assert!(reads > 80, "{reads}");
}

#[test]
fn who_looks_once_into_each_of_many_files_gets_no_more_than_that() {
    let mut driven = open(8192 * MIB, 300, true);
    assert_eq!(until_bought(&mut driven, 300, 1), None);
    assert!(driven.reads.stats().fetched <= 300 * 32 * KIB, "{:?}", driven.reads.stats());
}

#[test]
fn one_that_comes_later_is_bought_when_its_own_price_is_paid() {
    let mut driven = open(1024 * MIB, 12, true);
    until_bought(&mut driven, 11, 8).expect("it is worth it");
    all_that_comes(&mut driven);
    let reads = (0..8).position(|n| !read(&mut driven, 12, n).is_empty());
    // A fetch of 32 KiB takes 20 ms, as one of a MiB may: ten at a time bring 16 MiB in two times that.
    assert!(matches!(reads, Some(1..=3)), "{reads:?}");
    assert_eq!(all_that_comes(&mut driven), [12]);
}

#[test]
fn of_what_memory_has_no_room_for_those_come_that_are_read_most() {
    let mut driven = open(100 * MIB, 12, true);
    // Files 3 and 9 once more than others.
    read(&mut driven, 3, 12);
    read(&mut driven, 9, 12);
    let (_, first) = until_bought(&mut driven, 12, 8).expect("it is worth it");
    let room = (driven.reads.usable() / LEN) as usize;
    assert!((2..8).contains(&room) && first.iter().all(|file| [3, 9].contains(file)), "{room}, {first:?}");
    let came = all_that_comes(&mut driven);
    assert!(came.len() <= room && came.contains(&3) && came.contains(&9), "{room}, {came:?}");
    assert!(driven.reads.held() <= 100 * MIB);
}

#[test]
fn what_memory_has_no_room_for_comes_as_well_if_a_disk_keeps_it() {
    // Fewer fetches have room in the lesser memory than might be under way.
    for (memory, at_once) in [(100 * MIB, 10), (5 * MIB, 5)] {
        let mut driven = open(memory, 24, true);
        for file in 1..=24 {
            driven.reads.kept(FileId(file), Kept::Yes { room: u64::MAX });
        }
        let (reads, _) = until_bought(&mut driven, 24, 8).expect("it is worth it");
        assert!(reads <= 60, "{reads}");
        let (mut files, mut most) = (BTreeSet::new(), 0);
        while !driven.flying.is_empty() {
            assert!(driven.reads.held() <= memory);
            most = most.max(driven.flying.len());
            files.extend(all_under_way(&mut driven));
        }
        assert_eq!(files, (1..=24).collect());
        assert!(most > 1 && most <= at_once, "{most}");
        let stats = driven.reads.stats();
        assert_eq!((stats.whole, stats.wasted), (24, 0), "what went is on the disk");
    }
}

#[test]
fn what_was_paid_beyond_the_price_of_some_counts_for_the_next() {
    // Of 100 files 64 are bought at a time.
    let mut driven = open(4096 * MIB, 100, true);
    let (reads, _) = until_bought(&mut driven, 100, 12).expect("it is worth it");
    assert_eq!(all_that_comes(&mut driven).len(), 64);
    let more = (1..=100).find(|file| !read(&mut driven, *file, 9).is_empty());
    assert!(more.is_some(), "after {reads}: the next read that waits is enough");
    assert!(all_that_comes(&mut driven).len() >= 30);
}

#[test]
fn what_was_read_in_order_is_not_fetched_again() {
    let mut driven = open(1024 * MIB, 12, true);
    for n in 0..64 {
        driven.whole(1, n * 256 * KIB..(n + 1) * 256 * KIB, MS);
        driven.settle(MS);
    }
    driven.sent();
    assert_eq!(driven.reads.held(), 0, "it was read, and is gone");
    let before = driven.reads.stats().fetched;
    for n in 0..8 {
        for file in 2..=12 {
            if !read(&mut driven, file, n).is_empty() {
                assert_eq!(all_that_comes(&mut driven), (2..=12).collect::<Vec<_>>());
                assert!(driven.reads.stats().fetched - before <= 11 * (LEN + MIB));
                return;
            }
        }
    }
    panic!("it is never worth it")
}

#[test]
fn when_the_last_of_them_is_closed_all_is_as_at_first() {
    let mut driven = open(1024 * MIB, 12, true);
    for round in 0..3 {
        // One read less than is enough.
        for at in 0..23 {
            assert_eq!(read(&mut driven, at % 12 + 1, at / 12), [0u64; 0], "{round}, {at}");
        }
        driven.close(1);
        assert!(driven.reads.together.paid > Duration::ZERO, "it was paid for the others too");
        (2..=12).for_each(|file| driven.close(file));
        assert_eq!(driven.reads.together.paid, Duration::ZERO);
        for file in 1..=12 {
            driven.open(file, LEN);
            driven.reads.together(FileId(file));
        }
    }
}

/// Others hold all memory, and file 1, which has no room in it, is to be fetched whole; whether it still is when `under_way` was sent.
fn waits_for_memory(together: bool, under_way: impl FnOnce(&mut Driven)) -> bool {
    let mut driven = Driven::fixed(limits(64 * MIB), 8 * MIB, 10, MIB);
    (1..=4).for_each(|file| driven.open(file, 256 * MIB));
    driven.reads.together(FileId(2));
    under_way(&mut driven);
    for n in 0.. {
        if driven.reads.held() >= driven.reads.usable() {
            break;
        }
        // Read, and not taken.
        let request = driven.read(4, n * 9 * MIB..n * 9 * MIB + 4 * MIB);
        let of_it = driven.flying.iter().filter(|(_, (sent, _))| sent.file == 4);
        let fetches: Vec<_> = of_it.map(|(fetch, _)| *fetch).collect();
        driven.pass(MS);
        fetches.into_iter().for_each(|fetch| driven.finish(fetch));
        assert!(driven.is_answered(request));
    }
    if together {
        driven.reads.together(FileId(1));
    }
    driven.reads.kept(FileId(1), Kept::Yes { room: u64::MAX });
    let state = driven.reads.files.get_mut(&FileId(1)).expect("it is open");
    (state.whole.prepaid, state.whole.beyond) = (true, together);
    driven.reads.begin_buying(FileId(1));
    // Anything that happens.
    driven.wake();
    driven.reads.files[&FileId(1)].whole.is_buying()
}

#[test]
fn a_file_larger_than_memory_waits_for_room_only_while_something_of_it_is_under_way() {
    let of = |file: u64| {
        move |driven: &mut Driven| {
            driven.read(file, 100 * MIB..100 * MIB + READ);
        }
    };
    let nothing = |_: &mut Driven| {};
    assert!(!waits_for_memory(false, nothing) && !waits_for_memory(true, nothing), "others need the memory");
    assert!(waits_for_memory(false, of(1)), "it goes on when that has come");
    assert!(!waits_for_memory(false, of(2)), "that is one of those that are read together, and it is not");
    assert!(
        waits_for_memory(true, of(2)),
        "of those that are read together, what is under way of one is of all"
    );
    assert!(!waits_for_memory(true, of(3)), "that is another");
}
