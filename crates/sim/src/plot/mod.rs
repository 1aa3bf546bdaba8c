//! Charts of what was measured and simulated: as [`text`] for a terminal and as [`svg`] for a document.
//!
//! Own code, and little of it, because both come from one description and must be readable without colour: chart crates draw one of the
//! two, and those for terminals tell series apart by colour only.

mod axis;
pub mod figure;
pub mod svg;
pub mod text;

pub use axis::{Axis, Scale};
pub use figure::{Figure, WriteError};

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A line through its points, which are marked where they are few.
    Points,
    /// A dashed line: a bound, or what is the same everywhere.
    Reference,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is, as the legend says it.
    pub name: String,
    /// How it is drawn.
    pub kind: Kind,
    /// In the order of x. Where y is not a number there is a gap.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Through these points.
    pub fn through(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        Line { name: name.into(), kind: Kind::Points, points: points.into_iter().collect() }
    }

    /// A bound that changes at these points.
    pub fn reference(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        Line { kind: Kind::Reference, ..Line::through(name, points) }
    }

    /// The same everywhere between two places.
    pub fn level(name: impl Into<String>, from: f64, to: f64, y: f64) -> Line {
        Line::reference(name, [(from, y), (to, y)])
    }
}

/// One chart. y begins at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top; its unit is in its label.
    pub y: Axis,
    /// Where something changes, on the x axis.
    pub changes: Vec<f64>,
    /// What is drawn.
    pub lines: Vec<Line>,
}

impl Chart {
    /// Nothing is drawn yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart { title: title.into(), x, y, changes: Vec::new(), lines: Vec::new() }
    }

    /// Draws this too, unless there is nothing of it.
    pub fn with(mut self, line: Line) -> Chart {
        if line.points.iter().any(|(x, y)| x.is_finite() && y.is_finite()) {
            self.lines.push(line);
        }
        self
    }

    /// Least and greatest x of what is drawn; 0 to 1 if nothing is.
    fn x_bounds(&self) -> (f64, f64) {
        let all = self.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).filter(|x| x.is_finite());
        let (least, most) = all.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
        if least <= most { (least, most) } else { (0.0, 1.0) }
    }

    /// Greatest y of what is drawn; 1 if that is nothing.
    fn y_most(&self) -> f64 {
        let all = self.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).filter(|y| y.is_finite());
        let most = all.fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    }
}
