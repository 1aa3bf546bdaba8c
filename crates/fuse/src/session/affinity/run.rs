//! Sees, from the requests that one worker takes, whether one caller alone asks.
//!
//! The kernel hands requests to waiting workers by turns, so what a worker sees is a sample. Who has seen one caller only, several times
//! within little time, tries: if no other worker takes the trial back meanwhile, it becomes the caller's companion. Nothing that
//! workers share is written to unless one tries, so that many callers cost them nothing.

use std::time::{Duration, Instant};

use super::claim::Claim;

/// Requests of one caller after which a worker tries.
const RUN: u32 = 4;
/// As many more, with nobody else's in between, make it the caller's companion.
const TRIAL: u32 = 2;
/// As often as that are trials put off at most, after others have taken them back.
const PATIENCE: u32 = 1 << 10;
/// Who asks less often gains nothing that could be noticed.
const DENSE: Duration = Duration::from_millis(4);
/// Requests of the caller from one look at where it runs to the next.
const LOOK_EVERY: u32 = 16;
/// What a companion begins with, each request of its caller adding one up to ...
const TRUST: u32 = 24;
/// ... this much, and each that is another's or has much data taking ...
const TRUST_MOST: u32 = 64;
/// ... this.
const DOUBT: u32 = 8;

/// One request, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The thread that made it; 0 if that is unknown or nobody.
    pub caller: u32,
    /// It or its reply has so much data that copying it is most of its cost.
    pub bulky: bool,
}

/// What a worker is to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Nothing,
    /// Claim a trial.
    Try,
    /// Take this trial back.
    Withdraw,
    /// The trial went well: become the caller's companion, and look where the caller runs.
    Begin,
    /// Look where the caller runs.
    Look,
    /// Be nobody's companion any more.
    End,
}

/// What one worker has seen.
#[derive(Debug)]
pub(super) struct Run {
    worker: u16,
    caller: u32,
    /// Requests of that caller, one after the other.
    length: u32,
    last: Option<Instant>,
    /// Requests after which to try, times [`RUN`].
    put_off: u32,
    trying: bool,
    trust: u32,
    until_look: u32,
}

impl Run {
    pub fn new(worker: u16) -> Run {
        Run { worker, caller: 0, length: 0, last: None, put_off: 1, trying: false, trust: 0, until_look: 0 }
    }

    /// It took a request while `claim` was agreed.
    pub fn request(&mut self, claim: Claim, request: Request, now: Instant) -> Step {
        if request.caller == 0 {
            return Step::Nothing;
        }
        match claim {
            Claim::Companion { worker, caller } if worker == self.worker => self.accompany(caller, request),
            Claim::Companion { .. } => {
                self.length = 0;
                Step::Nothing
            }
            Claim::Trial { worker, caller } if worker == self.worker => self.try_on(caller, request, now),
            Claim::Trial { caller, .. } => {
                self.count(request, now);
                if caller == request.caller && !request.bulky { Step::Nothing } else { Step::Withdraw }
            }
            Claim::Nobody => {
                if std::mem::take(&mut self.trying) {
                    // Another had seen another caller.
                    self.length = 0;
                    self.put_off = (self.put_off * 2).min(PATIENCE);
                }
                self.count(request, now);
                let enough = RUN * self.put_off;
                self.trying = self.length >= enough;
                if !self.trying {
                    return Step::Nothing;
                }
                // It may be more, from before another was companion: what a trial asks for is to come after that.
                self.length = enough;
                Step::Try
            }
        }
    }

    /// What [`Step::Try`] was said for could not be claimed.
    pub fn not_tried(&mut self) {
        self.trying = false;
        self.length = 0;
    }

    fn count(&mut self, request: Request, now: Instant) {
        let dense = self.last.is_some_and(|last| now.saturating_duration_since(last) < DENSE);
        self.last = Some(now);
        let same = request.caller == self.caller && dense;
        self.caller = request.caller;
        self.length = match (request.bulky, same) {
            (true, _) => 0,
            (false, true) => self.length.saturating_add(1),
            (false, false) => 1,
        };
    }

    fn try_on(&mut self, caller: u32, request: Request, now: Instant) -> Step {
        self.count(request, now);
        if request.caller != caller || self.length <= 1 {
            self.not_tried();
            return Step::Withdraw;
        }
        if self.length < RUN * self.put_off + TRIAL {
            return Step::Nothing;
        }
        *self = Run { caller, trust: TRUST, until_look: LOOK_EVERY, ..Run::new(self.worker) };
        Step::Begin
    }

    fn accompany(&mut self, caller: u32, request: Request) -> Step {
        if request.caller != caller || request.bulky {
            self.trust = self.trust.saturating_sub(DOUBT);
            return if self.trust == 0 { Step::End } else { Step::Nothing };
        }
        self.trust = (self.trust + 1).min(TRUST_MOST);
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look > 0 {
            return Step::Nothing;
        }
        self.until_look = LOOK_EVERY;
        Step::Look
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Duration = Duration::from_micros(50);

    /// Workers that take requests by turns, as the kernel wakes them; a companion takes all.
    struct Workers {
        runs: Vec<Run>,
        claim: Claim,
        turn: usize,
        now: Instant,
        looks: usize,
    }

    impl Workers {
        fn new(count: u16) -> Workers {
            let runs = (0..count).map(Run::new).collect();
            Workers { runs, claim: Claim::Nobody, turn: 0, now: Instant::now(), looks: 0 }
        }

        fn request(&mut self, caller: u32, bulky: bool) -> Step {
            self.now += SMALL;
            let worker = match self.claim {
                Claim::Companion { worker, .. } => usize::from(worker),
                _ => {
                    self.turn = (self.turn + 1) % self.runs.len();
                    self.turn
                }
            };
            let step = self.runs[worker].request(self.claim, Request { caller, bulky }, self.now);
            let worker = worker as u16;
            match step {
                Step::Nothing => {}
                Step::Look => self.looks += 1,
                Step::Try => self.claim = Claim::Trial { worker, caller },
                Step::Withdraw | Step::End => self.claim = Claim::Nobody,
                Step::Begin => self.claim = Claim::Companion { worker, caller },
            }
            step
        }

        fn requests(&mut self, count: u32, caller: u32, bulky: bool) {
            for _ in 0..count {
                self.request(caller, bulky);
            }
        }

        fn accompanies(&self) -> Option<u32> {
            match self.claim {
                Claim::Companion { caller, .. } => Some(caller),
                _ => None,
            }
        }
    }

    #[test]
    fn who_asks_alone_has_a_companion_soon_and_it_looks_where_they_run() {
        for count in [2, 4, 24, 64] {
            let mut workers = Workers::new(count);
            let after = (1..).find(|_| workers.request(7, false) == Step::Begin).unwrap();
            assert!(
                after <= usize::from(count) * (RUN + TRIAL) as usize,
                "{count} workers: {after} requests"
            );
            workers.requests(1600, 7, false);
            assert_eq!((workers.accompanies(), workers.looks), (Some(7), 100));
        }
    }

    #[test]
    fn who_asks_now_and_then_has_none() {
        let mut workers = Workers::new(2);
        for _ in 0..1000 {
            workers.now += DENSE;
            workers.request(7, false);
            assert_eq!(workers.claim, Claim::Nobody);
        }
    }

    #[test]
    fn a_trial_that_was_left_is_taken_back() {
        let mut workers = Workers::new(2);
        while workers.claim == Claim::Nobody {
            workers.request(7, false);
        }
        workers.now += DENSE;
        let steps: Vec<Step> = (0..2).map(|_| workers.request(7, false)).collect();
        assert!(steps.contains(&Step::Withdraw), "{steps:?}");
    }

    #[test]
    fn a_companion_leaves_when_others_come_or_much_data() {
        for (caller, bulky) in [(8, false), (7, true)] {
            let mut workers = Workers::new(4);
            workers.requests(1000, 7, false);
            assert_eq!(workers.accompanies(), Some(7));
            // One now and then does not matter.
            for at in 0..1000 {
                if at % 20 == 0 {
                    workers.request(caller, bulky)
                } else {
                    workers.request(7, false)
                };
                assert_eq!(workers.accompanies(), Some(7));
            }
            let ended = (1..).find(|_| workers.request(caller, bulky) == Step::End).unwrap();
            assert!(ended <= 8, "{ended}");
        }
    }

    #[test]
    fn what_one_knows_from_before_another_was_companion_begins_a_trial_and_does_not_end_it() {
        let mut workers = Workers::new(2);
        workers.requests(8, 2, false);
        workers.requests(29, 1, false);
        workers.requests(6, 2, true);
        assert_eq!(workers.accompanies(), None);
        let mut one_of_two = || {
            let step = workers.request(1, false);
            workers.requests(7, 0, false);
            step
        };
        assert_eq!([(); 3].map(|()| one_of_two()), [Step::Try, Step::Nothing, Step::Begin]);
    }

    #[test]
    fn what_nobody_asked_for_counts_for_nothing() {
        let mut workers = Workers::new(2);
        for _ in 0..1000 {
            workers.request(0, false);
            assert_eq!(workers.claim, Claim::Nobody);
        }
        workers.requests(100, 7, false);
        workers.requests(100, 0, true);
        assert_eq!(workers.accompanies(), Some(7));
    }

    #[test]
    fn two_by_turns_have_none_for_long_and_are_hardly_tried() {
        for count in [2, 3, 4, 24] {
            let mut workers = Workers::new(count);
            let mut accompanied = 0;
            let mut tried = 0;
            for at in 0..100_000 {
                let step = workers.request(7 + at % 2, false);
                tried += usize::from(step == Step::Try);
                accompanied += usize::from(workers.accompanies().is_some());
            }
            assert!(accompanied < 100, "{count} workers: {accompanied}");
            assert!(tried < 100 + 20 * usize::from(count), "{count} workers: {tried}");
        }
    }

    proptest! {
        #[test]
        fn only_who_has_been_asking_alone_is_accompanied(
            count in 1_u16..8,
            requests in prop::collection::vec((0_u32..4, 0_u32..10, 1_usize..60), 1..60),
        ) {
            let mut workers = Workers::new(count);
            let mut seen = Vec::new();
            for (caller, bulky, times) in requests {
                for _ in 0..times {
                    let bulky = bulky == 0;
                    let step = workers.request(caller, bulky);
                    if caller != 0 {
                        seen.push((caller, bulky));
                    }
                    if step == Step::Begin {
                        let alone = seen.iter().rev().take((TRIAL + 1) as usize).all(|one| *one == (caller, false));
                        prop_assert!(alone);
                    }
                    if let Some(of) = workers.accompanies() {
                        let strange = seen.iter().rev().take(8).filter(|one| **one != (of, false)).count();
                        prop_assert!(strange < 8, "nobody asked for {of} any more");
                    }
                }
            }
        }
    }
}
