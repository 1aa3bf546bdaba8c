//! What goes when there is no room.
//!
//! Chunks are looked at in the order of the index, some at a time and round and round, and of each lot the least useful go: no order
//! of all of them has to be kept. Those that were used only once go before those that were used again, as long as they are more than
//! a tenth of all (as the small queue of S3-FIFO, Yang et al., SOSP 2023): so a scan of everything pushes out itself and not
//! what is used every day.

/// Chunks looked at in one go.
pub(super) const LOT: usize = 1024;
/// Of a lot, one in so many goes at most: in the next one there may be worse.
const AT_MOST: usize = 4;
/// Uses that are so close together are one, seconds.
pub(super) const SAME_USE: u32 = 30;
/// What was used only once may be this part of all.
const PROBATION: u64 = 10;

/// A chunk that may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// When it was used last, seconds on any clock.
    pub used: u32,
    /// How often it was used apart in time, at most 255.
    pub uses: u8,
    /// What it holds.
    pub bytes: u64,
}

impl Candidate {
    pub(super) fn is_on_probation(&self) -> bool {
        self.uses <= 1
    }

    /// It is used now; whether that is another use than the last one.
    pub(super) fn use_at(&mut self, now: u32) -> bool {
        let another = now.saturating_sub(self.used) >= SAME_USE || self.uses == 0;
        if another {
            self.uses = self.uses.saturating_add(1);
            self.used = now;
        }
        another
    }
}

/// Which of a lot are to go for `wanted` bytes, when so many bytes are held and so many of them were used once. `whole`: there are no
/// others than these.
pub(super) fn choose(
    lot: &[Candidate],
    whole: bool,
    wanted: u64,
    held: u64,
    on_probation: u64,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lot.len()).collect();
    let scanned_first = on_probation > held / PROBATION;
    order.sort_by_key(|at| (lot[*at].is_on_probation() != scanned_first, lot[*at].used));
    let most = if whole { lot.len() } else { lot.len().div_ceil(AT_MOST) };
    let (mut freed, mut chosen) = (0, Vec::new());
    for at in order.into_iter().take(most) {
        if freed >= wanted {
            break;
        }
        // Another lot may have some of the kind that is to go.
        if !whole && lot[at].is_on_probation() != scanned_first && scanned_first {
            break;
        }
        freed += lot[at].bytes;
        chosen.push(at);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of 100 items in which 40 are used every round while a scan goes on; hits of those 40, in percent.
    fn hits_beside_a_scan(again: bool) -> u64 {
        let mut held: Vec<(u64, Candidate)> = Vec::new();
        let (mut hits, mut asked, mut now, mut scan) = (0, 0, 0u32, 1000);
        let touch = |held: &mut Vec<(u64, Candidate)>, item: u64, now: u32| {
            if let Some((_, known)) = held.iter_mut().find(|(held, _)| *held == item) {
                if again {
                    known.use_at(now);
                } else {
                    known.used = now;
                }
                return true;
            }
            if held.len() >= 100 {
                let lot: Vec<Candidate> = held.iter().map(|(_, known)| *known).collect();
                let once = lot.iter().filter(|known| known.is_on_probation()).count() as u64;
                let gone = choose(&lot, true, 1, held.len() as u64, once);
                gone.into_iter().for_each(|at| {
                    held.swap_remove(at);
                });
            }
            held.push((item, Candidate { used: now, uses: 1, bytes: 1 }));
            false
        };
        for round in 0..200 {
            for item in 0..40 {
                now += 1;
                let hit = touch(&mut held, item, now);
                if round >= 5 {
                    asked += 1;
                    hits += u64::from(hit);
                }
            }
            // The scan begins when they are known.
            for _ in 0..if round < 3 { 0 } else { 80 } {
                now += 1;
                scan += 1;
                touch(&mut held, scan, now);
            }
        }
        hits * 100 / asked
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used_again() {
        assert_eq!(hits_beside_a_scan(true), 100);
        assert!(hits_beside_a_scan(false) < 10, "by the last use alone it would");
    }

    #[test]
    fn what_was_used_again_goes_when_little_else_is_left() {
        let old = Candidate { used: 10, uses: 9, bytes: 1 };
        let once = Candidate { used: 5, uses: 1, bytes: 1 };
        assert_eq!(choose(&[old, once], true, 1, 1000, 50), [0]);
        assert_eq!(choose(&[old, once], true, 1, 1000, 500), [1]);
        assert_eq!(choose(&[old, once], true, 2, 1000, 500), [1, 0]);
        assert!(choose(&[], true, 1, 1000, 500).is_empty());
    }

    #[test]
    fn of_a_part_only_a_part_goes_and_nothing_that_others_should_go_before() {
        let lot: Vec<_> = (0..8).map(|at| Candidate { used: 100 - at, uses: 1, bytes: 1 }).collect();
        assert_eq!(choose(&lot, false, 100, 1000, 500), [7, 6]);
        let used_again: Vec<_> = lot.iter().map(|known| Candidate { uses: 3, ..*known }).collect();
        assert!(choose(&used_again, false, 100, 1000, 500).is_empty());
        assert_eq!(choose(&used_again, false, 100, 1000, 50), [7, 6]);
    }

    #[test]
    fn uses_close_together_are_one() {
        let mut known = Candidate { used: 100, uses: 1, bytes: 1 };
        assert!(!known.use_at(120));
        assert!(known.use_at(100 + SAME_USE));
        assert_eq!((known.uses, known.used), (2, 130));
    }
}
