//! A sequential prefetcher as in ZFS 0.7 (zfetch): up to eight streams of a file, each waiting for exactly
//! the block after its last one.
//!
//! A read that matches no stream starts a new one if there is room, or if a stream has not been matched for
//! the reap time. A stream prefetches from its first match on, twice as far ahead after each. This is what
//! disorder breaks: a block that comes before its predecessor matches nothing and leaves a stream behind
//! that waits for a block that has already gone by.

use std::ops::Range;

use super::parameters::{Parameters, STREAMS, blocks, nanos};

/// How far from the awaited block a read still matches, when reordering is tolerated (OpenZFS #16022), blocks.
const TOLERANCE: u64 = 16;

/// The streams of one file.
#[derive(Debug, Clone, Default)]
pub struct Prefetcher {
    streams: Vec<Stream>,
}

/// What holds for every file.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    first: u64,
    most: u64,
    reap: u64,
    /// Reads out of order still match.
    tolerant: bool,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The block it waits for.
    next: u64,
    /// End of what it has prefetched.
    ahead: u64,
    /// How far ahead of a match it prefetches now, blocks.
    distance: u64,
    /// Last match, or when it began, ns.
    used: u64,
}

impl Rules {
    /// The rules of `parameters`; `tolerant` as since 2024, otherwise exact.
    pub fn new(parameters: &Parameters, tolerant: bool) -> Self {
        let most = blocks(parameters.ahead_most_mib);
        Self {
            first: blocks(parameters.ahead_first_mib).min(most),
            most,
            reap: nanos(parameters.reap_ms),
            tolerant,
        }
    }
}

impl Prefetcher {
    /// A demand read of `wanted` at `now` (ns): the blocks to prefetch, of which some may be there already.
    pub fn read(&mut self, rules: &Rules, now: u64, wanted: Range<u64>) -> Range<u64> {
        let matching = self.streams.iter_mut().find(|stream| {
            if rules.tolerant {
                wanted.start + TOLERANCE >= stream.next && wanted.start <= stream.next + TOLERANCE
            } else {
                wanted.start == stream.next
            }
        });
        if let Some(stream) = matching {
            let start = stream.ahead.max(wanted.end);
            stream.next = stream.next.max(wanted.end);
            let end = (stream.next + stream.distance).max(start);
            stream.ahead = end;
            stream.distance = (stream.distance * 2).min(rules.most);
            stream.used = now;
            return start..end;
        }
        let fresh = Stream { next: wanted.end, ahead: wanted.end, distance: rules.first, used: now };
        if self.streams.len() < STREAMS {
            self.streams.push(fresh);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used)
            && now.saturating_sub(oldest.used) >= rules.reap
        {
            *oldest = fresh;
        }
        wanted.end..wanted.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(tolerant: bool) -> Rules {
        Rules { first: 1, most: 8, reap: 1_000, tolerant }
    }

    #[test]
    fn a_stream_in_order_is_prefetched_ever_further_and_no_block_twice() {
        let mut prefetcher = Prefetcher::default();
        let mut end = 1;
        for block in 0..100 {
            let range = prefetcher.read(&rules(false), block, block..block + 1);
            if block > 0 {
                assert_eq!(range.start, end.max(block + 1), "block {block}");
                end = range.end;
            }
        }
        assert_eq!(end, 108, "eight blocks ahead of the last one");
    }

    #[test]
    fn a_pair_out_of_order_leaves_the_first_stream_waiting_for_ever() {
        let mut prefetcher = Prefetcher::default();
        let order = [0, 1, 2, 4, 3, 5, 6];
        let ranges: Vec<_> = order.iter().map(|&b| prefetcher.read(&rules(false), 0, b..b + 1)).collect();
        assert!(ranges[3].is_empty(), "block 4 came early and matches nothing");
        assert_eq!(prefetcher.streams.len(), 2);
        assert_eq!(prefetcher.streams[0].next, 4, "still waits for the block that went by");
        assert_eq!(prefetcher.streams[1].next, 7);

        let mut tolerant = Prefetcher::default();
        for block in order {
            tolerant.read(&rules(true), 0, block..block + 1);
        }
        assert_eq!(tolerant.streams.len(), 1, "one stream for a prefetcher that tolerates it");
    }

    #[test]
    fn a_ninth_stream_waits_until_one_has_been_idle_for_the_reap_time() {
        let mut prefetcher = Prefetcher::default();
        for stream in 0..9 {
            prefetcher.read(&rules(false), 0, stream * 100..stream * 100 + 1);
        }
        assert!(prefetcher.read(&rules(false), 1, 801..802).is_empty(), "no place for the ninth");
        prefetcher.read(&rules(false), 1_000, 900..901);
        assert!(!prefetcher.read(&rules(false), 1_001, 901..902).is_empty(), "a place was reaped");
    }
}
