//! Who takes requests: every worker, or one alone.

/// Agreed among the workers of a session, in one word that they share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// All do.
    Nobody,
    /// All do, and this worker has seen nobody but this caller. Whoever sees another caller takes it back.
    Trial { worker: u16, caller: u32 },
    /// This worker alone does, for this caller.
    Companion { worker: u16, caller: u32 },
}

const TRIAL: u64 = 1 << 48;
const COMPANION: u64 = 2 << 48;

impl Claim {
    pub fn encode(self) -> u64 {
        let word = |kind, worker: u16, caller: u32| kind | (u64::from(worker) << 32) | u64::from(caller);
        match self {
            Claim::Nobody => 0,
            Claim::Trial { worker, caller } => word(TRIAL, worker, caller),
            Claim::Companion { worker, caller } => word(COMPANION, worker, caller),
        }
    }

    pub fn decode(word: u64) -> Claim {
        let (worker, caller) = ((word >> 32) as u16, word as u32);
        match word & (TRIAL | COMPANION) {
            0 => Claim::Nobody,
            TRIAL => Claim::Trial { worker, caller },
            _ => Claim::Companion { worker, caller },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_of_it_is_in_the_word(worker: u16, caller: u32) {
            for claim in [Claim::Nobody, Claim::Trial { worker, caller }, Claim::Companion { worker, caller }] {
                prop_assert_eq!(Claim::decode(claim.encode()), claim);
            }
        }
    }
}
