//! A drawing as SVG.

use std::fmt::Write;

use super::scene::{Anchor, Colour, Scene, Shape, Stroke, Text, WHITE};

/// What programs that draw the file have; the first is what it was laid out with.
const FAMILY: &str = "DejaVu Sans, Verdana, Bitstream Vera Sans, sans-serif";

/// The file's content.
pub(super) fn render(scene: &Scene) -> String {
    let mut out = String::new();
    let (width, height) = (number(scene.width), number(scene.height));
    let mut put = |text: std::fmt::Arguments<'_>| {
        // A string takes everything.
        let _ = out.write_fmt(text);
    };
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"{FAMILY}\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        hex(WHITE)
    ));
    for shape in &scene.shapes {
        match shape {
            Shape::Path { points, stroke } => {
                put(format_args!(
                    "<polyline points=\"{}\" fill=\"none\" {}/>\n",
                    list(points),
                    attributes(stroke)
                ));
            }
            Shape::Area { points, fill, edge } => {
                put(format_args!(
                    "<polygon points=\"{}\" fill=\"{}\"{}/>\n",
                    list(points),
                    hex(*fill),
                    if *edge { " stroke=\"#ffffff\" stroke-width=\"0.8\"" } else { "" }
                ));
            }
            Shape::Disc { at: (x, y), radius, fill } => {
                put(format_args!(
                    "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>\n",
                    number(*x),
                    number(*y),
                    number(*radius),
                    hex(*fill)
                ));
            }
            Shape::Text(line) => put(format_args!("{}\n", text(line))),
        }
    }
    out.push_str("</svg>\n");
    out
}

fn text(text: &Text) -> String {
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let (x, y) = (number(text.at.0), number(text.at.1));
    let turned = if text.upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{}{anchor}{turned} fill=\"{}\">{}</text>",
        number(text.size),
        if text.bold { " font-weight=\"bold\"" } else { "" },
        hex(text.colour),
        escaped(&text.content)
    )
}

fn attributes(stroke: &Stroke) -> String {
    format!(
        "stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}",
        hex(stroke.colour),
        number(stroke.width),
        if stroke.dashed { " stroke-dasharray=\"5 3\"" } else { "" }
    )
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

fn hex(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// To a tenth of a pixel.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Names come from users; control characters are not allowed in XML at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_file() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((number(1.0), number(1.26), number(0.04)), ("1".into(), "1.3".into(), "0".into()));
    }
}
