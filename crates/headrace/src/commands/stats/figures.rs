//! What a mount did between two looks at its metrics.

use std::time::Duration;

use headrace_metrics::{HistogramSnapshot, Snapshot, Value};
use serde::Serialize;

/// All layers, from the kernel down to the store. Rates are per second; what is not a rate is as of the second look.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// When, seconds since 1970.
    pub at: f64,
    /// How long the interval was.
    pub seconds: f64,
    /// Requests of the kernel.
    pub fuse: Fuse,
    /// The metadata engine.
    pub metadata: Metadata,
    /// Local caches.
    pub caches: Vec<Cache>,
    /// The object store.
    pub store: Store,
    /// Memory by what it is for.
    pub memory: Memory,
    /// Written data on its way.
    pub writers: Writers,
    /// The metadata's log in the bucket.
    pub log: Log,
    /// The daemon's process.
    pub process: Process,
}

/// Something that is done again and again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Work {
    /// What.
    pub operation: String,
    /// How often.
    pub per_second: f64,
    /// How often it failed.
    pub errors_per_second: f64,
    /// How many of it were under way on average.
    pub busy: f64,
    /// Half took no longer; `None` where nothing was timed.
    pub p50_seconds: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_seconds: Option<f64>,
}

/// Requests of the kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fuse {
    /// All of them together.
    pub all: Work,
    /// Each kind that there was, the busiest first.
    pub operations: Vec<Work>,
    /// File data given to the kernel.
    pub read_bytes_per_second: f64,
    /// File data taken from the kernel.
    pub written_bytes_per_second: f64,
    /// Requests without an answer yet.
    pub in_flight: f64,
}

/// The metadata engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metadata {
    /// Views opened, transactions, commits to disk.
    pub operations: Vec<Work>,
    /// Changes that are not on disk yet.
    pub pending_bytes: f64,
    /// Size on disk.
    pub disk_bytes: f64,
}

/// A local cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cache {
    /// Which.
    pub cache: String,
    /// Looked for and found.
    pub hits_per_second: f64,
    /// Looked for and not found.
    pub misses_per_second: f64,
    /// Brought from the store.
    pub fills_per_second: f64,
    /// Hits among all that was looked for; `None` where nothing was.
    pub hit_ratio: Option<f64>,
    /// Held.
    pub bytes: f64,
    /// May be held.
    pub limit_bytes: f64,
}

/// The object store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Store {
    /// All requests together.
    pub all: Work,
    /// Each kind that there was, the busiest first.
    pub operations: Vec<Work>,
    /// Read from it.
    pub received_bytes_per_second: f64,
    /// Written to it.
    pub sent_bytes_per_second: f64,
    /// Half of the reads had their first byte after this; `None` where there was none.
    pub first_byte_p50_seconds: Option<f64>,
    /// 99 of 100 had.
    pub first_byte_p99_seconds: Option<f64>,
    /// Attempts after one that failed.
    pub retries_per_second: f64,
    /// Requests under way.
    pub in_flight_requests: f64,
    /// Their bytes, where that is known.
    pub in_flight_bytes: f64,
    /// For how long requests hold off because the store asked for it.
    pub pause_seconds: f64,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// What `--memory` allows.
    pub ceiling_bytes: f64,
    /// Its parts.
    pub pools: Vec<Pool>,
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pool {
    /// What it is for.
    pub pool: String,
    /// In use.
    pub bytes: f64,
    /// May be in use.
    pub limit_bytes: f64,
    /// Those who wait for it.
    pub waiting: f64,
}

/// Written data on its way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Writers {
    /// Those who wait until their data is accepted.
    pub waiting: f64,
    /// Accepted and not in the store.
    pub dirty_bytes: f64,
    /// From when on writers wait.
    pub dirty_limit_bytes: f64,
    /// Open files.
    pub open_files: f64,
}

/// The metadata's log in the bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Log {
    /// How it does: `ok`, or what is wrong.
    pub state: String,
    /// How old the oldest change is that is not in the bucket.
    pub lag_seconds: f64,
    /// What is not in the bucket.
    pub lag_bytes: f64,
    /// The same in transactions: what the loss of this machine would take.
    pub lag_transactions: f64,
}

/// The daemon's process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    /// Processors in use on average.
    pub cpus: f64,
    /// Memory in RAM.
    pub resident_bytes: f64,
}

/// Two looks.
struct Between<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl Figures {
    /// What happened from `before` to `now`, both of the same daemon.
    pub fn between(before: &Snapshot, now: &Snapshot) -> Figures {
        let seconds = now.elapsed_since(before).as_secs_f64();
        let between = Between { before, now, seconds };
        Figures {
            at: now.at,
            seconds,
            fuse: between.fuse(),
            metadata: between.metadata(),
            caches: between.caches(),
            store: between.store(),
            memory: between.memory(),
            writers: Writers {
                waiting: between.gauge("headrace_waiting_writers", &[]),
                dirty_bytes: between.gauge("headrace_dirty_bytes", &[]),
                dirty_limit_bytes: between.gauge("headrace_dirty_limit_bytes", &[]),
                open_files: between.gauge("headrace_open_files", &[]),
            },
            log: between.log(),
            process: Process {
                // Counters of seconds count nanoseconds.
                cpus: between.rate("process_cpu_seconds_total", &[]) / 1e9,
                resident_bytes: between.gauge("process_resident_memory_bytes", &[]),
            },
        }
    }
}

/// Names of the metrics of a kind of work.
struct Names {
    count: &'static str,
    duration: &'static str,
    errors: &'static str,
}

const FUSE: Names = Names {
    count: "headrace_fuse_requests_total",
    duration: "headrace_fuse_request_duration_seconds",
    errors: "headrace_fuse_request_errors_total",
};
const STORE: Names = Names {
    count: "headrace_store_requests_total",
    duration: "headrace_store_request_duration_seconds",
    errors: "headrace_store_errors_total",
};

fn quantile(durations: &HistogramSnapshot, q: f64) -> Option<f64> {
    durations.quantile_duration(q).map(|duration| duration.as_secs_f64())
}

impl Between<'_> {
    fn per_second(&self, n: f64) -> f64 {
        if self.seconds > 0.0 { n / self.seconds } else { 0.0 }
    }

    /// A counter's rate.
    fn rate(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let (before, now) = (self.before.counter(name, labels), self.now.counter(name, labels));
        self.per_second(now.saturating_sub(before) as f64)
    }

    fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.now.gauge(name, labels).unwrap_or(0.0)
    }

    fn durations(&self, name: &str, labels: &[(&str, &str)]) -> HistogramSnapshot {
        self.now.histogram(name, labels).since(&self.before.histogram(name, labels))
    }

    fn work(&self, operation: &str, names: &Names, labels: &[(&str, &str)]) -> Work {
        let durations = self.durations(names.duration, labels);
        Work {
            operation: operation.to_owned(),
            per_second: self.rate(names.count, labels),
            errors_per_second: self.rate(names.errors, labels),
            busy: self.per_second(Duration::from_nanos(durations.sum()).as_secs_f64()),
            p50_seconds: quantile(&durations, 0.5),
            p99_seconds: quantile(&durations, 0.99),
        }
    }

    /// The values that a label has.
    fn values(&self, name: &str, label: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for value in self.now.samples(name, &[]).filter_map(|sample| sample.label(label)) {
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        values
    }

    /// Each kind that there was, the busiest first.
    fn by_operation(&self, names: &Names) -> Vec<Work> {
        let values = self.values(names.count, "operation");
        let mut all: Vec<Work> =
            values.iter().map(|name| self.work(name, names, &[("operation", name)])).collect();
        all.retain(|work| work.per_second > 0.0 || work.busy > 0.0 || work.errors_per_second > 0.0);
        all.sort_by(|a, b| b.busy.total_cmp(&a.busy));
        all
    }

    fn fuse(&self) -> Fuse {
        Fuse {
            all: self.work("all", &FUSE, &[]),
            operations: self.by_operation(&FUSE),
            read_bytes_per_second: self.rate("headrace_fuse_read_bytes_total", &[]),
            written_bytes_per_second: self.rate("headrace_fuse_written_bytes_total", &[]),
            in_flight: self.gauge("headrace_fuse_requests_in_flight", &[]),
        }
    }

    fn metadata(&self) -> Metadata {
        let work = |operation, count, duration| {
            self.work(operation, &Names { count, duration, errors: "headrace_metadata_errors_total" }, &[])
        };
        // The busy views are those that were timed, which are a few of them.
        let mut views =
            work("view", "headrace_metadata_views_total", "headrace_metadata_view_duration_seconds");
        let timed = self.durations("headrace_metadata_view_duration_seconds", &[]);
        views.busy = timed.mean_duration().unwrap_or_default().as_secs_f64() * views.per_second;
        Metadata {
            operations: vec![
                views,
                work(
                    "transaction",
                    "headrace_metadata_transactions_total",
                    "headrace_metadata_transaction_duration_seconds",
                ),
                work("commit", "headrace_metadata_syncs_total", "headrace_metadata_commit_duration_seconds"),
            ],
            pending_bytes: self.gauge("headrace_metadata_pending_bytes", &[]),
            disk_bytes: self.gauge("headrace_metadata_disk_bytes", &[]),
        }
    }

    fn caches(&self) -> Vec<Cache> {
        let of = |cache: String| {
            let label = [("cache", cache.as_str())];
            let hits = self.rate("headrace_cache_hits_total", &label);
            let misses = self.rate("headrace_cache_misses_total", &label);
            Cache {
                hits_per_second: hits,
                misses_per_second: misses,
                fills_per_second: self.rate("headrace_cache_fills_total", &label),
                hit_ratio: (hits + misses > 0.0).then(|| hits / (hits + misses)),
                bytes: self.gauge("headrace_cache_bytes", &label),
                limit_bytes: self.gauge("headrace_cache_limit_bytes", &label),
                cache,
            }
        };
        self.values("headrace_cache_hits_total", "cache").into_iter().map(of).collect()
    }

    fn store(&self) -> Store {
        let first_byte = self.durations("headrace_store_first_byte_seconds", &[]);
        Store {
            first_byte_p50_seconds: quantile(&first_byte, 0.5),
            first_byte_p99_seconds: quantile(&first_byte, 0.99),
            all: self.work("all", &STORE, &[]),
            operations: self.by_operation(&STORE),
            received_bytes_per_second: self.rate("headrace_store_received_bytes_total", &[]),
            sent_bytes_per_second: self.rate("headrace_store_sent_bytes_total", &[]),
            retries_per_second: self.rate("headrace_store_retries_total", &[]),
            in_flight_requests: self.gauge("headrace_store_in_flight_requests", &[]),
            in_flight_bytes: self.gauge("headrace_store_in_flight_bytes", &[]),
            pause_seconds: self.gauge("headrace_store_pause_seconds", &[]),
        }
    }

    fn memory(&self) -> Memory {
        let of = |pool: String| {
            let label = [("pool", pool.as_str())];
            Pool {
                bytes: self.gauge("headrace_memory_bytes", &label),
                limit_bytes: self.gauge("headrace_memory_limit_bytes", &label),
                waiting: self.gauge("headrace_memory_waiting", &label),
                pool,
            }
        };
        Memory {
            ceiling_bytes: self.gauge("headrace_memory_ceiling_bytes", &[]),
            pools: self.values("headrace_memory_bytes", "pool").into_iter().map(of).collect(),
        }
    }

    fn log(&self) -> Log {
        let states = self.now.samples("headrace_log_state", &[]);
        let state = states
            .filter(|sample| matches!(sample.value, Value::Gauge(on) if on > 0.0))
            .find_map(|sample| sample.label("state"));
        Log {
            state: state.unwrap_or("none").to_owned(),
            lag_seconds: self.gauge("headrace_log_lag_seconds", &[]),
            lag_bytes: self.gauge("headrace_log_lag_bytes", &[]),
            lag_transactions: self.gauge("headrace_log_lag_transactions", &[]),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use headrace_metrics::{Collection, Histogram, Unit};

    use super::*;

    /// Metrics at second `at`, after `reads` reads of 4 KiB that took 2 ms each.
    pub fn snapshot(at: f64, reads: u64) -> Snapshot {
        let mut into = Collection::new();
        let durations = Histogram::new();
        (0..reads).for_each(|_| durations.record(Duration::from_millis(2)));
        let (read, open) = ([("operation", "read")], [("operation", "open")]);
        into.counters(FUSE.count, "", Unit::None).counter(&read, reads).counter(&open, 5);
        into.durations(FUSE.duration, "").histogram(&read, durations.snapshot());
        into.counters(FUSE.errors, "", Unit::None).counter(&[read[0], ("errno", "EIO")], reads / 10);
        into.counter("headrace_fuse_read_bytes_total", "", Unit::Bytes, reads * 4096);
        into.counter("process_cpu_seconds_total", "", Unit::Seconds, reads * 5_000_000);
        into.counters(STORE.count, "", Unit::None).counter(&[("operation", "get")], reads / 2);
        let spans = [("cache", "spans")];
        into.counters("headrace_cache_hits_total", "", Unit::None).counter(&spans, reads * 3);
        into.counters("headrace_cache_misses_total", "", Unit::None).counter(&spans, reads);
        into.gauges("headrace_memory_bytes", "", Unit::Bytes).gauge(&[("pool", "dirty")], 1e6);
        into.gauges("headrace_memory_limit_bytes", "", Unit::Bytes).gauge(&[("pool", "dirty")], 4e6);
        let mut states = into.gauges("headrace_log_state", "", Unit::None);
        states.gauge(&[("state", "ok")], 0.0).gauge(&[("state", "lagging")], 1.0);
        let mut snapshot = Snapshot::new(into);
        snapshot.at = at;
        snapshot
    }

    #[test]
    fn rates_are_of_what_happened_between() {
        let figures = Figures::between(&snapshot(100.0, 100), &snapshot(102.0, 300));
        let read = &figures.fuse.operations[0];
        assert_eq!((figures.seconds, read.operation.as_str(), read.per_second), (2.0, "read", 100.0));
        assert_eq!((read.errors_per_second, figures.fuse.operations.len()), (10.0, 1), "no other happened");
        assert!((read.busy - 0.2).abs() < 1e-9, "{read:?}");
        let p99 = read.p99_seconds.unwrap();
        assert!((0.0015..0.0025).contains(&p99), "{p99}");
        assert_eq!(figures.fuse.read_bytes_per_second, 409_600.0);
        assert_eq!(figures.store.all.per_second, 50.0);
        assert_eq!(figures.store.all.p50_seconds, None);
        assert_eq!((figures.caches[0].hit_ratio, figures.caches[0].hits_per_second), (Some(0.75), 300.0));
        assert_eq!(figures.process.cpus, 0.5);
        assert_eq!(figures.memory.pools[0].limit_bytes, 4e6);
        assert_eq!(figures.log.state, "lagging");
    }

    #[test]
    fn nothing_is_infinite_or_negative_when_nothing_happened() {
        let one = snapshot(100.0, 10);
        for (before, now) in [(&one, &one), (&snapshot(100.0, 20), &snapshot(99.0, 10))] {
            let figures = Figures::between(before, now);
            assert_eq!((figures.fuse.all.per_second, figures.fuse.all.busy), (0.0, 0.0));
            assert_eq!(figures.caches[0].hit_ratio, None);
            assert!(!serde_json::to_string(&figures).unwrap().contains("null,\"seconds\""));
        }
    }
}
