//! How many bytes one fetch ahead asks for. Small ones are there soon, and a window may have several; large ones cost less for each byte:
//! a request has a latency, and takes processor time at both ends.

use std::time::Duration;

use super::reads::Reads;

/// How long small fetches take says little of how long one takes that is more than so many times as large.
const BELIEVED: u64 = 16;

/// Where something is to be fetched ahead of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes of its window.
    pub window: u64,
    /// Whether all of that may be sent at once, because so much is known to be needed.
    pub widened: bool,
    /// Bytes of the file that are before the reader.
    pub left: u64,
    /// From the reader on, bytes.
    pub ahead: u64,
}

impl Reads {
    /// The processors of this machine were idle for this share (0 to 1) of the last moment, some tenths of a second; to be told while anybody
    /// reads.
    pub fn processors(&mut self, idle: f64) {
        self.processors.told(idle);
        self.endpoint.processors(self.processors.are_busy());
    }

    /// Whether the processors of this machine are the limit, as it was told last.
    pub fn processors_are_busy(&self) -> bool {
        self.processors.are_busy()
    }

    /// Bytes of a fetch ahead, of no stream in particular: long enough to be mostly transfer and not mostly latency.
    pub(super) fn part_size(&self) -> u64 {
        if let Some(fixed) = self.tuning.fixed {
            return 1 << fixed.part.min(self.limits.request_max).max(1).ilog2();
        }
        let least = self.part_least();
        let wanted = self.transfer().map_or(least, |(latency, rate)| {
            let dear = self.processors.are_dear();
            let time = if dear { self.tuning.part_time_dear } else { self.tuning.part_time };
            let flowing = latency.saturating_mul(self.tuning.part_latencies).max(time);
            (rate * flowing.as_secs_f64()) as u64
        });
        let wanted = wanted.min(self.endpoint.size().map_or(least, |size| size.saturating_mul(BELIEVED)));
        // Powers of two, so that parts of different streams of a file meet.
        1 << wanted.max(least).min(self.part_most()).ilog2()
    }

    /// Of the `part` bytes of a fetch ahead, where one after the other would leave the endpoint idle for much of the time, no more than all that
    /// are in flight bring soon: larger ones would only be more in flight, out of order, and readers would wait for it.
    pub(super) fn part_of_several(&self, part: u64) -> u64 {
        let known = self.endpoint.bandwidth().zip(self.endpoint.latency_least());
        let Some((rate, latency)) = known.filter(|_| self.tuning.fixed.is_none()) else { return part };
        let within = |time: Duration| (rate as f64 * time.as_secs_f64()) as u64;
        if within(latency) < part / 2 {
            return part;
        }
        part.min(1 << within(self.tuning.part_most_time).max(self.part_least()).ilog2())
    }

    /// Bytes of a fetch ahead of one stream, where that of no stream in particular is `part`: several make up its window, so that a small one
    /// need not wait for few large ones. Where less is left than all fetches in flight could bring, all of them share it; and of what
    /// is sent at once what is near the reader comes in small ones, or all would come together, late: both as far as that is worth a request.
    pub(super) fn part_of(&self, place: &Place, part: u64) -> u64 {
        if self.tuning.fixed.is_some() {
            return part;
        }
        let least = self.part_least().min(part);
        let several = place.window / self.parts_per_window();
        let worth = self.transfer().map_or(0.0, |(_, rate)| rate * self.tuning.part_least_time.as_secs_f64());
        let fetches = (self.allowed() as u64 / self.followed.max(1)).max(1);
        let shared = (place.left as f64 / fetches as f64 * std::f64::consts::SQRT_2) as u64;
        let near = if place.widened { place.ahead / self.tuning.parts_before.max(1) } else { part };
        let soon = shared.min(near);
        part.min(1 << several.min(soon.max(worth as u64)).max(least).ilog2())
    }

    /// How long it takes until one fetch brings bytes, and bytes per second from then on, while the endpoint is not loaded.
    fn transfer(&self) -> Option<(Duration, f64)> {
        self.endpoint.transfer(self.part_least())
    }

    pub(super) fn part_least(&self) -> u64 {
        self.tuning.part_min.min(self.limits.request_max).max(1)
    }

    /// Where no stream has more than one fetch under way, one that comes and one that is read are enough for a window.
    fn parts_per_window(&self) -> u64 {
        let one_each = self.allowed() as u64 <= self.followed;
        let dear = self.processors.are_dear() && one_each;
        let parts = if dear { self.tuning.parts_per_window_dear } else { self.tuning.parts_per_window };
        parts.max(1)
    }

    /// As many as are allowed are to fit: where memory is what limits, shorter fetches make more of it.
    fn part_most(&self) -> u64 {
        let smallest = self.tuning.grain.saturating_mul(4).min(self.limits.request_max).max(1);
        let share = self.limits.memory / self.parts_per_window() / self.followed.max(1);
        let fitting = self.usable() / self.allowed().max(1) as u64;
        let fitting = (fitting as f64 * std::f64::consts::SQRT_2) as u64;
        self.limits.request_max.min(share).min(fitting.max(self.part_least())).max(smallest)
    }

    /// More than this ahead of one stream is of no use, bytes.
    pub(super) fn most_ahead(&self, part: u64) -> u64 {
        self.times_in_flight(self.tuning.windows_in_flight, part)
    }

    /// So much ahead of one stream is enough where parts come in about the order in which they were sent, bytes.
    pub(super) fn enough_ahead(&self, part: u64) -> u64 {
        self.times_in_flight(self.tuning.windows_in_order, part)
    }

    fn times_in_flight(&self, times: u64, part: u64) -> u64 {
        let flying = self.allowed() as u64 * part;
        let several = part.saturating_mul(self.parts_per_window());
        self.limits.memory.min(flying.saturating_mul(times.max(1)).max(several))
    }
}
