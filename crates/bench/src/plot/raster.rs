//! A drawing as pixels.

use skrifa::outline::OutlinePen;
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform,
};

use super::figure::PlotError;
use super::font::Face;
use super::scene::{self, Anchor, At, Colour, Scene, Shape, Text, WHITE};

/// Pixels of the picture for one of the drawing, so that small text stays readable.
const SCALE: f64 = 2.0;

/// The content of a PNG file.
pub(super) fn render(scene: &Scene) -> Result<Vec<u8>, PlotError> {
    let too_large = || PlotError::TooLarge { width: scene.width, height: scene.height };
    let (width, height) = ((scene.width * SCALE).ceil(), (scene.height * SCALE).ceil());
    let mut canvas = Canvas {
        pixels: Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?,
        transform: Transform::from_scale(SCALE as f32, SCALE as f32),
    };
    canvas.pixels.fill(color(WHITE));
    for shape in &scene.shapes {
        match shape {
            Shape::Path { points, stroke } => canvas.path(points, stroke),
            Shape::Area { points, fill, edge } => canvas.area(polygon(points, true), *fill, *edge),
            Shape::Disc { at: (x, y), radius, fill } => {
                let disc = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32);
                canvas.area(disc, *fill, true);
            }
            Shape::Text(text) => canvas.text(text),
        }
    }
    canvas.pixels.encode_png().map_err(|error| PlotError::Encode(error.to_string()))
}

struct Canvas {
    pixels: Pixmap,
    transform: Transform,
}

impl Canvas {
    fn path(&mut self, points: &[At], line: &scene::Stroke) {
        let Some(path) = polygon(points, false) else { return };
        let stroke = Stroke {
            width: line.width as f32,
            line_join: LineJoin::Round,
            line_cap: LineCap::Butt,
            dash: if line.dashed { StrokeDash::new(vec![5.0, 3.0], 0.0) } else { None },
            ..Stroke::default()
        };
        self.pixels.stroke_path(&path, &paint(line.colour), &stroke, self.transform, None);
    }

    fn area(&mut self, path: Option<Path>, fill: Colour, edge: bool) {
        let Some(path) = path else { return };
        self.pixels.fill_path(&path, &paint(fill), FillRule::Winding, self.transform, None);
        if edge {
            let stroke = Stroke { width: 0.8, ..Stroke::default() };
            self.pixels.stroke_path(&path, &paint(WHITE), &stroke, self.transform, None);
        }
    }

    fn text(&mut self, text: &Text) {
        let face = Face::new(text.bold, text.size);
        let shift = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -face.width(&text.content) / 2.0,
            Anchor::End => -face.width(&text.content),
        };
        let placed = self.transform.pre_translate(text.at.0 as f32, text.at.1 as f32);
        let placed = if text.upwards { placed.pre_rotate(-90.0) } else { placed };
        let paint = paint(text.colour);
        let pixels = &mut self.pixels;
        face.outline(
            &text.content,
            |x| Pen { builder: PathBuilder::new(), x: (x + shift) as f32 },
            |pen| {
                if let Some(path) = pen.builder.finish() {
                    pixels.fill_path(&path, &paint, FillRule::Winding, placed, None);
                }
            },
        );
    }
}

/// Draws a glyph at `x`; the font's vertical axis points up, that of a picture down.
struct Pen {
    builder: PathBuilder,
    x: f32,
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.builder.move_to(self.x + x, -y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.builder.line_to(self.x + x, -y);
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        self.builder.quad_to(self.x + cx, -cy, self.x + x, -y);
    }

    fn curve_to(&mut self, cx0: f32, cy0: f32, cx1: f32, cy1: f32, x: f32, y: f32) {
        self.builder.cubic_to(self.x + cx0, -cy0, self.x + cx1, -cy1, self.x + x, -y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}

fn polygon(points: &[At], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    let mut points = points.iter().map(|(x, y)| (*x as f32, *y as f32));
    let (x, y) = points.next()?;
    builder.move_to(x, y);
    points.for_each(|(x, y)| builder.line_to(x, y));
    if closed {
        builder.close();
    }
    builder.finish()
}

fn color(Colour(red, green, blue): Colour) -> Color {
    Color::from_rgba8(red, green, blue, 255)
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color(colour));
    paint.anti_alias = true;
    paint
}
