//! A Lustre client of fixed settings and its server, as in ticket LU-9194: one file read in order by one
//! program, from a server on ZFS whose prefetcher is confused by RPCs that reach it out of order.
//!
//! - [`client`]: the reader (copies at a finite rate, sets up read-ahead in refills of about 16 MiB in its
//!   own thread), the window, the cap on RPCs in flight.
//! - [`server`]: threads that start RPCs after a random delay which grows with the RPCs there, the cache,
//!   the wire.
//! - [`prefetch`]: zfetch, eight streams, exact next block.
//! - [`disks`]: two groups, ten demand requests and three prefetches at a time, a cost by distance.
//! - [`parameters`], [`grid`], [`fit`]: the constants, the ticket's tables, and the search that chose them.
//!
//! One set of parameters serves both tables; only the prefetcher is switched. Mean |ln(model / ticket)| is
//! 0.085 with it on and 0.078 with it off. On rows held out, fits from the guess (170 s each) reached, on / off:
//! 0.187 / 0.147 without the rows of 4 and 32 RPCs (0.109 / 0.098 on the others), 0.119 / 0.071 without those
//! of 2 and 16 (0.102 / 0.058). The structure and the bounds had been chosen with all rows in sight.
//!
//! What to know before relying on it:
//! - How a disk group chooses (demand reads sorted, turns between the two kinds) was itself chosen by error,
//!   among ten ways, each given one short fit of 28 s (130 to 630 candidates, so not the same for all): the
//!   one kept had 0.140 / 0.131 then, the next 0.138 / 0.146 and 0.151 / 0.141, the rest 0.14 to 0.22.
//! - Several constants are not what the parts are known to take: streams are reaped after 1.6 ms where ZFS
//!   waits seconds, the way to a place nearby is 3 ms where 1.5 was expected. `transfer_ms`, `near_ms`,
//!   `refill_mib`, `ahead_first_mib` and `ahead_most_mib` lie at a bound of the search. They are constants of
//!   this model, not measurements of ZFS.
//! - The best cell without the prefetcher is about 900 MB/s here and 1,100 in the ticket.
//! - The fit was asked for parameters with which order, or tolerance of disorder, restores the speed at 8 and
//!   32 RPCs; that it does so there is no independent evidence.

pub mod client;
pub mod disks;
pub mod fit;
pub mod grid;
pub mod parameters;
pub mod prefetch;
pub mod random;
pub mod server;

pub use client::Settings;
pub use grid::{Effort, Grid};
pub use parameters::{BLOCK, Parameters};
pub use server::{Completion, Counts, Server, Variant};

/// What one run of `rpcs` in flight and `readahead_mb` of window reaches, MB/s, with the kept parameters.
pub fn fixed(rpcs: usize, readahead_mb: u64, prefetch: bool, seed: u64) -> f64 {
    let settings = Settings { rpcs, readahead_mib: readahead_mb };
    let effort = Effort { seeds: 1, first_seed: seed, ..Effort::SHOWN };
    grid::mean(&Parameters::FITTED, settings, prefetch, Variant::Ticket, effort)
}

/// What the reader itself takes for one block, copying it and setting it up: no client reads faster.
pub fn reader_per_block() -> std::time::Duration {
    std::time::Duration::from_secs_f64(Parameters::FITTED.reader_ms() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::client::Length;
    use super::*;

    const QUICK: Effort =
        Effort { length: Length { warm_mib: 320, measured_mib: 1024 }, seeds: 1, first_seed: 77 };

    #[test]
    fn both_tables_are_within_fifteen_percent_of_the_ticket_with_one_set_of_parameters() {
        for prefetch in [true, false] {
            let model = Grid::model(&Parameters::FITTED, prefetch, Variant::Ticket, QUICK);
            let error = model.error(&Grid::ticket(prefetch), |_| true);
            assert!(error <= 0.15, "prefetch {prefetch}: {error:.3}");
        }
    }

    #[test]
    fn no_fixed_setting_is_best_for_both() {
        let cell = |rpcs, prefetch| fixed(rpcs, 256, prefetch, 5);
        assert!(cell(1, true) > 1.5 * cell(64, true), "one RPC is best with the prefetcher");
        assert!(cell(64, false) > 2.5 * cell(1, false), "many are best without");
    }

    #[test]
    fn order_or_tolerance_of_disorder_decides() {
        let settings = Settings { rpcs: 32, readahead_mib: 256 };
        let cell = |variant| grid::mean(&Parameters::FITTED, settings, true, variant, QUICK);
        let (ticket, kept, tolerant) =
            (cell(Variant::Ticket), cell(Variant::OrderKept), cell(Variant::Tolerant));
        assert!(kept > 1.5 * ticket, "{kept} {ticket}");
        assert!(tolerant > 1.5 * ticket, "{tolerant} {ticket}");
    }

    #[test]
    fn a_run_follows_from_its_seed() {
        assert_eq!(fixed(8, 64, true, 3), fixed(8, 64, true, 3));
        assert_ne!(fixed(8, 64, true, 3), fixed(8, 64, true, 4));
    }
}
