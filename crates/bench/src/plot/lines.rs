//! Draws a chart of lines.

use super::chart::{Line, LineChart};
use super::figure::{Area, axis_title, legend};
use super::font::Face;
use super::scale::Scale;
use super::scene::{Anchor, At, Colour, FRAME, GRID, Scene, Stroke, Text};

/// The height of the drawing without legend and titles, in pixels.
const PLOT_HEIGHT: f64 = 250.0;
/// Size of the numbers.
const NUMBERS: f64 = 11.0;

/// Draws the chart from `area.top` on, `area.width` wide; returns its height.
pub(super) fn draw(chart: &LineChart, area: Area, scene: &mut Scene) -> f64 {
    let mut y = area.top + 16.0;
    scene.text(Text::new((area.left, y), &chart.title).size(13.0).bold());
    let items = chart.lines.iter().enumerate().map(|(at, line)| (line.name.as_str(), sign(at, line)));
    y += 8.0 + legend(items, Area { top: y + 8.0, ..area }, scene);

    let face = Face::new(false, NUMBERS);
    let spread = |line: &Line| {
        line.points.iter().flat_map(|point| [point.y.min, point.y.median, point.y.max]).collect::<Vec<_>>()
    };
    let ys = Scale::fit(&chart.y, chart.lines.iter().flat_map(spread), 7);
    let label_width = ys.ticks.iter().map(|tick| face.width(&ys.label(*tick))).fold(0.0, f64::max);
    // The axis' title stands upright before its numbers.
    let left = area.left + 18.0 + label_width + 6.0;
    let right = area.left + area.width - 12.0;
    let (top, bottom) = (y + 8.0, y + 8.0 + PLOT_HEIGHT);
    let room = ((right - left) / 56.0) as usize;
    let xs = Scale::fit(
        &chart.x,
        chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)),
        room,
    );
    let across = |value: f64| xs.place(value).map(|at| left + at * (right - left));
    let up = |value: f64| ys.place(value).map(|at| bottom - at * (bottom - top));

    for tick in &ys.ticks {
        let Some(at) = up(*tick) else { continue };
        scene.line((left, at), (right, at), Stroke::thin(GRID));
        let label = Text::new((left - 6.0, at + 4.0), ys.label(*tick)).anchor(Anchor::End).size(NUMBERS);
        scene.text(label);
    }
    let mut free_from = f64::NEG_INFINITY;
    for tick in &xs.ticks {
        let Some(at) = across(*tick) else { continue };
        scene.line((at, top), (at, bottom), Stroke::thin(GRID));
        let label = xs.label(*tick);
        let half = face.width(&label) / 2.0;
        // Given ticks may lie close together.
        if at - half > free_from {
            scene.text(Text::new((at, bottom + 16.0), label).anchor(Anchor::Middle).size(NUMBERS));
            free_from = at + half + 4.0;
        }
    }
    scene.line((left, bottom), (right, bottom), Stroke::thin(FRAME));
    scene.line((left, top), (left, bottom), Stroke::thin(FRAME));
    scene.text(axis_title((left + (right - left) / 2.0, bottom + 34.0), &chart.x.label));
    let mut upright = axis_title((area.left + 10.0, top + (bottom - top) / 2.0), &chart.y.label);
    upright.upwards = true;
    scene.text(upright);

    for (at, line) in chart.lines.iter().enumerate() {
        draw_line(at, line, &across, &up, scene);
    }
    bottom + 42.0 - area.top
}

fn draw_line(
    at: usize,
    line: &Line,
    across: &impl Fn(f64) -> Option<f64>,
    up: &impl Fn(f64) -> Option<f64>,
    scene: &mut Scene,
) {
    let sign = sign(at, line);
    let stroke = Stroke { colour: sign.colour, width: 2.0, dashed: line.dashed };
    let mut run: Vec<At> = Vec::new();
    let mut runs = Vec::new();
    for point in &line.points {
        match across(point.x).zip(up(point.y.median)) {
            Some(place) => run.push(place),
            // A gap.
            None => runs.push(std::mem::take(&mut run)),
        }
    }
    runs.push(run);
    for run in runs {
        if run.len() > 1 {
            scene.shapes.push(super::scene::Shape::Path { points: run.clone(), stroke });
        }
        for place in run {
            scene.marker(sign.marker, place, sign.colour);
        }
    }
    for point in line.points.iter().filter(|point| point.y.max > point.y.min) {
        let (Some(x), Some(low), Some(high)) = (across(point.x), up(point.y.min), up(point.y.max)) else {
            continue;
        };
        let thin = Stroke { colour: sign.colour, width: 1.2, dashed: false };
        scene.line((x, low), (x, high), thin);
        scene.line((x - 4.0, low), (x + 4.0, low), thin);
        scene.line((x - 4.0, high), (x + 4.0, high), thin);
    }
}

/// How a series is recognised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sign {
    pub colour: Colour,
    pub marker: usize,
    pub dashed: bool,
    /// A block rather than a line with a marker.
    pub block: bool,
}

fn sign(at: usize, line: &Line) -> Sign {
    let index = line.colour.unwrap_or(at);
    Sign { colour: Colour::of_series(index), marker: index, dashed: line.dashed, block: false }
}
