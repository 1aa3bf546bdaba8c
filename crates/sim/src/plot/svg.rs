//! Charts as SVG: one document without anything from elsewhere.

use super::axis::Placed;
use super::{Chart, Figure, Kind, Line};
use std::fmt::Write as _;

/// Of the drawing, and what is around it.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 44.0;
const BELOW: f64 = 52.0;
/// For the legend.
const RIGHT: f64 = 250.0;
/// For the figure's title.
const HEADING: f64 = 40.0;
/// Where a line has more points than this, they are not marked.
const FEW: usize = 40;

/// Told apart by those who see few colours too (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [&str; 8] =
    ["#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];

/// Draws a figure, its charts below each other.
pub fn draw(figure: &Figure) -> String {
    let (width, each) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BELOW);
    let height = HEADING + each * figure.charts.len() as f64;
    let title = escape(&figure.title);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">"#
    );
    let _ = writeln!(out, "<title>{title}</title>");
    let _ = writeln!(out, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    let _ = writeln!(out, r#"<text x="{LEFT}" y="26" font-size="16" font-weight="bold">{title}</text>"#);
    for (index, chart) in figure.charts.iter().enumerate() {
        let top = HEADING + each * index as f64 + TOP;
        let _ = writeln!(out, r#"<g transform="translate({LEFT} {top})">"#);
        one(&mut out, chart);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn one(out: &mut String, chart: &Chart) {
    let (from, to) = chart.x_bounds();
    let x = Placed::new(&chart.x, from, to, 10);
    let y = Placed::from_zero(&chart.y, chart.y_most(), 5);
    let _ = writeln!(
        out,
        r#"<text x="0" y="-14" font-size="13" font-weight="bold">{}</text>"#,
        escape(&chart.title)
    );
    for (at, label) in &y.ticks {
        let place = HEIGHT * (1.0 - at);
        let _ = writeln!(out, r##"<path d="M0 {place:.1}H{WIDTH}" stroke="#dddddd"/>"##);
        let _ = writeln!(out, r#"<text x="-8" y="{:.1}" text-anchor="end">{label}</text>"#, place + 4.0);
    }
    for (at, label) in &x.ticks {
        let place = WIDTH * at;
        let _ = writeln!(out, r##"<path d="M{place:.1} {HEIGHT}v5" stroke="#000000"/>"##);
        let _ = writeln!(
            out,
            r#"<text x="{place:.1}" y="{}" text-anchor="middle">{label}</text>"#,
            HEIGHT + 18.0
        );
    }
    for change in chart.changes.iter().map(|at| x.at(*at)).filter(|at| (0.0..=1.0).contains(at)) {
        let place = WIDTH * change;
        let _ =
            writeln!(out, r##"<path d="M{place:.1} 0V{HEIGHT}" stroke="#999999" stroke-dasharray="2 4"/>"##);
    }
    let _ = writeln!(out, r##"<path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="#000000"/>"##);
    let (middle, below) = (WIDTH / 2.0, HEIGHT + 38.0);
    let _ = writeln!(
        out,
        r#"<text x="{middle}" y="{below}" text-anchor="middle">{}</text>"#,
        escape(&chart.x.label)
    );
    let middle = -HEIGHT / 2.0;
    let _ = writeln!(
        out,
        r#"<text transform="rotate(-90)" x="{middle}" y="-52" text-anchor="middle">{}</text>"#,
        escape(&chart.y.label)
    );
    for (index, line) in chart.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        series(out, line, &x, &y, colour);
        let (left, height) = (WIDTH + 16.0, 8.0 + 20.0 * index as f64);
        let dash = dash(line.kind);
        let _ = writeln!(
            out,
            r#"<path d="M{left} {height}h26" stroke="{colour}" stroke-width="2"{dash}/><text x="{}" y="{}">{}</text>"#,
            left + 34.0,
            height + 4.0,
            escape(&line.name)
        );
    }
}

fn dash(kind: Kind) -> &'static str {
    match kind {
        Kind::Points => "",
        Kind::Reference => r#" stroke-dasharray="6 4""#,
    }
}

fn series(out: &mut String, line: &Line, x: &Placed, y: &Placed, colour: &str) {
    let mut path = String::new();
    let mut marks = String::new();
    let mut moving = true;
    for &(a, b) in &line.points {
        if !a.is_finite() || !b.is_finite() {
            moving = true;
            continue;
        }
        let (left, top) = (WIDTH * x.at(a), HEIGHT * (1.0 - y.at(b)));
        let _ = write!(path, "{}{left:.1} {top:.1}", if moving { 'M' } else { 'L' });
        moving = false;
        // What was measured can be read off, to the digit.
        let _ = write!(
            marks,
            r#"<circle cx="{left:.1}" cy="{top:.1}" r="3.5" fill="{colour}"><title>{}: {a}, {b:.1}</title></circle>"#,
            escape(&line.name)
        );
    }
    let dash = dash(line.kind);
    let _ = writeln!(out, r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>"#);
    if line.kind == Kind::Points && line.points.len() <= FEW {
        let _ = writeln!(out, "{marks}");
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;

    fn figure(lines: Vec<Line>) -> Figure {
        let x = Axis::doublings("RPCs in flight", [1.0, 16.0, 256.0]);
        let chart = Chart { lines, ..Chart::new("Prefetch <on>", x, Axis::linear("MB/s")) };
        Figure {
            name: "one".to_owned(),
            title: "Ticket & model".to_owned(),
            charts: vec![chart.clone(), chart],
        }
    }

    /// Everything that an attribute says, in the order of the document.
    fn attribute<'a>(text: &'a str, before: &'a str) -> Vec<f64> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn it_is_whole_and_needs_nothing_from_elsewhere() {
        let text = draw(&figure(vec![Line::through("a \"b\"", [(1.0, 3.0), (256.0, 9.0)])]));
        assert!(text.starts_with("<svg xmlns=") && text.ends_with("</svg>\n"));
        for part in [
            "Ticket &amp; model",
            "Prefetch &lt;on&gt;",
            "a &quot;b&quot;",
            ">RPCs in flight<",
            ">MB/s<",
            ">256<",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("http").count(), 1, "only the name of its own format: {text}");
        assert_eq!(text.matches("<g ").count(), 2);
        let opened = text.matches('<').count() - text.matches("</").count() - text.matches("/>").count();
        assert_eq!(opened, text.matches("</").count(), "every element ends: {text}");
    }

    #[test]
    fn the_highest_mark_is_where_the_greatest_value_is() {
        let text = draw(&figure(vec![Line::through("a", [(1.0, 335.0), (16.0, 910.0), (256.0, 409.0)])]));
        let (left, top) = (attribute(&text, "cx=\""), attribute(&text, "cy=\""));
        let highest = (0..3).min_by(|a, b| top[*a].total_cmp(&top[*b])).unwrap();
        assert!(
            (left[highest] - WIDTH / 2.0).abs() < 0.1 && (top[highest] - HEIGHT * 0.09).abs() < 0.1,
            "{text}"
        );
        assert!(text.contains("a: 16, 910.0"));
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let line = Line::through("a", [(1.0, 1.0), (2.0, f64::NAN), (16.0, 1.0), (256.0, 1.0)]);
        let text = draw(&figure(vec![line]));
        let path = text.split("<path d=\"").find(|path| path.contains('L')).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
    }
}
