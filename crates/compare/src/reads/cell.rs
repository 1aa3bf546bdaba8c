//! A network and a number of streams.

use std::time::Duration;

use headrace_netlab::{Conditions, Latency, Rate};

/// One row of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// To the first byte.
    pub latency: Duration,
    /// Million bytes per second of each connection; `None`: as many as there are.
    pub rate: Option<u64>,
    /// Files that are read at once.
    pub streams: u64,
    /// Million bytes per second of all connections together; `None`: as many as the machine has processor time for.
    pub link: Option<u64>,
}

const LATENCIES: [u64; 3] = [1, 20, 100];
const RATES: [Option<u64>; 3] = [Some(20), Some(90), None];
const STREAMS: [u64; 3] = [1, 4, 32];

impl Cell {
    /// All 27, over such a link.
    pub fn all(link: Option<u64>) -> Vec<Cell> {
        let mut all = Vec::new();
        for latency in LATENCIES.map(Duration::from_millis) {
            for rate in RATES {
                all.extend(STREAMS.map(|streams| Cell { latency, rate, streams, link }));
            }
        }
        all
    }

    /// `20ms/90MB/4`, `1ms/uncapped/32`.
    pub fn name(&self) -> String {
        let rate = self.rate.map_or("uncapped".to_owned(), |rate| format!("{rate}MB"));
        format!("{}ms/{rate}/{}", self.latency.as_millis(), self.streams)
    }

    /// The network.
    pub fn conditions(&self) -> Conditions {
        let per_second = |rate| Rate::per_second(rate * 1_000_000);
        Conditions {
            first_byte: Latency::constant(self.latency),
            per_connection: self.rate.and_then(per_second),
            total: self.link.and_then(per_second),
            ..Conditions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_27_with_names_of_their_own() {
        let all = Cell::all(None);
        assert_eq!(all.iter().map(Cell::name).collect::<BTreeSet<_>>().len(), 27);
        assert_eq!(all[0].name(), "1ms/20MB/1");
        for cell in all.iter().chain(&Cell::all(Some(150))) {
            assert!(cell.conditions().check().is_ok());
            assert_eq!(cell.conditions().total.is_some(), cell.link.is_some());
        }
    }
}
