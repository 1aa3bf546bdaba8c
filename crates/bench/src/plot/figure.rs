//! A figure: charts side by side under one title, and the file it becomes.

use std::path::Path;

use super::chart::Chart;
use super::font::Face;
use super::lines::Sign;
use super::scene::{Anchor, At, Scene, Stroke, Text};
use super::{bars, lines, raster, svg};

/// Widest and highest figure, pixels.
const MAX_SIDE: f64 = 8_000.0;
/// Most charts of a figure.
const MAX_CHARTS: usize = 64;
/// Most shapes of a figure: more would be no plot but a cloud.
const MAX_SHAPES: usize = 200_000;
const MARGIN: f64 = 22.0;
const CHART_WIDTH: f64 = 520.0;
const GUTTER: f64 = 30.0;

/// Why there is no plot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlotError {
    /// More than can be drawn.
    #[error(
        "the plot would be {width:.0} x {height:.0} pixels, more than can be drawn: plot fewer charts or bars at a time"
    )]
    TooLarge {
        /// Pixels.
        width: f64,
        /// Pixels.
        height: f64,
    },
    /// More points or charts than a picture can hold.
    #[error("the plot has {0} elements, more than can be drawn")]
    TooMany(usize),
    /// The name of the file does not say which format.
    #[error("cannot tell the format of the plot {0}: its name must end in .svg or .png")]
    Format(String),
    /// The picture could not be encoded.
    #[error("cannot encode the plot: {0}")]
    Encode(String),
    /// The file could not be written.
    #[error("cannot write the plot to {path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
}

/// Charts under one title.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub title: String,
    /// On what, when, with what.
    pub subtitle: String,
    /// What a reader must know, below the charts.
    pub notes: Vec<String>,
    /// Charts side by side.
    pub columns: usize,
    /// The charts, row by row.
    pub charts: Vec<Chart>,
}

impl Figure {
    /// A figure without charts yet, one below the other.
    pub fn new(title: impl Into<String>) -> Figure {
        Figure {
            title: title.into(),
            subtitle: String::new(),
            notes: Vec::new(),
            columns: 1,
            charts: Vec::new(),
        }
    }

    /// With a second line to the title.
    pub fn with_subtitle(mut self, subtitle: impl Into<String>) -> Figure {
        self.subtitle = subtitle.into();
        self
    }

    /// With so many charts side by side.
    pub fn with_columns(mut self, columns: usize) -> Figure {
        self.columns = columns;
        self
    }

    /// Adds a chart.
    pub fn add(&mut self, chart: impl Into<Chart>) {
        self.charts.push(chart.into());
    }

    /// Adds a remark below the charts.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// As the content of an SVG file.
    pub fn svg(&self) -> Result<String, PlotError> {
        Ok(svg::render(&self.scene()?))
    }

    /// As the content of a PNG file, with two pixels for one of the SVG.
    pub fn png(&self) -> Result<Vec<u8>, PlotError> {
        raster::render(&self.scene()?)
    }

    /// Whether [`Figure::save`] knows what to write into a file of this name: to be asked before hours of measuring.
    pub fn check_path(path: &Path) -> Result<(), PlotError> {
        Format::of(path).map(drop)
    }

    /// Writes a file; its name decides the format: `.svg` or `.png`.
    pub fn save(&self, path: &Path) -> Result<(), PlotError> {
        let content = match Format::of(path)? {
            Format::Svg => self.svg()?.into_bytes(),
            Format::Png => self.png()?,
        };
        std::fs::write(path, content)
            .map_err(|error| PlotError::Write { path: path.display().to_string(), reason: error.to_string() })
    }

    fn scene(&self) -> Result<Scene, PlotError> {
        if self.charts.len() > MAX_CHARTS {
            return Err(PlotError::TooMany(self.charts.len()));
        }
        let columns = self.columns.clamp(1, self.charts.len().max(1)).min(8);
        let inner = columns as f64 * (CHART_WIDTH + GUTTER) - GUTTER;
        // A single column is a little wider: bars with long names need it.
        let chart_width = if columns == 1 { CHART_WIDTH * 1.4 } else { CHART_WIDTH };
        let inner = inner.max(chart_width);
        let mut scene = Scene { width: inner + 2.0 * MARGIN, height: 0.0, shapes: Vec::new() };
        let mut y = MARGIN;
        if !self.title.is_empty() {
            for line in Face::new(true, 17.0).wrap(&self.title, inner) {
                y += 17.0;
                scene.text(Text::new((MARGIN, y), line).size(17.0).bold());
                y += 5.0;
            }
        }
        for line in Face::new(false, 12.0).wrap(&self.subtitle, inner) {
            y += 14.0;
            scene.text(Text::new((MARGIN, y), line).faint());
            y += 3.0;
        }
        y += 14.0;
        for row in self.charts.chunks(columns) {
            let mut height: f64 = 0.0;
            for (column, chart) in row.iter().enumerate() {
                let left = MARGIN + column as f64 * (chart_width + GUTTER);
                let area = Area { left, top: y, width: chart_width };
                let drawn = match chart {
                    Chart::Lines(chart) => lines::draw(chart, area, &mut scene),
                    Chart::Bars(chart) => bars::draw(chart, area, &mut scene),
                };
                height = height.max(drawn);
                if scene.shapes.len() > MAX_SHAPES {
                    return Err(PlotError::TooMany(scene.shapes.len()));
                }
            }
            y += height + 16.0;
        }
        for note in &self.notes {
            for line in Face::new(false, 11.0).wrap(note, inner) {
                y += 11.0;
                scene.text(Text::new((MARGIN, y), line).size(11.0).faint());
                y += 4.0;
            }
        }
        scene.height = y + MARGIN - 8.0;
        if scene.width > MAX_SIDE || scene.height > MAX_SIDE {
            return Err(PlotError::TooLarge { width: scene.width, height: scene.height });
        }
        Ok(scene)
    }
}

enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Format, PlotError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "svg" => Ok(Format::Svg),
            "png" => Ok(Format::Png),
            _ => Err(PlotError::Format(path.display().to_string())),
        }
    }
}

/// Where a chart is drawn; its height follows from what is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
}

/// The title of an axis, around a point.
pub(super) fn axis_title(at: At, label: &str) -> Text {
    Text::new(at, label).anchor(Anchor::Middle).size(11.5).faint()
}

/// Draws a legend in as many lines as it needs; returns its height.
pub(super) fn legend<'a>(items: impl Iterator<Item = (&'a str, Sign)>, area: Area, scene: &mut Scene) -> f64 {
    const LINE: f64 = 18.0;
    let face = Face::new(false, 11.5);
    let (mut x, mut y) = (area.left, area.top);
    for (name, sign) in items {
        let name = face.cut(name, area.width - 30.0);
        let width = 24.0 + face.width(&name) + 16.0;
        if x > area.left && x + width - 16.0 > area.left + area.width {
            (x, y) = (area.left, y + LINE);
        }
        let middle = y + LINE / 2.0;
        if sign.block {
            scene.rectangle((x + 4.0, middle - 5.0), (14.0, 10.0), sign.colour);
        } else {
            let stroke = Stroke { colour: sign.colour, width: 2.0, dashed: sign.dashed };
            scene.line((x, middle), (x + 20.0, middle), stroke);
            scene.marker(sign.marker, (x + 10.0, middle), sign.colour);
        }
        scene.text(Text::new((x + 24.0, middle + 4.0), name).size(11.5));
        x += width;
    }
    y + LINE - area.top
}

#[cfg(test)]
mod tests;
