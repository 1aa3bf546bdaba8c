use proptest::prelude::*;

use super::*;
use crate::plot::{Axis, BarChart, Bars, Line, LineChart, Point, Reference, Unit};
use crate::report::Spread;

fn lines() -> LineChart {
    let mut chart =
        LineChart::new("Latency", Axis::log("concurrency"), Axis::log("time").unit(Unit::Seconds));
    chart.lines.push(Line::new("put & <get>", [(1.0, 0.01), (10.0, 0.02)].map(Point::from)));
    chart
}

fn bars() -> BarChart {
    let mut chart =
        BarChart::new("Cases", Axis::linear("ratio").unit(Unit::Ratio), ["cold read", "warm read"]);
    chart.bars.push(Bars::new("a", [Some(Spread::single(1.0)), None]));
    chart.bars.push(Bars::new("b", [Spread::of([0.5, 2.0, 3.0]), Some(Spread::single(0.0))]).light());
    chart.reference = Some(Reference { value: 1.0, label: "as before".into() });
    chart
}

#[test]
fn a_figure_says_all_it_was_given() {
    let mut figure = Figure::new("Title").with_subtitle("2 CPUs");
    figure.add(lines());
    figure.add(bars());
    figure.note("three repetitions");
    let svg = figure.svg().unwrap();
    for text in [
        "Title",
        "2 CPUs",
        "Latency",
        "put &amp; &lt;get&gt;",
        "10 ms",
        "cold read",
        "not measured",
        "2.00×",
        "as before",
        "three repetitions",
    ] {
        assert!(svg.contains(&format!(">{text}<")), "{text}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn the_name_of_the_file_decides_the_format() {
    let directory = tempfile::tempdir().unwrap();
    let mut figure = Figure::new("Title");
    figure.add(lines());
    let path = directory.path().join("plot.PNG");
    figure.save(&path).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG"));
    let path = directory.path().join("plot.svg");
    figure.save(&path).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("</svg>\n"));
    let error = figure.save(&directory.path().join("plot.gif")).unwrap_err();
    assert!(error.to_string().contains(".svg or .png"), "{error}");
    assert!(matches!(figure.save(Path::new("/nonexistent/plot.svg")), Err(PlotError::Write { .. })));
}

#[test]
fn a_figure_that_is_too_large_is_refused() {
    let mut figure = Figure::new("Title");
    for _ in 0..40 {
        figure.add(lines());
    }
    assert!(matches!(figure.png(), Err(PlotError::TooLarge { .. })));
}

/// The colours that occur in a picture.
fn colours(png: &[u8]) -> std::collections::HashSet<(u8, u8, u8)> {
    let pixels = tiny_skia::Pixmap::decode_png(png).unwrap();
    pixels.pixels().iter().map(|pixel| (pixel.red(), pixel.green(), pixel.blue())).collect()
}

#[test]
fn both_kinds_of_chart_are_in_the_picture() {
    let mut figure = Figure::new("Title");
    figure.add(bars());
    let found = colours(&figure.png().unwrap());
    // The first bar, the lighter second, ink and ground.
    for colour in [(0, 114, 178), (233, 174, 127), (31, 35, 40), (255, 255, 255)] {
        assert!(found.contains(&colour), "{colour:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_data_makes_a_broken_drawing(
        values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20),
        name in "\\PC{0,60}", log: bool,
    ) {
        let axis = |label: &str| if log { Axis::log(label) } else { Axis::linear(label) };
        let mut chart = LineChart::new(name.clone(), axis("x"), axis(&name));
        chart.lines.push(Line::new(name.clone(), values.iter().copied().map(Point::from)));
        let mut bars = BarChart::new(name.clone(), axis("v"), values.iter().map(|_| name.clone()));
        bars.bars.push(Bars::new(name.clone(), values.iter().map(|(value, _)| Some(Spread::single(*value)))));
        let mut figure = Figure::new(name.clone()).with_columns(2).with_subtitle(name);
        figure.add(chart);
        figure.add(bars);
        let scene = figure.scene().unwrap();
        let svg = svg::render(&scene);
        for attribute in ["points=\"", " x=\"", " y=\"", " cx=\""] {
            for value in svg.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                prop_assert!(!value.contains("NaN") && !value.contains("inf"), "{}", value);
            }
        }
    }
}
