//! What an endpoint is like.

use crate::engine::Random;
use std::time::Duration;

/// One endpoint of a [`super::Service`].
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How long until the first byte comes.
    pub first_byte: FirstByte,
    /// Changes of that over time.
    pub latency_steps: Vec<LatencyStep>,
    /// What one connection carries.
    pub connections: Connections,
    /// Requests per second it answers, if that is limited.
    pub throttle: Option<Throttle>,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// A GET that makes no progress for so long fails.
    pub idle_timeout: Duration,
    /// The interface it is reached through; none: all of them.
    pub interface: Option<usize>,
}

impl Endpoint {
    /// No fault, no throttling; `first_byte` seconds in the median.
    pub fn plain(first_byte: f64, rate: u64) -> Endpoint {
        Endpoint {
            first_byte: FirstByte {
                median: first_byte,
                sigma: 0.2,
                tail: 0.0,
                tail_from: 0.0,
                tail_alpha: 2.0,
            },
            latency_steps: Vec::new(),
            connections: Connections { rate, factors: Vec::new() },
            throttle: None,
            faults: Vec::new(),
            idle_timeout: Duration::from_secs(10),
            interface: None,
        }
    }

    /// What multiplies first-byte latencies at this time.
    pub fn latency_factor(&self, now: Duration) -> f64 {
        self.latency_steps
            .iter()
            .filter(|step| step.at <= now)
            .max_by_key(|step| step.at)
            .map_or(1.0, |step| step.factor)
    }
}

/// The distribution of the time to the first byte: with probability `tail` from the tail, else from the body. Seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirstByte {
    /// Median of the log-normal body.
    pub median: f64,
    /// Standard deviation of its logarithm.
    pub sigma: f64,
    /// Share of the requests that are in the tail.
    pub tail: f64,
    /// Where the Pareto tail begins.
    pub tail_from: f64,
    /// Its exponent: the smaller, the heavier; above 1.
    pub tail_alpha: f64,
}

/// No request takes longer than this: beyond it every client gives up. Seconds.
const LONGEST: f64 = 60.0;

impl FirstByte {
    /// One draw.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let drawn = if random.chance(self.tail) {
            random.pareto(self.tail_from, self.tail_alpha)
        } else {
            random.log_normal(self.median, self.sigma)
        };
        drawn.min(LONGEST)
    }

    /// The mean, but for draws beyond the longest.
    pub fn mean(&self) -> f64 {
        let body = self.median * (self.sigma * self.sigma / 2.0).exp();
        let tail = self.tail_from * self.tail_alpha / (self.tail_alpha - 1.0);
        if self.tail > 0.0 { (1.0 - self.tail) * body + self.tail * tail } else { body }
    }

    /// What nearly no request is faster than; refusals take as long.
    pub fn least(&self) -> f64 {
        self.median * (-2.0 * self.sigma).exp()
    }
}

/// From `at` on first-byte latencies are multiplied by `factor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyStep {
    /// When.
    pub at: Duration,
    /// Of what the endpoint began with.
    pub factor: f64,
}

/// What one connection carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Connections {
    /// Bytes per second.
    pub rate: u64,
    /// A connection's rate is multiplied by one of these, drawn for each GET; none: all are alike. Few different ones keep the
    /// network model cheap.
    pub factors: Vec<f64>,
}

/// A token bucket per prefix; a file's number decides its prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Requests per second and prefix.
    pub rate: f64,
    /// Requests at once, per prefix.
    pub burst: f64,
    /// How many prefixes there are.
    pub prefixes: u64,
}

/// Something that goes wrong in a window of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// GETs sent from here on ...
    pub from: Duration,
    /// ... and before this are concerned,
    pub until: Duration,
    /// each with this probability.
    pub probability: f64,
    /// What happens.
    pub kind: FaultKind,
}

/// What happens to a GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// It is answered 503.
    Refuse,
    /// Not even its first byte comes; for so long, or ever.
    Silence(Option<Duration>),
    /// Some byte of it is the last one, for so long, or ever.
    Stall(Option<Duration>),
    /// The connection is reset, or the body ends early, at some byte of it: the client sees both.
    Cut,
}
