//! Draws a chart of horizontal bars.

use super::chart::{BarChart, Bars};
use super::figure::{Area, axis_title, legend};
use super::font::Face;
use super::lines::Sign;
use super::scale::Scale;
use super::scene::{Anchor, Colour, FAINT_INK, FRAME, GRID, INK, Scene, Stroke, Text};

const BAR: f64 = 12.0;
const BETWEEN_BARS: f64 = 2.0;
const BETWEEN_GROUPS: f64 = 12.0;
const NUMBERS: f64 = 10.0;
const NAMES: f64 = 11.5;
/// Names of groups take at most this part of the width; longer ones are cut.
const NAMES_SHARE: f64 = 0.38;

/// Draws the chart from `area.top` on, `area.width` wide; returns its height.
pub(super) fn draw(chart: &BarChart, area: Area, scene: &mut Scene) -> f64 {
    let mut y = area.top + 16.0;
    scene.text(Text::new((area.left, y), &chart.title).size(13.0).bold());
    if chart.bars.len() > 1 {
        let items = chart.bars.iter().enumerate().map(|(at, bars)| (bars.name.as_str(), sign(at, bars)));
        y += 8.0 + legend(items, Area { top: y + 8.0, ..area }, scene);
    }
    let names = Face::new(false, NAMES);
    let most = area.width * NAMES_SHARE;
    let groups: Vec<String> = chart.groups.iter().map(|name| names.cut(name, most)).collect();
    let name_width = groups.iter().map(|name| names.width(name)).fold(0.0, f64::max);
    let left = area.left + name_width + 8.0;
    // Room for a number behind the longest bar.
    let right = area.left + area.width - 92.0;
    let measured = || chart.bars.iter().flat_map(|bars| bars.values.iter().flatten());
    let values = measured().flat_map(|value| [value.min, value.median, value.max]);
    let reference = chart.reference.iter().map(|reference| reference.value);
    let scale = Scale::fit(&chart.values, values.chain(reference), ((right - left) / 60.0) as usize);
    let across = |value: f64| scale.place(value).map(|at| left + at * (right - left));

    let top = y + 10.0 + if chart.reference.is_some() { 14.0 } else { 0.0 };
    let group_height = chart.bars.len() as f64 * (BAR + BETWEEN_BARS) + BETWEEN_GROUPS;
    let bottom = top + chart.groups.len() as f64 * group_height;
    let face = Face::new(false, NUMBERS);
    let mut free_from = f64::NEG_INFINITY;
    for tick in &scale.ticks {
        let Some(at) = across(*tick) else { continue };
        scene.line((at, top), (at, bottom), Stroke::thin(GRID));
        let label = scale.label(*tick);
        let half = face.width(&label) / 2.0;
        if at - half > free_from {
            scene.text(Text::new((at, bottom + 15.0), label).anchor(Anchor::Middle).size(NUMBERS));
            free_from = at + half + 4.0;
        }
    }
    for (at, name) in groups.iter().enumerate() {
        let begin = top + at as f64 * group_height + BETWEEN_GROUPS / 2.0;
        let middle = begin + (group_height - BETWEEN_GROUPS) / 2.0;
        scene.text(Text::new((left - 8.0, middle + 4.0), name).anchor(Anchor::End).size(NAMES));
        for (series, bars) in chart.bars.iter().enumerate() {
            let y = begin + series as f64 * (BAR + BETWEEN_BARS);
            draw_bar(chart, bars, at, sign(series, bars).colour, (left, y), &across, scene);
        }
    }
    scene.line((left, top), (left, bottom), Stroke::thin(FRAME));
    if let Some(reference) = &chart.reference
        && let Some(at) = across(reference.value)
    {
        scene.line((at, top), (at, bottom), Stroke { colour: INK, width: 1.2, dashed: true });
        scene.text(Text::new((at, top - 4.0), &reference.label).anchor(Anchor::Middle).size(NUMBERS));
    }
    scene.text(axis_title((left + (right - left) / 2.0, bottom + 32.0), &chart.values.label));
    bottom + 40.0 - area.top
}

fn draw_bar(
    chart: &BarChart,
    bars: &Bars,
    group: usize,
    colour: Colour,
    (left, y): (f64, f64),
    across: &impl Fn(f64) -> Option<f64>,
    scene: &mut Scene,
) {
    let middle = y + BAR / 2.0;
    let label = |x: f64, text: String| Text::new((x + 5.0, middle + 3.5), text).size(NUMBERS);
    let Some(value) = bars.values.get(group).copied().flatten() else {
        scene.text(label(left, "not measured".to_owned()).faint());
        return;
    };
    let number = Scale::value_label(chart.values.unit, value.median);
    let Some(end) = across(value.median) else {
        // Zero on a logarithmic axis.
        scene.text(label(left, number));
        return;
    };
    scene.rectangle((left, y), ((end - left).max(1.0), BAR), colour);
    let mut free = end;
    if value.max > value.min
        && let Some((low, high)) = across(value.min).zip(across(value.max))
    {
        let stroke = Stroke { colour: FAINT_INK, width: 1.4, dashed: false };
        scene.line((low, middle), (high, middle), stroke);
        for at in [low, high] {
            scene.line((at, middle - 3.5), (at, middle + 3.5), stroke);
        }
        free = free.max(high);
    }
    scene.text(label(free, number));
}

fn sign(at: usize, bars: &Bars) -> Sign {
    let index = bars.colour.unwrap_or(at);
    let colour = Colour::of_series(index);
    let colour = if bars.light { colour.lighter() } else { colour };
    Sign { colour, marker: index, dashed: false, block: true }
}
