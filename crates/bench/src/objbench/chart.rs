//! The report as a figure: throughput and latency against requests at a time.

use super::operation::Operation;
use super::outcome::{Measurement, Report};
use crate::plot::{Axis, Figure, Line, LineChart, Point, Unit};
use crate::report::human;

impl Report {
    /// Four charts: throughput and latency, of large and of small objects.
    pub fn figure(&self) -> Figure {
        let mut figure = Figure::new(format!("Object store {}", self.url))
            .with_subtitle(format!("{}; {}", self.started, self.from()))
            .with_columns(2);
        let (big, small) = (human::size(self.options.big_size), human::size(self.options.small_size));
        let mut throughput = self.chart(&format!("Throughput, objects of {big}"), Axis::log("MiB/s"));
        let mut rates = self.chart(&format!("Objects a second, objects of {small}"), Axis::log("objects/s"));
        let mib = f64::from(1 << 20);
        self.lines(true, &mut throughput, |row| Some(row.bytes_per_second()? / mib));
        self.lines(false, &mut rates, Measurement::objects_per_second);
        figure.add(throughput);
        figure.add(rates);
        for (large, size) in [(true, big), (false, small)] {
            let axis = Axis::log("time of a request: median, p99 dashed").unit(Unit::Seconds);
            let mut latency = self.chart(&format!("Latency, objects of {size}"), axis);
            self.lines(large, &mut latency, |row| Some(row.latency?.p50));
            let medians = latency.lines.len();
            self.lines(large, &mut latency, |row| Some(row.latency?.p99));
            for line in latency.lines.iter_mut().skip(medians) {
                line.dashed = true;
                line.name.push_str(" p99");
            }
            figure.add(latency);
        }
        figure.note(format!(
            "{} for each point, in a closed loop; everything read was compared with what was written. Ranges of {}.",
            human::latency(self.options.time),
            human::size(self.options.block)
        ));
        figure
    }

    fn chart(&self, title: &str, y: Axis) -> LineChart {
        let levels: Vec<f64> = self.options.concurrency.iter().map(|level| *level as f64).collect();
        LineChart::new(title, Axis::log("requests at a time").ticks(levels), y)
    }

    /// A line for each operation that has a value.
    fn lines(&self, large: bool, chart: &mut LineChart, value: impl Fn(&Measurement) -> Option<f64>) {
        use Operation::{Delete, Get, GetRange, Head, List, Put};
        for (colour, operation) in [Put, Get, GetRange, Head, List, Delete].into_iter().enumerate() {
            let rows = self.of_size(large).filter(|row| row.operation == operation);
            let points =
                rows.map(|row| Point::from((row.concurrency as f64, value(row).unwrap_or(f64::NAN))));
            let line = Line::new(operation.name(), points).colour(colour);
            if line.points.iter().any(|point| point.y.median.is_finite()) {
                chart.lines.push(line);
            }
        }
    }
}
