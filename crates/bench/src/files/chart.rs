//! The figures as a picture.

use super::outcome::{Directory, Figures, Report};
use super::phases::Unit;
use super::text::label;
use crate::plot::{self, Axis, BarChart, Bars, Figure, Reference};
use crate::report::{Spread, human};

impl Report {
    /// Throughput, rates and latencies side by side; with two directories, their ratios first.
    pub fn figure(&self) -> Figure {
        let title = match self.directories.as_slice() {
            [first, second] => format!("{} and {}", label(first), label(second)),
            [first, ..] => label(first),
            [] => String::new(),
        };
        let mut figure = Figure::new(title).with_subtitle(self.subtitle());
        if let Some(chart) = self.ratio_chart() {
            figure.add(chart);
        }
        let bytes = self.rate_chart(
            "Throughput",
            Axis::linear("MiB/s"),
            |unit| unit == Unit::Bytes,
            f64::from(1 << 20),
        );
        // From 20 directories listed to a million files stat-ed: only powers hold both.
        let others = self.rate_chart(
            "Rate",
            Axis::log("operations or files a second"),
            |unit| unit != Unit::Bytes,
            1.0,
        );
        [bytes, others, self.latency_chart()].into_iter().flatten().for_each(|chart| {
            figure.add(chart);
        });
        self.notes.iter().for_each(|note| figure.note(note));
        figure
    }

    fn subtitle(&self) -> String {
        let options = &self.options;
        let mut parts = vec![human::plural(u64::from(options.threads), "thread", "threads")];
        if options.big_size > 0 {
            let (file, block) = (human::size(options.big_size), human::size(options.block_size));
            parts.push(format!("{file} each in blocks of {block}"));
        }
        if options.small_count > 0 {
            let count = human::plural(u64::from(options.small_count), "file", "files");
            parts.push(format!("{count} of {} each", human::size(options.small_size)));
        }
        if options.repeat > 1 {
            parts.push(format!("median of {}", options.repeat));
        }
        let day = self.started.split('T').next().unwrap_or_default();
        format!("{}; {day}", parts.join(", "))
    }

    fn ratio_chart(&self) -> Option<BarChart> {
        let [first, second] = self.directories.as_slice() else { return None };
        let axis = Axis::log("rate of the first divided by that of the second").unit(plot::Unit::Ratio);
        let groups: Vec<_> = self.ratios.iter().map(|ratio| ratio.phase.title()).collect();
        let mut chart = BarChart::new(format!("{} against {}", label(first), label(second)), axis, groups);
        chart.bars.push(
            Bars::new("ratio", self.ratios.iter().map(|ratio| Some(Spread::single(ratio.rate)))).colour(2),
        );
        chart.reference = Some(Reference { value: 1.0, label: "equal".to_owned() });
        Some(chart)
    }

    fn rate_chart(&self, title: &str, axis: Axis, of: impl Fn(Unit) -> bool, scale: f64) -> Option<BarChart> {
        let chosen = |directory: &'_ Directory| -> Vec<Figures> {
            directory.phases.iter().filter(|figures| of(figures.unit)).cloned().collect()
        };
        let groups: Vec<_> = chosen(self.directories.first()?).iter().map(|f| f.phase.title()).collect();
        let mut chart = BarChart::new(title, axis, groups);
        for directory in &self.directories {
            let values = chosen(directory).into_iter().map(|f| Some(f.rate.map(|rate| rate / scale)));
            chart.bars.push(Bars::new(label(directory), values));
        }
        (!chart.groups.is_empty()).then_some(chart)
    }

    fn latency_chart(&self) -> Option<BarChart> {
        let groups: Vec<_> = self.directories.first()?.phases.iter().map(|f| f.phase.operation()).collect();
        let mut chart = BarChart::new("Latency", Axis::log("time").unit(plot::Unit::Seconds), groups);
        for (at, directory) in self.directories.iter().enumerate() {
            let bars = |what: &str, of: fn(&Figures) -> f64| {
                let name = if self.directories.len() > 1 {
                    format!("{}, {what}", label(directory))
                } else {
                    what.into()
                };
                Bars::new(name, directory.phases.iter().map(|f| Some(Spread::single(of(f))))).colour(at)
            };
            chart.bars.push(bars("median", |f| f.latency.p50));
            chart.bars.push(bars("99 %", |f| f.latency.p99).light());
        }
        Some(chart)
    }
}
