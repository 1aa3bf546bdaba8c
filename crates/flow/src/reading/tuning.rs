//! The numbers of [`super::Reads`].

use std::time::Duration;

use crate::{endpoint, order, processors, streams, window};

/// All constants that reading rests on. The defaults are meant for everybody: no measurement depends on any of them by more than a
/// few percent within a factor of four, which the simulator shows.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Of finding streams.
    pub streams: streams::Tuning,
    /// Of windows.
    pub window: window::Tuning,
    /// Of what is learned of the endpoint.
    pub endpoint: endpoint::Tuning,
    /// Of noticing that processors are the limit.
    pub processors: processors::Tuning,
    /// Of trying whether the endpoint likes requests in order.
    pub order: order::Tuning,
    /// What nobody reads ahead of is fetched in multiples of this, bytes: about what a checksum covers.
    pub grain: u64,
    /// The smallest fetch ahead, bytes.
    pub part_min: u64,
    /// A fetch lasts at least so many times its own latency where memory allows: so much of the time bytes flow ...
    pub part_latencies: u32,
    /// ... and for at least so long: a request takes processor time at both ends, however few bytes it asks for.
    pub part_time: Duration,
    /// The same while that is what limits.
    pub part_time_dear: Duration,
    /// Where several are in flight, a part is no larger than what all of them together bring within this.
    pub part_most_time: Duration,
    /// Where less is left of a stream than could be in flight, and near its reader, parts are smaller, down to those that take so long from
    /// their first byte to the last.
    pub part_least_time: Duration,
    /// Ahead of a reader who begins with a window that is known, a part has at most one so-many-th of what is between it and him.
    pub parts_before: u64,
    /// A window has at least so many parts where they can be that small.
    pub parts_per_window: u64,
    /// The same while processors are what limits and no more fetches may be in flight than there are streams.
    pub parts_per_window_dear: u64,
    /// A window is up to so many times what may be in flight where parts come about in the order in which they were sent ...
    pub windows_in_order: u64,
    /// ... and larger when it was full while its reader waited and more could have been sent. It is at most so many times what may be in flight: what comes out of order lies there until what is before it comes.
    pub windows_in_flight: u64,
    /// A stream may hold so many times the memory that is free, so that some is always left for others (Choudhury and Hahne,
    /// "Dynamic queue length thresholds for shared-memory packet switches", 1998).
    pub share: u64,
    /// One so-many-th of the memory is for reads that somebody waits for.
    pub reserve: u64,
    /// What was read of a part is released in pieces of at least so many bytes.
    pub trim: u64,
    /// Reads must have waited in so many of 64 regions of a file before it is fetched whole; half of that is enough while one of
    /// five at most was in one where another had been.
    pub regions: u32,
    /// Files that wait to be fetched whole, at most.
    pub buying: usize,
    /// Nothing more is sent ahead while what is under way takes longer than this to come ...
    pub backlog: Duration,
    /// ... and longer than so many fetches take while the endpoint is not loaded. If it takes twice as long, some of it is put off.
    pub backlog_fetches: u32,
    /// Fetches ahead are sent faster than they come by at most this share of it.
    pub pace: f64,
    /// Where all that may be in flight comes within this, it may as well be sent at once: nobody sees such swings.
    pub paced_from: Duration,
    /// A fetch is given up and sent anew when nothing came of it for at least so long ...
    pub hung: Duration,
    /// ... and for so many times what is late.
    pub hung_lates: u32,
    /// A fetch is tried again for so long after it first failed, before the reads that wait for it fail.
    pub patience: Duration,
    /// Before the first repetition; doubles with each.
    pub retry: Duration,
    /// The longest wait before a repetition.
    pub retry_max: Duration,
    /// Nothing is measured: what a person set by hand. For measurements of what the rest of this decides.
    pub fixed: Option<Fixed>,
}

/// Reading ahead with numbers that somebody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// Bytes ahead of each stream, as far as memory goes.
    pub window: u64,
    /// Fetches in flight, of all streams together.
    pub fetches: usize,
    /// Bytes of a fetch, as far as [`super::Limits::request_max`] goes; what is no power of two is rounded down to one.
    pub part: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            streams: streams::Tuning::default(),
            window: window::Tuning::default(),
            endpoint: endpoint::Tuning::default(),
            processors: processors::Tuning::default(),
            order: order::Tuning::default(),
            grain: 32 << 10,
            part_min: 1 << 20,
            part_latencies: 2,
            part_time: Duration::from_millis(40),
            part_time_dear: Duration::from_millis(160),
            part_most_time: Duration::from_millis(10),
            part_least_time: Duration::from_millis(10),
            parts_before: 8,
            parts_per_window: 4,
            parts_per_window_dear: 2,
            windows_in_order: 3,
            windows_in_flight: 16,
            share: 16,
            reserve: 16,
            trim: 1 << 20,
            regions: 16,
            buying: 64,
            backlog: Duration::from_millis(1500),
            backlog_fetches: 4,
            pace: 1.0,
            paced_from: Duration::from_millis(80),
            hung: Duration::from_millis(500),
            hung_lates: 4,
            patience: Duration::from_secs(60),
            retry: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            fixed: None,
        }
    }
}
