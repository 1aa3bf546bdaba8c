//! JuiceFS: buffers of 300 MiB and 2 GiB with one reader, and 1, 4 and 16 readers with 2 GiB.
//!
//! What the constants rest on, all in the same document:
//! - one object of 4 MiB takes 98.85 ms; a random read of 4 KiB takes 30 to 55 ms, about 40 of which must be the first byte. So a
//!   connection carries 4 MiB in the 58.85 ms that are left.
//! - one thread through FUSE peaks at 1,418 MiB/s.
//! - readers slow each other down: the document's own measurement of FUSE alone (AMD EPYC) falls from 3.5 GiB/s per thread to
//!   2.43 with 4 threads and 1.4 with 15, so each further thread costs 10 to 15 % of one; JuiceFS takes a lock for each read on top.
//! - 16 readers saturate the network: 5,457 MiB/s is 46 Gbps, what is left of a line of 50 Gbps.

use super::founding::{Founding, Row, csv};
use crate::drive::measure::Outcome;
use crate::drive::{Controller, Plant, ReaderSpec, Setup, default_controller, run};
use crate::models::s3::{Endpoint, Service};
use crate::peers::juicefs::{BLOCK, Buffers};
use crate::plot::{Axis, Chart, Line};
use headrace_flow::reading::Limits;
use std::time::Duration;

const MIB: f64 = (1 << 20) as f64;
/// Seconds to the first byte.
const FIRST_BYTE: f64 = 0.040;
/// Spread of it: standard deviation of the logarithm.
const FIRST_BYTE_SIGMA: f64 = 0.10;
/// Seconds that one object of 4 MiB takes as a whole.
const OBJECT: f64 = 0.09885;
/// What one reader takes through FUSE, bytes per second.
const READER: f64 = 1418.0 * MIB;
/// What each further reader costs every reader, of its own rate.
const CONTENTION: f64 = 0.18;
/// 50 Gbps without what TCP, TLS and HTTP add, bytes per second.
const NETWORK: f64 = 50e9 / 8.0 * 0.92;

const DATA: &str = include_str!("../../data/juicefs-sequential-read.csv");
/// What the default controller has for all its readers: a quarter of 2 GiB.
const DEFAULT_MEMORY: u64 = 512 << 20;

/// MiB per second of so many readers.
fn speed(threads: u64, memory: u64, controller: Box<dyn Controller>) -> (f64, Outcome) {
    let mut endpoint = Endpoint::plain(FIRST_BYTE, (BLOCK as f64 / (OBJECT - FIRST_BYTE)) as u64);
    endpoint.first_byte.sigma = FIRST_BYTE_SIGMA;
    let store = Service::new(vec![endpoint], &[NETWORK as u64], &[], 256 << 10, 1);
    let mut plant = Plant::new(vec![controller], Box::new(store));
    let readers = (0..threads).map(|number| ReaderSpec::sequential(number, READER as u64)).collect();
    let (warm, end) = (Duration::from_secs(2), Duration::from_secs(7));
    let setup = Setup { readers, memory, duration: end, contention: CONTENTION, ..Setup::default() };
    let outcome = run(&setup, &mut plant, 1);
    (outcome.total().rate(warm, end) / MIB, outcome)
}

/// Simulates all of it.
pub fn table() -> Founding {
    let mut table = Founding::new("JuiceFS, sequential reads", "MiB/s");
    // Readers, buffer, and the three rates.
    let mut points = Vec::new();
    for row in csv(DATA) {
        let [threads, buffer, document] = row[..] else { continue };
        let memory = buffer as u64 * MIB as u64;
        let (model, _) = speed(threads as u64, memory, Box::new(Buffers::new(memory)));
        let limits = Limits { memory: DEFAULT_MEMORY, request_max: 8 << 20, requests: 256 };
        let (default, outcome) = speed(threads as u64, DEFAULT_MEMORY, default_controller(limits));
        let setting = format!("{threads} readers, buffer {buffer} MiB");
        table.check(
            (model / document - 1.0).abs() <= 0.10,
            format!(
                "{setting}: the model is within 10 % of the document ({:+.1} %)",
                (model / document - 1.0) * 100.0
            ),
        );
        if buffer > 1000.0 {
            table.check(
                default >= 0.995 * model && outcome.peak <= DEFAULT_MEMORY,
                format!("{setting}: the default reaches it with {:.0} MiB", outcome.peak as f64 / MIB),
            );
        }
        points.push([threads, buffer, document, model, default]);
        let (document, model, default) = (Some(document), Some(model), Some(default));
        table.rows.push(Row { setting, document, model, default });
    }
    table.charts = charts(&points);
    table
}

/// Over readers with the large buffer, and over the buffer with one reader.
fn charts(points: &[[f64; 5]]) -> Vec<Chart> {
    let large = points.iter().map(|point| point[1]).fold(0.0, f64::max);
    let chart = |title: String, label: &str, x: usize, of: &dyn Fn(&[f64; 5]) -> bool| {
        let all: Vec<&[f64; 5]> = points.iter().filter(|point| of(point)).collect();
        let series = |y: usize| all.iter().map(move |point| (point[x], point[y]));
        let ticks = all.iter().map(|point| point[x]);
        Chart::new(title, Axis::doublings(label, ticks), Axis::linear("MiB/s"))
            .with(Line::through("document", series(2)))
            .with(Line::through("model", series(3)))
            .with(Line::through(format!("default, {} MiB", DEFAULT_MEMORY >> 20), series(4)))
    };
    vec![
        chart(format!("Buffer {large} MiB"), "readers", 0, &|point| point[1] == large),
        chart("One reader".to_owned(), "buffer, MiB", 1, &|point| point[0] == 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_reaches_the_large_buffer_with_a_quarter_of_its_memory() {
        let table = table();
        assert!(table.holds(), "{}", table.text());
        // The plot has the document's values where the document has them.
        let plot = table.figure("juicefs").text();
        for ticks in [&["1", "4", "16"][..], &["300", "2048"]] {
            assert!(plot.lines().any(|line| line.split_whitespace().eq(ticks.iter().copied())), "{plot}");
        }
        assert_eq!(table.charts[0].lines[0].points, [(1.0, 1418.0), (4.0, 3456.0), (16.0, 5457.0)], "{plot}");
    }

    #[test]
    fn the_model_gives_the_documents_figures_within_ten_percent() {
        for row in csv(DATA) {
            let memory = row[1] as u64 * MIB as u64;
            let (model, outcome) = speed(row[0] as u64, memory, Box::new(Buffers::new(memory)));
            assert!((model / row[2] - 1.0).abs() <= 0.10, "{row:?}: {model}");
            assert!(outcome.violations.is_empty() && outcome.peak <= memory, "{row:?}: {outcome:?}");
        }
    }
}
