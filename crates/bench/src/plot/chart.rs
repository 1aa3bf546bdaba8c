//! What a chart shows, apart from how it is drawn.

use crate::report::Spread;

/// How the numbers of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// `0.5`, `20`, `1,500`, `20k`.
    #[default]
    Plain,
    /// Bytes: `4 KiB`.
    Bytes,
    /// Seconds: `250 µs`, `20 ms`.
    Seconds,
    /// A ratio: `1.5×`.
    Ratio,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit if the numbers do not carry it.
    pub label: String,
    /// Powers rather than steps; values that are not positive are then not shown.
    pub log: bool,
    /// How its numbers are written.
    pub unit: Unit,
    /// Where its numbers stand; empty to have them chosen.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis with even steps, which begins at 0.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false, unit: Unit::Plain, ticks: Vec::new() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { log: true, ..Axis::linear(label) }
    }

    /// With numbers in this unit.
    pub fn unit(mut self, unit: Unit) -> Axis {
        self.unit = unit;
        self
    }

    /// With its numbers at these values.
    pub fn ticks(mut self, ticks: impl Into<Vec<f64>>) -> Axis {
        self.ticks = ticks.into();
        self
    }
}

/// A point of a line. Where `y` was measured more than once a whisker shows from where to where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: Spread,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point { x, y: Spread::single(y) }
    }
}

/// A line through points, which are drawn too. A gap in the data is a gap in the line: leave a `y` that is no number.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// In the order of `x`.
    pub points: Vec<Point>,
    /// Dashed, for what goes along with another line (its p99, its default settings).
    pub dashed: bool,
    /// Number of the colour; lines that belong together share one. Else the line's place in the chart decides.
    pub colour: Option<usize>,
}

impl Line {
    /// A solid line.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Line {
        Line { name: name.into(), points: points.into_iter().collect(), dashed: false, colour: None }
    }

    /// Dashed.
    pub fn dashed(mut self) -> Line {
        self.dashed = true;
        self
    }

    /// In colour number `index`; there are ten, then they come again.
    pub fn colour(mut self, index: usize) -> Line {
        self.colour = Some(index);
        self
    }
}

/// Lines over one another.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Above the chart.
    pub title: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
}

impl LineChart {
    /// A chart without lines yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> LineChart {
        LineChart { title: title.into(), x, y, lines: Vec::new() }
    }
}

/// The bars of one subject: one in every group.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// In the legend.
    pub name: String,
    /// One value a group, in their order; `None` where it was not measured, which is said in its place.
    pub values: Vec<Option<Spread>>,
    /// Number of the colour, as with [`Line`].
    pub colour: Option<usize>,
    /// In a lighter shade, for what goes along with the bars of the same colour (the same program at its defaults).
    pub light: bool,
}

impl Bars {
    /// Bars of a subject.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = Option<Spread>>) -> Bars {
        Bars { name: name.into(), values: values.into_iter().collect(), colour: None, light: false }
    }

    /// In colour number `index`.
    pub fn colour(mut self, index: usize) -> Bars {
        self.colour = Some(index);
        self
    }

    /// In a lighter shade.
    pub fn light(mut self) -> Bars {
        self.light = true;
        self
    }
}

/// A value to compare with, drawn across all bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Where.
    pub value: f64,
    /// What it stands for.
    pub label: String,
}

/// Groups of horizontal bars, one below the other, each with its number; whiskers show smallest and largest of repeated measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// Above the chart.
    pub title: String,
    /// The axis of the values.
    pub values: Axis,
    /// The groups' names: cases, or phases.
    pub groups: Vec<String>,
    /// The subjects, in the order of the legend and within each group.
    pub bars: Vec<Bars>,
    /// A value to compare with.
    pub reference: Option<Reference>,
}

impl BarChart {
    /// A chart without bars yet.
    pub fn new(
        title: impl Into<String>,
        values: Axis,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> BarChart {
        BarChart {
            title: title.into(),
            values,
            groups: groups.into_iter().map(Into::into).collect(),
            bars: Vec::new(),
            reference: None,
        }
    }
}

/// One chart of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Lines.
    Lines(LineChart),
    /// Bars.
    Bars(BarChart),
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Chart {
        Chart::Lines(chart)
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Chart {
        Chart::Bars(chart)
    }
}
