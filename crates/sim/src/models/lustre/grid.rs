//! The ticket's two tables, the model's, and how far they are apart.

use super::client::{Length, Settings, read};
use super::parameters::Parameters;
use super::server::{Server, Variant};

const ON: &str = include_str!("../../../data/lustre-lu9194-prefetch-on.csv");
const OFF: &str = include_str!("../../../data/lustre-lu9194-prefetch-off.csv");

/// MB/s by max_rpcs_in_flight (rows) and max_read_ahead_per_file_mb (columns).
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Grid {
    /// max_rpcs_in_flight.
    pub rpcs: Vec<usize>,
    /// max_read_ahead_per_file_mb.
    pub readahead_mib: Vec<u64>,
    /// By row, then column.
    pub cells: Vec<Vec<f64>>,
}

/// How a grid is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Read per cell and seed.
    pub length: Length,
    /// Runs whose mean is taken.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
}

impl Effort {
    /// For figures that are shown: 2 GiB, three seeds.
    pub const SHOWN: Self =
        Self { length: Length { warm_mib: 512, measured_mib: 2048 }, seeds: 3, first_seed: 1 };
    /// For a fit: enough that the mean of the 90 errors is stable within about 0.005.
    pub const FIT: Self =
        Self { length: Length { warm_mib: 320, measured_mib: 704 }, seeds: 1, first_seed: 101 };
}

impl Grid {
    /// The ticket's figures, with the server's prefetcher on or off.
    pub fn ticket(prefetch: bool) -> Self {
        let mut lines = if prefetch { ON } else { OFF }.lines();
        let header = lines.next().unwrap_or_default();
        let mut grid = Self { rpcs: Vec::new(), readahead_mib: numbers(header), cells: Vec::new() };
        for line in lines {
            grid.rpcs.extend(line.split(',').next().and_then(|first| first.trim().parse::<usize>().ok()));
            grid.cells.push(numbers(line));
        }
        grid
    }

    /// What the model makes of the same settings.
    pub fn model(parameters: &Parameters, prefetch: bool, variant: Variant, effort: Effort) -> Self {
        let mut grid = Self::ticket(prefetch);
        for (&rpcs, row) in grid.rpcs.iter().zip(&mut grid.cells) {
            for (&readahead_mib, cell) in grid.readahead_mib.iter().zip(row) {
                *cell = mean(parameters, Settings { rpcs, readahead_mib }, prefetch, variant, effort);
            }
        }
        grid
    }

    /// Mean |ln(this / other)| over the rows that `rows` says.
    pub fn error(&self, other: &Self, rows: impl Fn(usize) -> bool) -> f64 {
        let errors: Vec<f64> = (self.rpcs.iter().zip(self.cells.iter().zip(&other.cells)))
            .filter(|(rpcs, _)| rows(**rpcs))
            .flat_map(|(_, (ours, theirs))| ours.iter().zip(theirs).map(|(a, b)| (a / b).ln().abs()))
            .collect();
        errors.iter().sum::<f64>() / errors.len().max(1) as f64
    }

    /// The best cell, MB/s.
    pub fn best(&self) -> f64 {
        self.cells.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// Mean MB/s of one cell over the seeds.
pub fn mean(
    parameters: &Parameters,
    settings: Settings,
    prefetch: bool,
    variant: Variant,
    effort: Effort,
) -> f64 {
    let seeds = effort.seeds.max(1);
    let run = |seed| {
        let mut server = Server::new(parameters, prefetch, variant, seed);
        read(parameters, settings, effort.length, &mut server)
    };
    (0..seeds).map(|seed| run(effort.first_seed.wrapping_add(seed))).sum::<f64>() / seeds as f64
}

/// All but the first of the line's fields.
fn numbers<T: std::str::FromStr>(line: &str) -> Vec<T> {
    line.split(',').skip(1).filter_map(|field| field.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tickets_tables_have_45_cells_each_and_the_best_are_where_the_ticket_says() {
        for (prefetch, best) in [(true, 910.0), (false, 1100.0)] {
            let grid = Grid::ticket(prefetch);
            assert_eq!((grid.rpcs.len(), grid.readahead_mib.len()), (9, 5));
            assert!(grid.cells.iter().all(|row| row.len() == 5 && row.iter().all(|cell| *cell > 100.0)));
            assert_eq!(grid.best(), best);
        }
    }

    #[test]
    fn the_error_is_the_mean_of_the_logs_over_the_rows_asked_for() {
        let ticket = Grid::ticket(true);
        let mut other = ticket.clone();
        for cell in &mut other.cells[0] {
            *cell *= 2.0;
        }
        assert_eq!(ticket.error(&ticket, |_| true), 0.0);
        assert!((other.error(&ticket, |_| true) - 2f64.ln() / 9.0).abs() < 1e-12);
        assert!((ticket.error(&other, |rpcs| rpcs == 1) - 2f64.ln()).abs() < 1e-12);
    }
}
