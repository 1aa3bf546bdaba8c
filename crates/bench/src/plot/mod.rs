//! Plots of measurements, as SVG for documents and PNG for everything else.
//!
//! ```
//! use headrace_bench::plot::{Axis, Figure, Line, LineChart, Point, Unit};
//!
//! let mut chart = LineChart::new("Throughput", Axis::log("concurrency"), Axis::log("MiB/s"));
//! chart.lines.push(Line::new("get", [(1.0, 40.0), (10.0, 360.0), (200.0, 3600.0)].map(Point::from)));
//! let mut figure = Figure::new("A store").with_subtitle("4 MiB objects, 2026-11-22");
//! figure.add(chart);
//! assert!(figure.svg()?.starts_with("<svg"));
//! # Ok::<(), headrace_bench::plot::PlotError>(())
//! ```
//!
//! Drawn by this module, onto a light background and with the fonts that come with it (`font/`), so that a figure looks the same
//! everywhere and needs nothing installed. `plotters`, which most use, has had no release since 2024 and rests on a font parser that is
//! no longer maintained (RUSTSEC-2026-0192).

mod bars;
mod chart;
mod figure;
mod font;
mod lines;
mod raster;
mod scale;
mod scene;
mod svg;

pub use chart::{Axis, BarChart, Bars, Chart, Line, LineChart, Point, Reference, Unit};
pub use figure::{Figure, PlotError};
