//! Mountpoint: 32 files read in order at once, max_background 16 and 64, congestion threshold three quarters of it.
//!
//! Why 16 is too few: with 12 requests about, the kernel stops reading ahead, so a program that has taken what is there asks for the
//! next piece itself and waits for it; copying and the daemon's work come one after the other, and of the daemon's 16 threads only
//! about 12 are busy. With 64 the threshold is above what 32 programs ask for, every program is read ahead of, and the threads are
//! the limit. Constants:
//! - 16 threads, 128 KiB requests and readahead: the program's and the kernel's defaults.
//! - [`SERVICE`] and [`SERVICE_RATE`]: what a thread does for a request: checksums twice, a copy, a system call. They are such
//!   that 16 busy threads make 99 Gbps (775 MB/s each). One thread alone was seen to do about twice that (1,445 MiB/s with one
//!   stream); so many at once share caches and memory.
//! - [`COPY_RATE`]: what a program takes from the page cache when 32 do so at once, waking up included.
//! - [`INTERFACE`]: an interface of 100 Gbps that brings 72 to this program. The document says only that one interface neither
//!   gained nor lost, so it was full before.

use super::founding::{Founding, Row, csv};
use crate::drive::{Controller, Outcome, Plant, default_controller};
use crate::models::fuse::{self, Settings};
use crate::models::s3::{Endpoint, Service};
use crate::peers::mountpoint::Prefetcher;
use crate::plot::{Axis, Chart, Line};
use headrace_flow::reading::Limits;
use std::time::Duration;

const KIB: u64 = 1 << 10;
/// Programs, each with a file.
const READERS: usize = 32;
/// The daemon's work for one request, beside its bytes.
const SERVICE: Duration = Duration::from_micros(40);
/// The daemon's work for bytes, per thread, bytes per second.
const SERVICE_RATE: f64 = 1.012e9;
/// What one program copies, bytes per second.
const COPY_RATE: f64 = 0.42e9;
/// To wake a thread that sleeps.
const WAKE: Duration = Duration::from_micros(30);
/// What one interface brings, bytes per second.
const INTERFACE: u64 = 9_000_000_000;

const DATA: &str = include_str!("../../data/mountpoint-max-background.csv");

fn mountpoint(max_background: usize) -> Settings {
    Settings {
        readers: READERS,
        copy_rate: COPY_RATE,
        max_background,
        congestion_threshold: max_background * 3 / 4,
        request: 128 * KIB,
        readahead: 128 * KIB,
        threads: 16,
        wake: WAKE,
        service: SERVICE,
        service_rate: SERVICE_RATE,
        service_sigma: 0.3,
    }
}

/// The same machine and the same work per byte, mounted as this program mounts.
fn headrace() -> Settings {
    Settings {
        max_background: 64,
        congestion_threshold: 64,
        request: 1024 * KIB,
        readahead: 16 * 1024 * KIB,
        ..mountpoint(64)
    }
}

/// Gbps.
fn speed(settings: Settings, interfaces: usize, controller: Box<dyn Controller>) -> (f64, Outcome) {
    let store =
        Service::new(vec![Endpoint::plain(0.03, 90_000_000)], &vec![INTERFACE; interfaces], &[], 1 << 20, 1);
    let mut plant = Plant::new(vec![controller], Box::new(store));
    let (warm, end) = (Duration::from_millis(3000), Duration::from_millis(8000));
    let outcome = fuse::run(settings, &mut plant, end, 1);
    (outcome.total().rate(warm, end) * 8.0 / 1e9, outcome)
}

fn prefetcher() -> Box<dyn Controller> {
    Box::new(Prefetcher::new(64 << 20, 1024))
}

/// Over `max_background`.
fn chart(interfaces: usize, document: Vec<(f64, f64)>, model: Vec<(f64, f64)>, default: f64) -> Chart {
    let ticks: Vec<f64> = model.iter().map(|(at, _)| *at).collect();
    let (least, most) = (ticks.first().copied().unwrap_or(1.0), ticks.last().copied().unwrap_or(1.0));
    let title = format!("{interfaces} interfaces of 100 Gbps");
    Chart::new(title, Axis::doublings("max_background", ticks), Axis::linear("Gbps"))
        .with(Line::through("document", document))
        .with(Line::through("model", model))
        .with(Line::level("default", least, most, default))
}

/// Simulates all of it.
pub fn table() -> Founding {
    let title = "Mountpoint, 32 files of 256 KiB sequential reads";
    let mut table = Founding::new(title, "Gbps");
    let documents = csv(DATA);
    let mut model = std::collections::BTreeMap::new();
    for interfaces in [1, 2] {
        let (mut document_points, mut model_points) = (Vec::new(), Vec::new());
        for max_background in [16, 24, 32, 48, 64, 128, 256] {
            let (gbps, _) = speed(mountpoint(max_background), interfaces, prefetcher());
            model.insert((interfaces, max_background), gbps);
            let of = |row: &&Vec<f64>| {
                row.first() == Some(&(max_background as f64)) && row.get(1) == Some(&(interfaces as f64))
            };
            let document = documents.iter().find(of).and_then(|row| row.get(2).copied());
            let at = max_background as f64;
            document_points.extend(document.map(|document| (at, document)));
            model_points.push((at, gbps));
            table.rows.push(Row {
                setting: format!("max_background {max_background}, {interfaces} interfaces"),
                document,
                model: Some(gbps),
                default: None,
            });
        }
        let limits = Limits { memory: 4 << 30, request_max: 8 << 20, requests: 512 };
        let (gbps, _) = speed(headrace(), interfaces, default_controller(limits));
        let setting = format!("default, {interfaces} interfaces");
        table.rows.push(Row { setting, document: None, model: None, default: Some(gbps) });
        table.charts.push(chart(interfaces, document_points, model_points, gbps));
        let sixty_four = model[&(interfaces, 64)];
        table.check(
            gbps >= 0.995 * sixty_four,
            format!("{interfaces} interfaces: the default reaches at least max_background 64"),
        );
    }
    let ratio = model[&(2, 64)] / model[&(2, 16)];
    let document = 99.0 / 76.74;
    table.check(
        (ratio / document - 1.0).abs() <= 0.05,
        format!("16 to 64: {ratio:.3} times, the document {document:.3}"),
    );
    table.check(model[&(1, 64)] >= 0.99 * model[&(1, 16)], "one interface does not get slower");
    table.check(model[&(2, 256)] <= 1.03 * model[&(2, 64)], "more than 64 gains nothing");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_gains_from_16_to_64_as_the_document_and_nothing_beyond() {
        let of = |max_background, interfaces| {
            let (gbps, outcome) = speed(mountpoint(max_background), interfaces, prefetcher());
            assert_eq!(outcome.violations, Vec::<String>::new());
            gbps
        };
        let (few, many) = (of(16, 2), of(64, 2));
        assert!((few / 76.74 - 1.0).abs() < 0.05, "{few}");
        assert!((many / 99.0 - 1.0).abs() < 0.05, "{many}");
        assert!((many / few / (99.0 / 76.74) - 1.0).abs() < 0.05, "{few} {many}");
        assert!(of(256, 2) < 1.03 * many);
        assert!(of(64, 1) > 0.99 * of(16, 1));
    }

    #[test]
    fn the_default_reaches_what_64_reach() {
        let limits = Limits { memory: 4 << 30, request_max: 8 << 20, requests: 512 };
        for (interfaces, share) in [(1, 0.975), (2, 0.995)] {
            let (gbps, outcome) = speed(headrace(), interfaces, default_controller(limits));
            let (best, _) = speed(mountpoint(64), interfaces, prefetcher());
            assert!(gbps >= share * best, "{interfaces} interfaces: {gbps} of {best}");
            assert!(outcome.peak <= limits.memory, "{outcome:?}");
        }
    }

    /// The mechanism is the threshold: without it 16 would do as well.
    #[test]
    fn it_is_the_congestion_threshold_that_costs() {
        let settings = Settings { congestion_threshold: 64, ..mountpoint(16) };
        let (free, _) = speed(settings, 2, prefetcher());
        let (bound, _) = speed(mountpoint(16), 2, prefetcher());
        assert!(free > 1.1 * bound, "{free} {bound}");
    }
}
